//! What an earlier process left for the next start: it is not wrong, and what hangs on it is not stray.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::schema::dir::State;
use crate::schema::op::{self, Phase};
use crate::schema::{CF, DirId, FileId, OpId, ValueError, unlink};
use crate::table::{Ask, RowCursor, RowKey, RowRange, StoreError, Tables};

/// Rows listed at a time.
const LISTED: usize = 10_000;

pub struct Left {
    operations: HashMap<OpId, Phase>,
    /// Operations whose records cannot be read: nobody knows how their rows read.
    unknown: HashSet<OpId>,
    /// Rows that cannot be read: table, key and why.
    pub unreadable: Vec<(&'static str, RowKey, ValueError)>,
    /// Content files that are to be removed.
    pub dropped: HashSet<FileId>,
    /// Content files that are where uploads are staged.
    staged: HashSet<FileId>,
    /// Directories of subtrees that were deleted and are still to be cleared away.
    pub going: HashSet<DirId>,
}

/// How a row of the directory table reads, by its mark.
pub enum Reading {
    Live,
    /// It goes, or never comes.
    Absent,
    /// Its operation has no record: the mark means nothing, and a staged row nothing either.
    Dead(State),
}

impl Left {
    pub async fn read(tables: &Tables, staged: &[FileId]) -> Result<Self, StoreError> {
        let (mut operations, mut unknown, mut unreadable) = (HashMap::new(), HashSet::new(), Vec::new());
        let all = |table, ask| RowCursor::new(table, RowRange::all(), ask, LISTED).rest(tables);
        for (key, row) in all(op::TABLE, Ask::cells(op::columns())).await? {
            let id = op::decode_key(&key);
            match id.clone().and_then(|id| Ok((id, op::record(&row)?))) {
                Ok((id, Some((phase, _)))) => drop(operations.insert(id, phase)),
                Ok((_, None)) => {}
                Err(error) => {
                    unknown.extend(id);
                    unreadable.push((op::TABLE, key, error));
                }
            }
        }
        let mut dropped = HashSet::new();
        for (key, _) in all(unlink::TABLE, Ask::families(&[CF])).await? {
            match unlink::decode_key(&key) {
                Ok(id) => drop(dropped.insert(id)),
                Err(error) => unreadable.push((unlink::TABLE, key, error)),
            }
        }
        let staged = staged.iter().copied().collect();
        Ok(Self { operations, unknown, unreadable, dropped, staged, going: HashSet::new() })
    }

    pub fn count(&self) -> u64 {
        (self.operations.len() + self.dropped.len() + self.staged.len()) as u64
    }

    /// As readers of a running drive take it.
    pub fn reading(&self, mark: Option<&Bytes>) -> Result<Reading, ValueError> {
        let Some(mark) = mark else { return Ok(Reading::Live) };
        let state = State::decode(mark)?;
        if self.unknown.contains(&state.op()) {
            return Err(ValueError::Damaged { what: "record of the operation that holds it" });
        }
        Ok(match self.operations.get(&state.op()) {
            None => Reading::Dead(state),
            Some(phase) if state.is_live(*phase) => Reading::Live,
            Some(_) => Reading::Absent,
        })
    }
}
