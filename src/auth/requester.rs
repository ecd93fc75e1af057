//! Who asks the drive for an operation, and what he may do.

use std::collections::HashSet;
use std::sync::Arc;

use super::Auth;
use super::authority::Authority;
use super::credential::Credential;
use super::cursor_seal::CursorSeal;
use super::decide::{DirChain, Permission};
use super::error::{AuthError, Result};
use super::new_user::PreparedUser;
use super::open_share::OpenShare;
use super::users::User;
use super::ways::Ways;
use crate::schema::ids::DirId;
use crate::schema::rights::Right;
use crate::schema::user_name::UserName;
use crate::table::Plan;

/// Who asks for an operation of the drive: a user, by what he has proved; a stranger by a share, who may do some of
/// what its maker may; nobody, on a drive without users; or the server itself. Cheap to clone.
#[derive(Clone)]
pub struct Requester(Option<Arc<Known>>);

/// A requester whose rights are read.
struct Known {
    auth: Auth,
    credential: Credential,
}

impl Requester {
    /// The server itself: no right is read for its work.
    pub fn unrestricted() -> Self {
        Self(None)
    }

    /// Refuses who may not make a user now.
    ///
    /// Errors: [`AuthError::Forbidden`] to others than admins; [`AuthError::UsersExist`] to nobody, once there is a
    /// user.
    pub async fn check_maker(&self) -> Result<()> {
        let known = self.0.as_ref().ok_or(AuthError::Forbidden)?;
        known.auth.maker(&known.credential).await.map(|_| ())
    }

    /// Adds a new user of his to a plan: [`Auth::plan_user`].
    pub async fn plan_user(&self, plan: &mut Plan, user: &PreparedUser, home: Option<DirId>) -> Result<User> {
        let known = self.0.as_ref().ok_or(AuthError::Forbidden)?;
        known.auth.plan_user(plan, &known.credential, user, home).await
    }

    /// What seals his cursors, also those of a stranger by a share; none on a drive without users, and for the server
    /// itself.
    pub async fn cursor_seal(&self) -> Result<Option<CursorSeal>> {
        match &self.0 {
            Some(known) => known.auth.cursor_seal(&known.credential).await,
            None => Ok(None),
        }
    }

    /// Whether a stranger asks, by a share.
    pub fn is_share(&self) -> bool {
        self.0.as_ref().is_some_and(|known| known.credential.is_share())
    }

    /// Who asks by a share of a file, with the rights of its maker on the directory of the file, wherever that is.
    ///
    /// IMPORTANT: the drive answers him with nothing but this file.
    pub fn at_file(&self) -> Self {
        self.with(Credential::at_file)
    }

    /// Who asks by an upload share, to add a file.
    ///
    /// IMPORTANT: the drive adds a file to the directory of the share with it, and changes nothing else.
    pub fn uploading(&self) -> Self {
        self.with(Credential::uploading)
    }

    /// Who gets content that is being sent: the share may be used up by this download itself.
    ///
    /// IMPORTANT: the content was opened by the share itself, and is counted before its first byte is sent.
    pub fn counted(&self) -> Self {
        if self.is_share() { self.with(Credential::counted) } else { self.clone() }
    }

    fn with(&self, proving: impl Fn(&Credential) -> Credential) -> Self {
        let with = |known: &Arc<Known>| known.auth.requester(proving(&known.credential));
        self.0.as_ref().map_or_else(|| self.clone(), with)
    }

    /// What he has proved; none of the server itself.
    pub fn credential(&self) -> Option<&Credential> {
        self.0.as_ref().map(|known| &known.credential)
    }

    /// His name; by a share that of its maker. None if there are no users, and for the server itself.
    pub fn user(&self) -> Option<&UserName> {
        self.0.as_ref().and_then(|known| known.credential.user())
    }

    /// Reads what he may do now. An attempt of a change reads it anew.
    ///
    /// Errors: [`AuthError::Unauthorized`] if his credential is not valid any more.
    pub async fn access(&self) -> Result<Access> {
        let Some(known) = &self.0 else { return Ok(Access(None)) };
        let authority = known.auth.authority(&known.credential).await?;
        Ok(Access(Some((known.clone(), authority))))
    }
}

/// What a requester may do, as his account was at one instant; by a share that of its maker.
#[derive(Clone)]
pub struct Access(Option<(Arc<Known>, Authority)>);

impl Access {
    /// Reads his account again.
    ///
    /// Errors: [`AuthError::Unauthorized`] if his credential is not valid any more.
    pub async fn again(&self) -> Result<Self> {
        let Some((known, _)) = &self.0 else { return Ok(Self(None)) };
        let authority = known.auth.authority(&known.credential).await?;
        Ok(Self(Some((known.clone(), authority))))
    }

    /// Whether his account, and the grants to every user, were the same at each instant between the two reads of it.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some((_, authority)), Some((_, other))) => authority.is_same(other),
            (None, None) => true,
            _ => false,
        }
    }

    /// What was proved; none for the server itself.
    pub(super) fn credential(&self) -> Option<&Credential> {
        self.0.as_ref().map(|(known, _)| &known.credential)
    }

    /// Who asks, with all that his account says; none for the server itself.
    pub(super) fn authority(&self) -> Option<&Authority> {
        self.0.as_ref().map(|(_, authority)| authority)
    }

    /// The user; by a share its maker. None on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        self.authority().and_then(Authority::user)
    }

    /// The share by which a stranger asks.
    pub fn share(&self) -> Option<&OpenShare> {
        self.0.as_ref().and_then(|(_, authority)| authority.share())
    }

    /// Whether no right is read for him: for the server itself, and for nobody on a drive without users.
    pub fn is_unrestricted(&self) -> bool {
        self.0.as_ref().is_none_or(|(_, authority)| authority.user().is_none())
    }

    /// As [`is_unrestricted`](Self::is_unrestricted), asked again: once there is a user, it is false of nobody.
    pub async fn is_still_unrestricted(&self) -> Result<bool> {
        match &self.0 {
            None => Ok(true),
            Some((known, authority)) => Ok(authority.user().is_none() && !known.auth.has_users().await?),
        }
    }

    /// Decides whether he has a right on the last directory of a path.
    ///
    /// Errors: [`AuthError::Forbidden`] if he has not.
    pub async fn decide(&self, chain: &DirChain, right: Right) -> Result<Permission> {
        match &self.0 {
            None => Ok(Permission::unguarded()),
            Some((known, authority)) => known.auth.decide(authority, chain, right).await,
        }
    }

    /// The directories of all grants that may count for him. None of a requester for whom no right is read.
    pub fn granted_dirs(&self) -> HashSet<DirId> {
        self.0.as_ref().map(|(_, authority)| authority.granted_dirs()).unwrap_or_default()
    }

    /// The ways to all that he may read: [`Auth::ways`].
    pub async fn ways(&self, chains: &[DirChain]) -> Result<Ways> {
        match &self.0 {
            None => Ok(Ways::default()),
            Some((known, authority)) => known.auth.ways(authority, chains).await,
        }
    }
}

impl Auth {
    /// Who has proved this: a user, or a stranger by a share. The drive reads the account for each operation.
    pub fn requester(&self, credential: Credential) -> Requester {
        Requester(Some(Arc::new(Known { auth: self.clone(), credential })))
    }

    /// Someone who has proved nothing. He may do everything as long as there are no users, and each of his changes is
    /// guarded by that. It costs no read once it is known, but a check in each plan.
    pub fn nobody(&self) -> Requester {
        self.requester(Credential::nobody())
    }
}
