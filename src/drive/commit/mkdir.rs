//! Makes a directory.

use std::sync::Arc;

use super::{Committer, Decision};
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{Node, Written};
use crate::drive::namespace::lookup::stat;
use crate::drive::namespace::resolve::resolve_parent;
use crate::schema::DrivePath;
use crate::table::Plan;

/// Makes a directory, and with `parents` its missing parents. If the directory exists, it succeeds and changes nothing.
pub async fn mkdir(committer: &Arc<Committer>, path: &DrivePath, creator: &str, parents: bool) -> Result<Written> {
    let (this, path, creator) = (committer.clone(), path.clone(), creator.to_owned());
    let make = |caller| async move { make_directory(&this, &path, &creator, parents, &caller).await };
    committer.gate.run_to_end(make).await
}

async fn make_directory(
    committer: &Committer,
    path: &DrivePath,
    creator: &str,
    parents: bool,
    caller: &Caller,
) -> Result<Written> {
    committer.until_committed(caller, |_| decide(committer, path, creator, parents)).await
}

async fn decide(
    committer: &Committer,
    path: &DrivePath,
    creator: &str,
    parents: bool,
) -> Result<Decision<'static, Written>> {
    match stat(&committer.namespace, path).await {
        Ok(Node::File { .. }) => return Err(DriveError::IsFile),
        Ok(node) => return Ok(Decision::Answer(Written { node, new: false })),
        Err(DriveError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let resolved = resolve_parent(&committer.namespace, path, creator, committer.clock).await?;
    // Nothing is missing: another request has just made it.
    let Some(new) = resolved.missing.last().cloned() else { return Ok(Decision::Again) };
    if resolved.missing.len() > 1 && !parents {
        return Err(DriveError::ParentMissing);
    }
    let mut plan = Plan::default();
    resolved.add_to(&mut plan, Vec::new(), Vec::new());
    let node = Node::Directory { path: new.path, entry: new.entry };
    Ok(Decision::Commit { plan, change: None, content: None, answer: Written { node, new: true } })
}
