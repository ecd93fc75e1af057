//! The answer that a state gives to a request.

use std::collections::BTreeMap;

use rowdrive::schema::account::Grantee;
use rowdrive::schema::grant::Giver;
use rowdrive::schema::rights::{Right, Rights};
use rowdrive::schema::secret::{SecretKind, SecretOwner};
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{DrivePath, Timestamp};

use super::request::{Answer, Asked, Place, Request};
use super::rights::{Asker, Shared};
use super::states::{Entry, State};

/// What a state says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// He may not, and gets this answer.
    Refused(Answer),
    /// He may, and gets this answer.
    Gets(Answer),
    /// It is done.
    Does,
    /// The directory of a grant or share has left the path where it was found: the request is as if it had been sent
    /// before, or it is refused.
    Stale,
}

use Expected::{Does, Gets, Refused, Stale};

impl Expected {
    pub fn is_refusal(&self) -> bool {
        matches!(self, Refused(_))
    }

    /// Whether a request that changes nothing may get this answer.
    pub fn allows(&self, answer: &Answer) -> bool {
        match self {
            Refused(expected) | Gets(expected) => expected == answer,
            Does => false,
            Stale => matches!(answer, Answer::Forbidden | Answer::Missing),
        }
    }
}

/// What this state answers. `now`: the time by which the credential may have ended.
pub fn expected(state: &State, now: Timestamp, request: &Request) -> Expected {
    let Some(asker) = Asker::of(state, &request.by, now) else {
        // A share that has ended is as if it never was.
        return Refused(if request.is_by_share() { Answer::Missing } else { Answer::Unauthorized });
    };
    match &request.asked {
        Asked::Stat(path) | Asked::Read(path) | Asked::List(path) if request.is_by_share() => {
            shared(&asker, path, &request.asked)
        }
        Asked::Stat(path) | Asked::Target(path) => seen(&asker, path),
        Asked::Read(path) => match seen(&asker, path) {
            Gets(Answer::Seen(Entry::Dir(_))) => Gets(Answer::Conflict),
            other => other,
        },
        Asked::Chain(path) => match seen(&asker, path) {
            Gets(Answer::Seen(Entry::File(_))) => Gets(Answer::Conflict),
            other => other,
        },
        Asked::List(path) => match asker.list(path) {
            Some(children) => Gets(Answer::Shown(children)),
            None => hidden(state, path),
        },
        Asked::Find => Gets(Answer::Shown(asker.files())),
        Asked::Put(path) => put(&asker, path),
        Asked::Mkdir(path) => mkdir(&asker, path),
        Asked::Delete(path) => delete(&asker, path),
        Asked::Rmdir(path) => rmdir(&asker, path),
        Asked::Remove(path) => remove(&asker, path),
        Asked::Move(from, to, overwrite) => move_node(&asker, from, to, *overwrite),
        Asked::Give(place, to, rights) => give(&asker, place, to, *rights),
        Asked::Take(place, from) => take(&asker, place, from),
        Asked::Change { user, .. } | Asked::RemoveUser(user) => of_user(&asker, user),
        Asked::AddUser(name, home, is_new) => add_user(&asker, name, home, *is_new),
        Asked::MakeSession => make_token(&asker, None),
        Asked::MakeToken(_, expires) => make_token(&asker, *expires),
        Asked::MakeShare(place, _, expires) => make_share(&asker, place, *expires),
        Asked::End(owner) => end(&asker, request.by.secret(), owner),
    }
}

/// What is not there is missing, and so is what is there and not seen.
fn hidden(state: &State, path: &DrivePath) -> Expected {
    if state.tree.nodes.contains_key(path) { Refused(Answer::Missing) } else { Gets(Answer::Missing) }
}

fn seen(asker: &Asker<'_>, path: &DrivePath) -> Expected {
    asker.seen(path).map_or_else(|| hidden(asker.state, path), |entry| Gets(Answer::Seen(entry)))
}

/// Paths begin at the directory that is shared. A file is the one entry of the root.
fn shared(asker: &Asker<'_>, path: &DrivePath, asked: &Asked) -> Expected {
    let is_list = matches!(asked, Asked::List(_));
    let found = match asker.shared() {
        None => return Refused(Answer::Missing),
        Some(Shared::File(name, entry)) if is_list => {
            path.is_root().then(|| Answer::Shown(BTreeMap::from([(name, entry)])))
        }
        Some(Shared::File(name, entry)) => (path.levels() == 1 && path.last() == name).then_some(Answer::Seen(entry)),
        Some(Shared::Dir(top)) => {
            let at = path.names().fold(top, |at, name| at.join(&name).unwrap());
            if is_list { asker.list(&at).map(Answer::Shown) } else { asker.seen(&at).map(Answer::Seen) }
        }
    };
    match (found, asked) {
        (Some(Answer::Seen(Entry::Dir(_))), Asked::Read(_)) => Gets(Answer::Conflict),
        (found, _) => Gets(found.unwrap_or(Answer::Missing)),
    }
}

fn put(asker: &Asker<'_>, path: &DrivePath) -> Expected {
    let (parent, _) = path.split().unwrap();
    let tree = &asker.state.tree;
    if !asker.may_write_in(&parent) {
        Refused(Answer::Forbidden)
    } else if tree.has_file_above(path) || tree.dir_at(path).is_some() {
        Gets(Answer::Conflict)
    } else {
        Does
    }
}

fn mkdir(asker: &Asker<'_>, path: &DrivePath) -> Expected {
    if let Some(entry @ Entry::Dir(_)) = asker.seen(path) {
        return Gets(Answer::Seen(entry));
    }
    let (parent, _) = path.split().unwrap();
    let tree = &asker.state.tree;
    if !asker.may_write_in(&parent) {
        Refused(Answer::Forbidden)
    } else if tree.has_file_above(path) || tree.nodes.contains_key(path) {
        Gets(Answer::Conflict)
    } else {
        Does
    }
}

/// What he gets who may not take away what is at a path.
fn not_taken(asker: &Asker<'_>, path: &DrivePath) -> Option<Expected> {
    let (parent, _) = path.split().unwrap();
    if asker.may_write_in(&parent) {
        return None;
    }
    Some(match asker.seen(path) {
        Some(_) => Refused(Answer::Forbidden),
        None => hidden(asker.state, path),
    })
}

fn delete(asker: &Asker<'_>, path: &DrivePath) -> Expected {
    if let Some(refusal) = not_taken(asker, path) {
        return refusal;
    }
    match asker.state.tree.nodes.get(path) {
        Some(Entry::File(_)) => Does,
        Some(Entry::Dir(_)) => Gets(Answer::Conflict),
        None if asker.state.tree.has_file_above(path) => Gets(Answer::Conflict),
        None => Gets(Answer::Missing),
    }
}

fn rmdir(asker: &Asker<'_>, path: &DrivePath) -> Expected {
    if let Some(refusal) = not_taken(asker, path) {
        return refusal;
    }
    let tree = &asker.state.tree;
    match tree.dir_at(path) {
        Some(_) if tree.below(path).next().is_none() => Does,
        Some(_) => Gets(Answer::Conflict),
        None if tree.has_file_above(path) => Gets(Answer::Conflict),
        None => Gets(Answer::Missing),
    }
}

fn remove(asker: &Asker<'_>, path: &DrivePath) -> Expected {
    let found = || if asker.state.tree.dir_at(path).is_some() { Does } else { Gets(Answer::Missing) };
    not_taken(asker, path).unwrap_or_else(found)
}

fn move_node(asker: &Asker<'_>, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Expected {
    if let Some(refusal) = not_taken(asker, from) {
        return refusal;
    }
    let tree = &asker.state.tree;
    let Some(source) = tree.nodes.get(from) else { return Gets(Answer::Missing) };
    let (parent, _) = to.split().unwrap();
    if !asker.may_write_in(&parent) {
        return Refused(Answer::Forbidden);
    }
    let is_free = match (tree.nodes.get(to), source) {
        (None, _) => tree.dir_at(&parent).is_some(),
        (Some(Entry::File(_)), Entry::File(_)) => overwrite,
        (Some(_), _) => false,
    };
    if is_free { Does } else { Gets(Answer::Conflict) }
}

/// Whether the directory of a grant or share is where it was found.
fn is_at_its_path(state: &State, place: &Place) -> bool {
    state.tree.dir_at(&place.path) == Some(place.dir)
}

fn is_holder(state: &State, holder: &Grantee) -> bool {
    match holder {
        Grantee::Everyone => true,
        Grantee::User(name) => state.user(name).is_some(),
    }
}

fn give(asker: &Asker<'_>, place: &Place, to: &Grantee, rights: Rights) -> Expected {
    if !asker.has_whole_account() {
        return Refused(Answer::Forbidden);
    }
    if !asker.is_admin() {
        if rights.contains(Right::Share) || *to == Grantee::Everyone {
            return Refused(Answer::Forbidden);
        }
        if !is_at_its_path(asker.state, place) {
            return Stale;
        }
        let chain = asker.state.tree.chain(&place.path);
        if !rights.iter().chain([Right::Share]).all(|right| asker.has(&chain, right)) {
            return Refused(Answer::Forbidden);
        }
    }
    if !is_holder(asker.state, to) {
        return Gets(Answer::Missing);
    }
    if is_at_its_path(asker.state, place) { Does } else { Stale }
}

/// Of an admin it takes what anyone has given, of others what they have given themselves.
pub fn is_taken(asker: &Asker<'_>, giver: &Giver) -> bool {
    asker.is_admin() || matches!(giver, Giver::User(name) if name == asker.name)
}

fn take(asker: &Asker<'_>, place: &Place, from: &Grantee) -> Expected {
    if !asker.has_whole_account() {
        return Refused(Answer::Forbidden);
    }
    if !asker.is_admin() {
        if !is_at_its_path(asker.state, place) {
            return Stale;
        }
        if !asker.has(&asker.state.tree.chain(&place.path), Right::Share) {
            return Refused(Answer::Forbidden);
        }
    }
    let account = asker.state.accounts.get(from).filter(|_| is_holder(asker.state, from));
    let mut given = account.into_iter().flat_map(|account| account.grants.keys());
    let has_any = given.any(|(dir, giver)| *dir == place.dir && is_taken(asker, giver));
    if has_any { Does } else { Gets(Answer::Missing) }
}

/// No request changes the first admin, so there is always another one.
fn of_user(asker: &Asker<'_>, user: &UserName) -> Expected {
    match asker.state.user(user) {
        _ if !asker.is_admin() => Refused(Answer::Forbidden),
        Some(_) => Does,
        None => Gets(Answer::Missing),
    }
}

fn add_user(asker: &Asker<'_>, name: &UserName, home: &DrivePath, is_new: bool) -> Expected {
    let tree = &asker.state.tree;
    let is_free = match tree.nodes.get(home) {
        None => !tree.has_file_above(home),
        Some(Entry::Dir(_)) => !is_new,
        Some(Entry::File(_)) => false,
    };
    if !asker.is_admin() {
        Refused(Answer::Forbidden)
    } else if !is_free || asker.state.accounts.contains_key(&Grantee::User(name.clone())) {
        Gets(Answer::Conflict)
    } else {
        Does
    }
}

/// Also a session, which has no end of its own here. A token makes none that ends after it.
fn make_token(asker: &Asker<'_>, expires: Option<Timestamp>) -> Expected {
    if !asker.has_whole_account() {
        return Refused(Answer::Forbidden);
    }
    if outlives(asker, expires) { Gets(Answer::Conflict) } else { Does }
}

/// Whether a secret would end after the token that it is made with.
fn outlives(asker: &Asker<'_>, expires: Option<Timestamp>) -> bool {
    expires.zip(asker.token_end).is_some_and(|(expires, end)| expires > end)
}

fn make_share(asker: &Asker<'_>, place: &Place, expires: Option<Timestamp>) -> Expected {
    if !asker.may_share() {
        return Refused(Answer::Forbidden);
    }
    if outlives(asker, expires) {
        return Gets(Answer::Conflict);
    }
    if !is_at_its_path(asker.state, place) {
        return Stale;
    }
    let chain = asker.state.tree.chain(&place.path);
    let may = [Right::Share, Right::Read].into_iter().all(|right| asker.has(&chain, right));
    if may { Does } else { Refused(Answer::Forbidden) }
}

fn end(asker: &Asker<'_>, sent: Option<&SecretOwner>, owner: &SecretOwner) -> Expected {
    let is_own = asker.name == &owner.user;
    let is_own_share = owner.kind == SecretKind::Share && is_own && asker.may_share();
    let may = asker.is_admin() || (is_own && asker.has_whole_account()) || sent == Some(owner) || is_own_share;
    let account = asker.state.accounts.get(&Grantee::User(owner.user.clone()));
    if !may {
        Refused(Answer::Forbidden)
    } else if account.is_some_and(|account| account.secrets.contains_key(&owner.id)) {
        Does
    } else {
        Gets(Answer::Missing)
    }
}
