//! Conditional changes of many single rows: in one plan while all their checks hold, else each row in a plan of its own.
//!
//! The rows share a plan only to share a sync. No reader relies on their common instant, so splitting the plan is safe.

use crate::drive::error::Result;
use crate::drive::namespace::Namespace;
use crate::table::{Change, ConditionalRow, Outcome, Plan, Refusal};

/// Rows that are changed together only to share a sync.
pub struct RowBatch<'a> {
    ns: &'a Namespace,
    /// See [`Plan::reserve`].
    reserve: bool,
    rows: Vec<ConditionalRow>,
    changes: usize,
    bytes: usize,
}

impl<'a> RowBatch<'a> {
    pub fn new(ns: &'a Namespace) -> Self {
        Self { ns, reserve: false, rows: Vec::new(), changes: 0, bytes: 0 }
    }

    pub fn with_reserve(ns: &'a Namespace, reserve: bool) -> Self {
        Self { reserve, ..Self::new(ns) }
    }

    pub fn add(&mut self, row: ConditionalRow) {
        self.changes += row.changes.len();
        self.bytes += row.row.len() + row.changes.iter().map(Change::bytes).sum::<usize>();
        self.rows.push(row);
    }

    pub fn is_full(&self) -> bool {
        let limits = &self.ns.limits;
        self.rows.len() >= limits.batch_rows || self.changes >= limits.batch_changes || self.bytes >= limits.batch_bytes
    }

    /// Commits the rows. Returns those that were refused; all others are changed.
    pub async fn commit(&mut self) -> Result<Vec<(ConditionalRow, Refusal)>> {
        let (ns, reserve) = (self.ns, self.reserve);
        let Self { rows, .. } = std::mem::replace(self, Self::with_reserve(ns, reserve));
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let all = Plan { guarded: rows.clone(), reserve, ..Plan::default() };
        if ns.tables.commit(all).await? == Outcome::Committed {
            return Ok(Vec::new());
        }
        let mut refused = Vec::new();
        for row in rows {
            let one = Plan { guarded: vec![row.clone()], reserve, ..Plan::default() };
            if let Outcome::Refused(refusal) = ns.tables.commit(one).await? {
                refused.push((row, refusal));
            }
        }
        Ok(refused)
    }
}
