//! What a request has proved of who sends it.

use super::open_share::ShareOperation;
use crate::schema::account::PasswordHash;
use crate::schema::secret::{SecretDigest, SecretKind, SecretOwner};
use crate::schema::user_name::UserName;

/// What a request has proved: a password, a session, a token, a share, or nothing. Only [`Auth`](super::Auth) makes it;
/// [`Auth::authority`](super::Auth::authority) tells whether it still holds.
#[derive(Clone, Debug)]
pub struct Credential(pub(super) Proof);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Proof {
    /// Nothing, on a drive without users.
    Nobody,
    Password {
        user: UserName,
        /// The hash that was verified. Another one means another password.
        hash: PasswordHash,
    },
    Secret {
        owner: SecretOwner,
        digest: SecretDigest,
    },
    /// A share as the drive uses it for one operation.
    ShareFor {
        owner: SecretOwner,
        digest: SecretDigest,
        operation: ShareOperation,
    },
}

impl Credential {
    /// That of a request that has proved nothing: it holds as long as there are no users.
    pub fn nobody() -> Self {
        Self(Proof::Nobody)
    }

    /// Whether a name, in any spelling that looks the same, is that of its user.
    pub fn is_of(&self, name: &str) -> bool {
        let named = UserName::parse(name).ok();
        named.zip(self.user()).is_some_and(|(named, user)| named.folded_key() == user.folded_key())
    }

    /// The user; none on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        match &self.0 {
            Proof::Nobody => None,
            Proof::Password { user, .. } => Some(user),
            Proof::Secret { owner, .. } | Proof::ShareFor { owner, .. } => Some(&owner.user),
        }
    }

    /// The session, token or share; none if the password was sent.
    pub fn secret(&self) -> Option<&SecretOwner> {
        match &self.0 {
            Proof::Secret { owner, .. } | Proof::ShareFor { owner, .. } => Some(owner),
            Proof::Nobody | Proof::Password { .. } => None,
        }
    }

    /// Whether it is a share: a stranger asks, with rights of its maker.
    pub fn is_share(&self) -> bool {
        self.secret().is_some_and(|owner| owner.kind == SecretKind::Share)
    }

    /// Of a share of a file: with the rights of its maker on the directory of the file, wherever that is. So who uses
    /// it answers with nothing but this file.
    pub(super) fn at_file(&self) -> Self {
        self.share_for(|operation| ShareOperation { is_at_file: true, ..operation })
    }

    /// Of an upload share: to add a file. So who uses it does nothing else.
    pub(super) fn uploading(&self) -> Self {
        self.share_for(|operation| ShareOperation { is_upload: true, ..operation })
    }

    /// Of a share: for content that is being sent. The share may be used up by this download itself.
    pub(super) fn counted(&self) -> Self {
        self.share_for(|operation| ShareOperation { is_counted: true, ..operation })
    }

    fn share_for(&self, with: impl FnOnce(ShareOperation) -> ShareOperation) -> Self {
        let (owner, digest, operation) = match &self.0 {
            Proof::Secret { owner, digest } if self.is_share() => (owner, digest, ShareOperation::default()),
            Proof::ShareFor { owner, digest, operation } => (owner, digest, *operation),
            _ => return self.clone(),
        };
        Self(Proof::ShareFor { owner: owner.clone(), digest: *digest, operation: with(operation) })
    }
}
