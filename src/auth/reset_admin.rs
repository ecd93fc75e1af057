//! What the operator does while no server runs: he has the data folder, and no credential.

use super::Auth;
use super::error::{AuthError, Result};
use super::guards;
use super::users::{User, key};
use crate::schema::account::{self, Profile};
use crate::schema::secret::SecretKind;
use crate::schema::user_name::UserName;
use crate::table::{Change, ConditionalRow, Plan};

impl Auth {
    /// Whether a name, in any spelling that looks the same, is that of a user who was not removed.
    pub async fn is_user(&self, name: &str) -> Result<bool> {
        let Some(name) = self.known_name(name).await? else { return Ok(false) };
        match self.user_with_stamp(&name).await {
            Ok(_) => Ok(true),
            Err(AuthError::NoUser) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The names of all users who were not removed.
    pub async fn user_names(&self) -> Result<Vec<UserName>> {
        Ok(self.all_users().await?.into_iter().map(|user| user.name).collect())
    }

    /// Makes a user an enabled admin with a new password, and revokes his sessions and tokens.
    ///
    /// Errors: [`AuthError::NoUser`] if there is no such user.
    pub async fn reset_admin(&self, name: &str, password: &str) -> Result<User> {
        let hash = &self.verifier.hash(password, None).await?;
        self.until_committed(|| async move {
            let name = self.known_name(name).await?.ok_or(AuthError::NoUser)?;
            let (user, stamp) = self.user_with_stamp(&name).await?;
            let before = user.profile.is_enabled_admin();
            let user = User { profile: Profile { admin: true, disabled: false, ..user.profile }, ..user };
            let checks = vec![stamp.check(), self.newest_secret(&name).await?];
            let mut changes = vec![stamp.next().put(), user.profile.put(), hash.put()];
            let mut finish = Vec::new();
            for kind in SecretKind::all().filter(|kind| kind.is_of_user()) {
                changes.push(Change::DeleteFamily { family: kind.family() });
                finish.extend(self.secret_entries_of(&name, kind, None).await?);
            }
            // Also on a full disk: it is the last way back in.
            let mut plan = Plan { finish, reserve: true, ..Plan::default() };
            guards::add_all(&mut plan, [ConditionalRow { table: account::TABLE, row: key(&name), checks, changes }]);
            guards::add_all(&mut plan, self.count_admins(before, true).await?);
            Ok((plan, user))
        })
        .await
    }
}
