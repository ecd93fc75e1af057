//! Renames a file.

use super::target::{check_target, split_target};
use super::{Committer, Decision};
use crate::auth::Requester;
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, Result};
use crate::drive::file_rows::drop_version;
use crate::drive::index_changes::IndexChange;
use crate::drive::model::{Node, Written};
use crate::drive::namespace::lookup::{LiveDir, NameLookup, Versioned, lookup, no_directory};
use crate::drive::refusals::settled;
use crate::drive::rights::Rights;
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::{self, FilePosition};
use crate::schema::index::IndexRows;
use crate::schema::usage::UsageChange;
use crate::schema::{DrivePath, Name, StayId};
use crate::table::{Change, ConditionalRow, Plan};

/// The result of a rename.
pub enum Renamed {
    /// The source was a file.
    File(Written),
    /// The source is a directory, which takes more than one plan: nothing was changed.
    IsDirectory,
}

/// Source and target, split into parent and name.
struct Paths<'a> {
    from: &'a DrivePath,
    to: &'a DrivePath,
    source: (DrivePath, Name),
    target: (DrivePath, Name),
    overwrite: bool,
}

/// One end of the rename, and its lookup.
struct End<'a> {
    parent: &'a DrivePath,
    name: &'a Name,
    live: &'a LiveDir,
    found: &'a NameLookup,
}

/// Renames a file: it keeps its id, times, creator and type. With `overwrite` it may replace a file. The caller runs it
/// to its end.
pub async fn rename_file(
    committer: &Committer,
    requester: &Requester,
    from: &DrivePath,
    to: &DrivePath,
    overwrite: bool,
    caller: &Caller,
) -> Result<Renamed> {
    let source = from.split().ok_or(DriveError::Root)?;
    let paths = Paths { from, to, source, target: split_target(from, to)?, overwrite };
    let (decide, looked_at) = (|| decide(committer, requester, &paths), [from, &paths.source.0, &paths.target.0]);
    let settle = |_| settled(&committer.namespace, requester, &looked_at, decide);
    let (renamed, replaced) = committer.until_committed(caller, settle).await?;
    committer.unlink_dropped(replaced.as_ref());
    Ok(renamed)
}

/// The plan, and the version that it replaces.
async fn decide(
    committer: &Committer,
    requester: &Requester,
    paths: &Paths<'_>,
) -> Result<Decision<'static, (Renamed, Option<Versioned<FileEntry>>)>> {
    let ns = &committer.namespace;
    let ((from_parent, from_name), (to_parent, to_name)) = (&paths.source, &paths.target);
    let rights = Rights::read(ns, requester).await?;
    let take = rights.take(paths.from).await?;
    let source = lookup(ns, from_parent, from_name).await?;
    if source.parent.is_some() && source.directory.is_some() {
        return Ok(Decision::Answer((Renamed::IsDirectory, None)));
    }
    let (Some(source_live), Some(file)) = (&source.parent, &source.file) else {
        return Err(DriveError::NotFound);
    };
    let put = rights.write_from(paths.from, to_parent).await?;
    let target = lookup(ns, to_parent, to_name).await?;
    // Source and target are read at two instants: another request may have moved this file to the target in between. Then
    // the lookup of the source is out of date, and the file at the target may be this file itself: decide again.
    let target_live = match check_target(ns, &target, to_parent, paths.overwrite).await {
        Ok(live) if target.file.as_ref().is_none_or(|other| other.value.id != file.value.id) => live,
        Ok(_) => return Ok(Decision::Again),
        Err(error) => {
            let again = lookup(ns, from_parent, from_name).await?;
            if again.file.is_none_or(|found| found.bytes != file.bytes) {
                return Ok(Decision::Again);
            }
            return Err(error);
        }
    };
    let source_end = End { parent: from_parent, name: from_name, live: source_live, found: &source };
    let target_end = End { parent: to_parent, name: to_name, live: target_live, found: &target };
    // IMPORTANT: every attempt draws a new stay. It is the qualifier of the index entries, so deleting those of a refused
    // attempt can never delete those of another attempt.
    let moved = FileEntry { stay: StayId::random(), ..file.value.clone() };
    let mut plan = rename_plan(&source_end, &target_end, file, &moved);
    take.guard(&mut plan);
    put.guard(&mut plan);
    let mut usage = UsageChange::default();
    if let Some(replaced) = &target.file {
        usage.take_file(&replaced.value.attributes);
    }
    rights.count(&mut plan, &usage);
    let replaces = target.file.as_ref().map(|replaced| replaced.value.id);
    let change = IndexChange::new(moved.id, replaces, true, &plan.prepare);
    let node = Node::File { path: paths.to.clone(), entry: moved };
    let written = Written { node, new: target.file.is_none() };
    Ok(Decision::Commit { plan, change: Some(change), content: None, answer: (Renamed::File(written), target.file) })
}

/// Both names and the file row change at one instant. New index entries are put before it and old ones deleted after it,
/// so that the file always has one; queries verify them.
fn rename_plan(source: &End<'_>, target: &End<'_>, file: &Versioned<FileEntry>, moved: &FileEntry) -> Plan {
    let id = moved.id;
    let attributes = &moved.attributes;
    let old = FilePosition { dir: source.live.id, name: source.name.clone(), stay: file.value.stay };
    let new = FilePosition { dir: target.live.id, name: target.name.clone(), stay: moved.stay };
    let take = Change::delete(dir::SUB, dir::file_qualifier(source.name));
    let put = Change::put(dir::SUB, dir::file_qualifier(target.name), moved.encode());
    let mut source_checks = source.live.checks();
    source_checks.push(source.found.file_check(source.name));
    let target_checks = vec![no_directory(target.name), target.found.file_check(target.name)];
    let mut guarded = if source.parent == target.parent {
        let checks = [source_checks, target_checks].concat();
        vec![ConditionalRow { table: dir::TABLE, row: source.parent.key(), checks, changes: vec![take, put] }]
    } else {
        let target_checks = [target.live.checks(), target_checks].concat();
        vec![
            ConditionalRow { table: dir::TABLE, row: source.parent.key(), checks: source_checks, changes: vec![take] },
            ConditionalRow { table: dir::TABLE, row: target.parent.key(), checks: target_checks, changes: vec![put] },
        ]
    };
    let (checks, changes) = (vec![old.check()], vec![new.put_cell()]);
    guarded.push(ConditionalRow { table: file::TABLE, row: id.key(), checks, changes });
    let mut finish = IndexRows { id, attributes, position: &old }.delete();
    if let Some(replaced) = &target.found.file {
        finish.extend(drop_version(&replaced.value, target.live.id, target.name));
    }
    Plan { prepare: IndexRows { id, attributes, position: &new }.put(), guarded, finish, ..Plan::default() }
}
