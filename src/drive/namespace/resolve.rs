//! A directory that is to hold something: found, or to be made with its missing parents in the same plan.

use super::spot::{Live, Spot, no_directory, no_file};
use super::{Drive, DriveError, Result};
use crate::schema::dir::{self, DirEntry, NO_OPERATION};
use crate::schema::dirid::{self, DirLink};
use crate::schema::{DirId, DrivePath, Name};
use crate::table::{Ask, Change, Check, Guarded, Plan, RowChange};

/// A directory that is to be made.
#[derive(Clone, Debug)]
pub(super) struct NewDir {
    pub path: DrivePath,
    pub name: Name,
    pub entry: DirEntry,
}

/// The deepest directory on the way that is there, and those missing below it.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub base: DrivePath,
    pub live: Live,
    pub missing: Vec<NewDir>,
}

/// How a way down to a directory ends.
pub(super) enum Way {
    /// Whole, or with these names missing below the last directory that is there.
    Open { base: DrivePath, live: Live, missing: Vec<Name> },
    /// A file stands on it.
    File,
}

impl Drive {
    /// Follows the way down to `path`, which was not found to be there.
    pub(super) async fn way(&self, path: &DrivePath) -> Result<Way> {
        for _ in 0..super::TRIES {
            if let Some(way) = self.way_once(path).await? {
                return Ok(way);
            }
        }
        Err(DriveError::Contended)
    }

    /// None if the rows, each read at its own instant, do not fit together.
    async fn way_once(&self, path: &DrivePath) -> Result<Option<Way>> {
        let names: Vec<Name> = path.names().collect();
        let mut asks = Vec::with_capacity(names.len() + 1);
        let mut at = DrivePath::root();
        for name in &names {
            asks.push((at.key(), Spot::ask(name)));
            at = at.join(name)?;
        }
        asks.push((at.key(), Ask::cells(vec![dir::id_column(), dir::state_column()])));
        let rows = self.rows_of(&asks).await?;
        let mut base = DrivePath::root();
        let mut below = names.as_slice();
        let mut found = None;
        for row in &rows {
            let Some(live) = Live::of(row)? else { break };
            found = Some((base.clone(), live, below));
            let Some((name, rest)) = below.split_first() else { break };
            let spot = Spot::of(row, name)?;
            if spot.file.is_some() {
                return Ok(Some(Way::File));
            }
            if spot.directory.is_none() {
                break;
            }
            found = None;
            base = base.join(name)?;
            below = rest;
        }
        Ok(found.map(|(base, live, missing)| Way::Open { base, live, missing: missing.to_vec() }))
    }

    /// The way to `path` with what is missing drawn up to be made.
    pub(super) async fn ground(&self, path: &DrivePath, creator: &str) -> Result<Ground> {
        let Way::Open { base, live, missing } = self.way(path).await? else {
            return Err(DriveError::ParentIsFile);
        };
        let created = (self.inner.settings.clock)();
        let mut at = base.clone();
        let mut made = Vec::with_capacity(missing.len());
        for name in missing {
            at = at.join(&name)?;
            let entry = DirEntry { id: DirId::random(), creator: creator.to_owned(), created };
            made.push(NewDir { path: at.clone(), name, entry });
        }
        Ok(Ground { base, live, missing: made })
    }
}

impl Ground {
    /// A directory that is there.
    pub fn found(path: &DrivePath, live: Live) -> Self {
        Self { base: path.clone(), live, missing: Vec::new() }
    }

    /// The id of the directory at the end of the way.
    pub fn id(&self) -> DirId {
        self.missing.last().map_or(self.live.id, |last| last.entry.id)
    }

    /// Adds to the plan: the missing directories, each an absent row, and in the last directory of the way
    /// the changes `last` under the checks `last_checks`.
    pub fn build(&self, plan: &mut Plan, last_checks: Vec<Check>, last: Vec<Change>) {
        let mut checks = self.live.checks();
        let mut row = self.base.key();
        let mut changes = Vec::new();
        let mut parent = self.live.id;
        for new in &self.missing {
            if plan.guarded.is_empty() {
                checks.extend([no_directory(&new.name), no_file(&new.name)]);
            }
            changes.push(Change::put(dir::SUB, dir::directory_qualifier(&new.name), new.entry.encode()));
            plan.guarded.push(Guarded { table: dir::TABLE, row, checks, changes });
            let link = DirLink { parent, name: new.name.clone(), operation: NO_OPERATION };
            plan.prepare.push(RowChange { table: dirid::TABLE, row: new.entry.id.key(), changes: link.row() });
            parent = new.entry.id;
            row = new.path.key();
            checks = vec![Check::Absent(dir::id_column())];
            changes = new.entry.row();
        }
        if self.missing.is_empty() {
            checks.extend(last_checks);
        }
        changes.extend(last);
        plan.guarded.push(Guarded { table: dir::TABLE, row, checks, changes });
    }
}
