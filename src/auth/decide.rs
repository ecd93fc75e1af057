//! Decides whether a user has a right on a directory.
//!
//! Rights add up from the root down, so a grant on any directory of the path counts. A grant that a user has given
//! counts as long as its giver has the right to share and the same right there; his right may come from another giver.
//! So the search goes from the user to givers, until a grant of an admin ends it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::Auth;
use super::asker::Asker;
use super::authority::Authority;
use super::error::{AuthError, Result};
use super::guards;
use crate::schema::account::{self, Grantee, Stamp};
use crate::schema::dir;
use crate::schema::grant::{Giver, Grant};
use crate::schema::ids::DirId;
use crate::schema::path::DrivePath;
use crate::schema::rights::Right;
use crate::schema::user_name::UserName;
use crate::table::{Check, ConditionalRow, Plan};

/// Accounts that one decision may look at, each once for each directory that a grant is on.
const ACCOUNTS: usize = 64;
/// Givers between a user and an admin. A right that needs a longer chain does not count: each giver is a row of the
/// plan, which may have [`GUARDED_ROWS`](crate::table::limits::GUARDED_ROWS).
const GIVERS: usize = 16;

/// The directories of a path as they were read: each with its id, from the root down. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirChain(Arc<Vec<(DrivePath, DirId)>>);

impl DirChain {
    /// The root alone.
    pub fn root() -> Self {
        Self(Arc::new(vec![(DrivePath::root(), DirId::ROOT)]))
    }

    /// Adds a directory that is in the last one.
    pub fn push(&mut self, path: DrivePath, id: DirId) {
        Arc::make_mut(&mut self.0).push((path, id));
    }

    /// The last directory.
    pub fn last(&self) -> Option<&(DrivePath, DirId)> {
        self.0.last()
    }

    /// The directories, from the root down.
    pub fn dirs(&self) -> impl Iterator<Item = &(DrivePath, DirId)> {
        self.0.iter()
    }

    /// How many directories there are below the root.
    pub fn depth(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// The position of a directory, if it is one of the path down to `depth`.
    fn level(&self, dir: DirId, depth: usize) -> Option<usize> {
        self.0.iter().rposition(|(_, id)| *id == dir).filter(|level| *level <= depth)
    }

    /// The check that the last directory is still at its path.
    pub(super) fn bound_last(&self) -> Option<ConditionalRow> {
        self.bound(self.depth())
    }

    /// The check that a directory is still at its path. The root always is.
    fn bound(&self, level: usize) -> Option<ConditionalRow> {
        let (path, id) = self.0.get(level).filter(|(_, id)| *id != DirId::ROOT)?;
        let checks = vec![Check::Equals(dir::id_column(), dir::encode_id(*id)), Check::Absent(dir::lock_column())];
        Some(ConditionalRow { table: dir::TABLE, row: path.key(), checks, changes: Vec::new() })
    }
}

/// That a user may do something, with the checks of what this was decided on. Only a decision makes it.
#[derive(Clone, Debug)]
#[must_use = "the plan of the change has to contain its checks"]
pub struct Permission {
    /// None if no right is read for the requester.
    authority: Option<Authority>,
    /// What guards it beside the authority.
    rows: Vec<ConditionalRow>,
    has_givers: bool,
}

/// Two are equal if they have the same checks, and depend on the same accounts.
impl PartialEq for Permission {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.authority, &other.authority) {
            (Some(authority), Some(other)) => authority.is_same(other),
            (None, None) => true,
            _ => false,
        };
        is_same && self.rows == other.rows && self.has_givers == other.has_givers
    }
}

impl Eq for Permission {}

impl Permission {
    /// That of a requester for whom no right is read.
    pub(super) fn unguarded() -> Self {
        Self { authority: None, rows: Vec::new(), has_givers: false }
    }

    /// The user; none on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        self.authority.as_ref().and_then(Authority::user)
    }

    /// Whether it also depends on accounts of users who have given the right to the one who asks.
    pub fn has_givers(&self) -> bool {
        self.has_givers
    }

    /// Adds its checks to the plan of the change. The plan is refused if the right has ended.
    ///
    /// IMPORTANT: the plan also has to check that the directory which it changes is live at its path. Only both
    /// together prove that this directory still lies below the one that the right is bound to.
    pub fn guard(&self, plan: &mut Plan) {
        guards::add_all(plan, self.authority.iter().map(Authority::guard));
        guards::add_all(plan, self.rows.iter().cloned());
    }
}

/// A user of a search, with what was found on the way to him: a giver, and at first the user who asks.
struct Step {
    name: UserName,
    /// His grants on this directory of the path and above it count.
    depth: usize,
    rows: Vec<ConditionalRow>,
    /// How many givers there are from the user who asks to this one, with this one; 0 for that user himself.
    givers: usize,
}

/// What a search needs of an account.
#[derive(Clone, Copy)]
struct Holder<'a> {
    admin: bool,
    grants: &'a [Grant],
}

impl<'a> Holder<'a> {
    fn of(asker: &'a Asker) -> Self {
        Self { admin: asker.admin, grants: &asker.grants }
    }
}

impl Auth {
    /// Decides whether a user has a right on the last directory of a path.
    ///
    /// Errors: [`AuthError::Forbidden`] if he has not.
    pub async fn decide(&self, authority: &Authority, chain: &DirChain, right: Right) -> Result<Permission> {
        let (mut rows, mut has_givers) = (Vec::new(), false);
        let permission = |rows, has_givers| Permission { authority: Some(authority.clone()), rows, has_givers };
        let Some(asker) = &authority.asker else { return Ok(permission(rows, has_givers)) };
        let mut depth = chain.depth();
        if let Some(scope) = asker.scope {
            let level = chain.level(scope.dir, depth).filter(|_| scope.rights.contains(right));
            let level = level.ok_or(AuthError::Forbidden)?;
            rows.extend(chain.bound(level));
            // What its maker has further down does not count: he could not share its directory by that.
            depth = if asker.share.is_some() { level } else { depth };
        }
        // A share does what it is for, as long as its maker may do that, and may share it.
        let needed = match &asker.share {
            None => [Some(right), None],
            Some(share) => share.needed(right).ok_or(AuthError::Forbidden)?.map(Some),
        };
        for right in needed.into_iter().flatten() {
            let found = match own_guards(asker, Holder::of(asker), (chain, depth), right) {
                Some(found) => found,
                None => {
                    has_givers = true;
                    // In a box, since few requests need it: else the future of each would be as large as this one.
                    Box::pin(self.search(asker, (chain, depth), right)).await?.ok_or(AuthError::Forbidden)?
                }
            };
            found.into_iter().for_each(|row| guards::add(&mut rows, row));
        }
        Ok(permission(rows, has_givers))
    }

    /// What guards the shortest chain of givers that ends at one who has the right by himself, for a user who has not.
    /// None if there is no such chain. `depth`: the directory of the path on which he needs the right.
    async fn search(
        &self,
        asker: &Asker,
        (chain, depth): (&DirChain, usize),
        right: Right,
    ) -> Result<Option<Vec<ConditionalRow>>> {
        // Only admins give the right to share, so no giver has given it.
        if right == Right::Share {
            return Ok(None);
        }
        let first = Step { name: asker.name.clone(), depth, rows: Vec::new(), givers: 0 };
        let mut seen = HashSet::from([(first.name.clone(), first.depth)]);
        let mut open: VecDeque<Step> = givers(&first, Holder::of(asker), chain, right).collect();
        while let Some(mut step) = open.pop_front() {
            if !seen.insert((step.name.clone(), step.depth)) {
                continue;
            }
            if seen.len() > ACCOUNTS {
                break;
            }
            let Some((stamp, admin, grants)) = self.giver(&step.name).await? else { continue };
            let holder = Holder { admin, grants: &grants };
            guards::add(&mut step.rows, stamp_of(Grantee::User(step.name.clone()), stamp));
            if !holder.admin {
                let Some(rows) = given_by_admins(asker, holder, (chain, step.depth), Right::Share) else { continue };
                rows.into_iter().for_each(|row| guards::add(&mut step.rows, row));
            }
            if let Some(rows) = own_guards(asker, holder, (chain, step.depth), right) {
                rows.into_iter().for_each(|row| guards::add(&mut step.rows, row));
                return Ok(Some(step.rows));
            }
            if step.givers < GIVERS {
                open.extend(givers(&step, holder, chain, right));
            }
        }
        Ok(None)
    }

    /// The stamp of a giver, whether he is an admin, and his grants. A giver who is disabled keeps his rights: he only
    /// cannot log in.
    async fn giver(&self, name: &UserName) -> Result<Option<(Stamp, bool, Vec<Grant>)>> {
        let account = self.account_without_usage(&Grantee::User(name.clone())).await?;
        Ok(account.and_then(|account| Some((account.stamp, account.user()?.admin, account.grants))))
    }
}

/// What guards the right of a user who has it by himself: he is an admin, or an admin has given it to him or to every
/// user. None if he has not.
fn own_guards(asker: &Asker, holder: Holder<'_>, at: (&DirChain, usize), right: Right) -> Option<Vec<ConditionalRow>> {
    if holder.admin { Some(Vec::new()) } else { given_by_admins(asker, holder, at, right) }
}

/// A grant of an admin to this user, or to every user, that has the right: what guards it. The deepest one of his own
/// is taken, else the deepest one to every user. None if there is no such grant.
fn given_by_admins(
    asker: &Asker,
    holder: Holder<'_>,
    (chain, depth): (&DirChain, usize),
    right: Right,
) -> Option<Vec<ConditionalRow>> {
    let levels = |grants: &[Grant]| {
        let given = grants.iter().filter(|grant| grant.giver == Giver::Admins && grant.rights.contains(right));
        given.filter_map(|grant| chain.level(grant.dir, depth)).max()
    };
    let own = levels(holder.grants);
    if let Some(level) = own {
        return Some(chain.bound(level).into_iter().collect());
    }
    let (stamp, grants) = asker.everyone.as_ref()?;
    let level = levels(grants)?;
    Some([stamp_of(Grantee::Everyone, *stamp)].into_iter().chain(chain.bound(level)).collect())
}

/// The users who have given this right to the holder.
fn givers<'a>(
    step: &'a Step,
    holder: Holder<'a>,
    chain: &'a DirChain,
    right: Right,
) -> impl Iterator<Item = Step> + 'a {
    holder.grants.iter().filter(move |grant| grant.rights.contains(right)).filter_map(move |grant| {
        let Giver::User(name) = &grant.giver else { return None };
        let depth = chain.level(grant.dir, step.depth)?;
        let mut rows = step.rows.clone();
        if let Some(row) = chain.bound(depth) {
            guards::add(&mut rows, row);
        }
        Some(Step { name: name.clone(), depth, rows, givers: step.givers + 1 })
    })
}

fn stamp_of(account: Grantee, stamp: Stamp) -> ConditionalRow {
    ConditionalRow { table: account::TABLE, row: account.key(), checks: vec![stamp.check()], changes: Vec::new() }
}
