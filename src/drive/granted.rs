//! The directories that rights are bound to, as a requester sees them.

use std::collections::HashMap;

use super::authorized::stat_in;
use super::error::{DriveError, Result};
use super::model::Node;
use super::namespace::Namespace;
use super::namespace::dir_chain::{chains_of, dir_chain};
use super::rights::{Look, Rights};
use super::settings::TRIES;
use crate::auth::{DirChain, Requester};
use crate::schema::rights::{Right, Rights as RightSet};
use crate::schema::{DirId, DrivePath};

/// The directories of the path of one that the requester sees.
///
/// Errors: [`DriveError::IsFile`] if it is a file.
pub async fn chain(ns: &Namespace, requester: &Requester, path: &DrivePath) -> Result<DirChain> {
    for attempt in 0..TRIES {
        let look = Look::at(ns, requester, path, attempt).await?;
        let found = stat_in(ns, &look.sight, path).await;
        let chain = dir_chain(ns, path).await?;
        if !look.holds().await? {
            continue;
        }
        match found? {
            Node::File { .. } => return Err(DriveError::IsFile),
            Node::Directory { entry, .. } if chain.last().is_some_and(|(at, id)| at == path && *id == entry.id) => {
                return Ok(chain);
            }
            // Another one is at the path now.
            Node::Directory { .. } => {}
        }
    }
    Err(DriveError::Contended)
}

/// The directories on which the requester has rights of his own, each with all rights that he has there, by path.
pub async fn rights(ns: &Namespace, requester: &Requester) -> Result<Vec<(DrivePath, RightSet)>> {
    let rights = Rights::read(ns, requester).await?;
    let on_root = rights.held(&DirChain::root()).await?;
    let mut found = Vec::from_iter((on_root.iter().count() > 0).then(|| (DrivePath::root(), on_root)));
    if on_root != RightSet::ALL {
        for chain in rights.granted(&DirChain::root()).await? {
            let held = rights.held(&chain).await?;
            if let Some((path, _)) = chain.last().filter(|(path, _)| !path.is_root() && held.contains(Right::Read)) {
                found.push((path.clone(), held));
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    Ok(found)
}

/// Where these directories are, as far as the requester may read there.
pub async fn paths(ns: &Namespace, requester: &Requester, dirs: &[DirId]) -> Result<HashMap<DirId, DrivePath>> {
    let rights = Rights::read(ns, requester).await?;
    let mut found = HashMap::new();
    for chain in chains_of(ns, dirs, DirId::ROOT).await? {
        if let (Some((path, id)), true) = (chain.last(), rights.held(&chain).await?.contains(Right::Read)) {
            found.insert(*id, path.clone());
        }
    }
    Ok(found)
}
