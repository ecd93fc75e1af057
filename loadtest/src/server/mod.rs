//! The server under load, and how close the drive is to what its machine can do. In the order of reading:
//!
//! - [`http`]: load on any server, by requests of [`mixes`] for the files of [`dataset`]; [`generator`] sends them on
//!   connections of [`client`]
//! - [`limits`]: each operation beside what the machine can do, measured on the server of [`process`], which has
//!   [`loops`] without HTTP
//! - [`large_folder`]: the move of a folder of very many files, beside the same rows in a plain RocksDB
//!   ([`raw_rocksdb`])

mod client;
mod dataset;
mod generator;
pub mod http;
mod large_folder;
pub mod limits;
mod loops;
mod mixes;
pub mod process;
mod raw_rocksdb;
#[cfg(test)]
mod test_server;
