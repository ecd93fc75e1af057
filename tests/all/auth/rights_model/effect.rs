//! What a change leaves: whether a commit has done what a request asked for, and nothing else.

use std::collections::BTreeMap;
use std::rc::Rc;

use rowdrive::schema::account::{Grantee, Profile, Quota};
use rowdrive::schema::grant::Giver;
use rowdrive::schema::ids::SecretId;
use rowdrive::schema::rights::Rights;
use rowdrive::schema::secret::SecretKind;
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{DrivePath, Timestamp};

use super::expected::is_taken;
use super::request::{Answer, Asked, Request};
use super::rights::Asker;
use super::states::{Account, Accounts, Entry, Held, Nodes, State, Tree, forget_removed_givers};

/// Whether `after` is `before` with what was asked for. Ids that the request has drawn are taken from the answer and
/// from `after`, where they have to be new.
pub fn explains(before: &State, after: &State, now: Timestamp, request: &Request) -> bool {
    let is_tree_same = Rc::ptr_eq(&before.tree, &after.tree);
    let are_accounts_same = Rc::ptr_eq(&before.accounts, &after.accounts);
    let is_of_accounts = is_of_accounts(&request.asked);
    let is_of_tree = !is_of_accounts || matches!(request.asked, Asked::AddUser(..));
    if (!is_tree_same && !is_of_tree) || (!are_accounts_same && !is_of_accounts) {
        return false;
    }
    let expected = change(before, after, now, request);
    expected.is_some_and(|expected| after.equals(&State { now: after.now, ..expected }))
}

fn is_of_accounts(asked: &Asked) -> bool {
    match asked {
        Asked::Put(_)
        | Asked::Mkdir(_)
        | Asked::Delete(_)
        | Asked::Rmdir(_)
        | Asked::Remove(_)
        | Asked::Move(..)
        | Asked::Stat(_)
        | Asked::List(_)
        | Asked::Read(_)
        | Asked::Find
        | Asked::Chain(_)
        | Asked::Target(_) => false,
        Asked::Give(..)
        | Asked::Take(..)
        | Asked::Change { .. }
        | Asked::RemoveUser(_)
        | Asked::AddUser(..)
        | Asked::MakeSession
        | Asked::MakeToken(..)
        | Asked::MakeShare(..)
        | Asked::End(_) => true,
    }
}

/// The state after the change; none if the change makes something that is not new.
fn change(before: &State, after: &State, now: Timestamp, request: &Request) -> Option<State> {
    let made = match request.answer {
        Answer::Done(made) => made,
        _ => None,
    };
    let mut nodes = before.tree.nodes.clone();
    match &request.asked {
        Asked::Put(path) => {
            let Some(Entry::File(id)) = made else { return None };
            make_above(&mut nodes, before, after, path)?;
            nodes.insert(path.clone(), Entry::File(id));
            return before.tree.path_of_file(id).is_none().then(|| with_nodes(before, nodes));
        }
        Asked::Mkdir(path) => {
            make_above(&mut nodes, before, after, path)?;
            let new = new_dir(before, after, path).filter(|new| Some(*new) == made)?;
            nodes.insert(path.clone(), new);
        }
        Asked::Delete(path) | Asked::Rmdir(path) => {
            nodes.remove(path)?;
        }
        Asked::Remove(path) => nodes.retain(|at, _| !at.is_within(path)),
        Asked::Move(from, to, _) => {
            if before.tree.nodes.get(from).copied() != made {
                return None;
            }
            nodes.retain(|at, _| !at.is_within(from) && at != to);
            for (at, entry) in before.tree.nodes.iter().filter(|(at, _)| at.is_within(from)) {
                let rest = &at.as_str()[from.as_str().len()..];
                nodes.insert(DrivePath::parse(&format!("{to}{rest}")).unwrap(), *entry);
            }
        }
        _ => return change_accounts(before, after, now, request),
    }
    Some(with_nodes(before, nodes))
}

fn with_nodes(before: &State, nodes: Nodes) -> State {
    State { tree: Rc::new(Tree::new(nodes)), ..before.clone() }
}

/// A directory that is at this path now, and was nowhere before.
fn new_dir(before: &State, after: &State, path: &DrivePath) -> Option<Entry> {
    let id = after.tree.dir_at(path)?;
    before.tree.path_of_dir(id).is_none().then_some(Entry::Dir(id))
}

/// Makes the directories above a path that are missing.
fn make_above(nodes: &mut Nodes, before: &State, after: &State, path: &DrivePath) -> Option<()> {
    let mut at = path.clone();
    while let Some((parent, _)) = at.split() {
        if !nodes.contains_key(&parent) {
            nodes.insert(parent.clone(), new_dir(before, after, &parent)?);
        }
        at = parent;
    }
    Some(())
}

fn change_accounts(before: &State, after: &State, now: Timestamp, request: &Request) -> Option<State> {
    let asker = Asker::of(before, &request.by, now)?;
    let own = Grantee::User(asker.name.clone());
    let mut accounts = Accounts::clone(&before.accounts);
    match &request.asked {
        Asked::Give(place, to, rights) => {
            let giver = if asker.is_admin() { Giver::Admins } else { Giver::User(asker.name.clone()) };
            edit(&mut accounts, to, |account| account.grants.extend([((place.dir, giver), *rights)]));
        }
        Asked::Take(place, from) => edit(&mut accounts, from, |account| {
            account.grants.retain(|(dir, giver), _| *dir != place.dir || !is_taken(&asker, giver));
        }),
        Asked::Change { user, disabled, admin } => edit(&mut accounts, &Grantee::User(user.clone()), |account| {
            if let Some(profile) = &mut account.profile {
                profile.disabled = disabled.unwrap_or(profile.disabled);
                profile.admin = admin.unwrap_or(profile.admin);
            }
            if *disabled == Some(true) {
                account.secrets.retain(|_, held| held.kind != SecretKind::Session);
            }
        }),
        Asked::RemoveUser(user) => edit(&mut accounts, &Grantee::User(user.clone()), |account| {
            let removed =
                |profile| Profile { removed: true, display: String::new(), quota: Quota::default(), ..profile };
            *account = empty(account.profile.take().map(removed));
        }),
        Asked::AddUser(name, home, _) => return add_user(before, after, name, home),
        Asked::MakeSession | Asked::MakeToken(..) | Asked::MakeShare(..) => {
            let (id, held) = new_secret(after, &own, &asker, request)?;
            edit(&mut accounts, &own, |account| account.secrets.extend([(id, held)]));
        }
        Asked::End(owner) => edit(&mut accounts, &Grantee::User(owner.user.clone()), |account| {
            account.secrets.remove(&owner.id);
        }),
        _ => return None,
    }
    forget_removed_givers(&mut accounts);
    Some(State { accounts: Rc::new(accounts), ..before.clone() })
}

fn empty(profile: Option<Profile>) -> Account {
    Account { profile, grants: BTreeMap::new(), secrets: BTreeMap::new() }
}

/// Changes an account. That of everyone is made by its first grant.
fn edit(accounts: &mut Accounts, of: &Grantee, change: impl FnOnce(&mut Account)) {
    let account = accounts.entry(of.clone()).or_insert_with(|| Rc::new(empty(None)));
    change(Rc::make_mut(account));
}

/// The secret as it was asked for.
fn new_secret(after: &State, own: &Grantee, asker: &Asker<'_>, request: &Request) -> Option<(SecretId, Held)> {
    let Answer::Made(id) = request.answer else { return None };
    let held = match &request.asked {
        Asked::MakeToken(scope, expires) => {
            Held { kind: SecretKind::Token, scope: *scope, target: None, expires: expires.or(asker.token_end) }
        }
        Asked::MakeShare(_, target, expires) => {
            Held { kind: SecretKind::Share, scope: None, target: Some(*target), expires: expires.or(asker.token_end) }
        }
        // The server decides how long a session lasts.
        _ => after.accounts.get(own)?.secrets.get(&id).filter(|held| held.kind == SecretKind::Session)?.clone(),
    };
    Some((id, held))
}

/// The user, with all rights on his home, which is made if it is missing.
fn add_user(before: &State, after: &State, name: &UserName, home: &DrivePath) -> Option<State> {
    let mut nodes = before.tree.nodes.clone();
    make_above(&mut nodes, before, after, home)?;
    if !nodes.contains_key(home) {
        nodes.insert(home.clone(), new_dir(before, after, home)?);
    }
    let holder = Grantee::User(name.clone());
    let profile = after.accounts.get(&holder)?.profile.clone()?;
    if profile.admin || profile.disabled || profile.removed {
        return None;
    }
    let dir = nodes.get(home)?.dir()?;
    let mut accounts = Accounts::clone(&before.accounts);
    let grants = BTreeMap::from([((dir, Giver::Admins), Rights::ALL)]);
    accounts.insert(holder, Rc::new(Account { grants, ..empty(Some(profile)) }));
    Some(State { accounts: Rc::new(accounts), ..with_nodes(before, nodes) })
}
