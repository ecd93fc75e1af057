//! Reads: rows, cells and pages, and the queries for them.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

/// The key of a row, as its table defines it. Engines may escape or salt it; callers never see that.
pub type RowKey = Bytes;

/// The address of one cell within a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column {
    /// The column family.
    pub family: &'static str,
    /// The name of the cell within the family.
    pub qualifier: Bytes,
}

impl Column {
    /// The cell of this family and qualifier.
    pub fn new(family: &'static str, qualifier: impl Into<Bytes>) -> Self {
        Self { family, qualifier: qualifier.into() }
    }
}

/// One cell of a family: its qualifier and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its name within the family.
    pub qualifier: Bytes,
    /// Never empty.
    pub value: Bytes,
}

/// What to read of a row: single cells, whole families, or both.
///
/// A family read whole is capped at one page ([`limits::PAGE_CELLS`](super::limits::PAGE_CELLS)); more is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowQuery {
    /// Single cells.
    pub cells: Vec<Column>,
    /// Families read whole.
    pub families: Vec<&'static str>,
}

impl RowQuery {
    /// Reads single cells.
    pub fn cells(cells: Vec<Column>) -> Self {
        Self { cells, families: Vec::new() }
    }

    /// Reads whole families.
    pub fn families(families: &[&'static str]) -> Self {
        Self { cells: Vec::new(), families: families.to_vec() }
    }
}

/// Whether what was read is still what the store has, whenever that is asked: false if a write of it has begun since
/// then, and sometimes without one. An engine that is not the only one to write cannot know it.
#[derive(Clone)]
pub struct Unchanged(Arc<dyn Fn() -> bool + Send + Sync>);

impl Unchanged {
    /// `holds`: false from the first write on, for good.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Whether no write of it has begun.
    pub fn holds(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unchanged").field(&self.holds()).finish()
    }
}

/// Cells, each with its family. A single one, as an index row has, needs no allocation.
pub type RowCells = SmallVec<[(&'static str, Cell); 1]>;

/// The cells found in a row, ordered by family and qualifier. A row without cells does not exist.
#[derive(Clone, Debug, Default)]
pub struct Row {
    cells: RowCells,
    unchanged: Option<Unchanged>,
}

/// Rows of the same cells are equal.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cells == other.cells
    }
}

impl Eq for Row {}

impl Row {
    /// Builds a row from cells in any order. Keeps the first of two cells of the same name.
    pub fn new(cells: impl Into<RowCells>) -> Self {
        let mut cells = cells.into();
        if cells.len() > 1 {
            cells.sort_by(|a, b| (a.0, &a.1.qualifier).cmp(&(b.0, &b.1.qualifier)));
            cells.dedup_by(|a, b| a.0 == b.0 && a.1.qualifier == b.1.qualifier);
        }
        Self { cells, unchanged: None }
    }

    /// With what tells whether it is still what the store has.
    pub fn with_unchanged(self, unchanged: Unchanged) -> Self {
        Self { unchanged: Some(unchanged), ..self }
    }

    /// What tells whether the store has the same still; none if the engine does not know.
    pub fn unchanged(&self) -> Option<&Unchanged> {
        self.unchanged.as_ref()
    }

    /// Whether the row does not exist, or holds none of the cells read.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// The value of a cell.
    pub fn get(&self, family: &str, qualifier: &[u8]) -> Option<&Bytes> {
        let at = self.cells.binary_search_by(|(f, c)| (*f, c.qualifier.as_ref()).cmp(&(family, qualifier))).ok()?;
        self.cells.get(at).map(|(_, cell)| &cell.value)
    }

    /// The cells of one family, in qualifier order.
    pub fn family<'a>(&'a self, family: &'a str) -> impl Iterator<Item = &'a Cell> + 'a {
        self.cells.iter().filter(move |(f, _)| *f == family).map(|(_, cell)| cell)
    }

    /// All cells, ordered by family and qualifier.
    pub fn cells(&self) -> &[(&'static str, Cell)] {
        &self.cells
    }
}

/// A query for a page of one row's family.
#[derive(Clone, Debug)]
pub struct PageQuery {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub row: RowKey,
    /// The family.
    pub family: &'static str,
    /// Lower bound of the qualifiers.
    pub from: Bound<Bytes>,
    /// Upper bound of the qualifiers.
    pub to: Bound<Bytes>,
    /// At most this many cells.
    pub limit: usize,
    /// Up to 4 cells of the same row. The page returns their values, and guarantees that none of them changed while
    /// it was read.
    pub unchanged: Vec<Column>,
}

/// A page of one row's family, and the values of the unchanged cells while it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In qualifier order.
    pub cells: Vec<Cell>,
    /// One value for each of [`PageQuery::unchanged`], in that order.
    pub unchanged: Vec<Option<Bytes>>,
    /// Whether more cells follow within the bounds of the query.
    pub more: bool,
}

/// A range of row keys, in logical key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRange {
    /// Lower bound.
    pub from: Bound<RowKey>,
    /// Upper bound.
    pub to: Bound<RowKey>,
}

impl RowRange {
    /// All keys.
    pub fn all() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let to = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { from: Bound::Included(Bytes::copy_from_slice(prefix)), to }
    }

    /// Whether the key is within both bounds.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after = match &self.from {
            Bound::Included(k) => key >= k.as_ref(),
            Bound::Excluded(k) => key > k.as_ref(),
            Bound::Unbounded => true,
        };
        let before = match &self.to {
            Bound::Included(k) => key <= k.as_ref(),
            Bound::Excluded(k) => key < k.as_ref(),
            Bound::Unbounded => true,
        };
        after && before
    }
}

/// The smallest byte string above all that start with `prefix`; none if there is no such string.
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Some(end.into());
        }
    }
    None
}

/// A query for rows of a table, in key order or reversed.
#[derive(Clone, Debug)]
pub struct ScanQuery {
    /// The table.
    pub table: &'static str,
    /// The keys of the rows.
    pub range: RowRange,
    /// What to read of each row. Rows that hold none of it are skipped.
    pub row_query: RowQuery,
    /// At most this many rows.
    pub limit: usize,
    /// Whether from the last key to the first.
    pub reverse: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_next_key_outside() {
        assert_eq!(prefix_end(b"ab").as_deref(), Some(b"ac".as_ref()));
        assert_eq!(prefix_end(b"a\xff\xff").as_deref(), Some(b"b".as_ref()));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
        assert!(RowRange::prefix(b"\xff").contains(b"\xff\xff"));
        assert!(!RowRange::prefix(b"ab").contains(b"ac"));
    }

    #[test]
    fn a_row_finds_its_cells() {
        let cell = |q: &'static str| Cell { qualifier: q.into(), value: q.into() };
        let row = Row::new(vec![("sub", cell("b")), ("cf", cell("id")), ("sub", cell("a"))]);
        assert_eq!(row.get("sub", b"a").map(AsRef::as_ref), Some(b"a".as_ref()));
        assert_eq!(row.get("cf", b"a"), None);
        assert_eq!(row.family("sub").map(|c| c.qualifier.as_ref()).collect::<Vec<_>>(), [b"a", b"b"]);
    }

    #[test]
    fn a_row_keeps_the_first_of_two_cells_of_one_name() {
        let cell =
            |f: &'static str, q: &'static str, v: &'static str| (f, Cell { qualifier: q.into(), value: v.into() });
        let two = || vec![cell("cf", "q", "first"), cell("cf", "q", "second")];
        assert_eq!(Row::new(two()).cells(), [cell("cf", "q", "first")]);
        assert_eq!(Row::new(RowCells::from_vec(two())), Row::new([cell("cf", "q", "first")]));
        assert_eq!(Row::new(vec![cell("sub", "q", "v"), cell("cf", "q", "v")]).len(), 2);
        assert!(Row::new(Vec::new()).is_empty());
    }

    /// A scan has hundreds of rows at a time.
    #[test]
    fn a_row_of_one_cell_is_short_and_allocates_nothing() {
        assert!(size_of::<Row>() <= 112, "{} bytes", size_of::<Row>());
        let cell = Cell { qualifier: "q".into(), value: "v".into() };
        assert!(!Row::new(vec![("cf", cell)]).cells.spilled());
    }
}
