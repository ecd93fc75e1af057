//! Rows, families, qualifiers, cells and the one write: the contract that every engine meets.
//!
//! HBase promises one atomic row and nothing else; a drive needs a few operations that change two or
//! three rows at one instant. This layer is the smallest contract that serves both. It does no IO.
//!
//! - [`row`]: what is read: rows, cells, pages, and the questions that ask for them
//! - [`cursor`]: what is too much for one answer, read piece by piece
//! - [`plan`]: what is written: rows to prepare, guarded rows, rows to finish
//! - [`rules`]: which plans and reads are allowed at all, by size and by the class of the table
//! - [`spec`]: the properties of a table, as `migrations/` declares them
//! - [`store`]: the trait that engines implement, and the handle that callers hold

pub mod cursor;
pub mod plan;
pub mod row;
pub mod rules;
pub mod spec;
pub mod store;

pub use cursor::{CellCursor, RowCursor};
pub use plan::{Change, Check, Guarded, Outcome, Plan, Refusal, RowChange};
pub use row::{Ask, Cell, Column, Page, PageAsk, Row, RowKey, RowRange, ScanAsk};
pub use rules::Catalog;
pub use spec::{Class, FamilySpec, TableSpec};
pub use store::{Store, StoreError, Tables};
