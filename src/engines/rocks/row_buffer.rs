//! The rows of a scan, whose bytes share one allocation: a scan returns hundreds of short ones.

use bytes::Bytes;

use super::keys;
use crate::table::{Cell, Row, RowCells, RowKey};

/// Rows in the order of a scan, each with its cells of one or more families.
#[derive(Default)]
pub(super) struct RowBuffer {
    bytes: Vec<u8>,
    /// Where the key of each row starts and ends, and the end of its cells.
    rows: Vec<(usize, usize, usize)>,
    /// The family of each cell, and where its qualifier starts, where its value starts, and the end of that.
    cells: Vec<(&'static str, [usize; 3])>,
}

impl RowBuffer {
    /// Reserves memory for so many rows like the first one, for 128 at most: a scan may find fewer.
    pub fn reserve(&mut self, rows: usize) {
        const BYTES: usize = 32 << 10;
        let rows = rows.min(128);
        self.rows.reserve_exact(rows);
        self.cells.reserve_exact(rows * self.cells.len());
        self.bytes.reserve_exact((rows * self.bytes.len() * 9 / 8).min(BYTES));
    }

    /// Rows with cells, by now.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Cells of all rows, by now.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Starts a row. None if this is no `row_start`.
    pub fn begin(&mut self, row_start: &[u8]) -> Option<()> {
        let start = self.bytes.len();
        keys::unescape(row_start, &mut self.bytes)?;
        self.rows.push((start, self.bytes.len(), self.cells.len()));
        Some(())
    }

    /// Adds a cell to the row.
    pub fn push(&mut self, family: &'static str, qualifier: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(qualifier);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.cells.push((family, [start, middle, self.bytes.len()]));
    }

    /// Takes back the last cells of the row, so that so many of all rows are left.
    pub fn truncate(&mut self, cells: usize) {
        if let Some((_, [start, ..])) = self.cells.get(cells) {
            self.bytes.truncate(*start);
        }
        self.cells.truncate(cells);
    }

    /// Ends the row. A row without cells does not exist, and takes no memory.
    pub fn end(&mut self) {
        match self.rows.last_mut() {
            Some((.., end)) if *end < self.cells.len() => *end = self.cells.len(),
            _ => {
                if let Some((start, ..)) = self.rows.pop() {
                    self.bytes.truncate(start);
                }
            }
        }
    }

    /// All rows.
    pub fn rows(self) -> Vec<(RowKey, Row)> {
        let bytes = Bytes::from(self.bytes);
        let cell = |(family, [start, middle, end]): (&'static str, [usize; 3])| {
            (family, Cell { qualifier: bytes.slice(start..middle), value: bytes.slice(middle..end) })
        };
        let mut cells = self.cells.into_iter().map(cell);
        let mut from = 0;
        let mut rows = Vec::with_capacity(self.rows.len());
        for (start, key_end, end) in self.rows {
            // Most rows have one cell, and to collect it takes longer.
            let row = if end - from == 1
                && let Some(only) = cells.next()
            {
                Row::new([only])
            } else {
                Row::new(cells.by_ref().take(end - from).collect::<RowCells>())
            };
            rows.push((bytes.slice(start..key_end), row));
            from = end;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_own_cells() {
        /// Each with its qualifier and its value.
        type Cells = &'static [(&'static [u8], &'static [u8])];
        let rows: [(&'static [u8], Cells); 6] = [
            (b"one", &[(b"\0", b"1")]),
            (b"two \0\x01", &[(b"", b"2"), (b"\0", b"3"), (b"\x01", b"4")]),
            (b"none", &[]),
            (b"", &[(b"qualifier", b"5")]),
            (b"same", &[(b"qualifier", b"6"), (b"r", b"7")]),
            (b"last", &[(b"\0\0", b"8")]),
        ];
        let mut buffer = RowBuffer::default();
        let mut expected = Vec::new();
        for (key, cells) in rows {
            buffer.begin(&keys::row_start(key)).unwrap();
            cells.iter().for_each(|(qualifier, value)| buffer.push("cf", qualifier, value));
            buffer.end();
            let cell =
                |(q, v): &(&'static [u8], &'static [u8])| ("cf", Cell { qualifier: (*q).into(), value: (*v).into() });
            expected.push((RowKey::from_static(key), Row::new(cells.iter().map(cell).collect::<Vec<_>>())));
        }
        expected.retain(|(_, row)| !row.is_empty());
        assert_eq!(buffer.rows(), expected);
    }

    #[test]
    fn rows_and_cells_that_are_not_returned_take_no_memory() {
        let mut buffer = RowBuffer::default();
        for number in 0..10_000 {
            buffer.begin(&keys::row_start(format!("row {number:06}").as_bytes())).unwrap();
            buffer.push("cf", b"q", &[1; 100]);
            buffer.push("cf", b"r", &[2; 100]);
            buffer.truncate(usize::from(number >= 5_000));
            buffer.end();
        }
        assert!(buffer.bytes.len() < 200, "{} bytes", buffer.bytes.len());
        assert_eq!(buffer.begin(b"no end"), None);
        let value = Cell { qualifier: Bytes::from_static(b"q"), value: Bytes::from_static(&[1; 100]) };
        assert_eq!(buffer.rows(), [(RowKey::from_static(b"row 005000"), Row::new(vec![("cf", value)]))]);
    }
}
