//! The engines: `memory` (the oracle that tests compare the others with) and `rocks` (embedded RocksDB).
//!
//! An engine knows tables, not directories or files. Only `cli` and tests name one.

pub mod memory;
pub mod rocks;
