//! The work that an earlier process left for the next start. It is not wrong, and rows that belong to it are no strays.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::schema::dir::RowLock;
use crate::schema::subtree_op::{self, OpRecord, Phase};
use crate::schema::{CF, DirId, FileId, OpId, ValueError, pending_unlink};
use crate::table::{RowCursor, RowKey, RowQuery, RowRange, StoreError, Tables};

/// Rows listed at a time.
const LISTED: usize = 10_000;

/// Unfinished operations and content files that the next start takes care of.
pub struct PendingWork {
    operations: HashMap<OpId, (Phase, OpRecord)>,
    /// Operations whose records cannot be read: it is unknown whether readers see the rows that they lock.
    unknown: HashSet<OpId>,
    /// Rows that cannot be read: table, key and why.
    pub unreadable: Vec<(&'static str, RowKey, ValueError)>,
    /// Content files that are to be removed.
    pub unlinks: HashSet<FileId>,
    /// Content files in the folder of staged uploads.
    staged: HashSet<FileId>,
    /// The directories of rows that readers do not see, such as those of a deleted subtree.
    pub deleted_dirs: HashSet<DirId>,
}

/// Whether readers of a running drive see a directory row, by its lock.
pub enum DirRowState {
    /// Readers see it.
    Live,
    /// Readers do not see it: its operation will remove it, or has not committed it.
    Absent,
    /// It was deleted: as [`Absent`](Self::Absent), but what is left in it counts for its creator.
    Deleted,
    /// The operation that locks it has no record: the lock has no effect, and a copied row is not seen.
    Orphaned(RowLock),
}

impl PendingWork {
    /// Reads the pending work from the tables; `staged` lists the content files in `new/`.
    pub async fn read(tables: &Tables, staged: &[FileId]) -> Result<Self, StoreError> {
        let (mut operations, mut unknown, mut unreadable) = (HashMap::new(), HashSet::new(), Vec::new());
        let all = |table, query| RowCursor::new(table, RowRange::all(), query, LISTED).rest(tables);
        for (key, row) in all(subtree_op::TABLE, RowQuery::cells(subtree_op::columns())).await? {
            let id = subtree_op::decode_key(&key);
            match id.clone().and_then(|id| Ok((id, subtree_op::decode_record(&row)?))) {
                Ok((id, Some(record))) => drop(operations.insert(id, record)),
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

    /// Whether readers see the row with this value of `cf:state`.
    pub fn row_state(&self, lock: Option<&Bytes>) -> Result<DirRowState, ValueError> {
        let Some(lock) = lock else { return Ok(DirRowState::Live) };
        let lock = RowLock::decode(lock)?;
        if self.unknown.contains(&lock.op()) {
            return Err(ValueError::Damaged { what: "record of the operation that locks it" });
        }
        Ok(match self.operations.get(&lock.op()) {
            None => DirRowState::Orphaned(lock),
            Some((phase, _)) if lock.is_live(Some(*phase)) => DirRowState::Live,
            record if lock.is_counted(record) => DirRowState::Deleted,
            Some(_) => DirRowState::Absent,
        })
    }
}
