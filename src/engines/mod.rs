//! The stores: `memory` (the oracle that tests hold the others to) and `rocks` (embedded RocksDB).
//!
//! An engine knows tables and nothing of directories or files; only `cli` and tests name one.

pub mod memory;
pub mod rocks;
