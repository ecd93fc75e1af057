//! Rows, families, qualifiers, cells and the plan, the only way to write: the contract of every engine.
//!
//! HBase promises one atomic row and nothing else. Some operations of a drive change several rows atomically: two to
//! four, and one more for each directory that they make. This layer is the smallest contract that serves both. It does
//! no IO.
//!
//! - [`row`]: reads: rows, cells, pages, and the queries for them
//! - [`cursor`]: results larger than one page, read page by page
//! - [`plan`]: writes: rows to prepare, conditional rows, rows to finish
//! - [`counter`]: cells with a number that plans add to
//! - [`limits`], [`validate`]: which queries and plans are allowed, by size and by the key lifecycle of the table
//! - [`spec`]: the properties of a table, as `migrations/` declares them
//! - [`store`]: the trait that engines implement, and the handle that callers use

pub mod counter;
pub mod cursor;
pub mod limits;
pub mod plan;
pub mod row;
pub mod spec;
pub mod store;
pub mod validate;

pub use cursor::{CellCursor, RowCursor};
pub use plan::{Change, Check, ConditionalRow, Outcome, Plan, Refusal, RowChange};
pub use row::{Cell, Column, Page, PageQuery, Row, RowCells, RowKey, RowQuery, RowRange, ScanQuery, Unchanged};
pub use spec::{FamilySpec, KeyLifecycle, TableSpec};
pub use store::{Store, StoreError, Tables};
pub use validate::Catalog;
