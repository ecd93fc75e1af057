//! Sizes that [`Tables`](super::Tables) refuses to exceed, so that every engine may rely on them.

/// Bytes of a row key.
pub const ROW_KEY_BYTES: usize = 8 << 10;
/// Bytes of a qualifier.
pub const QUALIFIER_BYTES: usize = 1 << 10;
/// Bytes of a cell's value.
pub const CELL_BYTES: usize = 1 << 20;
/// Cells of a page, cells of a family read whole, and rows of a scan.
pub const PAGE_CELLS: usize = 10_001;
/// Bytes of a plan.
pub const PLAN_BYTES: usize = 4 << 20;
/// Conditional rows of a plan: the 129 directories of the deepest path, one row more, and 20 accounts that guard a
/// right.
pub const GUARDED_ROWS: usize = 150;
/// Cells that a page query expects to stay unchanged.
pub const UNCHANGED_CELLS: usize = 4;
