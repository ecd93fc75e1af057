//! What is written: a plan, the one write there is.

use bytes::Bytes;

use super::row::{Column, RowKey};

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put { family: &'static str, qualifier: Bytes, value: Bytes },
    Delete { family: &'static str, qualifier: Bytes },
    DeleteFamily { family: &'static str },
}

impl Change {
    pub fn put(family: &'static str, qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put { family, qualifier: qualifier.into(), value: value.into() }
    }

    pub fn delete(family: &'static str, qualifier: impl Into<Bytes>) -> Self {
        Self::Delete { family, qualifier: qualifier.into() }
    }

    pub fn family(&self) -> &'static str {
        match self {
            Self::Put { family, .. } | Self::Delete { family, .. } | Self::DeleteFamily { family } => family,
        }
    }

    pub fn qualifier(&self) -> Option<&Bytes> {
        match self {
            Self::Put { qualifier, .. } | Self::Delete { qualifier, .. } => Some(qualifier),
            Self::DeleteFamily { .. } => None,
        }
    }

    pub fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. })
    }
}

/// What must hold of a guarded row's own cells at the instant of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Absent(Column),
    Equals(Column, Bytes),
    FamilyEmpty(&'static str),
}

/// Changes of one row, in `prepare` or `finish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    pub table: &'static str,
    pub row: RowKey,
    pub changes: Vec<Change>,
}

/// A row with its checks and changes. A row that is only checked has no changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub table: &'static str,
    pub row: RowKey,
    pub checks: Vec<Check>,
    pub changes: Vec<Change>,
}

/// The one write of a store.
///
/// - `prepare`: rows that are harmless alone, since nothing links to them yet;
/// - `guarded`: all checks hold and all changes happen **at one instant**, or none do: the commit point;
/// - `finish`: clean-up that may happen later, or twice.
///
/// An engine writes `prepare` before the commit point and `finish` after it; an embedded engine writes all
/// three at once. A plan names a row once over all three parts; of a write-once row, a cell once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub prepare: Vec<RowChange>,
    pub guarded: Vec<Guarded>,
    pub finish: Vec<RowChange>,
    /// Whether it may use the room that an engine keeps in reserve: for what makes room, or puts things right.
    pub reserve: bool,
}

impl Plan {
    /// Bytes of keys, qualifiers and values, checks included.
    pub fn bytes(&self) -> usize {
        let change = |c: &Change| {
            c.qualifier().map_or(0, Bytes::len) + if let Change::Put { value, .. } = c { value.len() } else { 0 }
        };
        let check = |c: &Check| match c {
            Check::Absent(column) => column.qualifier.len(),
            Check::Equals(column, value) => column.qualifier.len() + value.len(),
            Check::FamilyEmpty(_) => 0,
        };
        let rows = self.prepare.iter().chain(&self.finish);
        rows.map(|r| r.row.len() + r.changes.iter().map(change).sum::<usize>()).sum::<usize>()
            + self
                .guarded
                .iter()
                .map(|g| {
                    g.row.len()
                        + g.changes.iter().map(change).sum::<usize>()
                        + g.checks.iter().map(check).sum::<usize>()
                })
                .sum::<usize>()
    }

    /// Changes of all its rows.
    pub fn changes(&self) -> usize {
        let rows = self.prepare.iter().chain(&self.finish).map(|r| r.changes.len());
        rows.chain(self.guarded.iter().map(|g| g.changes.len())).sum()
    }

    /// Whether a full disk must refuse it: it stores something new, and may not use the reserve for that. What
    /// `finish` puts does not count: it records clean-up, and clean-up is how room is made.
    pub fn needs_room(&self) -> bool {
        let prepared = self.prepare.iter().flat_map(|r| &r.changes);
        !self.reserve && prepared.chain(self.guarded.iter().flat_map(|g| &g.changes)).any(Change::is_put)
    }
}

/// What became of a plan whose fate is known. A fate that is not known is
/// [`StoreError::Unknown`](super::StoreError::Unknown).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every change happened and is durable.
    Committed,
    /// A check did not hold: no guarded row changed. Rows of `prepare` may have been written: commit the
    /// same ones again, byte for byte, or remove them by a plan of `finish` alone.
    Refused(Refusal),
}

/// The first check that did not hold, in the order of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub table: &'static str,
    pub row: RowKey,
    pub check: Check,
    /// What the checked cell held instead (nothing for `FamilyEmpty`).
    pub current: Option<Bytes>,
}
