//! What scans find: the newest files of a period, and the paths of directories that are known by their ids.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use bytes::Bytes;
use rowdrive::schema::file::Attributes;

use super::{Period, is_within};

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

/// A position: the id of a directory, and a name in it.
pub type Position = (Bytes, String);

/// The positions of directories, by their ids.
#[derive(Default)]
pub struct Directories(HashMap<Bytes, Position>);

impl Directories {
    pub fn add(&mut self, id: Bytes, position: Position) {
        self.0.insert(id, position);
    }

    /// The path of a position. What is not known is the root.
    pub fn path(&self, (parent, name): &Position) -> String {
        let (mut names, mut id) = (vec![name.as_str()], parent);
        while let Some((parent, name)) = self.0.get(id) {
            names.push(name);
            id = parent;
        }
        names.iter().rev().flat_map(|name| ["/", name]).collect()
    }

    /// The id of a path.
    pub fn find(&self, root: Bytes, path: &str) -> Option<Bytes> {
        path.split('/').skip(1).try_fold(root, |at, wanted| {
            let found = self.0.iter().find(|(_, (parent, name))| *parent == at && name == wanted);
            found.map(|(id, _)| id.clone())
        })
    }
}

/// The newest files of a period by their positions, for a scan that knows all directories only at its end.
pub fn newest(files: Vec<(Attributes, Position)>, directories: &Directories, period: &Period) -> Vec<(i64, String)> {
    let mut newest = Newest::new(period);
    for (attributes, position) in files {
        if period.under.is_empty() || is_within(&directories.path(&position), &period.under) {
            newest.offer(&attributes, || position);
        }
    }
    newest.done().into_iter().map(|(time, position)| (time, directories.path(&position))).collect()
}
