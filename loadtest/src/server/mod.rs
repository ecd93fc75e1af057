//! The server under load, and how close the drive is to what its machine can do. In the order of reading:
//!
//! - [`http`]: load on any server, by requests of [`mixes`] for the files of [`dataset`]; [`generator`] sends them on
//!   connections of [`client`]
//! - [`limits`]: each operation beside what the machine can do, measured on the server of [`process`], which has
//!   [`loops`] without HTTP
//! - [`subtrees`]: operations on whole directories, beside the same rows in a plain RocksDB ([`raw_rocksdb`])

mod client;
mod dataset;
mod generator;
pub mod http;
pub mod limits;
mod loops;
mod mixes;
pub mod process;
mod raw_rocksdb;
pub mod subtrees;
#[cfg(test)]
mod test_server;
