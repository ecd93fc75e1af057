//! A group of plans that become one write: their checks, and the batch they add up to.

use bytes::Bytes;
use rocksdb::WriteBatch;

use super::db::{Db, Families, Fault, Place, Read, WriteFailure};
use super::keys::{self, KeyRange};
use super::overlay::{Known, Overlay};
use super::tier::Tier;
use crate::table::store::Result;
use crate::table::{Change, Check, Column, Guarded, Plan, Refusal, RowKey, StoreError};

/// Cells of a row's family that are deleted one by one; more are deleted as a range. Every range costs every
/// later read of its column family a little, every single tombstone only those that pass it.
const SINGLE_DELETES: usize = 100;

pub(super) struct Group<'a> {
    db: &'a Db,
    families: Families<'a>,
    batch: WriteBatch,
    overlay: Overlay,
    /// Tombstones that a look at a family may pass.
    skip: u64,
}

pub(super) enum Verdict {
    Accepted,
    Refused(Refusal),
    /// It asks whether a family is empty that this group has changed: it must wait until that is written.
    AfterThisGroup,
    /// Whether this family is empty cannot be told before it was compacted.
    Compact(Place),
    /// It could not be judged; nothing of it is in the group.
    Failed(StoreError),
}

/// What a check found.
enum Found {
    Holds,
    Fails(Option<Bytes>),
    NotYet(Verdict),
}

/// What the database holds of a row's family that is to be emptied.
enum Stored {
    Keys(Vec<Vec<u8>>),
    Many,
}

impl<'a> Group<'a> {
    pub fn new(db: &'a Db, skip: u64) -> Self {
        let (batch, overlay) = (WriteBatch::default(), Overlay::default());
        Self { db, families: Families::new(db), batch, overlay, skip }
    }

    /// Judges the plan against the database and the plans accepted before, and adds it if its checks hold.
    /// `patient`: to pass any number of tombstones.
    pub fn take(&mut self, plan: &Plan, patient: bool) -> Verdict {
        let judged = self.judge(plan, patient).and_then(|verdict| match verdict {
            // IMPORTANT: everything that may fail comes before the first change to the batch.
            Verdict::Accepted => Ok((verdict, self.stored(plan)?)),
            other => Ok((other, Vec::new())),
        });
        match judged {
            Err(error) => Verdict::Failed(error),
            Ok((Verdict::Accepted, stored)) => match self.apply(plan, stored) {
                Ok(()) => Verdict::Accepted,
                Err(error) => Verdict::Failed(error),
            },
            Ok((other, _)) => other,
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Writes what was accepted. After this everything answered is durable.
    pub fn write(self) -> std::result::Result<(), WriteFailure> {
        if self.is_empty() { Ok(()) } else { self.db.write(self.batch) }
    }

    fn judge(&mut self, plan: &Plan, patient: bool) -> Result<Verdict> {
        for guarded in &plan.guarded {
            for check in &guarded.checks {
                match self.check(guarded, check, patient)? {
                    Found::Holds => {}
                    Found::NotYet(verdict) => return Ok(verdict),
                    Found::Fails(current) => {
                        let (table, row, check) = (guarded.table, guarded.row.clone(), check.clone());
                        return Ok(Verdict::Refused(Refusal { table, row, check, current }));
                    }
                }
            }
        }
        Ok(Verdict::Accepted)
    }

    fn check(&mut self, guarded: &Guarded, check: &Check, patient: bool) -> Result<Found> {
        let found = match check {
            Check::Absent(column) => match self.cell(guarded.table, &guarded.row, column)? {
                None => Found::Holds,
                current => Found::Fails(current),
            },
            Check::Equals(column, expected) => match self.cell(guarded.table, &guarded.row, column)? {
                Some(current) if current == *expected => Found::Holds,
                current => Found::Fails(current),
            },
            Check::FamilyEmpty(family) => self.family_empty(guarded, family, patient)?,
        };
        Ok(found)
    }

    fn cell(&mut self, table: &'static str, row: &[u8], column: &Column) -> Result<Option<Bytes>> {
        let key = keys::key(row, &column.qualifier);
        match self.overlay.cell(table, column.family, &key) {
            Known::Value(value) => Ok(Some(value.clone())),
            Known::Absent => Ok(None),
            Known::Nothing => {
                let family = self.families.get(table, column.family)?;
                Ok(self.db.view(Tier::Disk).cell(&family, &key)?)
            }
        }
    }

    fn family_empty(&mut self, guarded: &Guarded, family: &'static str, patient: bool) -> Result<Found> {
        if self.overlay.touches(guarded.table, family, &guarded.row) {
            return Ok(Found::NotYet(Verdict::AfterThisGroup));
        }
        let stored = self.families.get(guarded.table, family)?;
        let skip = if patient { None } else { Some(self.skip) };
        match self.db.view(Tier::Disk).is_empty(&stored, &guarded.row, skip) {
            Ok(true) => Ok(Found::Holds),
            Ok(false) => Ok(Found::Fails(None)),
            Err(Fault::Incomplete) => {
                let place = Place { table: guarded.table, family, row: guarded.row.clone() };
                Ok(Found::NotYet(Verdict::Compact(place)))
            }
            Err(Fault::Store(error)) => Err(error),
        }
    }

    /// What the database holds of each family that the plan empties, in the plan's order.
    fn stored(&mut self, plan: &Plan) -> Result<Vec<Stored>> {
        let mut stored = Vec::new();
        for (table, row, change) in changes(plan) {
            if let Change::DeleteFamily { family } = change {
                stored.push(self.stored_in(table, row, family)?);
            }
        }
        Ok(stored)
    }

    fn stored_in(&mut self, table: &'static str, row: &[u8], family: &'static str) -> Result<Stored> {
        if self.overlay.emptied(table, family, row) {
            return Ok(Stored::Keys(Vec::new()));
        }
        let handle = self.families.get(table, family)?;
        let mut cells = self.db.view(Tier::Disk).cells(&handle, KeyRange::row(row), Some(self.skip));
        cells.seek_to_first();
        let mut keys = Vec::new();
        while let Some(key) = cells.key() {
            if keys.len() == SINGLE_DELETES {
                return Ok(Stored::Many);
            }
            keys.push(key.to_vec());
            cells.next();
        }
        let ended: Read<()> = cells.status().map_err(Fault::from);
        match ended {
            Ok(()) => Ok(Stored::Keys(keys)),
            // Too many tombstones to see the end: a range covers whatever is there.
            Err(Fault::Incomplete) => Ok(Stored::Many),
            Err(Fault::Store(error)) => Err(error),
        }
    }

    fn apply(&mut self, plan: &Plan, stored: Vec<Stored>) -> Result<()> {
        // Looked up first, so that a family that is not there leaves no half of a plan in the batch.
        for (table, _, change) in changes(plan) {
            self.families.get(table, change.family())?;
        }
        let mut stored = stored.into_iter();
        for (table, row, change) in changes(plan) {
            let family = self.families.get(table, change.family())?;
            match change {
                Change::Put { family: name, qualifier, value } => {
                    let key = keys::key(row, qualifier);
                    self.batch.put_cf(&family, &key, value);
                    self.overlay.put(table, name, key, value.clone());
                }
                Change::Delete { family: name, qualifier } => {
                    let key = keys::key(row, qualifier);
                    self.batch.delete_cf(&family, &key);
                    self.overlay.delete(table, name, key);
                }
                Change::DeleteFamily { family: name } => {
                    let put = self.overlay.empty(table, name, row);
                    match stored.next() {
                        Some(Stored::Keys(keys)) if keys.len() + put.len() <= SINGLE_DELETES => {
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

/// All changes of a plan in the order in which they happen.
fn changes(plan: &Plan) -> impl Iterator<Item = (&'static str, &RowKey, &Change)> {
    let prepare = plan.prepare.iter().map(|r| (r.table, &r.row, &r.changes));
    let guarded = plan.guarded.iter().map(|g| (g.table, &g.row, &g.changes));
    let finish = plan.finish.iter().map(|r| (r.table, &r.row, &r.changes));
    let rows = prepare.chain(guarded).chain(finish);
    rows.flat_map(|(table, row, changes)| changes.iter().map(move |change| (table, row, change)))
}
