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
use super::namespace::dir_paths::DirPath;
use super::namespace::live_dirs::LiveEpoch;
use super::namespace::lookup::stat;
use super::settings::TRIES;
use crate::auth::{Access, AuthError, DirChain, Permission, Requester, Ways};
use crate::schema::rights::{Right, Rights as RightSet};
use crate::schema::usage::UsageChange;
use crate::schema::{DirId, DrivePath};
use crate::table::Plan;

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
    /// All that is in the last of the directories of the path that exist, by this permission.
    Whole(DirChain, Permission),
    /// Of these directories no more than the ways to what he may read.
    Ways(DirChain, Ways),
}

impl<'a> Rights<'a> {
    /// Reads who asks, as his account is now.
    pub async fn read(ns: &'a Namespace, requester: &Requester) -> Result<Self> {
        Ok(Self { ns, access: requester.access().await? })
    }

    /// Adds the usage of a change to its plan, within the quota of the requester: [`Access::count`]. After all guards.
    pub fn count(&self, plan: &mut Plan, change: &UsageChange) {
        self.access.count(plan, change);
    }

    /// What the requester may do.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The permission to change the children of a directory or, if it is missing, those of the deepest directory above it.
    ///
    /// Errors: [`DriveError::Forbidden`].
    pub async fn write_in(&self, path: &DrivePath) -> Result<Permission> {
        self.on(path, Right::Write).await
    }

    /// As [`write_in`](Self::write_in), for what comes from `source`, which was found before.
    ///
    /// Errors: [`DriveError::NotFound`] if he does not see the source any more. The rights at both paths are decided at two
    /// instants: the change that ended the one at `path` may have ended that at the source too.
    pub async fn write_from(&self, source: &DrivePath, path: &DrivePath) -> Result<Permission> {
        match self.write_in(path).await {
            Err(DriveError::Forbidden) => Err(self.refusal(source, path).await?),
            permission => permission,
        }
    }

    /// The permission to move or delete what is at this path: that to write in its parent.
    ///
    /// Errors: [`DriveError::Forbidden`] if he sees it and may not; [`DriveError::NotFound`] if he does not see it.
    pub async fn take(&self, path: &DrivePath) -> Result<Permission> {
        let (parent, _) = path.split().ok_or(DriveError::Root)?;
        match self.write_in(&parent).await {
            Err(DriveError::Forbidden) => Err(self.refusal(path, &parent).await?),
            permission => permission,
        }
    }

    /// How what is at this path is refused to him, who may not write in `target`: as if it were missing, if he does not
    /// see it. What is there and what he sees of it are of one instant: otherwise he could learn that something hidden
    /// was there, by a right that he got after it was removed.
    ///
    /// Errors: [`DriveError::Contended`] if he has the right by now.
    async fn refusal(&self, path: &DrivePath, target: &DrivePath) -> Result<DriveError> {
        for attempt in 0..TRIES {
            let epoch = self.ns.live_dirs.now();
            let look = Look::of(self.again().await?, path, epoch, attempt).await?;
            let found = stat(self.ns, path).await;
            let is_refused = matches!(look.rights.write_in(target).await, Err(DriveError::Forbidden));
            if look.holds().await? && is_refused {
                return Ok(if look.sight.shows(&found?) { DriveError::Forbidden } else { DriveError::NotFound });
            }
        }
        Err(DriveError::Contended)
    }

    /// Reads again who asks.
    async fn again(&self) -> Result<Self> {
        Ok(Self { ns: self.ns, access: self.access.again().await? })
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

    /// The permission to read what is in the last directory of a path.
    ///
    /// Errors: [`DriveError::NotFound`] if he may not: then he does not see it.
    pub async fn read_in(&self, chain: &DirChain) -> Result<Permission> {
        match self.access.decide(chain, Right::Read).await {
            Err(AuthError::Forbidden) => Err(DriveError::NotFound),
            permission => Ok(permission?),
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
            Ok(permission) => Ok(Sight::Whole(chain, permission)),
            Err(AuthError::Forbidden) => {
                let ways = self.access.ways(&self.granted(&chain).await?).await?;
                Ok(Sight::Ways(chain, ways))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether he still sees this of the same directories, and did all the time: a giver may have lost the right. His own
    /// account is known to be the same.
    async fn keeps(&self, sight: &Sight) -> Result<bool> {
        match sight {
            Sight::Unrestricted => Ok(true),
            Sight::Whole(_, permission) if !permission.has_givers() => Ok(true),
            Sight::Whole(chain, permission) => match self.access.decide(chain, Right::Read).await {
                Ok(again) => Ok(again == *permission),
                Err(AuthError::Forbidden) => Ok(false),
                Err(error) => Err(error.into()),
            },
            Sight::Ways(_, ways) => Ok(self.access.ways(ways.chains()).await? == *ways),
        }
    }

    /// All rights that he has on the last directory of a path.
    pub async fn held(&self, chain: &DirChain) -> Result<RightSet> {
        let mut held = Vec::new();
        for right in RightSet::ALL.iter() {
            match self.access.decide(chain, right).await {
                Ok(_read_only) => held.push(right),
                Err(AuthError::Forbidden) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(held.into_iter().collect())
    }

    /// The chains of all directories on which he may have been given something, in the last one of this chain.
    pub async fn granted(&self, chain: &DirChain) -> Result<Vec<DirChain>> {
        let Some((_, top)) = chain.last() else { return Ok(Vec::new()) };
        let mut dirs: Vec<DirId> = self.access.granted_dirs().into_iter().collect();
        // Always in the same order, so that a seeded run makes the same calls each time.
        dirs.sort_unstable();
        chains_of(self.ns, &dirs, *top).await
    }
}

impl Sight {
    /// Whether he sees all that is at this path and below it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Unrestricted | Self::Whole(..))
    }

    /// The ways in the directory at this path, if he sees those alone.
    pub fn ways_in(&self, path: &DrivePath) -> Option<(DirId, &Ways)> {
        let Self::Ways(chain, ways) = self else { return None };
        chain.last().filter(|(last, id)| last == path && ways.is_way(*id)).map(|(_, id)| (*id, ways))
    }

    /// The last of the directories of the path that exist; none if he may do everything.
    pub fn dir(&self) -> Option<DirId> {
        self.chain().and_then(DirChain::last).map(|(_, dir)| *dir)
    }

    fn chain(&self) -> Option<&DirChain> {
        match self {
            Self::Unrestricted => None,
            Self::Whole(chain, _) | Self::Ways(chain, _) => Some(chain),
        }
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
    /// The links of the last directory of the path. They tell whether it was there all the time, also while others move.
    links: Option<DirPath>,
}

impl<'a> Look<'a> {
    /// `attempt`: from 0. The first one costs less, and holds only if no directory moves meanwhile.
    pub async fn at(ns: &'a Namespace, requester: &Requester, path: &'a DrivePath, attempt: usize) -> Result<Self> {
        let epoch = ns.live_dirs.now();
        Self::of(Rights { ns, access: requester.access().await? }, path, epoch, attempt).await
    }

    /// The first look at an entry: decided on the directories above it, which are known to be there, so that no row is read
    /// at its own path. Who may read there may read the entry, be it a file or a directory. None if they are not known, if
    /// he may not, or if he may everything: then the path is to be looked at.
    pub async fn above(ns: &'a Namespace, requester: &Requester, path: &'a DrivePath) -> Result<Option<Self>> {
        let epoch = ns.live_dirs.now();
        let rights = Rights { ns, access: requester.access().await? };
        if rights.access.is_unrestricted() {
            return Ok(None);
        }
        let Some(chain) = path.split().and_then(|(parent, _)| ns.live_dirs.chain(&parent)) else { return Ok(None) };
        match rights.access.decide(&chain, Right::Read).await {
            Ok(permission) => {
                Ok(Some(Self { rights, path, epoch, sight: Sight::Whole(chain, permission), links: None }))
            }
            Err(AuthError::Forbidden) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn of(rights: Rights<'a>, path: &'a DrivePath, epoch: LiveEpoch, attempt: usize) -> Result<Self> {
        let sight = rights.sight(path).await?;
        // IMPORTANT: after the sight, and before all reads at the path.
        let links = match sight.chain().and_then(DirChain::last) {
            Some((_, dir)) if attempt > 0 => Some(rights.ns.dir_paths.read_path(*dir).await?),
            _ => None,
        };
        Ok(Self { rights, path, epoch, sight, links })
    }

    /// The epoch of directory moves, from before it.
    pub fn moves(&self) -> u64 {
        self.epoch.moves()
    }

    /// The permission to change what is in the directory, if he has it.
    pub async fn permission_to_write(&self) -> Result<Option<Permission>> {
        match self.rights.write_in(self.path).await {
            Ok(permission) => Ok(Some(permission)),
            Err(DriveError::Forbidden) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether he saw the same at each instant since then. Otherwise what was read at the path may be of another directory,
    /// or was stored after his right had ended: look again.
    ///
    /// - His account and those of his givers have the same stamps: no right has ended.
    /// - No directory has moved or was removed, or the directory of this path has the same links up to the root. It is
    ///   not enough that it is there again: meanwhile another one may have been at its path.
    pub async fn holds(&self) -> Result<bool> {
        if self.sight == Sight::Unrestricted {
            return Ok(self.rights.access.is_still_unrestricted().await?);
        }
        let rights = self.rights.again().await?;
        if !rights.access.is_same(&self.rights.access) {
            return Ok(false);
        }
        if rights.ns.live_dirs.unchanged_since(self.epoch) {
            return rights.keeps(&self.sight).await;
        }
        Ok(self.is_in_place().await? && rights.sight(self.path).await? == self.sight)
    }

    /// Whether the directory of the path was there all the time.
    async fn is_in_place(&self) -> Result<bool> {
        let (Some(links), Some(chain)) = (&self.links, self.sight.chain()) else { return Ok(false) };
        let Some((_, dir)) = chain.last() else { return Ok(false) };
        Ok(links.chain()? == *chain && self.rights.ns.dir_paths.read_path(*dir).await? == *links)
    }
}
