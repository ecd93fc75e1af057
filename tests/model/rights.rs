//! Who may write where, and what a decision leaves to guard.
//!
//! A right is decided by reads at different instants. So all that it was decided on is guarded in the plan that makes
//! the request take effect: the stamp of the user, the stamp of the user who has given the right, and the directory that
//! the right is bound to, live at its path. The directory that changes is live in the same plan. So it still lies below
//! the other one: whatever moves one of the two out moves or locks its row.

use std::collections::BTreeMap;

use crate::bugs::Bug;
use crate::io::{ActorResult, Io};
use crate::locks::read;
use crate::store::{Account, Check, Grant, Guarded, Key, RowLock, User, guarded};
use crate::tree::{Id, Path, ROOT, Request, Tree, path};

type Accounts = BTreeMap<User, Account>;

/// The directories of a path, from the root down.
type Chain = Vec<(Path, Id)>;

/// The directories that a request changes.
fn parents(request: Request) -> impl Iterator<Item = Path> {
    [request.at()].into_iter().chain(request.to()).map(Path::parent)
}

/// Whether the user may make this request now: the specification.
pub fn may_ask(accounts: &Accounts, tree: &Tree, asker: Option<User>, request: Request) -> bool {
    parents(request).all(|at| tree.dir_at(at).is_some_and(|dir| may_write(accounts, tree, asker, dir)))
}

/// Whether the user may write in this directory now: the specification.
pub fn may_write(accounts: &Accounts, tree: &Tree, asker: Option<User>, dir: Id) -> bool {
    let Some(user) = asker else { return accounts.is_empty() };
    let Some(account) = accounts.get(&user).filter(|account| !account.removed) else { return false };
    let counts = |grant: &Grant| grant.by.is_none_or(|giver| may_share(accounts, tree, giver, grant.dir));
    account.admin || account.grants.iter().any(|grant| is_within(tree, dir, grant.dir) && counts(grant))
}

fn may_share(accounts: &Accounts, tree: &Tree, giver: User, dir: Id) -> bool {
    let Some(account) = accounts.get(&giver).filter(|account| !account.removed) else { return false };
    account.admin || account.grants.iter().any(|grant| passes_on(grant) && is_within(tree, dir, grant.dir))
}

/// Whether its holder may give the right to others. Only admins give that.
fn passes_on(grant: &Grant) -> bool {
    grant.share && grant.by.is_none()
}

fn is_within(tree: &Tree, mut dir: Id, root: Id) -> bool {
    while dir != root {
        let Some((parent, _)) = tree.dirs.get(&dir) else { return false };
        dir = *parent;
    }
    true
}

/// Decides whether the asker may make this request. Returns what guards the decision; `None` if he may not.
pub fn decide(io: &mut Io<'_>, request: Request) -> ActorResult<Option<Vec<Guarded>>> {
    if io.scene.accounts.is_none() {
        return Ok(Some(vec![]));
    }
    let Some(user) = io.asker() else {
        let no_users = guarded(Key::Admins, &[Check::Admins(0)], &[]);
        let guards = if io.bug(Bug::AnonymousUnguarded) { vec![] } else { vec![no_users] };
        return Ok((io.admins()? == 0).then_some(guards));
    };
    let Some(account) = io.account(user)?.filter(|account| !account.removed) else { return Ok(None) };
    let mut guards = stamp(io, user, &account, Bug::UserStampUnchecked);
    if account.admin {
        return Ok(Some(guards));
    }
    for at in parents(request) {
        let Some(found) = decide_dir(io, &account, at)? else { return Ok(None) };
        guards.extend(found);
    }
    Ok(Some(guards))
}

/// Looks for a grant on the directories of a path, from the last one up.
fn decide_dir(io: &mut Io<'_>, account: &Account, at: Path) -> ActorResult<Option<Vec<Guarded>>> {
    let Some(chain) = chain(io, at)? else { return Ok(None) };
    for end in (1..=chain.len()).rev() {
        let (chain, (at, id)) = (&chain[..end], chain[end - 1]);
        for grant in account.grants.iter().filter(|grant| grant.dir == id) {
            let mut guards = bound_to(io, at, id);
            match grant.by {
                None => return Ok(Some(guards)),
                Some(giver) => {
                    if let Some(more) = decide_giver(io, giver, chain)? {
                        guards.extend(more);
                        return Ok(Some(guards));
                    }
                }
            }
        }
    }
    Ok(None)
}

/// A right that was given by a user counts as long as he may give it.
fn decide_giver(io: &mut Io<'_>, giver: User, chain: &[(Path, Id)]) -> ActorResult<Option<Vec<Guarded>>> {
    let Some(account) = io.account(giver)?.filter(|account| !account.removed) else { return Ok(None) };
    let mut guards = stamp(io, giver, &account, Bug::GiverStampUnchecked);
    if account.admin {
        return Ok(Some(guards));
    }
    let grants = |id| account.grants.iter().any(|grant| grant.dir == id && passes_on(grant));
    let Some((at, id)) = chain.iter().rev().find(|(_, id)| grants(*id)) else { return Ok(None) };
    guards.extend(bound_to(io, *at, *id));
    Ok(Some(guards))
}

/// The ids of the directories of a path, as readers see them; `None` if one is missing.
fn chain(io: &mut Io<'_>, at: Path) -> ActorResult<Option<Chain>> {
    let mut up = vec![];
    let mut next = at;
    while next != path("/") {
        up.push(next);
        next = next.parent();
    }
    let mut chain = vec![(path("/"), ROOT)];
    for at in up.into_iter().rev() {
        let Some(row) = read(io, at)? else { return Ok(None) };
        chain.push((at, row.id));
    }
    Ok(Some(chain))
}

/// The directory with this id is live at this path. The root always is.
fn bound_to(io: &Io<'_>, at: Path, id: Id) -> Vec<Guarded> {
    if id == ROOT || io.bug(Bug::RightDirUnchecked) {
        return vec![];
    }
    let unlocked = Check::Lock(RowLock::Unlocked);
    let checks = if io.bug(Bug::RightByPath) { vec![unlocked] } else { vec![Check::Id(id), unlocked] };
    vec![guarded(Key::Dir(at), &checks, &[])]
}

fn stamp(io: &Io<'_>, user: User, account: &Account, unless: Bug) -> Vec<Guarded> {
    if io.bug(unless) { vec![] } else { vec![guarded(Key::Account(user), &[Check::Stamp(account.stamp)], &[])] }
}
