//! The one integration binary: every test that goes through a front door.
//!
//! - [`check`]: damage that is planted, found and mended
//! - [`cli`]: the subcommands as people call them, and how the server is configured
//! - [`contract`]: what every store promises, on every engine
//! - [`stepwise`]: a store that does a plan step by step, and fails where a test says so
//! - [`drive`]: the drive on such a store, held to a model
//! - [`sim`]: the whole drive in a simulated world, by thousands of seeds
//! - [`migrate`]: stores of older schemas brought up to date
//! - [`http`]: the drive over HTTP, and the program that serves it
//! - [`server`]: a real server process; [`readme`]: the sessions of the README and of the API's page
//! - [`big_trees`]: the largest trees of the promises, moved, copied and deleted under the eyes of watchers
//! - [`crash`]: a server that is killed again and again
//! - [`durability`]: a server's system calls; [`full_disk`]: a server without room
//! - [`faults`]: a disk that fails below a running server: kills at any call, power cuts
//! - [`needs`]: the check for what the build needs beside Rust
//! - [`mounts`]: a folder of which a part is not mounted
//! - [`refusing`]: a server that takes no more writes; [`degraded`]: one that serves a damaged store
//! - [`tidy`]: the rules of the house that no compiler knows
//! - [`torture`]: a server under sixteen clients and all faults at once

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod big_trees;
mod check;
mod cli;
mod contract;
mod crash;
mod degraded;
mod drive;
mod durability;
mod faults;
mod full_disk;
mod http;
mod migrate;
mod mounts;
mod needs;
mod readme;
mod refusing;
mod server;
mod sim;
mod stepwise;
mod tidy;
mod torture;
