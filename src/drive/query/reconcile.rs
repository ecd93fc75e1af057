//! The end of a page of an index: applies the changes that were made behind the scan, and verifies again what the page
//! would show twice.
//!
//! A page is read at many instants. If a file is replaced meanwhile, the scan may find both versions, or neither. If a
//! file is renamed meanwhile, a name query may find it under both names, or under neither.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::source::{QuerySource, StrategyProgress};
use super::verify::{IndexEntry, verify};
use crate::drive::error::Result;
use crate::drive::index_changes::{ChangeEpoch, IndexChange};
use crate::drive::model::Node;
use crate::drive::namespace::scope::Scope;
use crate::drive::settings::TRIES;
use crate::schema::index::{self, by_name};
use crate::schema::{DirId, DrivePath, FileId, StayId, ValueError};
use crate::table::{Cell, Change, RowRange};

/// A row of an index, by one of its cells.
pub struct IndexCell<'a> {
    pub key: &'a Bytes,
    pub cell: &'a Cell,
    /// Whether the row has no other cell.
    pub alone: bool,
}

impl IndexCell<'_> {
    /// The stay that the cell belongs to.
    pub fn stay(&self) -> Result<StayId> {
        let stay = StayId::from_bytes(&self.cell.qualifier);
        Ok(stay.ok_or(ValueError::Damaged { what: "qualifier of an index entry" })?)
    }
}

/// The rows of an index that a page is read from.
pub struct IndexRange {
    pub table: &'static str,
    /// The rows of the page, and all rows after it.
    pub range: RowRange,
    pub reverse: bool,
    /// Files on the page, at most.
    pub limit: usize,
    pub scope: Scope,
}

/// The page as far as it is read.
pub struct PartialPage<'a> {
    source: &'a QuerySource,
    pub rows: IndexRange,
    pub nodes: Vec<Node>,
    /// Whether the nodes are no longer in the order of the index.
    unordered: bool,
    /// Changes since this epoch are not applied yet.
    epoch: ChangeEpoch,
}

/// Up to `limit` files, and the key of the last row passed if rows may follow.
pub type IndexPage = (Vec<Node>, Option<Bytes>);

impl<'a> PartialPage<'a> {
    /// Changes count from now on: call it before the first row is read.
    pub fn new(source: &'a QuerySource, rows: IndexRange) -> Self {
        Self { source, rows, nodes: Vec::new(), unordered: false, epoch: source.index_changes.epoch() }
    }
}

impl PartialPage<'_> {
    /// The page, which ends with the row `last`, or with the last row of the index if none. Void if other requests keep
    /// changing its files.
    ///
    /// Each round applies the changes that were logged since the round before. Verifying a change takes time, in which
    /// the file may change again: so the loop ends only when nothing was shown twice, and no file may be missing.
    pub async fn end(
        &mut self,
        last: Option<Bytes>,
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<StrategyProgress<IndexPage>> {
        let mut passed = self.rows.range.clone();
        if let Some(last) = &last {
            let edge = if self.rows.reverse { &mut passed.from } else { &mut passed.to };
            *edge = Bound::Included(last.clone());
        }
        let index_changes = &self.source.index_changes;
        let mut replaced = Vec::new();
        for _ in 0..TRIES {
            let now = index_changes.epoch();
            let Some(changes) = index_changes.since(&self.epoch) else { return Ok(StrategyProgress::Void) };
            replaced.extend(changes.iter().filter(|change| change.replaces.is_some()).cloned());
            // If no change has begun or ended meanwhile, then a change that is under way, perhaps for ever, has not
            // happened: the scan has found the version that it would replace.
            let may_miss =
                self.apply_changes(&changes, &passed, &replaced, parse).await? && !index_changes.unchanged_since(&now);
            self.drop_replaced(&replaced);
            if !self.verify_duplicates(parse).await? && !may_miss {
                return self.page(last);
            }
            // A version that was not found was not committed yet, or is replaced by now. The next round applies its
            // change again, or a newer one.
            self.epoch = now;
        }
        Ok(StrategyProgress::Void)
    }

    /// Applies the changes that put index rows into the range that was passed. Returns whether a file may be missing from
    /// the page.
    async fn apply_changes(
        &mut self,
        changes: &[Arc<IndexChange>],
        passed: &RowRange,
        replaced: &[Arc<IndexChange>],
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<bool> {
        let no_longer_linked: HashSet<FileId> = changes.iter().filter_map(|change| change.has_replaced()).collect();
        let mut found: BTreeMap<FileId, Option<Node>> = BTreeMap::new();
        let (mut wanted, mut entries) = (Vec::new(), Vec::new());
        // A move without a replacement changes only the row of the name index.
        let has_new_row = |change: &&Arc<IndexChange>| change.replaces.is_some() || self.rows.table == by_name::TABLE;
        for change in changes.iter().filter(|change| !change.was_refused()).filter(has_new_row) {
            for (key, cell) in change.index_rows(self.rows.table).filter(|(key, _)| passed.contains(key)) {
                let Some(wants) = parse(&IndexCell { key, cell: &cell, alone: false })? else { continue };
                if !no_longer_linked.contains(&change.id) {
                    wanted.push(change);
                    entries.push(wants);
                } else if change.moved {
                    found.insert(change.id, None);
                }
            }
        }
        for (change, node) in wanted.iter().zip(self.verify_all(&entries).await?) {
            // A new version that the page shows, and that is replaced by now, was at its path when the scan read it: it
            // stays. A file that has moved for certain, and is no longer found, was shown at its old path: it is dropped.
            // A file that may not have moved at all stays where the scan found it.
            if node.is_some() || (change.moved && change.has_happened() && !found.contains_key(&change.id)) {
                found.insert(change.id, node);
            }
        }
        if !found.is_empty() {
            self.nodes.retain(|node| file_id(node).is_none_or(|id| !found.contains_key(&id)));
            self.nodes.extend(found.into_values().flatten());
            self.unordered = true;
        }
        if wanted.is_empty() {
            return Ok(false);
        }
        // If the page shows one version of a path, no other version of that path is missing. `replaced` links the
        // versions of a path, so follow it in both directions. But a file that was moved onto another one was there
        // before: it is missing even if the page shows the other one.
        let mut shown: HashSet<FileId> = self.nodes.iter().filter_map(file_id).collect();
        for (old, new) in versions(replaced, replaces_if_shown).rev() {
            if shown.contains(&new) {
                shown.insert(old);
            }
        }
        for (old, new) in versions(replaced, |change| !change.moved) {
            if shown.contains(&old) {
                shown.insert(new);
            }
        }
        Ok(wanted.iter().any(|change| !shown.contains(&change.id)))
    }

    /// Drops the files that another one of the page has replaced. They may be shown at another path than that one: the
    /// file, or its directory, has moved between the scan of the one and the replacement by the other.
    fn drop_replaced(&mut self, replaced: &[Arc<IndexChange>]) {
        let mut newer: HashSet<FileId> = self.nodes.iter().filter_map(file_id).collect();
        let mut old_ones = HashSet::new();
        for (old, new) in versions(replaced, replaces_if_shown).rev() {
            if newer.contains(&new) {
                newer.insert(old);
                old_ones.insert(old);
            }
        }
        self.nodes.retain(|node| file_id(node).is_none_or(|id| !old_ones.contains(&id)));
    }

    /// Verifies again the files that the page shows at the same path: two files cannot have had it at one instant.
    /// Returns whether there were any.
    async fn verify_duplicates(
        &mut self,
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<bool> {
        if self.rows.table == by_name::TABLE {
            // Of two names of a file, keeps the one that was read later.
            let mut seen = HashSet::with_capacity(self.nodes.len());
            self.nodes.reverse();
            self.nodes.retain(|node| file_id(node).is_none_or(|id| seen.insert(id)));
            self.nodes.reverse();
        }
        let mut seen = HashSet::with_capacity(self.nodes.len());
        let twice = self.nodes.iter().map(Node::path).filter(|path| !seen.insert(path.as_str()));
        let twice: HashSet<DrivePath> = twice.cloned().collect();
        if twice.is_empty() {
            return Ok(false);
        }
        let mut entries = Vec::new();
        for node in self.nodes.extract_if(.., |node| twice.contains(node.path())).collect::<Vec<_>>() {
            if let Some((key, cell)) = self.index_row(&node) {
                entries.extend(parse(&IndexCell { key: &key, cell: &cell, alone: false })?);
            }
        }
        let verified = self.verify_all(&entries).await?;
        self.nodes.extend(verified.into_iter().flatten());
        self.unordered = true;
        Ok(true)
    }

    async fn verify_all(&self, entries: &[IndexEntry]) -> Result<Vec<Option<Node>>> {
        let mut nodes = Vec::with_capacity(entries.len());
        for some in entries.chunks(self.source.namespace.limits.files_queried) {
            let epoch = self.source.namespace.dir_paths.moves.now();
            nodes.extend(verify(&self.source.namespace, some, &self.rows.scope, epoch).await?);
        }
        Ok(nodes)
    }

    /// The page of a single scan, all of whose rows were exact at its instant: no change has to be applied.
    pub fn end_at_once(&mut self, last: Option<Bytes>) -> Result<StrategyProgress<IndexPage>> {
        self.page(last)
    }

    /// The final page: in the order of the index, and no longer than was asked for.
    fn page(&mut self, mut last: Option<Bytes>) -> Result<StrategyProgress<IndexPage>> {
        let mut nodes = std::mem::take(&mut self.nodes);
        if self.unordered {
            nodes.sort_by_cached_key(|node| self.index_row(node).map(|(key, _)| key));
            if self.rows.reverse {
                nodes.reverse();
            }
            if nodes.len() > self.rows.limit {
                nodes.truncate(self.rows.limit);
                last = nodes.last().and_then(|node| self.index_row(node)).map(|(key, _)| key);
            }
        }
        Ok(StrategyProgress::Finished((nodes, last)))
    }

    /// The row of a file in this index. Its value names the root as the directory: verification does not find the file
    /// there, and follows the file row.
    fn index_row(&self, node: &Node) -> Option<(Bytes, Cell)> {
        let Node::File { path, entry } = node else { return None };
        let (_, name) = path.split()?;
        let rows = index::put_rows(DirId::ROOT, &name, entry).into_iter();
        let mut rows = rows.filter(|row| row.table == self.rows.table && self.rows.range.contains(&row.row));
        let row = rows.next()?;
        match row.changes.into_iter().next()? {
            Change::Put { qualifier, value, .. } => Some((row.row, Cell { qualifier, value })),
            Change::Delete { .. } | Change::DeleteFamily { .. } | Change::Add { .. } => None,
        }
    }
}

/// The replaced file and the new one of each of these changes that was not refused, in the order of the changes.
fn versions(
    replaced: &[Arc<IndexChange>],
    is_wanted: impl Fn(&IndexChange) -> bool,
) -> impl DoubleEndedIterator<Item = (FileId, FileId)> {
    let wanted = replaced.iter().filter(move |change| !change.was_refused() && is_wanted(change));
    wanted.filter_map(|change| Some((change.replaces?, change.id)))
}

/// Whether a change has replaced its file, if the page shows the new one. Only the upload itself has made a new version;
/// a file that was to be moved onto another one may be shown where it was.
fn replaces_if_shown(change: &IndexChange) -> bool {
    !change.moved || change.has_happened()
}

fn file_id(node: &Node) -> Option<FileId> {
    match node {
        Node::File { entry, .. } => Some(entry.id),
        Node::Directory { .. } => None,
    }
}
