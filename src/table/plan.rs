//! Writes: a plan is the only way to write to a store.

use bytes::Bytes;

use super::row::{Column, RowKey};

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates or replaces a cell.
    Put {
        /// The column family.
        family: &'static str,
        /// The name of the cell within the family.
        qualifier: Bytes,
        /// Not empty.
        value: Bytes,
    },
    /// Removes a cell, if it exists.
    Delete {
        /// The column family.
        family: &'static str,
        /// The name of the cell within the family.
        qualifier: Bytes,
    },
    /// Removes all cells of a family.
    DeleteFamily {
        /// The column family.
        family: &'static str,
    },
    /// Adds to a [counter](super::counter), and creates it if it is missing. Only in `guarded`, and no other change of
    /// the row names this cell.
    Add {
        /// The column family.
        family: &'static str,
        /// The name of the cell within the family.
        qualifier: Bytes,
        /// May be negative.
        amount: i64,
    },
}

impl Change {
    /// A [`Change::Put`].
    pub fn put(family: &'static str, qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put { family, qualifier: qualifier.into(), value: value.into() }
    }

    /// A [`Change::Delete`].
    pub fn delete(family: &'static str, qualifier: impl Into<Bytes>) -> Self {
        Self::Delete { family, qualifier: qualifier.into() }
    }

    /// A [`Change::Add`].
    pub fn add(family: &'static str, qualifier: impl Into<Bytes>, amount: i64) -> Self {
        Self::Add { family, qualifier: qualifier.into(), amount }
    }

    /// The family it changes.
    pub fn family(&self) -> &'static str {
        match self {
            Self::Put { family, .. }
            | Self::Delete { family, .. }
            | Self::DeleteFamily { family }
            | Self::Add { family, .. } => family,
        }
    }

    /// The cell it changes; none if that is the whole family.
    pub fn qualifier(&self) -> Option<&Bytes> {
        match self {
            Self::Put { qualifier, .. } | Self::Delete { qualifier, .. } | Self::Add { qualifier, .. } => {
                Some(qualifier)
            }
            Self::DeleteFamily { .. } => None,
        }
    }

    /// Bytes of its qualifier and of what it stores.
    pub fn bytes(&self) -> usize {
        let stored = match self {
            Self::Put { value, .. } => value.len(),
            Self::Add { amount, .. } => size_of_val(amount),
            Self::Delete { .. } | Self::DeleteFamily { .. } => 0,
        };
        self.qualifier().map_or(0, Bytes::len) + stored
    }

    /// Whether it stores something. An addition does not count: a counter keeps its size, and a plan that frees space
    /// has to change counters on a full disk.
    pub fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. })
    }
}

/// A precondition on a conditional row's own cells, checked at the instant of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The cell does not exist.
    Absent(Column),
    /// The cell has this value.
    Equals(Column, Bytes),
    /// The family has no cells.
    FamilyEmpty(&'static str),
    /// The [counter](super::counter) in the cell is at most this. A missing cell counts as 0. Like every check, it sees
    /// no change of its own plan: see [`Check::fits`].
    AtMost(Column, i64),
}

impl Check {
    /// The [`Check::AtMost`] of a plan that adds `amount` to a counter. It holds if the sum after the addition is at
    /// most `limit`. The checks and additions of a plan are of one instant, so concurrent plans do not exceed the limit
    /// together.
    ///
    /// A plan that takes away needs no check. So it is committed even if the counter is above a limit that was lowered.
    pub fn fits(counter: Column, amount: i64, limit: i64) -> Self {
        Self::AtMost(counter, limit.saturating_sub(amount))
    }
}

/// Changes of one row without checks, in `prepare` or `finish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub row: RowKey,
    /// At least one.
    pub changes: Vec<Change>,
}

impl RowChange {
    /// The deletion of the cells that it puts.
    #[must_use]
    pub fn deletion(self) -> Self {
        let delete = |change| match change {
            Change::Put { family, qualifier, .. } => Change::Delete { family, qualifier },
            other => other,
        };
        Self { changes: self.changes.into_iter().map(delete).collect(), ..self }
    }
}

/// A row with its checks and changes, in `guarded`: HBase's `CheckAndMutate`. A row that is only checked has no
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalRow {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub row: RowKey,
    /// At least one.
    pub checks: Vec<Check>,
    /// Applied if all checks of all conditional rows of the plan hold.
    pub changes: Vec<Change>,
}

/// The only way to write to a store.
///
/// - `prepare`: rows that are harmless alone, since nothing links to them yet;
/// - `guarded`: all checks hold and all changes happen **atomically**, or none do: the commit point;
/// - `finish`: clean-up that may happen later, or twice.
///
/// An engine writes `prepare` before the commit point and `finish` after it; an embedded engine writes all three in one
/// batch. A plan may name a row only once in all three parts together. A row of a table with immutable rows may be
/// named more often, but each of its cells only once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Written before the commit point.
    pub prepare: Vec<RowChange>,
    /// The commit point.
    pub guarded: Vec<ConditionalRow>,
    /// Written after the commit point.
    pub finish: Vec<RowChange>,
    /// Whether it may use the disk space that an engine keeps in reserve: for plans that free space or repair
    /// something.
    pub reserve: bool,
}

impl Plan {
    /// Bytes of keys, qualifiers and values, checks included.
    pub fn bytes(&self) -> usize {
        let check = |c: &Check| match c {
            Check::Absent(column) => column.qualifier.len(),
            Check::Equals(column, value) => column.qualifier.len() + value.len(),
            Check::FamilyEmpty(_) => 0,
            Check::AtMost(column, limit) => column.qualifier.len() + size_of_val(limit),
        };
        let rows = self.prepare.iter().chain(&self.finish);
        rows.map(|r| r.row.len() + r.changes.iter().map(Change::bytes).sum::<usize>()).sum::<usize>()
            + self
                .guarded
                .iter()
                .map(|g| {
                    g.row.len()
                        + g.changes.iter().map(Change::bytes).sum::<usize>()
                        + g.checks.iter().map(check).sum::<usize>()
                })
                .sum::<usize>()
    }

    /// Number of changes over all its rows.
    pub fn changes(&self) -> usize {
        let rows = self.prepare.iter().chain(&self.finish).map(|r| r.changes.len());
        rows.chain(self.guarded.iter().map(|g| g.changes.len())).sum()
    }

    /// Whether an engine must refuse it when the disk is full: it stores something new, and may not use the reserve for
    /// that. Puts in `finish` do not count: they record clean-up, which frees space.
    pub fn needs_space(&self) -> bool {
        let prepared = self.prepare.iter().flat_map(|r| &r.changes);
        !self.reserve && prepared.chain(self.guarded.iter().flat_map(|g| &g.changes)).any(Change::is_put)
    }
}

/// The outcome of a plan. An unknown outcome is [`StoreError::Unknown`](super::StoreError::Unknown).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every change happened and is durable.
    Committed,
    /// A check did not hold: no conditional row changed. If rows of `prepare` [may remain](Refusal::prepared), commit
    /// the same ones again, byte for byte, or delete them with a plan of `finish` alone.
    Refused(Refusal),
}

/// The first check that did not hold, in the order of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The table.
    pub table: &'static str,
    /// The conditional row.
    pub row: RowKey,
    /// The check that did not hold.
    pub check: Check,
    /// The value that the checked cell has; none if the cell is absent, and for `FamilyEmpty`.
    pub current: Option<Bytes>,
    /// Whether rows of `prepare` may have been written. False from an engine that writes a plan as a whole.
    pub prepared: bool,
}
