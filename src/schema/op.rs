//! The `op` table: records of running operations on whole subtrees, keyed by operation id (UUID version 7,
//! RFC 9562, so that older ids are smaller).
//!
//! The table is made by migration `0001`; nothing writes to it yet.

pub const TABLE: &str = "op";
