//! Rowdrive: a self-hosted cloud drive whose namespace is two HBase-style tables.
//!
//! The code map; arrows point down only:
//!
//! ```text
//! main -> cli -> http
//!          |      \
//!          |       drive            file-system operations; the only place that knows multi-row ordering
//!          |      /     \
//!          |  content   schema     large files on disk; the keyspace as pure functions
//!          |      \     /
//!          |       table           rows, families, cells, plans; the trait Store; no IO
//!          |         ^
//!          +-- engines             memory (the oracle), rocks
//! ```
//!
//! `budget` bounds the memory of requests. `migrate` applies `migrations/` to a store, `reindex` makes the index rows of its files,
//! `check` holds the tables to what they promise each other. `http` never touches `table`, `drive` never names an engine,
//! and an engine knows nothing of directories or files.

pub mod budget;
pub mod check;
pub mod content;
pub mod drive;
pub mod engines;
pub mod http;
pub mod migrate;
pub mod reindex;
pub mod schema;
pub mod table;

/// Checkouts share one build folder (`.cargo/config.toml`): this makes cargo build each of them.
const _: Option<&str> = option_env!("ROWDRIVE_CHECKOUT");
