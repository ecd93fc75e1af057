//! What an earlier process left for the next start: it is not wrong, and what hangs on it is not stray.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::schema::dir::RowLock;
use crate::schema::subtree_op::{self, Phase};
use crate::schema::{CF, DirId, FileId, OpId, ValueError, pending_unlink};
use crate::table::{RowCursor, RowKey, RowQuery, RowRange, StoreError, Tables};

/// Rows listed at a time.
const LISTED: usize = 10_000;

/// Unfinished operations and content files that the next start takes care of.
pub struct PendingWork {
    operations: HashMap<OpId, Phase>,
    /// Operations whose records cannot be read: nobody knows how their rows read.
    unknown: HashSet<OpId>,
    /// Rows that cannot be read: table, key and why.
    pub unreadable: Vec<(&'static str, RowKey, ValueError)>,
    /// Content files that are to be removed.
    pub unlinks: HashSet<FileId>,
    /// Content files that are where uploads are staged.
    staged: HashSet<FileId>,
    /// Directories of subtrees that were deleted and are still to be cleared away.
    pub deleted_dirs: HashSet<DirId>,
}

/// How a row of the directory table reads, by its mark.
pub enum RowVisibility {
    Live,
    /// It goes, or never comes.
    Absent,
    /// Its operation has no record: the mark means nothing, and a staged row nothing either.
    Orphaned(RowLock),
}

impl PendingWork {
    /// Reads it from the tables; `staged` lists the content files in `new/`.
    pub async fn read(tables: &Tables, staged: &[FileId]) -> Result<Self, StoreError> {
        let (mut operations, mut unknown, mut unreadable) = (HashMap::new(), HashSet::new(), Vec::new());
        let all = |table, ask| RowCursor::new(table, RowRange::all(), ask, LISTED).rest(tables);
        for (key, row) in all(subtree_op::TABLE, RowQuery::cells(subtree_op::columns())).await? {
            let id = subtree_op::decode_key(&key);
            match id.clone().and_then(|id| Ok((id, subtree_op::decode_record(&row)?))) {
                Ok((id, Some((phase, _)))) => drop(operations.insert(id, phase)),
                Ok((_, None)) => {}
                Err(error) => {
                    unknown.extend(id);
                    unreadable.push((subtree_op::TABLE, key, error));
                }
            }
        }
        let mut unlinks = HashSet::new();
        for (key, _) in all(pending_unlink::TABLE, RowQuery::families(&[CF])).await? {
            match pending_unlink::decode_key(&key) {
                Ok(id) => drop(unlinks.insert(id)),
                Err(error) => unreadable.push((pending_unlink::TABLE, key, error)),
            }
        }
        let staged = staged.iter().copied().collect();
        Ok(Self { operations, unknown, unreadable, unlinks, staged, deleted_dirs: HashSet::new() })
    }

    /// How many things are pending.
    pub fn count(&self) -> u64 {
        (self.operations.len() + self.unlinks.len() + self.staged.len()) as u64
    }

    /// As readers of a running drive take it.
    pub fn visibility(&self, mark: Option<&Bytes>) -> Result<RowVisibility, ValueError> {
        let Some(mark) = mark else { return Ok(RowVisibility::Live) };
        let state = RowLock::decode(mark)?;
        if self.unknown.contains(&state.op()) {
            return Err(ValueError::Damaged { what: "record of the operation that holds it" });
        }
        Ok(match self.operations.get(&state.op()) {
            None => RowVisibility::Orphaned(state),
            Some(phase) if state.is_live(*phase) => RowVisibility::Live,
            Some(_) => RowVisibility::Absent,
        })
    }
}
