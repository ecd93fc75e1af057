//! Which plans and reads are allowed at all: sizes, names, and what the class of a table permits.
//!
//! Everything here is checked before an engine is asked, so that every engine may rely on it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use super::plan::{Change, Check, Guarded, Plan, RowChange};
use super::row::{Ask, PageAsk, ScanAsk};
use super::spec::{Class, TableSpec};

/// Bytes of a row key.
pub const ROW_KEY: usize = 8 << 10;
/// Bytes of a qualifier.
pub const QUALIFIER: usize = 1 << 10;
/// Bytes of a cell's value.
pub const CELL: usize = 1 << 20;
/// Cells of a page, of a family read whole, and rows of a scan.
pub const PAGE_CELLS: usize = 10_001;
/// Bytes of a plan.
pub const PLAN: usize = 4 << 20;
/// Guarded rows of a plan: 128 levels, and a source and a row of its own.
pub const GUARDED_ROWS: usize = 130;
/// Fence cells of a page.
pub const FENCE: usize = 4;

/// The rule that a question or plan breaks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("there is no table {0}")]
    NoTable(String),
    #[error("table {0} has no family {1}")]
    NoFamily(String, String),
    #[error("{what} of {len} is over the limit of {limit}")]
    Limit { what: &'static str, len: usize, limit: usize },
    #[error("{what} is empty")]
    Empty { what: &'static str },
    #[error("table {table}: {rule}")]
    Class { table: String, rule: &'static str },
    #[error("table {0}: a plan names a row twice")]
    RowTwice(String),
    #[error("table {0}: a plan names a cell twice, by itself or with its family")]
    CellTwice(String),
    #[error("table {0}: {1}")]
    Spec(String, &'static str),
}

type Checked = Result<(), Broken>;

fn limit(what: &'static str, len: usize, limit: usize) -> Checked {
    if len > limit { Err(Broken::Limit { what, len, limit }) } else { Ok(()) }
}

/// The tables that were created through one handle.
#[derive(Default)]
pub struct Catalog {
    tables: RwLock<HashMap<String, Arc<TableSpec>>>,
}

impl Catalog {
    pub fn add(&self, spec: &TableSpec) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(spec.name.clone(), Arc::new(spec.clone()));
    }

    fn table(&self, name: &str) -> Result<Arc<TableSpec>, Broken> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(name).cloned().ok_or_else(|| Broken::NoTable(name.to_owned()))
    }

    pub fn check_spec(&self, spec: &TableSpec) -> Checked {
        let named = |s: &str| {
            !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        };
        let mut seen = HashSet::new();
        if !named(&spec.name) || !spec.families.iter().all(|f| named(&f.name)) {
            return Err(Broken::Spec(spec.name.clone(), "names of tables and families are a-z, 0-9, _ and -"));
        }
        if spec.families.is_empty() || !spec.families.iter().all(|f| seen.insert(&f.name)) {
            return Err(Broken::Spec(spec.name.clone(), "a table has families, each named once"));
        }
        Ok(())
    }

    pub fn check_ask(&self, table: &str, row: &[u8], ask: &Ask) -> Checked {
        let spec = self.table(table)?;
        check_row_key(row)?;
        check_cells(&spec, ask)
    }

    pub fn check_page(&self, ask: &PageAsk) -> Checked {
        let spec = self.table(ask.table)?;
        check_row_key(&ask.row)?;
        family(&spec, ask.family)?;
        limit("fence cells", ask.fence.len(), FENCE)?;
        limit("page", ask.limit, PAGE_CELLS)?;
        ask.fence.iter().try_for_each(|c| check_column(&spec, c.family, &c.qualifier))
    }

    pub fn check_scan(&self, ask: &ScanAsk) -> Checked {
        let spec = self.table(ask.table)?;
        limit("scan", ask.limit, PAGE_CELLS)?;
        check_cells(&spec, &ask.ask)
    }

    /// Checks sizes, names, the class of every table, and that no row is named twice.
    pub fn check_plan(&self, plan: &Plan) -> Checked {
        limit("plan", plan.bytes(), PLAN)?;
        limit("guarded rows", plan.guarded.len(), GUARDED_ROWS)?;
        let mut named = Named::default();
        for row in &plan.prepare {
            self.check_row_change(row, Part::Prepare, &mut named)?;
        }
        for row in &plan.guarded {
            self.check_guarded(row, &mut named)?;
        }
        for row in &plan.finish {
            self.check_row_change(row, Part::Finish, &mut named)?;
        }
        Ok(())
    }

    fn check_row_change<'a>(&self, row: &'a RowChange, part: Part, named: &mut Named<'a>) -> Checked {
        let spec = self.table(row.table)?;
        check_row_key(&row.row)?;
        if row.changes.is_empty() {
            return Err(Broken::Empty { what: "a row without checks or changes" });
        }
        named.add(&spec, row.table, &row.row, &row.changes)?;
        row.changes.iter().try_for_each(|c| check_change(&spec, c))?;
        let puts = row.changes.iter().all(Change::is_put);
        let deletes = !row.changes.iter().any(Change::is_put);
        let rule = match (spec.class, part) {
            (Class::RowsReturn, _) => "its rows are changed in guarded only",
            (Class::MadeOnce | Class::WriteOnce, Part::Prepare) if puts => return Ok(()),
            (Class::MadeOnce | Class::WriteOnce | Class::WriteOnceLate, Part::Finish) if deletes => return Ok(()),
            (Class::WriteOnceLate, Part::Finish) if puts => return Ok(()),
            (Class::WriteOnceLate, Part::Finish) => "cells are made and removed apart",
            (Class::WriteOnceLate, Part::Prepare) => "its cells are made in finish",
            (_, Part::Prepare) => "prepare makes rows and removes nothing",
            (_, Part::Finish) => "finish removes rows and makes nothing",
        };
        Err(Broken::Class { table: row.table.to_owned(), rule })
    }

    fn check_guarded<'a>(&self, row: &'a Guarded, named: &mut Named<'a>) -> Checked {
        let spec = self.table(row.table)?;
        check_row_key(&row.row)?;
        if row.checks.is_empty() {
            return Err(Broken::Empty { what: "a guarded row's list of checks" });
        }
        named.add(&spec, row.table, &row.row, &row.changes)?;
        row.changes.iter().try_for_each(|c| check_change(&spec, c))?;
        for check in &row.checks {
            match check {
                Check::Absent(column) => check_column(&spec, column.family, &column.qualifier)?,
                Check::Equals(column, value) => {
                    check_column(&spec, column.family, &column.qualifier)?;
                    check_value(value)?;
                }
                Check::FamilyEmpty(name) => family(&spec, name)?,
            }
        }
        let finds = row.checks.iter().any(|c| matches!(c, Check::Equals(..)));
        let absent = row.checks.iter().any(|c| matches!(c, Check::Absent(_)));
        let puts = row.changes.iter().all(Change::is_put);
        let rule = match spec.class {
            Class::RowsReturn => return Ok(()),
            Class::MadeOnce if finds || (absent && puts) || row.changes.is_empty() => return Ok(()),
            Class::MadeOnce => "a change needs a check that finds the row",
            Class::WriteOnce | Class::WriteOnceLate => "its cells are never guarded",
        };
        Err(Broken::Class { table: row.table.to_owned(), rule })
    }
}

#[derive(Clone, Copy)]
enum Part {
    Prepare,
    Finish,
}

/// The rows, and of write-once tables the families and cells, that a plan has named so far.
#[derive(Default)]
struct Named<'a> {
    rows: HashSet<(&'static str, &'a [u8])>,
    /// And whether the plan removes all of the family.
    families: HashMap<Family<'a>, bool>,
    cells: HashSet<(Family<'a>, &'a [u8])>,
}

/// A table, a row and a family.
type Family<'a> = (&'static str, &'a [u8], &'static str);

impl<'a> Named<'a> {
    fn add(&mut self, spec: &TableSpec, table: &'static str, row: &'a [u8], changes: &'a [Change]) -> Checked {
        if !matches!(spec.class, Class::WriteOnce | Class::WriteOnceLate) {
            let fresh = self.rows.insert((table, row));
            return if fresh { Ok(()) } else { Err(Broken::RowTwice(table.to_owned())) };
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
        if fresh { Ok(()) } else { Err(Broken::CellTwice(table.to_owned())) }
    }
}

fn family(spec: &TableSpec, name: &str) -> Checked {
    match spec.family(name) {
        Some(_) => Ok(()),
        None => Err(Broken::NoFamily(spec.name.clone(), name.to_owned())),
    }
}

fn check_row_key(row: &[u8]) -> Checked {
    if row.is_empty() {
        return Err(Broken::Empty { what: "a row key" });
    }
    limit("row key", row.len(), ROW_KEY)
}

fn check_column(spec: &TableSpec, name: &str, qualifier: &[u8]) -> Checked {
    family(spec, name)?;
    if qualifier.is_empty() {
        return Err(Broken::Empty { what: "a qualifier" });
    }
    limit("qualifier", qualifier.len(), QUALIFIER)
}

/// HBase takes an empty expected value for "absent", so no cell holds one and no check expects one.
fn check_value(value: &[u8]) -> Checked {
    if value.is_empty() {
        return Err(Broken::Empty { what: "a cell's value" });
    }
    limit("cell", value.len(), CELL)
}

fn check_cells(spec: &TableSpec, ask: &Ask) -> Checked {
    if ask.cells.is_empty() && ask.families.is_empty() {
        return Err(Broken::Empty { what: "what to read" });
    }
    limit("cells asked for", ask.cells.len(), PAGE_CELLS)?;
    ask.families.iter().try_for_each(|f| family(spec, f))?;
    ask.cells.iter().try_for_each(|c| check_column(spec, c.family, &c.qualifier))
}

fn check_change(spec: &TableSpec, change: &Change) -> Checked {
    match change {
        Change::Put { family, qualifier, value } => {
            check_column(spec, family, qualifier)?;
            check_value(value)
        }
        Change::Delete { family, qualifier } => check_column(spec, family, qualifier),
        Change::DeleteFamily { family: name } => family(spec, name),
    }
}

#[cfg(test)]
mod tests;
