//! Changes of accounts. Each is one plan, which guards the stamp of the admin who asks and the number of admins.

use std::collections::BTreeMap;

use crate::bugs::Bug;
use crate::io::{ActorResult, Io, Outcome, Reply};
use crate::store::{Account, Change, Check, Guarded, Key, Meaning, Plan, User, guarded, number_of_admins};
use crate::tree::Id;

type Accounts = BTreeMap<User, Account>;

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum AccountRequest {
    /// The first user, who is an admin. Anyone may make it while there is no user.
    First(User),
    /// The user is no admin any more.
    Demote(User),
    Remove(User),
    /// All grants of the user on this directory end.
    Revoke(User, Id),
}

use AccountRequest::{Demote, First, Remove, Revoke};

impl AccountRequest {
    fn user(self) -> User {
        match self {
            First(user) | Demote(user) | Remove(user) | Revoke(user, _) => user,
        }
    }

    /// The account after this change.
    fn change(self, mut account: Account) -> Account {
        match self {
            First(_) | Demote(_) => account.admin = matches!(self, First(_)),
            Remove(_) => {
                account.removed = true;
                account.grants.clear();
            }
            Revoke(_, dir) => account.grants.retain(|grant| grant.dir != dir),
        }
        account
    }

    fn takes_admin(self) -> bool {
        matches!(self, Demote(_) | Remove(_))
    }
}

/// Whether the user may ask for this change now: the specification.
pub fn may_ask(accounts: &Accounts, asker: Option<User>, request: AccountRequest) -> bool {
    let is_known = |user| accounts.get(&user).is_some_and(|account| !account.removed);
    match request {
        First(_) => accounts.is_empty(),
        _ => asker.is_some_and(|asker| accounts.get(&asker).is_some_and(Account::is_admin)) && is_known(request.user()),
    }
}

/// Whether no admin would be left.
pub fn removes_last_admin(accounts: &Accounts, request: AccountRequest) -> bool {
    let is_admin = accounts.get(&request.user()).is_some_and(Account::is_admin);
    request.takes_admin() && is_admin && number_of_admins(accounts) == 1
}

/// One change of an account, from its first read to its answer.
pub fn change_account(io: &mut Io<'_>, request: AccountRequest) -> ActorResult<Reply> {
    io.until(|io| {
        let Some(rows) = rows(io, request)? else { return Ok(Some(Reply::Refused)) };
        let write = Plan { rows, effect: Some(io.effect(Meaning::Account(request))) };
        match io.commit(write)? {
            Outcome::Done => Ok(Some(Reply::Done)),
            Outcome::Unknown | Outcome::Full | Outcome::Failed => Ok(Some(Reply::Busy)),
            Outcome::Refused(_) => Ok(None),
        }
    })
}

fn rows(io: &mut Io<'_>, request: AccountRequest) -> ActorResult<Option<Vec<Guarded>>> {
    let user = request.user();
    if let First(_) = request {
        let unless = io.bug(Bug::FirstUserUnguarded);
        if io.admins()? > 0 {
            return Ok(None);
        }
        let account = Change::Account(request.change(Account::default()));
        let no_users: &[Check] = if unless { &[] } else { &[Check::Admins(0)] };
        let admins = guarded(Key::Admins, no_users, &[Change::Admins(1)]);
        return Ok(Some(vec![admins, guarded(Key::Account(user), &[Check::NoAccount], &[account])]));
    }
    let Some(asker) = io.asker() else { return Ok(None) };
    let Some(admin) = io.account(asker)?.filter(Account::is_admin) else { return Ok(None) };
    let mut rows = vec![];
    let account = if asker == user {
        admin
    } else {
        if !io.bug(Bug::AskerStampUnchecked) {
            rows.push(guarded(Key::Account(asker), &[Check::Stamp(admin.stamp)], &[]));
        }
        let Some(account) = io.account(user)?.filter(|account| !account.removed) else { return Ok(None) };
        account
    };
    if account.admin && request.takes_admin() {
        let admins = io.admins()?;
        if admins == 1 {
            return Ok(None);
        }
        let checks: &[Check] = if io.bug(Bug::AdminsUnchecked) { &[] } else { &[Check::Admins(admins)] };
        rows.push(guarded(Key::Admins, checks, &[Change::Admins(admins - 1)]));
    }
    let stamp = account.stamp;
    let raised = if io.bug(Bug::StampNotRaised) { stamp } else { stamp + 1 };
    let changed = Account { stamp: raised, ..request.change(account) };
    rows.push(guarded(Key::Account(user), &[Check::Stamp(stamp)], &[Change::Account(changed)]));
    Ok(Some(rows))
}
