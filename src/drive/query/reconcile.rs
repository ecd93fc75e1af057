//! The end of a page of an index: what came to places that it had passed is taken in, and what it would show twice is
//! looked at again.
//!
//! A page is read at many instants. A file that is replaced meanwhile may be met in both its versions, or in neither; one
//! that is renamed may be met under both names, or under neither, if it is sought by name.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::Progress;
use super::index::{Hinted, Page, Walk};
use crate::drive::arrivals::Arrival;
use crate::drive::ask::Node;
use crate::drive::settle::Candidate;
use crate::drive::{Result, TRIES};
use crate::schema::{DirId, DrivePath, FileId, index, name};
use crate::table::{Change, RowRange};

impl Walk<'_> {
    /// The page, if `last` is the last row that it has passed, or none if it has passed them all. Void if others
    /// change its files all the time.
    pub(super) async fn end(
        &mut self,
        last: Option<Bytes>,
        candidate: &impl Fn(&Hinted<'_>) -> Result<Option<Candidate>>,
    ) -> Result<Progress<Page>> {
        let mut passed = self.begin.clone();
        if let Some(last) = &last {
            let edge = if self.reverse { &mut passed.from } else { &mut passed.to };
            *edge = Bound::Included(last.clone());
        }
        let arrivals = &self.drive.inner.arrivals;
        let mut replaced = Vec::new();
        for _ in 0..TRIES {
            let now = arrivals.mark();
            let Some(came) = arrivals.since(&self.mark) else { return Ok(Progress::Void) };
            replaced.extend(came.iter().filter_map(|arrival| Some((arrival.replaces?, arrival.id))));
            // One that is under way, perhaps for ever, has not happened: what it would replace was there to be met.
            let missed = self.take_in(&came, &passed, &replaced, candidate).await? && !arrivals.quiet_since(&now);
            if !self.settle_doubles(candidate).await? && !missed {
                return self.page(last);
            }
            // What was looked for in vain may have been too early, or too late: then there is something newer.
            self.mark = now;
        }
        Ok(Progress::Void)
    }

    /// Takes in what has come to rows that were passed. Whether a file of a place may be missing now.
    async fn take_in(
        &mut self,
        came: &[Arc<Arrival>],
        passed: &RowRange,
        replaced: &[(FileId, FileId)],
        candidate: &impl Fn(&Hinted<'_>) -> Result<Option<Candidate>>,
    ) -> Result<bool> {
        let gone: HashSet<FileId> = came.iter().filter_map(|arrival| arrival.has_replaced()).collect();
        let mut found: BTreeMap<FileId, Option<Node>> = BTreeMap::new();
        let (mut wanted, mut candidates) = (Vec::new(), Vec::new());
        // A file that only moves keeps its rows, but for that by its name.
        for arrival in came.iter().filter(|arrival| arrival.replaces.is_some() || self.table == name::TABLE) {
            for (key, value) in arrival.hints(self.table).filter(|(key, _)| passed.contains(key)) {
                let Some(wants) = candidate(&Hinted { key, value, alone: false })? else { continue };
                if !gone.contains(&arrival.id) {
                    wanted.push(arrival);
                    candidates.push(wants);
                } else if arrival.moved {
                    found.insert(arrival.id, None);
                }
            }
        }
        for (arrival, node) in wanted.iter().zip(self.settle(&candidates).await?) {
            // A version that has come and gone again was there when it was shown; what has moved and is gone was not at
            // its new place then. What may never have moved is where it was met.
            if node.is_some() || (arrival.moved && arrival.has_happened() && !found.contains_key(&arrival.id)) {
                found.insert(arrival.id, node);
            }
        }
        if !found.is_empty() {
            self.nodes.retain(|node| file_id(node).is_none_or(|id| !found.contains_key(&id)));
            self.nodes.extend(found.into_values().flatten());
            self.mixed = true;
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
        Ok(wanted.iter().any(|arrival| !shown.contains(&arrival.id)))
    }

    /// Settles again what stands at one path, which can't have been so at one instant. Whether there was such.
    async fn settle_doubles(&mut self, candidate: &impl Fn(&Hinted<'_>) -> Result<Option<Candidate>>) -> Result<bool> {
        if self.table == name::TABLE {
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
        let mut candidates = Vec::new();
        for node in self.nodes.extract_if(.., |node| twice.contains(node.path())).collect::<Vec<_>>() {
            if let Some((key, value)) = self.hint(&node) {
                candidates.extend(candidate(&Hinted { key: &key, value: &value, alone: false })?);
            }
        }
        let settled = self.settle(&candidates).await?;
        self.nodes.extend(settled.into_iter().flatten());
        self.mixed = true;
        Ok(true)
    }

    async fn settle(&self, candidates: &[Candidate]) -> Result<Vec<Option<Node>>> {
        let mut nodes = Vec::with_capacity(candidates.len());
        for some in candidates.chunks(self.drive.limits().files_queried) {
            let mark = self.drive.inner.walks.moves.mark();
            nodes.extend(self.drive.settle(some, self.scope, mark).await?);
        }
        Ok(nodes)
    }

    /// The page as it is to be shown: in the order of the index, and no longer than was asked for.
    fn page(&mut self, mut last: Option<Bytes>) -> Result<Progress<Page>> {
        let mut nodes = std::mem::take(&mut self.nodes);
        if self.mixed {
            nodes.sort_by_cached_key(|node| self.hint(node).map(|(key, _)| key));
            if self.reverse {
                nodes.reverse();
            }
            if nodes.len() > self.limit {
                nodes.truncate(self.limit);
                last = nodes.last().and_then(|node| self.hint(node)).map(|(key, _)| key);
            }
        }
        Ok(Progress::Ended((nodes, last)))
    }

    /// The row of a file in this index, and a hint that leads to it through its own row.
    fn hint(&self, node: &Node) -> Option<(Bytes, Bytes)> {
        let Node::File { path, entry } = node else { return None };
        let (_, name) = path.split()?;
        let rows = index::hints(DirId::ROOT, &name, entry).into_iter();
        let mut rows = rows.filter(|row| row.table == self.table && self.begin.contains(&row.row));
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
