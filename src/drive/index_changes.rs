//! Changes that give a file a new index row: overwrites and file moves.
//!
//! A query reads an index row by row. It would miss a file if the new row is put behind the query's position while the
//! old row is deleted ahead of it. So a writer logs such a change here before its commit, and a query reads at its end
//! what was logged since it began.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use crate::schema::{FileId, index};
use crate::table::store::Result as StoreResult;
use crate::table::{Cell, Change, Outcome, RowChange, StoreError};

/// Bytes of changes that are kept, about. If more are logged while a query runs, the query starts again.
const KEPT_BYTES: usize = 4 << 20;
/// Changes that count as under way. So many are never under way at one time: the oldest beyond this number are changes
/// of unknown outcome.
const MAX_UNDER_WAY: usize = 10_000;

/// A change that gives a file new index rows.
pub struct IndexChange {
    /// The file that gets them.
    pub id: FileId,
    /// The file that it replaces at its path.
    pub replaces: Option<FileId>,
    /// Whether the file had another path before.
    pub moved: bool,
    index_rows: Vec<RowChange>,
    /// Whether it was committed. Not set while it is under way, and if its outcome is unknown.
    committed: OnceLock<bool>,
}

impl IndexChange {
    /// The change of a plan that prepares these rows.
    pub fn new(id: FileId, replaces: Option<FileId>, moved: bool, prepared: &[RowChange]) -> Self {
        let index_rows = prepared.iter().filter(|row| index::TABLES.contains(&row.table)).cloned().collect();
        Self { id, replaces, moved, index_rows, committed: OnceLock::new() }
    }

    /// The keys and cells of its rows in this index.
    pub fn index_rows(&self, table: &'static str) -> impl Iterator<Item = (&Bytes, Cell)> {
        let rows = self.index_rows.iter().filter(move |row| row.table == table);
        rows.filter_map(|row| match row.changes.first()? {
            Change::Put { qualifier, value, .. } => {
                Some((&row.row, Cell { qualifier: qualifier.clone(), value: value.clone() }))
            }
            Change::Delete { .. } | Change::DeleteFamily { .. } | Change::Add { .. } => None,
        })
    }

    /// The file that it has replaced, if the change is known to have happened: that file has no path any more.
    pub fn has_replaced(&self) -> Option<FileId> {
        self.replaces.filter(|_| self.has_happened())
    }

    /// False while it is under way, and if its outcome is unknown.
    pub fn has_happened(&self) -> bool {
        self.committed.get() == Some(&true)
    }

    /// Whether it is known to have changed nothing, because its plan was refused or has failed: then the next attempt may
    /// be another change, which replaces another file or none.
    pub fn was_refused(&self) -> bool {
        self.committed.get() == Some(&false)
    }

    /// About how many bytes of memory it takes.
    fn bytes(&self) -> usize {
        let rows = index::TABLES.iter().flat_map(|table| self.index_rows(table));
        let stored: usize = rows.map(|(key, cell)| key.len() + cell.value.len()).sum();
        size_of::<Self>() + self.index_rows.len() * (size_of::<RowChange>() + size_of::<Change>()) + stored
    }
}

/// The log of the changes of this process.
#[derive(Default)]
pub struct IndexChanges(Mutex<ChangeLog>);

#[derive(Default)]
struct ChangeLog {
    /// The number of the next change. `kept` has the last ones before it.
    next: u64,
    kept: VecDeque<Arc<IndexChange>>,
    bytes: usize,
    under_way: BTreeMap<u64, Arc<IndexChange>>,
}

/// A position in the log, and the changes that were under way there.
pub struct ChangeEpoch {
    next: u64,
    under_way: Vec<Arc<IndexChange>>,
}

impl IndexChanges {
    /// Logs a change, then commits its plan. A change of unknown outcome may yet happen: it stays under way.
    ///
    /// IMPORTANT: logged before the commit. A query that ends between the two would miss the file otherwise.
    pub async fn counted(
        &self,
        change: IndexChange,
        commit: impl Future<Output = StoreResult<Outcome>>,
    ) -> StoreResult<Outcome> {
        let change = Arc::new(change);
        let number = self.begin(change.clone());
        let outcome = commit.await;
        if !matches!(outcome, Err(StoreError::Unknown { .. })) {
            // It was not set before: only this call does.
            let _ = change.committed.set(matches!(outcome, Ok(Outcome::Committed)));
            self.log().under_way.remove(&number);
        }
        outcome
    }

    fn begin(&self, change: Arc<IndexChange>) -> u64 {
        let mut log = self.log();
        let number = log.next;
        log.next += 1;
        log.bytes += change.bytes();
        log.under_way.insert(number, change.clone());
        if log.under_way.len() > MAX_UNDER_WAY {
            log.under_way.pop_first();
        }
        log.kept.push_back(change);
        while log.bytes > KEPT_BYTES {
            let Some(oldest) = log.kept.pop_front() else { break };
            log.bytes -= oldest.bytes();
        }
        number
    }

    /// The present epoch: read it before the index rows.
    pub fn epoch(&self) -> ChangeEpoch {
        let log = self.log();
        ChangeEpoch { next: log.next, under_way: log.under_way.values().cloned().collect() }
    }

    /// The changes that were under way at an epoch or have begun since, oldest first. None if some of them are no longer
    /// kept.
    pub fn since(&self, epoch: &ChangeEpoch) -> Option<Vec<Arc<IndexChange>>> {
        let log = self.log();
        let begun = usize::try_from(log.next - epoch.next).ok()?;
        let old = log.kept.len().checked_sub(begun)?;
        Some(epoch.under_way.iter().chain(log.kept.range(old..)).cloned().collect())
    }

    /// Whether no change has begun or ended since an epoch.
    pub fn unchanged_since(&self, epoch: &ChangeEpoch) -> bool {
        let log = self.log();
        log.next == epoch.next && log.under_way.len() == epoch.under_way.len()
    }

    fn log(&self) -> MutexGuard<'_, ChangeLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::index::by_time;

    fn change(value: usize) -> IndexChange {
        let changes = vec![Change::put("cf", "p", vec![0; value])];
        let row = RowChange { table: by_time::TABLE, row: Bytes::from_static(b"k"), changes };
        IndexChange::new(FileId::random(), None, false, &[row])
    }

    #[test]
    fn changes_that_are_no_longer_kept_are_not_taken_for_none() {
        let index_changes = IndexChanges::default();
        let before = index_changes.epoch();
        for changes in 1..=3 {
            index_changes.begin(Arc::new(change(1 << 20)));
            assert_eq!(index_changes.since(&before).map(|all| all.len()), Some(changes));
        }
        index_changes.begin(Arc::new(change(1 << 20)));
        assert!(index_changes.since(&before).is_none());
        let now = index_changes.epoch();
        assert_eq!(index_changes.since(&now).map(|all| all.len()), Some(4), "all of them are under way");
        index_changes.begin(Arc::new(change(1)));
        assert_eq!(index_changes.since(&now).map(|all| all.len()), Some(5));
        index_changes.begin(Arc::new(change(KEPT_BYTES)));
        assert!(index_changes.since(&now).is_none(), "a change that is larger than all that is kept");
    }

    #[tokio::test]
    async fn a_change_of_unknown_outcome_stays_under_way() {
        let index_changes = IndexChanges::default();
        for outcome in [
            Ok(Outcome::Committed),
            Err(StoreError::Failed("so".to_owned())),
            Err(StoreError::Unknown { cause: "so".to_owned(), full: false }),
        ] {
            let known = !matches!(outcome, Err(StoreError::Unknown { .. }));
            let _ = index_changes.counted(change(1), async { outcome }).await;
            assert_eq!(index_changes.since(&index_changes.epoch()).map(|all| all.is_empty()), Some(known));
        }
    }
}
