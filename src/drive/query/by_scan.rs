//! The strategy through a folder: reads all rows of its subtree, and keeps the first files of the period.
//!
//! The rows are read at many instants. The scan could miss a file or directory that moves meanwhile, from a row that it
//! has not read to one that it has. So its answer counts only if nothing has moved.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::source::{PAGE_BYTES, QuerySource, StrategyProgress, time_range};
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{FilePage, Node, TimeQuery};
use crate::drive::namespace::list::node;
use crate::drive::namespace::subtree_files::SubtreeFiles;
use crate::schema::dir::FileEntry;
use crate::schema::index::by_time::{self, Clock};
use crate::schema::{DrivePath, FileId, Timestamp};
use crate::table::{Cell, RowRange};

/// A running scan of a folder.
pub struct ScanStrategy<'a> {
    source: &'a QuerySource,
    ask: &'a TimeQuery,
    /// The keys of the time index that the query asks for.
    range: RowRange,
    /// The epochs of directory moves and of file moves at the start.
    epochs: (u64, u64),
    files: SubtreeFiles,
    /// The first files so far, by their keys in the time index. One more than a page has: it shows whether more follow.
    best: BTreeMap<Bytes, Node>,
    /// About how many bytes they take.
    bytes: usize,
    work: usize,
}

impl<'a> ScanStrategy<'a> {
    /// IMPORTANT: the epochs are read before the first row, so that no move between the reads is missed; `epoch`, that of
    /// directory moves, before the scope is looked up.
    pub fn new(source: &'a QuerySource, ask: &'a TimeQuery, under: &DrivePath, epoch: u64) -> Self {
        let epochs = (epoch, source.file_moves.now());
        let files = SubtreeFiles::new(&source.namespace, under);
        Self { source, ask, range: time_range(ask), epochs, files, best: BTreeMap::new(), bytes: 0, work: 0 }
    }

    /// Continues until it has read as many cells as the other strategy. Void if something has moved, or if the page
    /// takes too much memory.
    ///
    /// The epochs are compared after each step and before its result counts, so that a move during the last step voids
    /// the answer too.
    pub async fn catch_up(&mut self, work: usize) -> Result<StrategyProgress<FilePage<(Timestamp, FileId)>>> {
        while self.work < work {
            match self.step(work - self.work).await {
                _ if !self.is_unchanged() || self.bytes >= PAGE_BYTES => return Ok(StrategyProgress::Void),
                Err(DriveError::Contended) => return Ok(StrategyProgress::Void),
                Ok(true) => return Ok(StrategyProgress::Finished(self.page()?)),
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
        let Some(read) = self.files.next(&self.source.namespace, most).await? else { return Ok(true) };
        self.work += read.work;
        for cell in &read.files {
            self.keep(&read.directory, cell)?;
        }
        Ok(false)
    }

    /// Keeps a file if the query asks for it, and if it is among the first so far. Most are neither: they are not decoded.
    fn keep(&mut self, directory: &DrivePath, cell: &Cell) -> Result<()> {
        let (id, [modified, added]) = FileEntry::decode_times(&cell.value)?;
        let time = match self.ask.clock {
            Clock::Modified => modified,
            Clock::Added => added,
        };
        if self.ask.from.is_some_and(|from| time < from) || self.ask.to.is_some_and(|to| time >= to) {
            return Ok(());
        }
        let key = by_time::key(self.ask.clock, time, id);
        if !self.range.contains(&key) || self.is_behind_all(&key) {
            return Ok(());
        }
        let node = node(directory, cell)?;
        let Node::File { entry: FileEntry { attributes, .. }, .. } = &node else { return Ok(()) };
        let wanted = self.ask.creator.as_ref().is_none_or(|creator| *creator == attributes.creator)
            && self.ask.mime.as_ref().is_none_or(|filter| filter.matches(&attributes.mime));
        if !wanted {
            return Ok(());
        }
        let bytes = |node: &Node| size_of::<Node>() + node.path().as_str().len();
        self.bytes += bytes(&node);
        self.best.insert(key, node);
        if self.best.len() > self.ask.limit + 1 {
            let last = if self.ask.ascending { self.best.pop_first() } else { self.best.pop_last() };
            self.bytes -= last.map_or(0, |(_, node)| bytes(&node));
        }
        Ok(())
    }

    /// Whether there are enough files before this one.
    fn is_behind_all(&self, key: &Bytes) -> bool {
        let last = if self.ask.ascending { self.best.first_key_value() } else { self.best.last_key_value() };
        let is_behind = |(last, _): (&Bytes, &Node)| if self.ask.ascending { key < last } else { key > last };
        self.best.len() > self.ask.limit && last.is_some_and(is_behind)
    }

    fn page(&mut self) -> Result<FilePage<(Timestamp, FileId)>> {
        let mut best: Vec<_> = std::mem::take(&mut self.best).into_iter().collect();
        if self.ask.ascending {
            best.reverse();
        }
        let more = best.len() > self.ask.limit;
        best.truncate(self.ask.limit);
        let last = best.last().filter(|_| more).map(|(key, _)| by_time::decode_key(key)).transpose()?;
        Ok(FilePage { nodes: best.into_iter().map(|(_, node)| node).collect(), next: last })
    }
}
