//! Guarded changes of many single rows: together as long as all their checks hold, else each alone.

use crate::drive::{Drive, Result};
use crate::table::{Change, Guarded, Outcome, Plan, Refusal};

/// Changes that belong together only because they share a sync.
pub(super) struct Batch<'a> {
    drive: &'a Drive,
    /// See [`Plan::reserve`].
    reserve: bool,
    rows: Vec<Guarded>,
    changes: usize,
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub fn new(drive: &'a Drive) -> Self {
        Self { drive, reserve: false, rows: Vec::new(), changes: 0, bytes: 0 }
    }

    pub fn with_reserve(drive: &'a Drive, reserve: bool) -> Self {
        Self { reserve, ..Self::new(drive) }
    }

    pub fn add(&mut self, row: Guarded) {
        self.changes += row.changes.len();
        self.bytes += row.row.len() + row.changes.iter().map(size).sum::<usize>();
        self.rows.push(row);
    }

    pub fn is_full(&self) -> bool {
        let limits = self.drive.limits();
        self.rows.len() >= limits.batch_rows || self.changes >= limits.batch_changes || self.bytes >= limits.batch_bytes
    }

    /// Commits what was added. Rows that were refused are told; the others are changed.
    pub async fn commit(&mut self) -> Result<Vec<(Guarded, Refusal)>> {
        let (drive, reserve) = (self.drive, self.reserve);
        let Self { rows, .. } = std::mem::replace(self, Self::with_reserve(drive, reserve));
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
