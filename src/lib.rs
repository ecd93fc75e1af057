//! Rowdrive: a self-hosted cloud drive whose namespace is two HBase-style tables.
//!
//! `docs/architecture.md` has the map: rooms and their arrows, the words, three walks through the code, and where to
//! change what. A test compares it with the imports. From top to bottom:
//!
//! - [`http`]: the drive over HTTP/1.1; [`api`]: what it sends and receives, for servers and clients
//! - [`check`], [`migrate`]: what compares and upgrades the tables of a data folder
//! - [`drive`]: operations on files and folders; the only place that knows the order of changes over several rows
//! - [`content`]: the bytes of larger files; [`engines`]: the stores, RocksDB and memory
//! - [`schema`]: the keyspace as pure functions; [`table`]: the contract of every store
//! - [`budget`]: one bound for the memory of requests
//!
//! `main.rs` is the program: `cli`, `client`, `data_folder` and `local_fs` belong to it.

#![deny(missing_docs)]

pub mod api;
pub mod budget;
pub mod check;
pub mod content;
pub mod drive;
pub mod engines;
pub mod http;
pub mod migrate;
pub mod schema;
pub mod table;

/// Checkouts share one build folder (`.cargo/config.toml`): this makes cargo build each of them.
const _: Option<&str> = option_env!("ROWDRIVE_CHECKOUT");
