//! What a request has proved of who sends it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::asker::Asker;
use super::open_share::ShareOperation;
use super::remembered::LoginDigest;
use crate::schema::account::PasswordHash;
use crate::schema::secret::{SecretDigest, SecretKind, SecretOwner};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;

/// What a request has proved: a password, a session, a token, a share, or nothing. Only [`Auth`](super::Auth) makes it;
/// [`Auth::authority`](super::Auth::authority) tells whether it still holds.
///
/// It has what was last read of its account, as long as no write of that has begun. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Credential(Arc<Proved>);

struct Proved {
    proof: Proof,
    /// Where it is kept; none if it is not.
    kept_as: Option<KeptAs>,
    asker: Mutex<Option<Arc<Asker>>>,
}

/// What a client has sent, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SentHash {
    Secret(SecretDigest),
    Password(LoginDigest),
}

/// As what a credential is kept for the next request that sends the same, and since when.
#[derive(Clone, Copy)]
pub(super) struct KeptAs {
    pub hash: SentHash,
    /// When the password was verified, or found among those that were; none of a secret.
    pub verified: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
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
        Self::of(Proof::Nobody, None)
    }

    /// That of a password, which was sent with a name from an address.
    pub(super) fn password((user, hash): (UserName, PasswordHash), sent: LoginDigest, verified: Instant) -> Self {
        let kept_as = KeptAs { hash: SentHash::Password(sent), verified: Some(verified) };
        Self::of(Proof::Password { user, hash }, Some(kept_as))
    }

    /// That of a session, a token or a share.
    pub(super) fn of_secret(owner: SecretOwner, digest: SecretDigest) -> Self {
        let kept_as = KeptAs { hash: SentHash::Secret(digest), verified: None };
        Self::of(Proof::Secret { owner, digest }, Some(kept_as))
    }

    fn of(proof: Proof, kept_as: Option<KeptAs>) -> Self {
        Self(Arc::new(Proved { proof, kept_as, asker: Mutex::default() }))
    }

    pub(super) fn proof(&self) -> &Proof {
        &self.0.proof
    }

    /// The hash of the password that was verified; none of a secret.
    pub(super) fn password_hash(&self) -> Option<&PasswordHash> {
        match self.proof() {
            Proof::Password { hash, .. } => Some(hash),
            Proof::Nobody | Proof::Secret { .. } | Proof::ShareFor { .. } => None,
        }
    }

    /// None if it is not to be kept.
    pub(super) fn kept_as(&self) -> Option<KeptAs> {
        self.0.kept_as
    }

    /// What was read of its account, if a read would find the same now.
    pub(super) fn asker(&self, clock: fn() -> Timestamp) -> Option<Arc<Asker>> {
        self.slot().as_ref().filter(|asker| asker.is_current(clock)).cloned()
    }

    /// Has from now on what was just read of its account. False if it can not be known later whether that has changed.
    pub(super) fn keep_asker(&self, asker: &Arc<Asker>) -> bool {
        let can_be_kept = asker.can_be_kept();
        if can_be_kept {
            *self.slot() = Some(asker.clone());
        }
        can_be_kept
    }

    /// How many grants it has in memory.
    pub(super) fn kept_grants(&self) -> usize {
        self.slot().as_ref().map_or(0, |asker| asker.grant_count())
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Asker>>> {
        self.0.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a name, in any spelling that looks the same, is that of its user.
    pub fn is_of(&self, name: &str) -> bool {
        let named = UserName::parse(name).ok();
        named.zip(self.user()).is_some_and(|(named, user)| named.folded_key() == user.folded_key())
    }

    /// The user; none on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        match self.proof() {
            Proof::Nobody => None,
            Proof::Password { user, .. } => Some(user),
            Proof::Secret { owner, .. } | Proof::ShareFor { owner, .. } => Some(&owner.user),
        }
    }

    /// The session, token or share; none if the password was sent.
    pub fn secret(&self) -> Option<&SecretOwner> {
        match self.proof() {
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
        let (owner, digest, operation) = match self.proof() {
            Proof::Secret { owner, digest } if self.is_share() => (owner, digest, ShareOperation::default()),
            Proof::ShareFor { owner, digest, operation } => (owner, digest, *operation),
            _ => return self.clone(),
        };
        Self::of(Proof::ShareFor { owner: owner.clone(), digest: *digest, operation: with(operation) }, None)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.proof().fmt(f)
    }
}
