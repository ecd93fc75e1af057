//! The one integration binary: every test that goes through a front door.
//!
//! - [`contract`]: what every store promises, on every engine
//! - [`stepwise`]: a store that does a plan step by step, and fails where a test says so

// Helpers of tests fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod contract;
mod stepwise;
