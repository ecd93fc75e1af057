//! Resolves a path to directories: those that exist, and those that a plan has to make.

use super::lookup::{LiveDir, NameLookup, no_directory, no_file};
use super::{Namespace, visibility};
use crate::drive::error::{DriveError, Result};
use crate::drive::settings::TRIES;
use crate::schema::dir::{self, DirEntry, NO_OPERATION};
use crate::schema::dir_parent::{self, DirParent};
use crate::schema::usage::UsageChange;
use crate::schema::{DirId, DrivePath, Name, Timestamp};
use crate::table::{Change, Check, ConditionalRow, Plan, RowChange, RowQuery};

/// A directory that a plan has to make.
#[derive(Clone, Debug)]
pub struct NewDir {
    pub path: DrivePath,
    pub name: Name,
    pub entry: DirEntry,
}

/// The deepest directory of a path that exists, and those that a plan has to make below it.
#[derive(Clone, Debug)]
pub struct ResolvedParent {
    pub base: DrivePath,
    pub live: LiveDir,
    pub missing: Vec<NewDir>,
}

/// What exists of the path of a directory.
pub enum Resolution {
    /// All of it, or all but these names below `base`.
    Open { base: DrivePath, live: LiveDir, missing: Vec<Name> },
    /// One of the names is a file.
    File,
}

/// Reads every directory from the root down to `path`.
pub async fn resolve(ns: &Namespace, path: &DrivePath) -> Result<Resolution> {
    for _ in 0..TRIES {
        if let Some(resolution) = resolve_once(ns, path).await? {
            return Ok(resolution);
        }
    }
    Err(DriveError::Contended)
}

/// One attempt. None if the rows contradict each other, as when a parent has the name of a directory whose row is
/// missing: each row is read at its own instant.
async fn resolve_once(ns: &Namespace, path: &DrivePath) -> Result<Option<Resolution>> {
    let names: Vec<Name> = path.names().collect();
    let mut queries = Vec::with_capacity(names.len() + 1);
    let mut at = DrivePath::root();
    for name in &names {
        queries.push((at.key(), NameLookup::query(name)));
        at = at.join(name)?;
    }
    queries.push((at.key(), RowQuery::cells(vec![dir::id_column(), dir::lock_column()])));
    let rows = visibility::rows(ns, &queries).await?;
    let mut base = DrivePath::root();
    let mut below = names.as_slice();
    let mut found = None;
    for row in &rows {
        let Some(live) = LiveDir::from_row(row)? else { break };
        found = Some((base.clone(), live, below));
        let Some((name, rest)) = below.split_first() else { break };
        let lookup = NameLookup::from_row(row, name)?;
        if lookup.file.is_some() {
            return Ok(Some(Resolution::File));
        }
        if lookup.directory.is_none() {
            break;
        }
        found = None;
        base = base.join(name)?;
        below = rest;
    }
    Ok(found.map(|(base, live, missing)| Resolution::Open { base, live, missing: missing.to_vec() }))
}

/// Resolves `path`, and draws ids for the directories that are missing.
pub async fn resolve_parent(
    ns: &Namespace,
    path: &DrivePath,
    creator: &str,
    clock: fn() -> Timestamp,
) -> Result<ResolvedParent> {
    let Resolution::Open { base, live, missing } = resolve(ns, path).await? else {
        return Err(DriveError::ParentIsFile);
    };
    let created = clock();
    let mut at = base.clone();
    let mut made = Vec::with_capacity(missing.len());
    for name in missing {
        at = at.join(&name)?;
        let entry = DirEntry { id: DirId::random(), creator: creator.to_owned(), created };
        made.push(NewDir { path: at.clone(), name, entry });
    }
    Ok(ResolvedParent { base, live, missing: made })
}

impl ResolvedParent {
    /// A directory that exists.
    pub fn found(path: &DrivePath, live: LiveDir) -> Self {
        Self { base: path.clone(), live, missing: Vec::new() }
    }

    /// The id of the last directory of the path.
    pub fn id(&self) -> DirId {
        self.missing.last().map_or(self.live.id, |last| last.entry.id)
    }

    /// Adds the missing directories to the usage of their creator.
    pub fn count(&self, usage: &mut UsageChange) {
        self.missing.iter().for_each(|new| usage.add_directory(&new.entry.creator));
    }

    /// Adds to the plan: the missing directories, each under the check that its row is absent, and in the last
    /// directory of the path the changes `last` under the checks `last_checks`.
    ///
    /// All rows are guarded, so that readers see either the whole new path with its file, or nothing of it.
    pub fn add_to(&self, plan: &mut Plan, last_checks: Vec<Check>, last: Vec<Change>) {
        let mut checks = self.live.checks();
        let mut row = self.base.key();
        let mut changes = Vec::new();
        let mut parent = self.live.id;
        // Only the first name needs checks: the other names are put into rows that are checked to be absent.
        if let Some(first) = self.missing.first() {
            checks.extend([no_directory(&first.name), no_file(&first.name)]);
        }
        for new in &self.missing {
            changes.push(Change::put(dir::SUB, dir::directory_qualifier(&new.name), new.entry.encode()));
            plan.guarded.push(ConditionalRow { table: dir::TABLE, row, checks, changes });
            let link = DirParent { parent, name: new.name.clone(), operation: NO_OPERATION };
            plan.prepare.push(RowChange {
                table: dir_parent::TABLE,
                row: new.entry.id.key(),
                changes: link.put_cells(),
            });
            parent = new.entry.id;
            row = new.path.key();
            checks = vec![Check::Absent(dir::id_column())];
            changes = new.entry.put_cells();
        }
        if self.missing.is_empty() {
            checks.extend(last_checks);
        }
        changes.extend(last);
        plan.guarded.push(ConditionalRow { table: dir::TABLE, row, checks, changes });
    }
}

/// The error for a path below `parent`, which is not a directory.
pub async fn no_parent(ns: &Namespace, parent: &DrivePath) -> DriveError {
    match resolve(ns, parent).await {
        Ok(Resolution::File) => DriveError::ParentIsFile,
        Ok(Resolution::Open { .. }) => DriveError::ParentMissing,
        Err(error) => error,
    }
}
