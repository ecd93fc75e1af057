//! What is read: rows, cells and pages, and the questions that ask for them.

use std::ops::Bound;

use bytes::Bytes;

/// The key of a row, as its table defines it; engines may escape or salt it, callers never see that.
pub type RowKey = Bytes;

/// The address of one cell within a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column {
    pub family: &'static str,
    pub qualifier: Bytes,
}

impl Column {
    pub fn new(family: &'static str, qualifier: impl Into<Bytes>) -> Self {
        Self { family, qualifier: qualifier.into() }
    }
}

/// One cell of a family: its qualifier and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub qualifier: Bytes,
    pub value: Bytes,
}

/// What to read of a row: single cells, whole families, or both.
///
/// A family read whole is capped at one page ([`rules::PAGE_CELLS`](super::rules::PAGE_CELLS)); more is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub cells: Vec<Column>,
    pub families: Vec<&'static str>,
}

impl Ask {
    pub fn cells(cells: Vec<Column>) -> Self {
        Self { cells, families: Vec::new() }
    }

    pub fn families(families: &[&'static str]) -> Self {
        Self { cells: Vec::new(), families: families.to_vec() }
    }
}

/// The cells found in a row, ordered by family and qualifier. A row without cells does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    cells: Vec<(&'static str, Cell)>,
}

impl Row {
    /// Builds a row from cells in any order. Of a cell named twice the first is kept.
    pub fn new(mut cells: Vec<(&'static str, Cell)>) -> Self {
        cells.sort_by(|a, b| (a.0, &a.1.qualifier).cmp(&(b.0, &b.1.qualifier)));
        cells.dedup_by(|a, b| a.0 == b.0 && a.1.qualifier == b.1.qualifier);
        Self { cells }
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

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

/// A question for a page of one row's family.
#[derive(Clone, Debug)]
pub struct PageAsk {
    pub table: &'static str,
    pub row: RowKey,
    pub family: &'static str,
    /// Bounds on the qualifier.
    pub from: Bound<Bytes>,
    pub to: Bound<Bytes>,
    /// At most this many cells.
    pub limit: usize,
    /// Up to 4 cells of the same row whose values hold during the whole read of the page.
    pub fence: Vec<Column>,
}

/// A page of one row's family, and what the fence cells held while it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In qualifier order.
    pub cells: Vec<Cell>,
    /// One value for each fence cell asked for, in that order.
    pub fence: Vec<Option<Bytes>>,
    /// Whether cells follow within the asked range.
    pub more: bool,
}

/// A range of row keys, in logical key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRange {
    pub from: Bound<RowKey>,
    pub to: Bound<RowKey>,
}

impl RowRange {
    pub fn all() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let to = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { from: Bound::Included(Bytes::copy_from_slice(prefix)), to }
    }

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

/// A question for rows of a table, in key order or reversed.
#[derive(Clone, Debug)]
pub struct ScanAsk {
    pub table: &'static str,
    pub range: RowRange,
    pub ask: Ask,
    /// At most this many rows.
    pub limit: usize,
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
}
