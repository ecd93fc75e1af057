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

/// Bytes of arrivals that are kept, about. A query that takes so long that more come meanwhile begins anew.
const KEPT: usize = 4 << 20;
/// Arrivals that are held to be under way. More than these are never there at one time: what is left of them are those
/// of which it never became known whether they have happened.
const UNDER_WAY: usize = 10_000;

/// A file, at the row that it comes to.
pub(super) struct Arrival {
    pub id: FileId,
    /// The file whose place it takes.
    pub replaces: Option<FileId>,
    /// Whether it has stood elsewhere before.
    pub moved: bool,
    hints: Vec<RowChange>,
    happened: AtomicBool,
}

impl Arrival {
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
pub(super) struct Arrivals(Mutex<Log>);

#[derive(Default)]
struct Log {
    /// The number of the next one. Those that are kept are the last before it.
    next: u64,
    kept: VecDeque<Arc<Arrival>>,
    bytes: usize,
    under_way: BTreeMap<u64, Arc<Arrival>>,
}

/// A moment: what comes after it, or is under way at it.
pub(super) struct Mark {
    next: u64,
    under_way: Vec<Arc<Arrival>>,
}

impl Arrivals {
    /// Sends the plan that an arrival belongs to. What is not known to have happened may yet happen: it stays under
    /// way.
    pub async fn counted(
        &self,
        arrival: Arrival,
        commit: impl Future<Output = StoreResult<Outcome>>,
    ) -> StoreResult<Outcome> {
        let arrival = Arc::new(arrival);
        let number = self.begin(arrival.clone());
        let outcome = commit.await;
        arrival.happened.store(matches!(outcome, Ok(Outcome::Committed)), Ordering::SeqCst);
        if !matches!(outcome, Err(StoreError::Unknown { .. })) {
            self.log().under_way.remove(&number);
        }
        outcome
    }

    fn begin(&self, arrival: Arc<Arrival>) -> u64 {
        let mut log = self.log();
        let number = log.next;
        log.next += 1;
        log.bytes += arrival.bytes();
        log.under_way.insert(number, arrival.clone());
        if log.under_way.len() > UNDER_WAY {
            log.under_way.pop_first();
        }
        log.kept.push_back(arrival);
        while log.bytes > KEPT {
            let Some(oldest) = log.kept.pop_front() else { break };
            log.bytes -= oldest.bytes();
        }
        number
    }

    pub fn mark(&self) -> Mark {
        let log = self.log();
        Mark { next: log.next, under_way: log.under_way.values().cloned().collect() }
    }

    /// What was under way at a moment or has begun since, oldest first; none if it is not known any more.
    pub fn since(&self, mark: &Mark) -> Option<Vec<Arc<Arrival>>> {
        let log = self.log();
        let came = usize::try_from(log.next - mark.next).ok()?;
        let old = log.kept.len().checked_sub(came)?;
        Some(mark.under_way.iter().chain(log.kept.range(old..)).cloned().collect())
    }

    /// Whether none has begun or ended since a moment.
    pub fn quiet_since(&self, mark: &Mark) -> bool {
        let log = self.log();
        log.next == mark.next && log.under_way.len() == mark.under_way.len()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::time;

    fn arrival(value: usize) -> Arrival {
        let changes = vec![Change::put("cf", "p", vec![0; value])];
        let hint = RowChange { table: time::TABLE, row: Bytes::from_static(b"k"), changes };
        Arrival::new(FileId::random(), None, false, &[hint])
    }

    #[test]
    fn what_is_too_much_to_be_kept_is_not_taken_for_nothing() {
        let arrivals = Arrivals::default();
        let before = arrivals.mark();
        for came in 1..=3 {
            arrivals.begin(Arc::new(arrival(1 << 20)));
            assert_eq!(arrivals.since(&before).map(|all| all.len()), Some(came));
        }
        arrivals.begin(Arc::new(arrival(1 << 20)));
        assert!(arrivals.since(&before).is_none());
        let now = arrivals.mark();
        assert_eq!(arrivals.since(&now).map(|all| all.len()), Some(4), "all of them are under way");
        arrivals.begin(Arc::new(arrival(1)));
        assert_eq!(arrivals.since(&now).map(|all| all.len()), Some(5));
        arrivals.begin(Arc::new(arrival(KEPT)));
        assert!(arrivals.since(&now).is_none(), "one that is larger than all that is kept");
    }

    #[tokio::test]
    async fn what_may_yet_happen_stays_under_way() {
        let arrivals = Arrivals::default();
        for outcome in [
            Ok(Outcome::Committed),
            Err(StoreError::Failed("so".to_owned())),
            Err(StoreError::Unknown { cause: "so".to_owned(), full: false }),
        ] {
            let known = !matches!(outcome, Err(StoreError::Unknown { .. }));
            let _ = arrivals.counted(arrival(1), async { outcome }).await;
            assert_eq!(arrivals.since(&arrivals.mark()).map(|all| all.is_empty()), Some(known));
        }
    }
}
