//! Guarded changes of many single rows: together as long as all their checks hold, else each alone.

use crate::drive::{Drive, Result};
use crate::table::{Change, Guarded, Outcome, Plan, Refusal};

/// Rows of a plan.
const ROWS: usize = 100;
/// Changes, and bytes of keys and values, of a plan: what the commit thread is held for.
const CHANGES: usize = 2_000;
const BYTES: usize = 512 << 10;

/// Changes that belong together only because they share a sync.
#[derive(Default)]
pub(super) struct Batch {
    /// See [`Plan::reserve`].
    reserve: bool,
    rows: Vec<Guarded>,
    changes: usize,
    bytes: usize,
}

impl Batch {
    pub fn with_reserve(reserve: bool) -> Self {
        Self { reserve, ..Self::default() }
    }

    pub fn add(&mut self, row: Guarded) {
        self.changes += row.changes.len();
        self.bytes += row.row.len() + row.changes.iter().map(size).sum::<usize>();
        self.rows.push(row);
    }

    pub fn is_full(&self) -> bool {
        self.rows.len() >= ROWS || self.changes >= CHANGES || self.bytes >= BYTES
    }

    /// Commits what was added. Rows that were refused are told; the others are changed.
    pub async fn commit(&mut self, drive: &Drive) -> Result<Vec<(Guarded, Refusal)>> {
        let reserve = self.reserve;
        let Self { rows, .. } = std::mem::replace(self, Self::with_reserve(reserve));
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let all = Plan { guarded: rows.clone(), reserve, ..Plan::default() };
        if drive.inner.tables.commit(all).await? == Outcome::Committed {
            return Ok(Vec::new());
        }
        let mut refused = Vec::new();
        for row in rows {
            let one = Plan { guarded: vec![row.clone()], reserve, ..Plan::default() };
            if let Outcome::Refused(refusal) = drive.inner.tables.commit(one).await? {
                refused.push((row, refusal));
            }
        }
        Ok(refused)
    }
}

fn size(change: &Change) -> usize {
    match change {
        Change::Put { qualifier, value, .. } => qualifier.len() + value.len(),
        Change::Delete { qualifier, .. } => qualifier.len(),
        Change::DeleteFamily { .. } => 0,
    }
}
