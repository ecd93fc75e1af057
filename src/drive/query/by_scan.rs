//! The strategy through folders: reads all rows of their subtrees, and keeps the first files that the query asks for.
//!
//! So it finds a few files among many that are elsewhere, such as those that the requester may not read: how many these are
//! is not to be seen by a page that ends early.
//!
//! The rows are read at many instants. The scan could miss a file or directory that moves meanwhile, from a row that it
//! has not read to one that it has. So its answer counts only if nothing has moved.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::reconcile::IndexPage;
use super::source::{PAGE_BYTES, QuerySource, StrategyProgress, name_range, time_range};
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{NameQuery, Node, TimeQuery};
use crate::drive::namespace::list::node;
use crate::drive::namespace::subtree_files::SubtreeFiles;
use crate::schema::dir::{self, FileEntry};
use crate::schema::index::by_name;
use crate::schema::index::by_time::{self, Clock};
use crate::schema::path::fold;
use crate::schema::{DrivePath, FileId};
use crate::table::{Cell, RowRange};

/// How many steps of the index strategy the scan is ahead of it.
const LEAD: usize = 4;

/// What a query asks for.
#[derive(Clone, Copy)]
pub enum Asked<'a> {
    Time(&'a TimeQuery),
    Name(&'a NameQuery),
}

/// A running scan of folders.
pub struct ScanStrategy<'a> {
    source: &'a QuerySource,
    asked: Asked<'a>,
    /// The keys of the index that the query asks for.
    range: RowRange,
    /// The epochs of directory moves and of file moves at the start.
    epochs: (u64, u64),
    files: SubtreeFiles,
    /// Folders that are not begun.
    left: Vec<DrivePath>,
    /// The first files so far, by their keys in the index. One more than a page has: it shows whether more follow.
    best: BTreeMap<Bytes, Node>,
    /// About how many bytes they take.
    bytes: usize,
    work: usize,
}

impl Asked<'_> {
    fn limit(&self) -> usize {
        match self {
            Self::Time(ask) => ask.limit,
            Self::Name(ask) => ask.limit,
        }
    }

    fn is_ascending(&self) -> bool {
        matches!(self, Self::Time(TimeQuery { ascending: true, .. }))
    }

    fn range(&self) -> RowRange {
        match self {
            Self::Time(ask) => time_range(ask),
            Self::Name(ask) => name_range(ask),
        }
    }

    /// The key of a file in the index.
    fn key(&self, cell: &Cell) -> Result<Bytes> {
        let (id, [modified, added]): (FileId, _) = FileEntry::decode_times(&cell.value)?;
        Ok(match self {
            Self::Time(ask) => {
                let time = match ask.clock {
                    Clock::Modified => modified,
                    Clock::Added => added,
                };
                by_time::key(ask.clock, time, id)
            }
            Self::Name(_) => {
                let (_, name) = dir::child_text(&cell.qualifier)?;
                by_name::key(&fold(&name), id)
            }
        })
    }

    /// Whether a file whose key is in the range is asked for.
    fn has(&self, node: &Node) -> bool {
        let (Self::Time(ask), Node::File { entry: FileEntry { attributes, .. }, .. }) = (self, node) else {
            return matches!((self, node), (Self::Name(_), Node::File { .. }));
        };
        ask.has(attributes)
    }
}

impl<'a> ScanStrategy<'a> {
    /// None without a folder.
    ///
    /// IMPORTANT: the epochs are read before the first row, so that no move between the reads is missed; `epoch`, that of
    /// directory moves, before the scope is looked up.
    pub fn new(source: &'a QuerySource, asked: Asked<'a>, folders: &[DrivePath], epoch: u64) -> Option<Self> {
        let epochs = (epoch, source.file_moves.now());
        // What is in one that is in another one is read with that.
        let is_in_other = |folder: &&DrivePath| folders.iter().any(|other| other != *folder && folder.is_within(other));
        let mut left: Vec<_> = folders.iter().filter(|folder| !is_in_other(folder)).cloned().collect();
        left.sort_unstable();
        let files = SubtreeFiles::new(&source.namespace, &left.pop()?);
        let (range, best) = (asked.range(), BTreeMap::new());
        Some(Self { source, asked, range, epochs, files, left, best, bytes: 0, work: 0 })
    }

    /// Continues until it has read as many cells as the other strategy, and its lead more: so small folders are answered by
    /// it alone, however many files are elsewhere. Void if something has moved, or if the page takes too much memory.
    ///
    /// The epochs are compared after each step and before its result counts, so that a move during the last step voids
    /// the answer too.
    pub async fn catch_up(&mut self, work: usize) -> Result<StrategyProgress<IndexPage>> {
        let work = work + LEAD * self.source.rows_per_step;
        while self.work < work {
            match self.step(work - self.work).await {
                _ if !self.is_unchanged() || self.bytes >= PAGE_BYTES => return Ok(StrategyProgress::Void),
                Err(DriveError::Contended) => return Ok(StrategyProgress::Void),
                Ok(true) => return Ok(StrategyProgress::Finished(self.page())),
                Ok(false) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(StrategyProgress::Unfinished)
    }

    fn is_unchanged(&self) -> bool {
        let (directories, files) = self.epochs;
        self.source.namespace.dir_paths.moves.unchanged_since(directories)
            && self.source.file_moves.unchanged_since(files)
    }

    /// Reads some more. Returns whether nothing is left.
    async fn step(&mut self, most: usize) -> Result<bool> {
        let Some(read) = self.files.next(&self.source.namespace, most).await? else {
            let Some(folder) = self.left.pop() else { return Ok(true) };
            self.files = SubtreeFiles::new(&self.source.namespace, &folder);
            return Ok(false);
        };
        self.work += read.work;
        for cell in &read.files {
            self.keep(&read.directory, cell)?;
        }
        Ok(false)
    }

    /// Keeps a file if the query asks for it, and if it is among the first so far. Most are neither: they are not decoded.
    fn keep(&mut self, directory: &DrivePath, cell: &Cell) -> Result<()> {
        let key = self.asked.key(cell)?;
        if !self.range.contains(&key) || self.is_behind_all(&key) {
            return Ok(());
        }
        let node = node(directory, cell)?;
        if !self.asked.has(&node) {
            return Ok(());
        }
        let bytes = |node: &Node| size_of::<Node>() + node.path().as_str().len();
        self.bytes += bytes(&node);
        self.best.insert(key, node);
        if self.best.len() > self.asked.limit() + 1 {
            let last = if self.asked.is_ascending() { self.best.pop_first() } else { self.best.pop_last() };
            self.bytes -= last.map_or(0, |(_, node)| bytes(&node));
        }
        Ok(())
    }

    /// Whether there are enough files before this one.
    fn is_behind_all(&self, key: &Bytes) -> bool {
        let is_ascending = self.asked.is_ascending();
        let last = if is_ascending { self.best.first_key_value() } else { self.best.last_key_value() };
        let is_behind = |(last, _): (&Bytes, &Node)| if is_ascending { key < last } else { key > last };
        self.best.len() > self.asked.limit() && last.is_some_and(is_behind)
    }

    /// The page, with the key of its last file if more follow.
    fn page(&mut self) -> IndexPage {
        let mut best: Vec<_> = std::mem::take(&mut self.best).into_iter().collect();
        if self.asked.is_ascending() {
            best.reverse();
        }
        let more = best.len() > self.asked.limit();
        best.truncate(self.asked.limit());
        let last = best.last().filter(|_| more).map(|(key, _)| key.clone());
        (best.into_iter().map(|(_, node)| node).collect(), last)
    }
}
