//! Deletes a file, or an empty directory.

use std::sync::Arc;

use super::{Committer, Decision};
use crate::auth::Requester;
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, Result};
use crate::drive::file_rows::drop_version;
use crate::drive::model::Condition;
use crate::drive::namespace::lookup::{LiveDir, Versioned, lookup};
use crate::drive::namespace::resolve::no_parent;
use crate::drive::namespace::visibility;
use crate::drive::refusals::settled;
use crate::drive::rights::Rights;
use crate::schema::dir::{self, DirEntry, FileEntry};
use crate::schema::usage::UsageChange;
use crate::schema::{DrivePath, Name, dir_parent};
use crate::table::{Change, Check, Column, ConditionalRow, Plan, RowChange, RowQuery};

/// Deletes a file.
pub async fn delete(
    committer: &Arc<Committer>,
    requester: &Requester,
    path: &DrivePath,
    condition: &Condition,
) -> Result<()> {
    let (this, requester, path, condition) = (committer.clone(), requester.clone(), path.clone(), condition.clone());
    let delete = |caller| async move { delete_file(&this, &requester, &path, &condition, &caller).await };
    committer.gate.run_to_end(delete).await
}

async fn delete_file(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    condition: &Condition,
    caller: &Caller,
) -> Result<()> {
    let (parent, _) = &path.split().ok_or(DriveError::Root)?;
    let (decide, looked_at) = (|| decide_delete(committer, requester, path, condition), [path, parent]);
    let settle = |_| settled(&committer.namespace, requester, &looked_at, decide);
    let deleted = committer.until_committed(caller, settle).await?;
    committer.unlink_dropped(Some(&deleted));
    Ok(())
}

/// The plan, and the version that it deletes.
async fn decide_delete(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    condition: &Condition,
) -> Result<Decision<'static, Versioned<FileEntry>>> {
    let (parent, name) = &path.split().ok_or(DriveError::Root)?;
    let rights = Rights::read(&committer.namespace, requester).await?;
    let permission = rights.take(path).await?;
    let found = lookup(&committer.namespace, parent, name).await?;
    let Some(live) = &found.parent else {
        return Err(match no_parent(&committer.namespace, parent).await {
            DriveError::ParentMissing if condition.holds(None) => DriveError::NotFound,
            DriveError::ParentMissing => DriveError::Precondition,
            error => error,
        });
    };
    if found.directory.is_some() {
        return Err(DriveError::IsDirectory);
    }
    if !condition.holds(found.file.as_ref().map(|file| file.value.id)) {
        return Err(DriveError::Precondition);
    }
    let Some(file) = &found.file else {
        return Err(DriveError::NotFound);
    };
    let mut checks = live.checks();
    checks.push(found.file_check(name));
    let changes = vec![Change::delete(dir::SUB, dir::file_qualifier(name))];
    let mut plan = Plan {
        guarded: vec![ConditionalRow { table: dir::TABLE, row: parent.key(), checks, changes }],
        finish: drop_version(&file.value, live.id, name),
        ..Plan::default()
    };
    permission.guard(&mut plan);
    let mut usage = UsageChange::default();
    usage.take_file(&file.value.attributes);
    rights.count(&mut plan, &usage);
    Ok(Decision::Commit { plan, change: None, content: None, answer: file.clone() })
}

/// Deletes a directory that is empty.
pub async fn rmdir(committer: &Arc<Committer>, requester: &Requester, path: &DrivePath) -> Result<()> {
    let (this, requester, path) = (committer.clone(), requester.clone(), path.clone());
    let remove = |caller| async move { remove_directory(&this, &requester, &path, &caller).await };
    committer.gate.run_to_end(remove).await
}

async fn remove_directory(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    caller: &Caller,
) -> Result<()> {
    let (parent, _) = &path.split().ok_or(DriveError::Root)?;
    let (decide, looked_at) = (|| decide_rmdir(committer, requester, path), [path, parent]);
    committer.until_committed(caller, |_| settled(&committer.namespace, requester, &looked_at, decide)).await
}

async fn decide_rmdir(committer: &Committer, requester: &Requester, path: &DrivePath) -> Result<Decision<'static, ()>> {
    let (parent, name) = &path.split().ok_or(DriveError::Root)?;
    let rights = Rights::read(&committer.namespace, requester).await?;
    let permission = rights.take(path).await?;
    let found = lookup(&committer.namespace, parent, name).await?;
    let Some(live) = &found.parent else {
        return Err(match no_parent(&committer.namespace, parent).await {
            DriveError::ParentMissing => DriveError::NotFound,
            error => error,
        });
    };
    let Some(directory) = &found.directory else {
        return Err(DriveError::NotFound);
    };
    let query = RowQuery::cells(vec![dir::id_column(), dir::lock_column()]);
    let row = visibility::row(&committer.namespace, path, &query).await?;
    // The directory was removed, or replaced by another one, between the two reads.
    let Some(child) = LiveDir::from_row(&row)?.filter(|child| child.id == directory.value.id) else {
        return Ok(Decision::Again);
    };
    let mut plan = rmdir_plan(parent, live, name, directory, path, &child);
    permission.guard(&mut plan);
    let mut usage = UsageChange::default();
    usage.take_directory(&directory.value.creator);
    rights.count(&mut plan, &usage);
    // IMPORTANT: the row that has to be empty is the last one. A refusal by it means that all rights hold at this
    // instant.
    plan.guarded.rotate_left(1);
    Ok(Decision::Commit { plan, change: None, content: None, answer: () })
}

/// Deletes the directory row, which is the plan's first one, together with its name, at one instant, and the row of its
/// id after that. The check that it has no children refuses the plan if an upload into the directory commits first; an
/// upload that commits later finds no directory row.
fn rmdir_plan(
    parent: &DrivePath,
    live: &LiveDir,
    name: &Name,
    directory: &Versioned<DirEntry>,
    path: &DrivePath,
    child: &LiveDir,
) -> Plan {
    let mut empty = child.checks();
    empty.push(Check::FamilyEmpty(dir::SUB));
    let mut named = live.checks();
    let qualifier = dir::directory_qualifier(name);
    named.push(Check::Equals(Column::new(dir::SUB, qualifier.clone()), directory.bytes.clone()));
    let unlink = vec![Change::delete(dir::SUB, qualifier)];
    Plan {
        guarded: vec![
            ConditionalRow { table: dir::TABLE, row: path.key(), checks: empty, changes: dir::delete_cells() },
            ConditionalRow { table: dir::TABLE, row: parent.key(), checks: named, changes: unlink },
        ],
        finish: vec![RowChange { table: dir_parent::TABLE, row: child.id.key(), changes: dir_parent::delete_cells() }],
        ..Plan::default()
    }
}
