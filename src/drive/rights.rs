//! What a requester may change and see: decided by [`auth`](crate::auth) on the directories of a path, by their ids.
//!
//! - A change asks [`Rights`] in each attempt, and adds the checks of the [`Permission`] to its plan: if the right has
//!   ended since, the plan is refused, and the next attempt decides anew.
//! - A read takes a [`Look`] at its path, reads, and asks whether the look still [holds](Look::holds).
//!
//! A requester who may do everything costs no read.
//!
//! What he may not read is as if it were missing. A directory that leads to one that he may read is a *way*: he sees it,
//! and in it only what leads there.

use super::error::{DriveError, Result};
use super::model::Node;
use super::namespace::Namespace;
use super::namespace::dir_chain::{chains_of, dir_chain};
use super::namespace::live_dirs::LiveEpoch;
use super::namespace::lookup::stat;
use crate::auth::{Access, AuthError, DirChain, Permission, Requester, Ways};
use crate::schema::rights::Right;
use crate::schema::{DirId, DrivePath};

/// What a requester may do, as one attempt has read it.
pub struct Rights<'a> {
    ns: &'a Namespace,
    access: Access,
}

/// What a requester sees at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All: he may do everything.
    Unrestricted,
    /// All that is in the last of the directories of the path that exist.
    Whole(DirChain),
    /// Of these directories no more than the ways to what he may read.
    Ways(DirChain, Ways),
}

impl<'a> Rights<'a> {
    /// Reads who asks, as his account is now.
    pub async fn read(ns: &'a Namespace, requester: &Requester) -> Result<Self> {
        Ok(Self { ns, access: requester.access().await? })
    }

    /// The permission to change the children of a directory or, if it is missing, those of the deepest directory above it.
    ///
    /// Errors: [`DriveError::Forbidden`].
    pub async fn write_in(&self, path: &DrivePath) -> Result<Permission> {
        self.on(path, Right::Write).await
    }

    /// As [`write_in`](Self::write_in), for what comes from `source`, which was found before.
    ///
    /// Errors: [`DriveError::NotFound`] if he does not see the source any more. Source and target are decided at two
    /// instants: the change that ended the right on the target may have ended that on the source too.
    pub async fn write_from(&self, source: &DrivePath, path: &DrivePath) -> Result<Permission> {
        match self.write_in(path).await {
            Err(DriveError::Forbidden) => Err(self.refusal(source).await?),
            permission => permission,
        }
    }

    /// The permission to take away what is at this path: that of its parent.
    ///
    /// Errors: [`DriveError::Forbidden`] if he sees it and may not; [`DriveError::NotFound`] if he does not see it.
    pub async fn take(&self, path: &DrivePath) -> Result<Permission> {
        let (parent, _) = path.split().ok_or(DriveError::Root)?;
        match self.write_in(&parent).await {
            Err(DriveError::Forbidden) => Err(self.refusal(path).await?),
            permission => permission,
        }
    }

    /// How what is at this path is refused to him: as if it were missing, if he does not see it.
    async fn refusal(&self, path: &DrivePath) -> Result<DriveError> {
        let node = stat(self.ns, path).await?;
        Ok(if self.sight(path).await?.shows(&node) { DriveError::Forbidden } else { DriveError::NotFound })
    }

    /// The permission to read the file at a path.
    ///
    /// Errors: [`DriveError::NotFound`] if he may not: then he does not see it.
    pub async fn read_file(&self, path: &DrivePath) -> Result<Permission> {
        let (parent, _) = path.split().ok_or(DriveError::NotFound)?;
        match self.on(&parent, Right::Read).await {
            Err(DriveError::Forbidden) => Err(DriveError::NotFound),
            permission => permission,
        }
    }

    async fn on(&self, path: &DrivePath, right: Right) -> Result<Permission> {
        let chain = if self.access.is_unrestricted() { DirChain::root() } else { dir_chain(self.ns, path).await? };
        Ok(self.access.decide(&chain, right).await?)
    }

    /// What he sees at this path.
    pub async fn sight(&self, path: &DrivePath) -> Result<Sight> {
        if self.access.is_unrestricted() {
            return Ok(Sight::Unrestricted);
        }
        let chain = dir_chain(self.ns, path).await?;
        match self.access.decide(&chain, Right::Read).await {
            Ok(_read_only) => Ok(Sight::Whole(chain)),
            Err(AuthError::Forbidden) => Ok(Sight::Ways(chain, self.ways().await?)),
            Err(error) => Err(error.into()),
        }
    }

    async fn ways(&self) -> Result<Ways> {
        Ok(self.access.ways(&self.granted().await?).await?)
    }

    /// The chains of all directories on which he may have been given something.
    async fn granted(&self) -> Result<Vec<DirChain>> {
        let mut dirs: Vec<DirId> = self.access.granted_dirs().into_iter().collect();
        // Always in the same order, so that a seeded run makes the same calls each time.
        dirs.sort_unstable();
        chains_of(self.ns, &dirs).await
    }
}

impl Sight {
    /// Whether he sees all that is at this path and below it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Unrestricted | Self::Whole(_))
    }

    /// The ways in the directory at this path, if he sees those alone.
    pub fn ways_in(&self, path: &DrivePath) -> Option<(DirId, &Ways)> {
        let Self::Ways(chain, ways) = self else { return None };
        chain.last().filter(|(last, id)| last == path && ways.is_way(*id)).map(|(_, id)| (*id, ways))
    }

    /// Whether he sees what was found at the path of this sight.
    pub fn shows(&self, node: &Node) -> bool {
        self.is_whole() || (node.is_directory() && self.ways_in(node.path()).is_some())
    }
}

/// What a requester sees at a path, with what proves later that a read since then has shown no more.
pub struct Look<'a> {
    rights: Rights<'a>,
    pub path: &'a DrivePath,
    /// Read before all else.
    epoch: LiveEpoch,
    pub sight: Sight,
}

impl<'a> Look<'a> {
    pub async fn at(ns: &'a Namespace, requester: &Requester, path: &'a DrivePath) -> Result<Self> {
        let epoch = ns.live_dirs.now();
        let rights = Rights::read(ns, requester).await?;
        let sight = rights.sight(path).await?;
        Ok(Self { rights, path, epoch, sight })
    }

    /// The epoch of directory moves, from before it.
    pub fn moves(&self) -> u64 {
        self.epoch.moves()
    }

    /// Whether he still sees the same: no directory has moved or was removed since, or none of this path. Otherwise what
    /// was read at the path may be of another directory, in which he has no right: look again.
    pub async fn holds(&self) -> Result<bool> {
        let is_same = self.sight == Sight::Unrestricted || self.rights.ns.live_dirs.unchanged_since(self.epoch);
        Ok(is_same || self.rights.sight(self.path).await? == self.sight)
    }
}
