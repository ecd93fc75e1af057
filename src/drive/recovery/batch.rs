//! Conditional changes of many single rows: in one plan while all their checks hold, else each row in a plan of its own.
//!
//! The rows share a plan only to share a sync. No reader relies on their common instant, so splitting the plan is safe.

use crate::drive::error::Result;
use crate::drive::namespace::Namespace;
use crate::schema::usage::UsageChange;
use crate::table::{Change, ConditionalRow, Outcome, Plan, Refusal};

/// Rows that are changed together only to share a sync.
pub struct RowBatch<'a> {
    ns: &'a Namespace,
    /// See [`Plan::reserve`].
    reserve: bool,
    rows: Vec<(ConditionalRow, UsageChange)>,
    /// What all rows change of the usage of creators.
    usage: UsageChange,
    changes: usize,
    bytes: usize,
}

impl<'a> RowBatch<'a> {
    pub fn new(ns: &'a Namespace) -> Self {
        Self { ns, reserve: false, rows: Vec::new(), usage: UsageChange::default(), changes: 0, bytes: 0 }
    }

    pub fn with_reserve(ns: &'a Namespace, reserve: bool) -> Self {
        Self { reserve, ..Self::new(ns) }
    }

    pub fn add(&mut self, row: ConditionalRow) {
        self.add_counted(row, UsageChange::default());
    }

    /// Adds a row whose change is counted in the same plan. Its checks must fail once it has changed.
    pub fn add_counted(&mut self, row: ConditionalRow, usage: UsageChange) {
        self.changes += row.changes.len();
        self.bytes += row.row.len() + row.changes.iter().map(Change::bytes).sum::<usize>();
        self.usage.merge(&usage);
        self.rows.push((row, usage));
    }

    pub fn is_full(&self) -> bool {
        let limits = &self.ns.limits;
        self.rows.len() + self.usage.creators() >= limits.batch_rows
            || self.changes >= limits.batch_changes
            || self.bytes >= limits.batch_bytes
    }

    /// Commits the rows. Returns those that were refused; all others are changed.
    pub async fn commit(&mut self) -> Result<Vec<(ConditionalRow, Refusal)>> {
        let (ns, reserve) = (self.ns, self.reserve);
        let Self { rows, usage, .. } = std::mem::replace(self, Self::with_reserve(ns, reserve));
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let plan = |rows: Vec<ConditionalRow>, usage: &UsageChange| {
            let guarded = rows.into_iter().chain(usage.rows(None)).collect();
            Plan { guarded, reserve, ..Plan::default() }
        };
        let all = rows.iter().map(|(row, _)| row.clone()).collect();
        if ns.tables.commit(plan(all, &usage)).await? == Outcome::Committed {
            return Ok(Vec::new());
        }
        let mut refused = Vec::new();
        for (row, usage) in rows {
            if let Outcome::Refused(refusal) = ns.tables.commit(plan(vec![row.clone()], &usage)).await? {
                refused.push((row, refusal));
            }
        }
        Ok(refused)
    }
}
