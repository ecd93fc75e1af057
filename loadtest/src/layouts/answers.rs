//! What scans find: the newest files of a period, and the paths of directories that are known by their ids.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use anyhow::Result;
use bytes::Bytes;
use rowdrive::schema::file::Attributes;
use rowdrive::table::{Row, RowKey, RowRange};

use super::rows::{LIST, Next, Table};
use super::stored::Stored;
use super::{Node, Period};

/// The newest files of a period among many, without all of them in memory; each with what is needed to name it.
pub struct Newest<'a, T: Ord> {
    period: &'a Period,
    found: BinaryHeap<Reverse<(i64, T)>>,
}

impl<'a, T: Ord> Newest<'a, T> {
    pub fn new(period: &'a Period) -> Self {
        Self { period, found: BinaryHeap::new() }
    }

    pub fn offer(&mut self, attributes: &Attributes, file: impl FnOnce() -> T) {
        let Some(time) = self.period.time(attributes) else { return };
        let is_full = self.found.len() == self.period.limit;
        if is_full && self.found.peek().is_some_and(|Reverse((oldest, _))| *oldest >= time) {
            return;
        }
        if is_full {
            self.found.pop();
        }
        self.found.push(Reverse((time, file())));
    }

    /// Newest first.
    pub fn done(self) -> Vec<(i64, T)> {
        self.found.into_sorted_vec().into_iter().map(|Reverse(file)| file).collect()
    }
}

/// The files of a period in and below directories of these ids and paths, where a row key is the id of a directory and
/// a name: a range for each of them.
pub async fn period_of_ranges(
    rows: &Table,
    mut directories: Vec<(Bytes, String)>,
    period: &Period,
) -> Result<Vec<(i64, String)>> {
    let mut newest = Newest::new(period);
    while let Some((id, path)) = directories.pop() {
        let each = |key: &RowKey, row: &Row| {
            let Some(stored) = Stored::from_row(row) else { return Ok(Next::Row) };
            let name = std::str::from_utf8(key.get(id.len()..).unwrap_or_default())?;
            match stored.node()? {
                Node::File(attributes) => newest.offer(&attributes, || format!("{path}/{name}")),
                Node::Directory => directories.push((stored.value, format!("{path}/{name}"))),
            }
            Ok(Next::Row)
        };
        rows.scan(RowRange::prefix(&id), LIST, each).await?;
    }
    Ok(newest.done())
}

/// A position: the id of a directory, and a name in it.
pub type Position = (Bytes, String);

/// The positions of directories, by their ids.
#[derive(Default)]
pub struct Directories(pub HashMap<Bytes, Position>);

impl Directories {
    /// The path of a position. What is not known is the root.
    pub fn path(&self, (parent, name): &Position) -> String {
        let (mut path, mut id) = (format!("/{name}"), parent);
        while let Some((parent, name)) = self.0.get(id) {
            path = format!("/{name}{path}");
            id = parent;
        }
        path
    }

    /// The id of a path.
    pub fn find(&self, root: Bytes, path: &str) -> Option<Bytes> {
        path.split('/').skip(1).try_fold(root, |at, wanted| {
            let found = self.0.iter().find(|(_, (parent, name))| *parent == at && name == wanted);
            found.map(|(id, _)| id.clone())
        })
    }
}
