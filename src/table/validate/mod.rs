//! Validates queries and plans: sizes, names, and what the key lifecycle of a table permits.
//!
//! [`Tables`](super::Tables) validates before it calls an engine, so that every engine may rely on it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use super::limits::{
    CELL_BYTES, GUARDED_ROWS, PAGE_CELLS, PLAN_BYTES, QUALIFIER_BYTES, ROW_KEY_BYTES, UNCHANGED_CELLS,
};
use super::plan::{Change, Check, ConditionalRow, Plan, RowChange};
use super::row::{PageQuery, RowQuery, ScanQuery};
use super::spec::{KeyLifecycle, TableSpec};

/// The rule that a query, a plan or a spec violates.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleViolation {
    /// No table of this name was created through the handle.
    #[error("there is no table {0}")]
    NoTable(String),
    /// The table (first) has no such family (second).
    #[error("table {0} has no family {1}")]
    NoFamily(String, String),
    /// A limit of [`super::limits`] is exceeded.
    #[error("{what} of {len} is over the limit of {limit}")]
    Limit {
        /// What was measured.
        what: &'static str,
        /// Its size.
        len: usize,
        /// The largest size allowed.
        limit: usize,
    },
    /// Something that must not be empty is.
    #[error("{what} is empty")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// The table's [`KeyLifecycle`] does not allow the change.
    #[error("table {table}: {rule}")]
    Lifecycle {
        /// The table.
        table: String,
        /// What it allows.
        rule: &'static str,
    },
    /// A plan names a row of this table twice.
    #[error("table {0}: a plan names a row twice")]
    RowTwice(String),
    /// A plan names a cell of this immutable table twice.
    #[error("table {0}: a plan names a cell twice, by itself or with its family")]
    CellTwice(String),
    /// A plan adds to a cell of this table outside `guarded`, or another change of the row names the cell.
    #[error("table {0}: only a guarded row adds to a counter, and none of its other changes names the cell")]
    Counter(String),
    /// The spec of a table (first) is not valid (second).
    #[error("table {0}: {1}")]
    Spec(String, &'static str),
}

type Validity = Result<(), RuleViolation>;

fn limit(what: &'static str, len: usize, limit: usize) -> Validity {
    if len > limit { Err(RuleViolation::Limit { what, len, limit }) } else { Ok(()) }
}

/// The tables that were created through one handle.
#[derive(Default)]
pub struct Catalog {
    tables: RwLock<HashMap<String, Arc<TableSpec>>>,
}

impl Catalog {
    /// Adds a table that the engine has created.
    pub fn add(&self, spec: &TableSpec) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(spec.name.clone(), Arc::new(spec.clone()));
    }

    fn table(&self, name: &str) -> Result<Arc<TableSpec>, RuleViolation> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(name).cloned().ok_or_else(|| RuleViolation::NoTable(name.to_owned()))
    }

    /// Checks the names, and that the table has families, each once.
    pub fn validate_spec(&self, spec: &TableSpec) -> Validity {
        let named = |s: &str| {
            !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        };
        let mut seen = HashSet::new();
        if !named(&spec.name) || !spec.families.iter().all(|f| named(&f.name)) {
            return Err(RuleViolation::Spec(spec.name.clone(), "names of tables and families are a-z, 0-9, _ and -"));
        }
        if spec.families.is_empty() || !spec.families.iter().all(|f| seen.insert(&f.name)) {
            return Err(RuleViolation::Spec(spec.name.clone(), "a table has families, each named once"));
        }
        Ok(())
    }

    /// Checks sizes and names.
    pub fn validate_row_query(&self, table: &str, row: &[u8], query: &RowQuery) -> Validity {
        let spec = self.table(table)?;
        validate_row_key(row)?;
        validate_cells(&spec, query)
    }

    /// Checks sizes and names.
    pub fn validate_page_query(&self, query: &PageQuery) -> Validity {
        let spec = self.table(query.table)?;
        validate_row_key(&query.row)?;
        family(&spec, query.family)?;
        limit("unchanged cells", query.unchanged.len(), UNCHANGED_CELLS)?;
        limit("page", query.limit, PAGE_CELLS)?;
        query.unchanged.iter().try_for_each(|c| validate_column(&spec, c.family, &c.qualifier))
    }

    /// Checks sizes and names.
    pub fn validate_scan_query(&self, query: &ScanQuery) -> Validity {
        let spec = self.table(query.table)?;
        limit("scan", query.limit, PAGE_CELLS)?;
        validate_cells(&spec, &query.row_query)
    }

    /// Checks sizes, names, the key lifecycle of every table, and that no row is named twice.
    pub fn validate_plan(&self, plan: &Plan) -> Validity {
        limit("plan", plan.bytes(), PLAN_BYTES)?;
        limit("guarded rows", plan.guarded.len(), GUARDED_ROWS)?;
        let mut named = NamedCells::default();
        for row in &plan.prepare {
            self.validate_row_change(row, PlanPart::Prepare, &mut named)?;
        }
        for row in &plan.guarded {
            self.validate_conditional_row(row, &mut named)?;
        }
        for row in &plan.finish {
            self.validate_row_change(row, PlanPart::Finish, &mut named)?;
        }
        Ok(())
    }

    fn validate_row_change<'a>(&self, row: &'a RowChange, part: PlanPart, named: &mut NamedCells<'a>) -> Validity {
        let spec = self.table(row.table)?;
        validate_row_key(&row.row)?;
        if row.changes.is_empty() {
            return Err(RuleViolation::Empty { what: "a row without checks or changes" });
        }
        named.add(&spec, row.table, &row.row, &row.changes)?;
        row.changes.iter().try_for_each(|c| validate_change(&spec, c))?;
        if row.changes.iter().any(|change| matches!(change, Change::Add { .. })) {
            return Err(RuleViolation::Counter(row.table.to_owned()));
        }
        let puts = row.changes.iter().all(Change::is_put);
        let deletes = !row.changes.iter().any(Change::is_put);
        let rule = match (spec.lifecycle, part) {
            (KeyLifecycle::Reusable, _) => "its rows are changed in guarded only",
            (KeyLifecycle::UniqueId | KeyLifecycle::Immutable, PlanPart::Prepare) if puts => return Ok(()),
            (KeyLifecycle::UniqueId | KeyLifecycle::Immutable | KeyLifecycle::ImmutableLate, PlanPart::Finish)
                if deletes =>
            {
                return Ok(());
            }
            (KeyLifecycle::ImmutableLate, PlanPart::Finish) if puts => return Ok(()),
            (KeyLifecycle::ImmutableLate, PlanPart::Finish) => "cells are made and removed apart",
            (KeyLifecycle::ImmutableLate, PlanPart::Prepare) => "its cells are made in finish",
            (_, PlanPart::Prepare) => "prepare makes rows and removes nothing",
            (_, PlanPart::Finish) => "finish removes rows and makes nothing",
        };
        Err(RuleViolation::Lifecycle { table: row.table.to_owned(), rule })
    }

    fn validate_conditional_row<'a>(&self, row: &'a ConditionalRow, named: &mut NamedCells<'a>) -> Validity {
        let spec = self.table(row.table)?;
        validate_row_key(&row.row)?;
        if row.checks.is_empty() {
            return Err(RuleViolation::Empty { what: "a guarded row's list of checks" });
        }
        named.add(&spec, row.table, &row.row, &row.changes)?;
        row.changes.iter().try_for_each(|c| validate_change(&spec, c))?;
        if !additions_are_alone(&row.changes) {
            return Err(RuleViolation::Counter(row.table.to_owned()));
        }
        row.checks.iter().try_for_each(|c| validate_check(&spec, c))?;
        let finds = row.checks.iter().any(|c| matches!(c, Check::Equals(..)));
        let absent = row.checks.iter().any(|c| matches!(c, Check::Absent(_)));
        let puts = row.changes.iter().all(Change::is_put);
        let rule = match spec.lifecycle {
            KeyLifecycle::Reusable => return Ok(()),
            KeyLifecycle::UniqueId if finds || (absent && puts) || row.changes.is_empty() => return Ok(()),
            KeyLifecycle::UniqueId => "a change needs a check that finds the row",
            KeyLifecycle::Immutable | KeyLifecycle::ImmutableLate => "its cells are never guarded",
        };
        Err(RuleViolation::Lifecycle { table: row.table.to_owned(), rule })
    }
}

/// The parts of a plan whose rows have no checks.
#[derive(Clone, Copy)]
enum PlanPart {
    Prepare,
    Finish,
}

/// The rows, and of immutable tables the families and cells, that a plan has named so far.
#[derive(Default)]
struct NamedCells<'a> {
    rows: HashSet<(&'static str, &'a [u8])>,
    /// The value: whether the plan removes all of the family.
    families: HashMap<Family<'a>, bool>,
    cells: HashSet<(Family<'a>, &'a [u8])>,
}

/// A table, a row and a family.
type Family<'a> = (&'static str, &'a [u8], &'static str);

impl<'a> NamedCells<'a> {
    fn add(&mut self, spec: &TableSpec, table: &'static str, row: &'a [u8], changes: &'a [Change]) -> Validity {
        if !matches!(spec.lifecycle, KeyLifecycle::Immutable | KeyLifecycle::ImmutableLate) {
            let fresh = self.rows.insert((table, row));
            return if fresh { Ok(()) } else { Err(RuleViolation::RowTwice(table.to_owned())) };
        }
        let fresh = changes.iter().all(|change| {
            let family = (table, row, change.family());
            match change.qualifier() {
                Some(qualifier) => {
                    !*self.families.entry(family).or_insert(false) && self.cells.insert((family, qualifier))
                }
                None => self.families.insert(family, true).is_none(),
            }
        });
        if fresh { Ok(()) } else { Err(RuleViolation::CellTwice(table.to_owned())) }
    }
}

fn family(spec: &TableSpec, name: &str) -> Validity {
    match spec.family(name) {
        Some(_) => Ok(()),
        None => Err(RuleViolation::NoFamily(spec.name.clone(), name.to_owned())),
    }
}

fn validate_row_key(row: &[u8]) -> Validity {
    if row.is_empty() {
        return Err(RuleViolation::Empty { what: "a row key" });
    }
    limit("row key", row.len(), ROW_KEY_BYTES)
}

fn validate_column(spec: &TableSpec, name: &str, qualifier: &[u8]) -> Validity {
    family(spec, name)?;
    if qualifier.is_empty() {
        return Err(RuleViolation::Empty { what: "a qualifier" });
    }
    limit("qualifier", qualifier.len(), QUALIFIER_BYTES)
}

/// HBase reads an empty expected value as "absent", so no cell has an empty value and no check expects one.
fn validate_value(value: &[u8]) -> Validity {
    if value.is_empty() {
        return Err(RuleViolation::Empty { what: "a cell's value" });
    }
    limit("cell", value.len(), CELL_BYTES)
}

fn validate_cells(spec: &TableSpec, query: &RowQuery) -> Validity {
    if query.cells.is_empty() && query.families.is_empty() {
        return Err(RuleViolation::Empty { what: "what to read" });
    }
    limit("queried cells", query.cells.len(), PAGE_CELLS)?;
    query.families.iter().try_for_each(|f| family(spec, f))?;
    query.cells.iter().try_for_each(|c| validate_column(spec, c.family, &c.qualifier))
}

fn validate_check(spec: &TableSpec, check: &Check) -> Validity {
    match check {
        Check::Absent(column) | Check::AtMost(column, _) => validate_column(spec, column.family, &column.qualifier),
        Check::Equals(column, value) => {
            validate_column(spec, column.family, &column.qualifier)?;
            validate_value(value)
        }
        Check::FamilyEmpty(name) => family(spec, name),
    }
}

/// Whether each cell that is added to is named by one change only, itself or with its family. So an engine may compute
/// all sums of a plan before its first change.
fn additions_are_alone(changes: &[Change]) -> bool {
    let (mut counters, mut families) = (HashSet::new(), HashSet::new());
    for change in changes {
        if let Change::Add { family, qualifier, .. } = change {
            families.insert(*family);
            if !counters.insert((*family, qualifier)) {
                return false;
            }
        }
    }
    changes.iter().all(|change| match change {
        Change::Add { .. } => true,
        Change::Put { family, qualifier, .. } | Change::Delete { family, qualifier } => {
            !counters.contains(&(*family, qualifier))
        }
        Change::DeleteFamily { family } => !families.contains(family),
    })
}

fn validate_change(spec: &TableSpec, change: &Change) -> Validity {
    match change {
        Change::Put { family, qualifier, value } => {
            validate_column(spec, family, qualifier)?;
            validate_value(value)
        }
        Change::Delete { family, qualifier } | Change::Add { family, qualifier, .. } => {
            validate_column(spec, family, qualifier)
        }
        Change::DeleteFamily { family: name } => family(spec, name),
    }
}

#[cfg(test)]
mod tests;
