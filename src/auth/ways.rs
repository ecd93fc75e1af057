//! What a user sees of directories that he may not read: only what leads to those that he may.

use std::collections::{HashMap, HashSet};

use super::Auth;
use super::authority::Authority;
use super::decide::{DirChain, Permission};
use super::error::{AuthError, Result};
use crate::schema::ids::DirId;
use crate::schema::path::{DrivePath, Name};
use crate::schema::rights::Right;

/// The directories on the way to what a user may read, each with its children that lead there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    children: HashMap<DirId, HashMap<DirId, Name>>,
    /// What they lead to.
    readable: Vec<DirChain>,
    /// What makes each of these readable.
    permissions: Vec<Permission>,
}

impl Ways {
    /// Whether a directory leads to one that the user may read.
    pub fn is_way(&self, dir: DirId) -> bool {
        self.children.contains_key(&dir)
    }

    /// Whether a child of a directory is one that the user may read, or leads to one.
    pub fn shows(&self, dir: DirId, child: DirId) -> bool {
        self.children.get(&dir).is_some_and(|children| children.contains_key(&child))
    }

    /// The names of the children that are shown of a directory, as they were when the ways were found.
    pub fn names(&self, dir: DirId) -> impl Iterator<Item = &Name> {
        self.children.get(&dir).into_iter().flat_map(HashMap::values)
    }

    /// The chains of the granted directories that the user may read.
    pub fn chains(&self) -> &[DirChain] {
        &self.readable
    }

    /// The granted directories that the user may read.
    pub fn readable(&self) -> impl Iterator<Item = &(DrivePath, DirId)> {
        self.readable.iter().filter_map(DirChain::last)
    }

    /// Those below this directory.
    pub fn readable_below(&self, dir: DirId) -> impl Iterator<Item = &(DrivePath, DirId)> {
        self.readable.iter().filter(move |chain| chain.dirs().any(|(_, id)| *id == dir)).filter_map(DirChain::last)
    }
}

impl Authority {
    /// The directories of all grants that may count for the user.
    pub fn granted_dirs(&self) -> HashSet<DirId> {
        let Some(asker) = &self.asker else { return HashSet::new() };
        let everyone = asker.everyone.iter().flat_map(|(_, grants)| grants);
        // A token for a directory in a granted one may read that.
        let scope = asker.scope.iter().map(|scope| scope.dir);
        asker.grants.iter().chain(everyone).map(|grant| grant.dir).chain(scope).collect()
    }
}

impl Auth {
    /// The ways to all that a user may read. `chains`: those of the [granted](Authority::granted_dirs) directories that
    /// exist. Who may read the root needs no ways.
    ///
    /// A token for a directory sees nothing above it.
    pub async fn ways(&self, authority: &Authority, chains: &[DirChain]) -> Result<Ways> {
        let mut ways = Ways::default();
        let scope = authority.asker.as_ref().and_then(|asker| asker.scope);
        for chain in chains {
            match self.decide(authority, chain, Right::Read).await {
                Ok(permission) => ways.permissions.push(permission),
                Err(AuthError::Forbidden) => continue,
                Err(error) => return Err(error),
            }
            let is_above = |id: &DirId| scope.is_some_and(|scope| *id != scope.dir);
            let dirs: Vec<_> = chain.dirs().skip_while(|(_, id)| is_above(id)).collect();
            for ((_, dir), (path, child)) in dirs.iter().zip(dirs.iter().skip(1)) {
                if let Some((_, name)) = path.split() {
                    ways.children.entry(*dir).or_default().insert(*child, name);
                }
            }
            ways.readable.push(chain.clone());
        }
        Ok(ways)
    }
}
