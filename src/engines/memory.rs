//! The oracle of the tests: the simplest implementation of the store contract. Nothing survives the process.
//!
//! It shares only the types of `table` with the other engines, so that it does not repeat their misunderstandings of
//! the contract.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};

use crate::table::limits::PAGE_CELLS;
use crate::table::store::Result;
use crate::table::{
    Cell, Change, Check, Outcome, Page, PageQuery, Plan, Refusal, Row, RowKey, RowQuery, ScanQuery, Store, StoreError,
    TableSpec,
};

type Cells = BTreeMap<(String, Bytes), Bytes>;

#[derive(Clone, Default)]
struct MemoryState {
    specs: HashMap<String, TableSpec>,
    rows: HashMap<String, BTreeMap<RowKey, Cells>>,
}

/// A store in memory. Every call is one critical section, so it is easy to see that it keeps every promise of the
/// contract.
#[derive(Default)]
pub struct Memory {
    state: Mutex<MemoryState>,
}

/// A copy of the store: later changes of one do not affect the other.
impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { state: Mutex::new(self.lock().clone()) }
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    fn cells(&self, table: &str, row: &[u8]) -> Option<&Cells> {
        self.rows.get(table)?.get(row)
    }

    fn holds(&self, table: &str, row: &[u8], check: &Check) -> Result<std::result::Result<(), Option<Bytes>>> {
        let cells = self.cells(table, row);
        let value = |family: &str, qualifier: &Bytes| cells?.get(&(family.to_owned(), qualifier.clone())).cloned();
        Ok(match check {
            Check::Absent(column) => match value(column.family, &column.qualifier) {
                None => Ok(()),
                current => Err(current),
            },
            Check::Equals(column, expected) => match value(column.family, &column.qualifier) {
                Some(current) if current == *expected => Ok(()),
                current => Err(current),
            },
            Check::FamilyEmpty(family) => {
                let empty = cells.is_none_or(|cells| !cells.keys().any(|(f, _)| f == family));
                if empty { Ok(()) } else { Err(None) }
            }
            Check::AtMost(column, limit) => {
                let current = value(column.family, &column.qualifier);
                let fits = i128::from(number(current.as_deref())?) <= i128::from(*limit);
                if fits { Ok(()) } else { Err(current) }
            }
        })
    }

    fn change(&mut self, table: &str, row: &RowKey, changes: &[Change]) -> Result<()> {
        let rows = self.rows.entry(table.to_owned()).or_default();
        let cells = rows.entry(row.clone()).or_default();
        for change in changes {
            match change {
                Change::Put { family, qualifier, value } => {
                    cells.insert(((*family).to_owned(), qualifier.clone()), value.clone());
                }
                Change::Delete { family, qualifier } => {
                    cells.remove(&((*family).to_owned(), qualifier.clone()));
                }
                Change::DeleteFamily { family } => cells.retain(|(f, _), _| f != family),
                Change::Add { family, qualifier, amount } => {
                    let sum = sum(Some(&*cells), family, qualifier, *amount)?;
                    cells.insert(((*family).to_owned(), qualifier.clone()), sum);
                }
            }
        }
        if cells.is_empty() {
            rows.remove(row);
        }
        Ok(())
    }

    fn commit(&mut self, plan: &Plan) -> Result<Outcome> {
        for guarded in &plan.guarded {
            for check in &guarded.checks {
                if let Err(current) = self.holds(guarded.table, &guarded.row, check)? {
                    return Ok(Outcome::Refused(Refusal {
                        table: guarded.table,
                        row: guarded.row.clone(),
                        check: check.clone(),
                        current,
                        prepared: false,
                    }));
                }
            }
        }
        // Before the first change: a counter that cannot be added to must not leave half of the plan.
        for guarded in &plan.guarded {
            for change in &guarded.changes {
                if let Change::Add { family, qualifier, amount } = change {
                    sum(self.cells(guarded.table, &guarded.row), family, qualifier, *amount)?;
                }
            }
        }
        for row in &plan.prepare {
            self.change(row.table, &row.row, &row.changes)?;
        }
        for row in &plan.guarded {
            self.change(row.table, &row.row, &row.changes)?;
        }
        for row in &plan.finish {
            self.change(row.table, &row.row, &row.changes)?;
        }
        Ok(Outcome::Committed)
    }
}

/// The number in a counter. Not by the functions of [`counter`](crate::table::counter): other engines, which use them, are
/// compared with this one.
fn number(value: Option<&[u8]>) -> Result<u64> {
    let Some(value) = value else { return Ok(0) };
    let number = value.try_into().map(u64::from_be_bytes).ok().filter(|number| i64::try_from(*number).is_ok());
    number.ok_or_else(|| StoreError::BadCounter(format!("{value:?} is no counter")))
}

/// The value of a counter after an addition.
fn sum(cells: Option<&Cells>, family: &str, qualifier: &Bytes, amount: i64) -> Result<Bytes> {
    let current = cells.and_then(|cells| cells.get(&(family.to_owned(), qualifier.clone())));
    let current = number(current.map(AsRef::as_ref))?;
    let sum = i64::try_from(i128::from(current) + i128::from(amount)).ok().filter(|sum| *sum >= 0);
    let sum = sum.ok_or_else(|| StoreError::BadCounter(format!("{current} and {amount} are out of range")))?;
    Ok(Bytes::copy_from_slice(&sum.to_be_bytes()))
}

fn pick(table: &str, row: &[u8], cells: Option<&Cells>, query: &RowQuery) -> Result<Row> {
    let Some(cells) = cells else { return Ok(Row::default()) };
    let mut found = Vec::new();
    for column in &query.cells {
        if let Some(value) = cells.get(&(column.family.to_owned(), column.qualifier.clone())) {
            found.push((column.family, Cell { qualifier: column.qualifier.clone(), value: value.clone() }));
        }
    }
    for family in &query.families {
        let all: Vec<_> = cells.iter().filter(|((f, _), _)| f == family).collect();
        if all.len() > PAGE_CELLS {
            return Err(StoreError::TooWide {
                table: table.to_owned(),
                row: Bytes::copy_from_slice(row),
                family: (*family).to_owned(),
            });
        }
        let cell = |((_, q), v): (&(String, Bytes), &Bytes)| Cell { qualifier: q.clone(), value: v.clone() };
        found.extend(all.into_iter().map(|c| (*family, cell(c))));
    }
    Ok(Row::new(found))
}

fn within(key: &Bytes, from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    crate::table::RowRange { from: from.clone(), to: to.clone() }.contains(key)
}

impl Store for Memory {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        let mut state = self.lock();
        let answer = match state.specs.get(&spec.name) {
            Some(there) if there != spec => Err(StoreError::OtherSpec(spec.name.clone(), format!("{there:?}"))),
            Some(_) => Ok(()),
            None => {
                state.specs.insert(spec.name.clone(), spec.clone());
                Ok(())
            }
        };
        Box::pin(ready(answer))
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>> {
        Box::pin(ready(pick(table, row, self.lock().cells(table, row), query)))
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>> {
        let state = self.lock();
        let none = Cells::new();
        let cells = state.cells(query.table, &query.row).unwrap_or(&none);
        let unchanged =
            query.unchanged.iter().map(|c| cells.get(&(c.family.to_owned(), c.qualifier.clone())).cloned()).collect();
        let mut found = cells
            .iter()
            .filter(|((f, q), _)| f == query.family && within(q, &query.from, &query.to))
            .map(|((_, q), v)| Cell { qualifier: q.clone(), value: v.clone() });
        let page = found.by_ref().take(query.limit).collect();
        Box::pin(ready(Ok(Page { cells: page, unchanged, more: found.next().is_some() })))
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        let state = self.lock();
        let rows = queries.iter().map(|(row, query)| pick(table, row, state.cells(table, row), query)).collect();
        Box::pin(ready(rows))
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        let state = self.lock();
        let none = BTreeMap::new();
        let rows = state.rows.get(query.table).unwrap_or(&none);
        let within = rows.iter().filter(|(key, _)| query.range.contains(key));
        let ordered: Box<dyn Iterator<Item = _>> =
            if query.reverse { Box::new(within.rev()) } else { Box::new(within) };
        let found = ordered
            .map(|(key, cells)| Ok((key.clone(), pick(query.table, key, Some(cells), &query.row_query)?)))
            .filter(|found| found.as_ref().map_or(true, |(_, row)| !row.is_empty()))
            .take(query.limit)
            .collect();
        Box::pin(ready(found))
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(ready(self.lock().commit(&plan)))
    }
}
