//! A folder read whole for its first files of a period: row by row of its subtree, keeping a page of the best.
//!
//! Its rows are read at many instants. A file or directory that moves meanwhile may be missed by them, so the
//! answer counts only if none did.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::source::{PAGE_BYTES, PlanProgress, QuerySource, time_range};
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{FilePage, ListQuery, Node, NodeKind, TimeQuery};
use crate::drive::namespace::list::list;
use crate::drive::namespace::subtree_scan::{SubtreeScan, scan};
use crate::schema::dir::{self, FileEntry};
use crate::schema::index::by_time::{self, Clock};
use crate::schema::{DrivePath, FileId, Timestamp};
use crate::table::{RowQuery, RowRange};

/// How far the reading of a folder is.
pub struct ScanPlan<'a> {
    source: &'a QuerySource,
    ask: &'a TimeQuery,
    /// Keys of the time index that are wanted.
    range: RowRange,
    /// Directory and file moves that had ended when it began.
    marks: (u64, u64),
    keys: SubtreeScan,
    /// Directories whose files are still to be read, with the name up to which they were.
    waiting: VecDeque<(DrivePath, Option<Bytes>)>,
    /// The best so far by their keys in the time index: one more than a page has, to know whether more follow.
    best: BTreeMap<Bytes, Node>,
    /// What they take, about.
    bytes: usize,
    work: usize,
}

impl<'a> ScanPlan<'a> {
    pub fn new(source: &'a QuerySource, ask: &'a TimeQuery, under: &DrivePath) -> Self {
        let marks = (source.namespace.dir_paths.moves.now(), source.file_moves.now());
        let keys = scan(&source.namespace, under, RowQuery::cells(vec![dir::id_column()]));
        let (range, waiting, best) = (time_range(ask), VecDeque::new(), BTreeMap::new());
        Self { source, ask, range, marks, keys, waiting, best, bytes: 0, work: 0 }
    }

    /// Reads on until as many cells were read as the other plan has. Void if something moved, or the page takes too much
    /// memory.
    pub async fn catch_up(&mut self, work: usize) -> Result<PlanProgress<FilePage<(Timestamp, FileId)>>> {
        while self.work < work {
            match self.step(work - self.work).await {
                _ if !self.is_quiet() || self.bytes >= PAGE_BYTES => return Ok(PlanProgress::Void),
                Err(DriveError::Contended) => return Ok(PlanProgress::Void),
                Ok(true) => return Ok(PlanProgress::Ended(self.page()?)),
                Ok(false) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(PlanProgress::GoesOn)
    }

    fn is_quiet(&self) -> bool {
        let (directories, files) = self.marks;
        self.source.namespace.dir_paths.moves.unchanged_since(directories)
            && self.source.file_moves.unchanged_since(files)
    }

    /// Reads some rows or some files more. Whether that was all.
    async fn step(&mut self, room: usize) -> Result<bool> {
        let Some((path, after)) = self.waiting.pop_front() else {
            let Some(rows) = self.keys.next(&self.source.namespace).await? else { return Ok(true) };
            self.work += rows.len();
            for (key, _) in &rows {
                self.waiting.push_back((DrivePath::from_key(key)?, None));
            }
            return Ok(false);
        };
        let limit = room.clamp(1, self.source.namespace.limits.files_queried);
        let ask = ListQuery { kind: Some(NodeKind::File), prefix: String::new(), after, limit };
        let listing = match list(&self.source.namespace, &path, &ask).await {
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
        let FileEntry { id, attributes, .. } = entry;
        let time = match self.ask.clock {
            Clock::Modified => attributes.modified,
            Clock::Added => attributes.added,
        };
        let key = by_time::key(self.ask.clock, time, *id);
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
