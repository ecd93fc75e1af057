//! A folder read whole for its first files of a period: row by row of its subtree, keeping a page of the best.
//!
//! Its rows are read at many instants. A file or directory that moves meanwhile may be missed by them, so the
//! answer counts only if none did.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::index::PAGE_BYTES;
use super::{Progress, time_range};
use crate::drive::ask::{FilesAsk, Found, Kind, ListAsk, Node};
use crate::drive::subtree::Keys;
use crate::drive::{Drive, DriveError, Result};
use crate::schema::dir::{self, Entry};
use crate::schema::time::{self, Clock};
use crate::schema::{DrivePath, FileId, Timestamp};
use crate::table::{Ask, RowRange};

/// How far the reading of a folder is.
pub(super) struct Tree<'a> {
    drive: &'a Drive,
    ask: &'a FilesAsk,
    /// Keys of the time index that are wanted.
    range: RowRange,
    /// Directory and file moves that had ended when it began.
    marks: (u64, u64),
    keys: Keys,
    /// Directories whose files are still to be read, with the name up to which they were.
    waiting: VecDeque<(DrivePath, Option<Bytes>)>,
    /// The best so far by their keys in the time index: one more than a page has, to know whether more follow.
    best: BTreeMap<Bytes, Node>,
    /// What they take, about.
    bytes: usize,
    work: usize,
}

impl<'a> Tree<'a> {
    pub fn new(drive: &'a Drive, ask: &'a FilesAsk, under: &DrivePath) -> Self {
        let marks = (drive.inner.walks.moves.mark(), drive.inner.file_moves.mark());
        let keys = drive.keys(under, Ask::cells(vec![dir::id_column()]));
        let (range, waiting, best) = (time_range(ask), VecDeque::new(), BTreeMap::new());
        Self { drive, ask, range, marks, keys, waiting, best, bytes: 0, work: 0 }
    }

    /// Reads on until as many cells were read as the other plan has. Void if something moved, or the page takes too much
    /// memory.
    pub async fn catch_up(&mut self, work: usize) -> Result<Progress<Found<(Timestamp, FileId)>>> {
        while self.work < work {
            match self.step(work - self.work).await {
                _ if !self.is_quiet() || self.bytes >= PAGE_BYTES => return Ok(Progress::Void),
                Err(DriveError::Contended) => return Ok(Progress::Void),
                Ok(true) => return Ok(Progress::Ended(self.page()?)),
                Ok(false) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::GoesOn)
    }

    fn is_quiet(&self) -> bool {
        let (directories, files) = self.marks;
        self.drive.inner.walks.moves.quiet_since(directories) && self.drive.inner.file_moves.quiet_since(files)
    }

    /// Reads some rows or some files more. Whether that was all.
    async fn step(&mut self, room: usize) -> Result<bool> {
        let Some((path, after)) = self.waiting.pop_front() else {
            let Some(rows) = self.keys.next(self.drive).await? else { return Ok(true) };
            self.work += rows.len();
            for (key, _) in &rows {
                self.waiting.push_back((DrivePath::from_key(key)?, None));
            }
            return Ok(false);
        };
        let limit = room.clamp(1, self.drive.limits().files_queried);
        let ask = ListAsk { kind: Some(Kind::File), prefix: String::new(), after, limit };
        let listing = match self.drive.list(&path, &ask).await {
            Ok(listing) => listing,
            // Held by an operation, or removed meanwhile.
            Err(DriveError::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.work += 1 + listing.nodes.len();
        if let Some(next) = listing.next {
            self.waiting.push_front((path, Some(next)));
        }
        listing.nodes.into_iter().for_each(|node| self.keep(node));
        Ok(false)
    }

    /// Keeps a file if it is wanted, and among the first of them so far.
    fn keep(&mut self, node: Node) {
        let Node::File { entry, .. } = &node else { return };
        let Entry { id, attributes, .. } = entry;
        let time = match self.ask.clock {
            Clock::Modified => attributes.modified,
            Clock::Added => attributes.added,
        };
        let key = time::key(self.ask.clock, time, *id);
        let wanted = self.range.contains(&key)
            && self.ask.creator.as_ref().is_none_or(|creator| *creator == attributes.creator)
            && self.ask.mime.as_ref().is_none_or(|filter| filter.matches(&attributes.mime));
        if !wanted {
            return;
        }
        let bytes = |node: &Node| size_of::<Node>() + node.path().as_str().len();
        self.bytes += bytes(&node);
        self.best.insert(key, node);
        if self.best.len() > self.ask.limit + 1 {
            let last = if self.ask.ascending { self.best.pop_first() } else { self.best.pop_last() };
            self.bytes -= last.map_or(0, |(_, node)| bytes(&node));
        }
    }

    fn page(&mut self) -> Result<Found<(Timestamp, FileId)>> {
        let mut best: Vec<_> = std::mem::take(&mut self.best).into_iter().collect();
        if self.ask.ascending {
            best.reverse();
        }
        let more = best.len() > self.ask.limit;
        best.truncate(self.ask.limit);
        let last = best.last().filter(|_| more).map(|(key, _)| time::decode_key(key)).transpose()?;
        Ok(Found { nodes: best.into_iter().map(|(_, node)| node).collect(), next: last })
    }
}
