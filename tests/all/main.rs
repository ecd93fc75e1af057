//! The only integration binary: all tests that use the program or its public API from outside.
//!
//! - [`check`]: damage that is injected, found and repaired
//! - [`cli`]: the subcommands, and the configuration of the server
//! - [`auth`]: users and their rights
//! - [`contract`]: what every store promises, on every engine
//! - [`stepwise`]: a store that runs a plan step by step, and fails where a test says so
//! - [`drive`]: the drive on such a store, compared with a model
//! - [`sim`]: the whole drive in a simulation, with thousands of seeds
//! - [`migrate`]: stores of older schemas, and their migrations
//! - [`http`]: the drive over HTTP, and the program that serves it
//! - [`server`]: a real server process; [`docs`]: the commands of the README and of `docs/`, run as they are written
//! - [`big_trees`]: the largest trees of the promises, moved, copied and deleted while watchers read them
//! - [`crash`]: a server that is killed repeatedly
//! - [`durability`]: a server's system calls; [`full_disk`]: a server on a full disk
//! - [`faults`]: a disk that fails under a running server: kills at any call, power cuts
//! - [`needs`]: the check for the build's requirements other than Rust
//! - [`mounts`]: a data folder with a part that is not mounted
//! - [`write_errors`]: a server that accepts no more writes; [`degraded`]: a server on a damaged store
//! - [`tidy`]: rules of layout that the compiler does not check
//! - [`torture`]: a server under sixteen clients and all faults at once

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod auth;
mod big_trees;
mod check;
mod cli;
mod contract;
mod crash;
mod degraded;
mod docs;
mod drive;
mod durability;
mod faults;
mod full_disk;
mod http;
mod migrate;
mod mounts;
mod needs;
mod server;
mod sim;
mod stepwise;
mod tidy;
mod torture;
mod write_errors;
