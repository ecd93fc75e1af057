//! Users and rights: the one place that decides who may do what.
//!
//! - [`credential`]: what was proved: a password, a session, a token, a share, or nothing on a drive without users
//! - [`authority`]: who asks by it, and what his account says: an `asker`. `kept_credentials`: what was sent lately,
//!   and what was read for it, until that is written
//! - [`decide`]: whether he has a right on a directory, and what guards that decision
//! - [`ways`]: what leads to the directories that he may read
//! - [`requester`]: who asks the drive, and what he may do there
//! - `usage`: what the drive adds to the usage of users and shares, within their limits
//! - `new_user`, `users`, `grants`, `secrets`, `shares`: changes of accounts; `secret_bounds`: how many
//!   sessions, tokens and shares; `reset_admin`: what needs no credential
//! - `first_user`: what a process knows of whether there are users
//! - `commit`: the retry loop of these changes; `guards`: checks of a plan that change nothing
//! - [`password`], [`random`]: passwords and their hashes; random bytes
//! - `open_share`: what a stranger may do by a share
//! - `share_login`: the passwords of shares; `seal`: what clients keep for the server, `cursor_seal`: cursors among
//!   that
//! - `verifier`: the passwords that clients send. `remembered`: those that were right within a minute; `slowdown`:
//!   wrong ones, and `sender`: of whom; `hash_queue`: Argon2 a few at a time
//! - [`error`]: why something is not allowed
//!
//! A decision is made by reads at different instants. So it comes with checks, which guard the commit of what was
//! decided: the stamps of the accounts, and the directories that the rights are bound to. `tests/model/rights.rs` is
//! the model.
//!
//! The HTTP server asks it who has sent a request, and whether the route is for him; the drive, what he may do there.

mod asker;
pub mod authority;
mod commit;
pub mod credential;
mod cursor_seal;
pub mod decide;
pub mod error;
mod first_user;
mod grants;
mod guards;
mod hash_queue;
mod kept_credentials;
mod new_user;
mod open_share;
pub mod password;
pub mod random;
mod remembered;
pub mod requester;
mod reset_admin;
mod seal;
mod secret_bounds;
mod secrets;
mod sender;
mod share_login;
mod shares;
mod slowdown;
mod usage;
mod users;
mod verifier;
pub mod ways;

pub use authority::Authority;
pub use credential::Credential;
pub use cursor_seal::CursorSeal;
pub use decide::{DirChain, Permission};
pub use error::{AuthError, Result};
pub use grants::GrantOnDir;
pub use new_user::{NewUser, PreparedUser};
pub use open_share::OpenShare;
pub use requester::{Access, Requester};
pub use secret_bounds::{SESSIONS, TOKENS};
pub use secrets::{ListedSecret, NewSecret, NewToken};
pub use share_login::{SHARE_LOGIN_SECONDS, ShareLogin};
pub use shares::{ListedShare, NewShare};
pub use usage::{LimitOf, Limited};
pub use users::{OldPassword, QuotaChange, User, UserChange};
pub use ways::Ways;

use std::ops::Deref;
use std::sync::Arc;

use crate::budget::Budget;
use crate::schema::CF;
use crate::schema::account::{self, Account, Grantee};
use crate::schema::meta;
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::{self, UserName};
use crate::table::{RowQuery, Tables};
use first_user::KnownUsers;
use kept_credentials::KeptCredentials;
use seal::KnownSealKey;
use verifier::Verifier;

/// Users and rights of a store that [`migrate::up`](crate::migrate::up) has brought up to date. Cheap to clone: each
/// request clones it, so all parts are behind one reference count.
///
/// IMPORTANT: a process has one for a store, and clones of it: they share what they know of the store.
#[derive(Clone)]
pub struct Auth(Arc<AuthParts>);

/// The parts of an [`Auth`], for the files of this module alone.
#[derive(Clone)]
pub struct AuthParts {
    tables: Tables,
    verifier: Verifier,
    clock: fn() -> Timestamp,
    known: Arc<KnownUsers>,
    kept: Arc<KeptCredentials>,
    seal_key: KnownSealKey,
}

impl Deref for Auth {
    type Target = AuthParts;

    fn deref(&self) -> &AuthParts {
        &self.0
    }
}

impl Auth {
    /// `clock`: the time now. Two passwords are hashed at a time.
    pub fn new(tables: Tables, clock: fn() -> Timestamp) -> Self {
        Self(Arc::new(AuthParts {
            tables,
            verifier: Verifier::new(Budget::unlimited()),
            clock,
            known: Arc::default(),
            kept: Arc::default(),
            seal_key: Arc::default(),
        }))
    }

    /// With the memory of requests, of which a password takes 64 MiB while it is hashed.
    pub fn with_memory(self, memory: Budget) -> Self {
        Self(Arc::new(AuthParts { verifier: Verifier::new(memory), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Takes the memory for passwords, for good, if there is a user. Before the first request: uploads may hold it for
    /// hours.
    pub async fn take_password_memory(&self) {
        // What cannot be read has users.
        if self.has_users().await.unwrap_or(true) {
            self.verifier.take_lane().await;
        }
    }

    /// The same users through another handle of their store: tests watch through it what this one does.
    pub fn with_tables(&self, tables: Tables) -> Self {
        Self(Arc::new(AuthParts { tables, ..(*self.0).clone() }))
    }

    /// Whether there is a user, or was one. It costs a read only until it is known.
    pub async fn has_users(&self) -> Result<bool> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let found = self.admins().await?.is_some();
        self.known.found(found);
        Ok(found)
    }

    /// The number of admins who can log in; none if there was never a user.
    async fn admins(&self) -> Result<Option<u64>> {
        let stored = self.tables.cell(meta::TABLE, meta::USERS, CF, meta::ADMINS).await?;
        Ok(stored.map(|value| meta::decode_admins(&value)).transpose()?)
    }

    /// An account, with usage and grants.
    async fn account(&self, of: &Grantee) -> Result<Option<Account>> {
        self.read_account(of, &Account::query([])).await
    }

    /// An account with grants, for decisions that its usage does not matter to: it has none.
    async fn account_without_usage(&self, of: &Grantee) -> Result<Option<Account>> {
        self.read_account(of, &Account::without_usage([])).await
    }

    async fn read_account(&self, of: &Grantee, query: &RowQuery) -> Result<Option<Account>> {
        let row = self.tables.get(account::TABLE, &of.key(), query).await?;
        Ok(Account::from_row(&row)?)
    }

    /// The name of a user as it was given, from any spelling that looks the same; none if no user ever had it.
    ///
    /// IMPORTANT: how long it takes tells whether there is one, so the answer to a request that has proved nothing must not
    /// follow at once.
    pub async fn known_name(&self, text: &str) -> Result<Option<UserName>> {
        // A text that is no name has no user.
        let Ok(name) = UserName::parse(text) else { return Ok(None) };
        let query = RowQuery::cells(vec![user_name::column()]);
        let row = self.tables.get(user_name::TABLE, &name.folded_key(), &query).await?;
        Ok(row.get(CF, user_name::NAME).map(|value| user_name::decode(value)).transpose()?)
    }
}
