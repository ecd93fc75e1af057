//! Makes a directory.

use std::sync::Arc;

use super::{Committer, Decision};
use crate::auth::Requester;
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{Node, Written};
use crate::drive::namespace::lookup::stat;
use crate::drive::namespace::resolve::resolve_parent;
use crate::drive::refusals::settled;
use crate::drive::rights::{Look, Rights};
use crate::schema::DrivePath;
use crate::schema::usage::UsageChange;
use crate::table::Plan;

/// Makes a directory, and with `parents` its missing parents. If the directory exists, it succeeds and changes nothing.
pub async fn mkdir(
    committer: &Arc<Committer>,
    requester: &Requester,
    path: &DrivePath,
    creator: &str,
    parents: bool,
) -> Result<Written> {
    let (this, requester, path, creator) = (committer.clone(), requester.clone(), path.clone(), creator.to_owned());
    let make = |caller| async move { make_directory(&this, &requester, &path, (&creator, parents), &caller).await };
    committer.gate.run_to_end(make).await
}

async fn make_directory(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    (creator, parents): (&str, bool),
    caller: &Caller,
) -> Result<Written> {
    let parent = path.split().map_or_else(DrivePath::root, |(parent, _)| parent);
    let (decide, paths) = (|| decide(committer, requester, path, creator, parents), [path, &parent]);
    committer.until_committed(caller, |_| settled(&committer.namespace, requester, &paths, decide)).await
}

async fn decide(
    committer: &Committer,
    requester: &Requester,
    path: &DrivePath,
    creator: &str,
    parents: bool,
) -> Result<Decision<'static, Written>> {
    let ns = &committer.namespace;
    // Never a first attempt: the retry loop does not count them.
    let look = Look::at(ns, requester, path, 1).await?;
    let found = stat(ns, path).await;
    if !look.holds().await? {
        return Ok(Decision::Again);
    }
    if let Ok(node) = found.as_ref()
        && node.is_directory()
        && look.sight.shows(node)
    {
        return Ok(Decision::Answer(Written { node: node.clone(), new: false }));
    }
    let parent = path.split().map(|(parent, _)| parent).ok_or(DriveError::Forbidden)?;
    let rights = Rights::read(ns, requester).await?;
    let permission = rights.write_in(&parent).await?;
    match found {
        Ok(Node::File { .. }) => return Err(DriveError::IsFile),
        // Not seen before, and now there is the right to write around it.
        Ok(Node::Directory { .. }) => return Ok(Decision::Again),
        Err(DriveError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let resolved = resolve_parent(ns, path, creator, committer.clock).await?;
    // Nothing is missing: another request has just made it.
    let Some(new) = resolved.missing.last().cloned() else { return Ok(Decision::Again) };
    if resolved.missing.len() > 1 && !parents {
        return Err(DriveError::ParentMissing);
    }
    let mut plan = Plan::default();
    resolved.add_to(&mut plan, Vec::new(), Vec::new());
    permission.guard(&mut plan);
    let mut usage = UsageChange::default();
    resolved.count(&mut usage);
    rights.count(&mut plan, &usage);
    let node = Node::Directory { path: new.path, entry: new.entry };
    Ok(Decision::Commit { plan, change: None, content: None, answer: Written { node, new: true } })
}
