//! Rowdrive: a self-hosted cloud drive whose namespace is two HBase-style tables.
//!
//! `docs/architecture.md` has the map: the modules and which may use which, the words, three walkthroughs of the code,
//! and where to change what. A test compares it with the imports. From top to bottom:
//!
//! - [`http`]: the drive over HTTP/1.1 and HTTP/2; [`api`]: the types of requests and answers, for servers and clients
//! - [`check`], [`migrate`]: compare and upgrade the tables of a data folder
//! - [`drive`]: operations on files and folders; the only place that knows the order of changes over several rows
//! - [`auth`]: users and their rights: the one place that decides who may do what
//! - [`content`]: the bytes of larger files; [`engines`]: the stores, RocksDB and memory
//! - [`schema`]: the keyspace as pure functions; [`table`]: the contract of every store
//! - [`budget`]: one bound for the memory of requests; [`sha256`]: digests
//!
//! `main.rs` is the program: `cli`, `client`, `data_folder` and `local_fs` belong to it.

#![deny(missing_docs)]

pub(crate) mod any_byte;
pub mod api;
pub mod auth;
pub mod budget;
pub mod check;
pub mod client_net;
pub mod content;
pub mod drive;
pub mod engines;
pub mod http;
pub mod migrate;
pub mod schema;
pub mod sha256;
pub mod table;

/// Checkouts share one build folder (`.cargo/config.toml`): this makes cargo build each of them.
const _: Option<&str> = option_env!("ROWDRIVE_CHECKOUT");
