//! The end of a page of an index: takes in what has changed behind the plan, and verifies again what the page would show
//! twice.
//!
//! A page is read at many instants. A file that is replaced meanwhile may be met in both its versions, or in neither; one
//! that is renamed may be met under both names, or under neither, if it is sought by name.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::source::{PlanProgress, QuerySource};
use super::verify::{IndexEntry, verify};
use crate::drive::error::Result;
use crate::drive::index_changes::{ChangeMark, IndexChange};
use crate::drive::model::Node;
use crate::drive::settings::TRIES;
use crate::schema::index::{self, by_name};
use crate::schema::{DirId, DrivePath, FileId};
use crate::table::{Change, RowRange};

/// A row of an index, by one of its cells.
pub struct IndexCell<'a> {
    pub key: &'a Bytes,
    pub value: &'a Bytes,
    /// Whether the row has no other cell.
    pub alone: bool,
}

/// The rows of an index that a page is made of.
pub struct IndexRange {
    pub table: &'static str,
    /// Those of the page, and all that follow.
    pub range: RowRange,
    pub reverse: bool,
    /// Files of the page.
    pub limit: usize,
    pub scope: DirId,
}

/// The page as far as it was read.
pub struct PageSoFar<'a> {
    source: &'a QuerySource,
    pub rows: IndexRange,
    pub nodes: Vec<Node>,
    /// Whether the nodes are in no order any more.
    unordered: bool,
    /// From when on it is not known what changed in the rows that were passed.
    mark: ChangeMark,
}

/// Up to `limit` files, and the key of the last row passed if rows may follow.
pub type IndexPage = (Vec<Node>, Option<Bytes>);

impl<'a> PageSoFar<'a> {
    /// Changes count from now on.
    pub fn new(source: &'a QuerySource, rows: IndexRange) -> Self {
        Self { source, rows, nodes: Vec::new(), unordered: false, mark: source.index_changes.mark() }
    }
}

impl PageSoFar<'_> {
    /// The page, if `last` is the last row that it has passed, or none if it has passed them all. Void if others
    /// change its files all the time.
    pub async fn end(
        &mut self,
        last: Option<Bytes>,
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<PlanProgress<IndexPage>> {
        let mut passed = self.rows.range.clone();
        if let Some(last) = &last {
            let edge = if self.rows.reverse { &mut passed.from } else { &mut passed.to };
            *edge = Bound::Included(last.clone());
        }
        let index_changes = &self.source.index_changes;
        let mut replaced = Vec::new();
        for _ in 0..TRIES {
            let now = index_changes.mark();
            let Some(came) = index_changes.since(&self.mark) else { return Ok(PlanProgress::Void) };
            replaced.extend(came.iter().filter_map(|change| Some((change.replaces?, change.id))));
            // One that is under way, perhaps for ever, has not happened: what it would replace was there to be met.
            let missed = self.take_in(&came, &passed, &replaced, parse).await? && !index_changes.unchanged_since(&now);
            if !self.verify_doubles(parse).await? && !missed {
                return self.page(last);
            }
            // What was looked for in vain may have been too early, or too late: then there is something newer.
            self.mark = now;
        }
        Ok(PlanProgress::Void)
    }

    /// Takes in what has come to rows that were passed. Whether a file of a place may be missing now.
    async fn take_in(
        &mut self,
        came: &[Arc<IndexChange>],
        passed: &RowRange,
        replaced: &[(FileId, FileId)],
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<bool> {
        let gone: HashSet<FileId> = came.iter().filter_map(|change| change.has_replaced()).collect();
        let mut found: BTreeMap<FileId, Option<Node>> = BTreeMap::new();
        let (mut wanted, mut entries) = (Vec::new(), Vec::new());
        // A file that only moves keeps its rows, but for that by its name.
        for change in came.iter().filter(|change| change.replaces.is_some() || self.rows.table == by_name::TABLE) {
            for (key, value) in change.hints(self.rows.table).filter(|(key, _)| passed.contains(key)) {
                let Some(wants) = parse(&IndexCell { key, value, alone: false })? else { continue };
                if !gone.contains(&change.id) {
                    wanted.push(change);
                    entries.push(wants);
                } else if change.moved {
                    found.insert(change.id, None);
                }
            }
        }
        for (change, node) in wanted.iter().zip(self.verify_all(&entries).await?) {
            // A version that has come and gone again was there when it was shown; what has moved and is gone was not at
            // its new place then. What may never have moved is where it was met.
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
        // Where one of the versions of a place is shown, no other one is missing.
        let mut shown: HashSet<FileId> = self.nodes.iter().filter_map(file_id).collect();
        for (old, new) in replaced.iter().rev() {
            if shown.contains(new) {
                shown.insert(*old);
            }
        }
        for (old, new) in replaced {
            if shown.contains(old) {
                shown.insert(*new);
            }
        }
        Ok(wanted.iter().any(|change| !shown.contains(&change.id)))
    }

    /// Settles again what stands at one path, which can't have been so at one instant. Whether there was such.
    async fn verify_doubles(&mut self, parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>) -> Result<bool> {
        if self.rows.table == by_name::TABLE {
            // Of two names of a file the one that was read later.
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
            if let Some((key, value)) = self.index_row(&node) {
                entries.extend(parse(&IndexCell { key: &key, value: &value, alone: false })?);
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
            nodes.extend(verify(&self.source.namespace, some, self.rows.scope, epoch).await?);
        }
        Ok(nodes)
    }

    /// The page as it is to be shown: in the order of the index, and no longer than was asked for.
    fn page(&mut self, mut last: Option<Bytes>) -> Result<PlanProgress<IndexPage>> {
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
        Ok(PlanProgress::Ended((nodes, last)))
    }

    /// The row of a file in this index, and a hint that leads to it through its own row.
    fn index_row(&self, node: &Node) -> Option<(Bytes, Bytes)> {
        let Node::File { path, entry } = node else { return None };
        let (_, name) = path.split()?;
        let rows = index::put_rows(DirId::ROOT, &name, entry).into_iter();
        let mut rows = rows.filter(|row| row.table == self.rows.table && self.rows.range.contains(&row.row));
        let row = rows.next()?;
        match row.changes.into_iter().next()? {
            Change::Put { value, .. } => Some((row.row, value)),
            Change::Delete { .. } | Change::DeleteFamily { .. } => None,
        }
    }
}

fn file_id(node: &Node) -> Option<FileId> {
    match node {
        Node::File { entry, .. } => Some(entry.id),
        Node::Directory { .. } => None,
    }
}
