//! Files that come to a new row of an index: versions that replace others, and files that move.
//!
//! A query reads an index row by row. It would miss a file whose new row comes to a place that it has passed while the
//! old one goes from a place that it has not reached. So whoever makes such a change says so before its commit, and a
//! query looks at its end at what has come since it began.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::schema::{FileId, index};
use crate::table::store::Result as StoreResult;
use crate::table::{Change, Outcome, RowChange, StoreError};

/// Bytes of changes that are kept, about. A query that takes so long that more come meanwhile begins anew.
const KEPT: usize = 4 << 20;
/// Changes that are held to be under way. More than these are never there at one time: what is left of them are those
/// of which it never became known whether they have happened.
const UNDER_WAY: usize = 10_000;

/// A file, at the row that it comes to.
pub struct IndexChange {
    pub id: FileId,
    /// The file whose place it takes.
    pub replaces: Option<FileId>,
    /// Whether it has stood elsewhere before.
    pub moved: bool,
    hints: Vec<RowChange>,
    happened: AtomicBool,
}

impl IndexChange {
    /// By the rows that a plan prepares.
    pub fn new(id: FileId, replaces: Option<FileId>, moved: bool, prepared: &[RowChange]) -> Self {
        let hints = prepared.iter().filter(|row| index::TABLES.contains(&row.table)).cloned().collect();
        Self { id, replaces, moved, hints, happened: AtomicBool::new(false) }
    }

    /// The keys and values of its hints in this index.
    pub fn hints(&self, table: &'static str) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let rows = self.hints.iter().filter(move |row| row.table == table);
        rows.filter_map(|row| match row.changes.first()? {
            Change::Put { value, .. } => Some((&row.row, value)),
            Change::Delete { .. } | Change::DeleteFamily { .. } => None,
        })
    }

    /// The file that it has taken the place of for certain: that one is nowhere any more.
    pub fn has_replaced(&self) -> Option<FileId> {
        self.replaces.filter(|_| self.has_happened())
    }

    /// False if it is under way, or it is not known.
    pub fn has_happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }

    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let hints = index::TABLES.iter().flat_map(|table| self.hints(table));
        let hints: usize = hints.map(|(key, value)| key.len() + value.len()).sum();
        size_of::<Self>() + self.hints.len() * (size_of::<RowChange>() + size_of::<Change>()) + hints
    }
}

#[derive(Default)]
pub struct IndexChanges(Mutex<ChangeLog>);

#[derive(Default)]
struct ChangeLog {
    /// The number of the next one. Those that are kept are the last before it.
    next: u64,
    kept: VecDeque<Arc<IndexChange>>,
    bytes: usize,
    under_way: BTreeMap<u64, Arc<IndexChange>>,
}

/// A moment: what comes after it, or is under way at it.
pub struct ChangeMark {
    next: u64,
    under_way: Vec<Arc<IndexChange>>,
}

impl IndexChanges {
    /// Sends the plan that an change belongs to. What is not known to have happened may yet happen: it stays under
    /// way.
    pub async fn counted(
        &self,
        change: IndexChange,
        commit: impl Future<Output = StoreResult<Outcome>>,
    ) -> StoreResult<Outcome> {
        let change = Arc::new(change);
        let number = self.begin(change.clone());
        let outcome = commit.await;
        change.happened.store(matches!(outcome, Ok(Outcome::Committed)), Ordering::SeqCst);
        if !matches!(outcome, Err(StoreError::Unknown { .. })) {
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
        if log.under_way.len() > UNDER_WAY {
            log.under_way.pop_first();
        }
        log.kept.push_back(change);
        while log.bytes > KEPT {
            let Some(oldest) = log.kept.pop_front() else { break };
            log.bytes -= oldest.bytes();
        }
        number
    }

    pub fn mark(&self) -> ChangeMark {
        let log = self.log();
        ChangeMark { next: log.next, under_way: log.under_way.values().cloned().collect() }
    }

    /// What was under way at a moment or has begun since, oldest first; none if it is not known any more.
    pub fn since(&self, mark: &ChangeMark) -> Option<Vec<Arc<IndexChange>>> {
        let log = self.log();
        let came = usize::try_from(log.next - mark.next).ok()?;
        let old = log.kept.len().checked_sub(came)?;
        Some(mark.under_way.iter().chain(log.kept.range(old..)).cloned().collect())
    }

    /// Whether none has begun or ended since a moment.
    pub fn unchanged_since(&self, mark: &ChangeMark) -> bool {
        let log = self.log();
        log.next == mark.next && log.under_way.len() == mark.under_way.len()
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
        let hint = RowChange { table: by_time::TABLE, row: Bytes::from_static(b"k"), changes };
        IndexChange::new(FileId::random(), None, false, &[hint])
    }

    #[test]
    fn what_is_too_much_to_be_kept_is_not_taken_for_nothing() {
        let index_changes = IndexChanges::default();
        let before = index_changes.mark();
        for came in 1..=3 {
            index_changes.begin(Arc::new(change(1 << 20)));
            assert_eq!(index_changes.since(&before).map(|all| all.len()), Some(came));
        }
        index_changes.begin(Arc::new(change(1 << 20)));
        assert!(index_changes.since(&before).is_none());
        let now = index_changes.mark();
        assert_eq!(index_changes.since(&now).map(|all| all.len()), Some(4), "all of them are under way");
        index_changes.begin(Arc::new(change(1)));
        assert_eq!(index_changes.since(&now).map(|all| all.len()), Some(5));
        index_changes.begin(Arc::new(change(KEPT)));
        assert!(index_changes.since(&now).is_none(), "one that is larger than all that is kept");
    }

    #[tokio::test]
    async fn what_may_yet_happen_stays_under_way() {
        let index_changes = IndexChanges::default();
        for outcome in [
            Ok(Outcome::Committed),
            Err(StoreError::Failed("so".to_owned())),
            Err(StoreError::Unknown { cause: "so".to_owned(), full: false }),
        ] {
            let known = !matches!(outcome, Err(StoreError::Unknown { .. }));
            let _ = index_changes.counted(change(1), async { outcome }).await;
            assert_eq!(index_changes.since(&index_changes.mark()).map(|all| all.is_empty()), Some(known));
        }
    }
}
