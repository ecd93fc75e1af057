//! The one integration binary: every test that goes through a front door.
//!
//! - [`http`]: the drive over HTTP, and the program that serves it
//! - [`server`]: a real server process
//! - [`stepwise`]: a store that does a plan step by step, and fails where a test says so

// Helpers of tests fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod readme;
mod server;
mod stepwise;
mod tidy;
