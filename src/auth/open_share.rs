//! A share that is open, which is neither revoked, expired nor used up: what a stranger may do by it.

use bytes::Bytes;

use super::error::Result;
use crate::schema::ValueError;
use crate::schema::ids::SecretId;
use crate::schema::rights::{Right, Rights};
use crate::schema::secret::{SecretDigest, SecretOwner, TokenScope};
use crate::schema::share::{Share, ShareMode, ShareTarget};
use crate::schema::timestamp::Timestamp;
use crate::table::{Row, counter};

/// What the drive uses a share for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ShareOperation {
    /// To read its file, in the directory where the drive has found that: [`Credential::at_file`].
    ///
    /// [`Credential::at_file`]: super::Credential::at_file
    pub is_at_file: bool,
    /// To send on what is counted: [`Credential::counted`].
    ///
    /// [`Credential::counted`]: super::Credential::counted
    pub is_counted: bool,
    /// To add a file: [`Credential::uploading`].
    ///
    /// [`Credential::uploading`]: super::Credential::uploading
    pub is_upload: bool,
}

/// A share that is open, as its maker's account said at one instant. Its target may be gone.
#[derive(Clone, Debug)]
pub struct OpenShare {
    /// Its id.
    pub id: SecretId,
    /// The share.
    pub share: Share,
    /// Downloads that it has served, or bytes that were uploaded by it.
    pub used: u64,
    operation: ShareOperation,
}

impl OpenShare {
    /// The share in an account row, if it is open. `stored`: its cell in that row.
    pub(super) fn find(
        (owner, digest): (&SecretOwner, &SecretDigest),
        stored: &Bytes,
        row: &Row,
        (operation, now): (ShareOperation, Timestamp),
    ) -> Result<Option<Self>> {
        let (share, used) = (Share::decode(stored)?, used_of(owner, row)?);
        let used_before = if operation.is_counted { 0 } else { used };
        if share.digest != *digest || !is_open(&share, used_before, now) {
            return Ok(None);
        }
        Ok(Some(Self { id: owner.id, share, used, operation }))
    }

    /// The rights that its maker needs so that a stranger has this one by it; none if the share does not allow it.
    pub(super) fn needed(&self, right: Right) -> Option<[Right; 2]> {
        let is_allowed = match (self.share.mode, self.share.target) {
            (ShareMode::Read { .. }, ShareTarget::Dir(_)) => right == Right::Read,
            (ShareMode::Read { .. }, ShareTarget::File(_)) => right == Right::Read && self.operation.is_at_file,
            (ShareMode::Upload { .. }, ShareTarget::Dir(_)) => right == Right::Write && self.operation.is_upload,
            (ShareMode::Upload { .. }, ShareTarget::File(_)) => false,
        };
        is_allowed.then_some([right, Right::Share])
    }

    /// Its target, if that is a directory.
    pub(super) fn scope(&self) -> Option<TokenScope> {
        let ShareTarget::Dir(dir) = self.share.target else { return None };
        Some(TokenScope { dir, rights: Rights::from_iter([self.share.right()]) })
    }
}

/// Whether a stored share is open: neither expired nor used up. One that was revoked is not stored.
pub(super) fn is_open(share: &Share, used: u64, now: Timestamp) -> bool {
    !share.is_expired(now) && !share.is_used_up(used)
}

/// The number in the counter of a share.
pub(super) fn used_of(owner: &SecretOwner, row: &Row) -> Result<u64> {
    let cell = owner.used_column();
    let number = counter::decode(row.get(cell.family, &cell.qualifier).map(AsRef::as_ref));
    let number = number.ok().and_then(|number| u64::try_from(number).ok());
    Ok(number.ok_or(ValueError::Damaged { what: "share's counter" })?)
}
