//! A group of plans that are written together: evaluates their checks, and collects their changes into one batch.

use bytes::Bytes;
use rocksdb::WriteBatch;

use super::db::{Db, Families, RowFamily};
use super::kept_rows::Written;
use super::keys::{self, KeyRange};
use super::overlay::{Overlay, OverlayCell};
use super::raw::{ReadError, ReadResult};
use super::read_tier::ReadTier;
use super::write_error::WriteError;
use crate::table::store::Result;
use crate::table::{Change, Check, Column, ConditionalRow, Plan, Refusal, RowKey, StoreError, counter};

/// The most cells of a row's family that are deleted one by one; more are deleted as a range. A range tombstone costs
/// every later read of its column family a little, a point tombstone only the reads that skip it.
const SINGLE_DELETES: usize = 100;

pub(super) struct Group<'a> {
    db: &'a Db,
    families: Families<'a>,
    batch: WriteBatch,
    overlay: Overlay,
    /// The versions of what the batch changes of the kept rows.
    changed: Vec<u32>,
    /// Tombstones that a read of a family may skip.
    skip: u64,
}

pub(super) enum PlanVerdict {
    Accepted,
    Refused(Refusal),
    /// It checks whether a family is empty, and this group has changed that family: it must wait until the group is
    /// written.
    AfterThisGroup,
    /// It checks whether this family is empty, which has too many tombstones: compact it first.
    Compact(RowFamily),
    /// A cell could not be read, or a counter is wrong; nothing of the plan is in the group.
    Failed(StoreError),
}

/// The result of a check.
enum CheckResult {
    Holds,
    Fails(Option<Bytes>),
    NotYet(PlanVerdict),
}

/// A change of a plan, and what it needs to know of the present cells.
struct ResolvedChange<'p> {
    table: &'static str,
    row: &'p RowKey,
    family: &'static str,
    effect: Effect<'p>,
}

enum Effect<'p> {
    /// The value; for an addition the sum. So the WAL has sums, and a second replay adds nothing.
    Put(&'p Bytes, Bytes),
    Delete(&'p Bytes),
    DeleteFamily(StoredCells),
}

/// The cells in the database of a row's family that a plan empties.
enum StoredCells {
    Keys(Vec<Vec<u8>>),
    Many,
}

impl<'a> Group<'a> {
    pub fn new(db: &'a Db, skip: u64) -> Self {
        let (batch, overlay) = (WriteBatch::default(), Overlay::default());
        Self { db, families: Families::new(db), batch, overlay, changed: Vec::new(), skip }
    }

    /// Evaluates the checks against the database and the plans accepted before, and adds the plan if they hold.
    /// `any_tombstones`: skip any number of tombstones.
    pub fn add(&mut self, plan: &Plan, any_tombstones: bool) -> PlanVerdict {
        let evaluated = self.evaluate(plan, any_tombstones).and_then(|verdict| match verdict {
            // IMPORTANT: do all that may fail before the first change of the batch.
            PlanVerdict::Accepted => Ok((verdict, self.resolve_changes(plan)?)),
            other => Ok((other, Vec::new())),
        });
        match evaluated {
            Err(error) => PlanVerdict::Failed(error),
            Ok((PlanVerdict::Accepted, changes)) => match self.apply(changes) {
                Ok(()) => PlanVerdict::Accepted,
                Err(error) => PlanVerdict::Failed(error),
            },
            Ok((other, _)) => other,
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Waits for the [backlog](Db::wait_for_backlog) of the families that it writes.
    pub fn wait_for_backlog(&self) -> std::result::Result<(), WriteError> {
        self.db.wait_for_backlog(&self.families)
    }

    /// Writes the accepted plans. After `Ok` they are durable.
    pub fn write(self) -> std::result::Result<(), WriteError> {
        if self.is_empty() {
            return Ok(());
        }
        self.db.kept.begin(&self.changed);
        // IMPORTANT: no `end` after an error. What was to be written may be in the log.
        self.db.write(self.batch)?;
        self.db.kept.end(&self.changed);
        Ok(())
    }

    /// Evaluates the checks of a plan.
    fn evaluate(&mut self, plan: &Plan, any_tombstones: bool) -> Result<PlanVerdict> {
        for guarded in &plan.guarded {
            for check in &guarded.checks {
                match self.check(guarded, check, any_tombstones)? {
                    CheckResult::Holds => {}
                    CheckResult::NotYet(verdict) => return Ok(verdict),
                    CheckResult::Fails(current) => {
                        let (table, row, check) = (guarded.table, guarded.row.clone(), check.clone());
                        // One write batch has the whole plan, and of a refused plan it has nothing.
                        let refusal = Refusal { table, row, check, current, prepared: false };
                        return Ok(PlanVerdict::Refused(refusal));
                    }
                }
            }
        }
        Ok(PlanVerdict::Accepted)
    }

    fn check(&mut self, guarded: &ConditionalRow, check: &Check, any_tombstones: bool) -> Result<CheckResult> {
        let found = match check {
            Check::Absent(column) => match self.cell(guarded.table, &guarded.row, column)? {
                None => CheckResult::Holds,
                current => CheckResult::Fails(current),
            },
            Check::Equals(column, expected) => match self.cell(guarded.table, &guarded.row, column)? {
                Some(current) if current == *expected => CheckResult::Holds,
                current => CheckResult::Fails(current),
            },
            Check::FamilyEmpty(family) => self.family_empty(guarded, family, any_tombstones)?,
            Check::AtMost(column, limit) => {
                let current = self.cell(guarded.table, &guarded.row, column)?;
                let number = counter::decode(current.as_deref());
                let number = number.map_err(|e| e.at(guarded.table, &guarded.row, column))?;
                if number <= *limit { CheckResult::Holds } else { CheckResult::Fails(current) }
            }
        };
        Ok(found)
    }

    fn cell(&mut self, table: &'static str, row: &[u8], column: &Column) -> Result<Option<Bytes>> {
        let key = keys::key(row, &column.qualifier);
        match self.overlay.cell(table, column.family, &key) {
            OverlayCell::Value(value) => Ok(Some(value.clone())),
            OverlayCell::Absent => Ok(None),
            OverlayCell::Unchanged => {
                let family = self.families.get(table, column.family)?;
                Ok(self.db.reader(ReadTier::Disk).cell(&family, &key)?)
            }
        }
    }

    fn family_empty(
        &mut self,
        guarded: &ConditionalRow,
        family: &'static str,
        any_tombstones: bool,
    ) -> Result<CheckResult> {
        if self.overlay.touches(guarded.table, family, &guarded.row) {
            return Ok(CheckResult::NotYet(PlanVerdict::AfterThisGroup));
        }
        let stored = self.families.get(guarded.table, family)?;
        let skip = if any_tombstones { None } else { Some(self.skip) };
        match self.db.reader(ReadTier::Disk).is_empty(&stored, &guarded.row, skip) {
            Ok(true) => Ok(CheckResult::Holds),
            Ok(false) => Ok(CheckResult::Fails(None)),
            Err(ReadError::Incomplete) => {
                let place = RowFamily { table: guarded.table, family, row: guarded.row.clone() };
                Ok(CheckResult::NotYet(PlanVerdict::Compact(place)))
            }
            Err(ReadError::Store(error)) => Err(error),
        }
    }

    /// The changes of a plan, in its order. A plan names a row once, and of that row a counter once, so that no change
    /// alters what another one reads here.
    fn resolve_changes<'p>(&mut self, plan: &'p Plan) -> Result<Vec<ResolvedChange<'p>>> {
        let mut resolved = Vec::with_capacity(plan.changes());
        for (table, row, change) in changes(plan) {
            let family = change.family();
            let effect = match change {
                Change::Put { qualifier, value, .. } => Effect::Put(qualifier, value.clone()),
                Change::Add { qualifier, amount, .. } => {
                    let column = Column { family, qualifier: qualifier.clone() };
                    let sum = counter::add(self.cell(table, row, &column)?.as_deref(), *amount);
                    Effect::Put(qualifier, sum.map_err(|e| e.at(table, row, &column))?)
                }
                Change::Delete { qualifier, .. } => Effect::Delete(qualifier),
                Change::DeleteFamily { .. } => Effect::DeleteFamily(self.stored_in(table, row, family)?),
            };
            resolved.push(ResolvedChange { table, row, family, effect });
        }
        Ok(resolved)
    }

    fn stored_in(&mut self, table: &'static str, row: &[u8], family: &'static str) -> Result<StoredCells> {
        if self.overlay.emptied(table, family, row) {
            return Ok(StoredCells::Keys(Vec::new()));
        }
        let handle = self.families.get(table, family)?;
        let mut cells = self.db.reader(ReadTier::Disk).cells(&handle, KeyRange::row(row), Some(self.skip));
        cells.seek_to_first();
        let mut keys = Vec::new();
        while let Some(key) = cells.key() {
            if keys.len() == SINGLE_DELETES {
                return Ok(StoredCells::Many);
            }
            keys.push(key.to_vec());
            cells.next();
        }
        let ended: ReadResult<()> = cells.status().map_err(ReadError::from);
        match ended {
            Ok(()) => Ok(StoredCells::Keys(keys)),
            // Too many tombstones to reach the end: a range deletion covers all cells.
            Err(ReadError::Incomplete) => Ok(StoredCells::Many),
            Err(ReadError::Store(error)) => Err(error),
        }
    }

    fn apply(&mut self, changes: Vec<ResolvedChange<'_>>) -> Result<()> {
        // Look up all families first: a missing one must not leave half of the plan in the batch.
        for change in &changes {
            self.families.get(change.table, change.family)?;
        }
        for ResolvedChange { table, row, family: name, effect } in changes {
            let family = self.families.get(table, name)?;
            let written = match &effect {
                Effect::Put(qualifier, _) | Effect::Delete(qualifier) => Written::Cell(qualifier),
                Effect::DeleteFamily(_) => Written::Family,
            };
            self.db.kept.add(&mut self.changed, (table, row, name), written);
            match effect {
                Effect::Put(qualifier, value) => {
                    let key = keys::key(row, qualifier);
                    self.batch.put_cf(&family, &key, &value);
                    self.overlay.put(table, name, key, value);
                }
                Effect::Delete(qualifier) => {
                    let key = keys::key(row, qualifier);
                    self.batch.delete_cf(&family, &key);
                    self.overlay.delete(table, name, key);
                }
                Effect::DeleteFamily(stored) => {
                    let put = self.overlay.empty(table, name, row);
                    match stored {
                        StoredCells::Keys(keys) if keys.len() + put.len() <= SINGLE_DELETES => {
                            keys.iter().chain(&put).for_each(|key| self.batch.delete_cf(&family, key));
                        }
                        _ => self.batch.delete_range_cf(&family, keys::row_start(row), keys::row_end(row)),
                    }
                }
            }
        }
        Ok(())
    }
}

/// All changes of a plan, in the order of their application.
fn changes(plan: &Plan) -> impl Iterator<Item = (&'static str, &RowKey, &Change)> {
    let prepare = plan.prepare.iter().map(|r| (r.table, &r.row, &r.changes));
    let guarded = plan.guarded.iter().map(|g| (g.table, &g.row, &g.changes));
    let finish = plan.finish.iter().map(|r| (r.table, &r.row, &r.changes));
    let rows = prepare.chain(guarded).chain(finish);
    rows.flat_map(|(table, row, changes)| changes.iter().map(move |change| (table, row, change)))
}
