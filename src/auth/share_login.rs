//! The password of a share: verified, and what a browser sends in its place for a day.
//!
//! A browser gets a sealed time, until which it need not send the password. It opens for this share with this password
//! alone, so nothing of it is stored.

use std::net::IpAddr;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Auth;
use super::credential::Credential;
use super::error::{AuthError, Result};
use super::open_share::OpenShare;
use super::sender::Sender;
use super::verifier::SentPassword;
use crate::schema::account::PasswordHash;
use crate::schema::ids::SecretId;

/// For so long a browser need not send the password again.
pub const SHARE_LOGIN_SECONDS: u32 = 24 * 60 * 60;

/// The context of what is sealed starts with it. That of a cursor starts with a hash, so neither opens as the other.
const CONTEXT: &[u8] = b"the password of a share was right";

/// That the password of a share was right.
pub struct ShareLogin {
    id: SecretId,
    /// The hash that it was verified with. Another one means another password.
    hash: PasswordHash,
}

impl Auth {
    /// Verifies the password of a share, as a client has sent it from an address.
    ///
    /// Wrong ones slow this share alone, and not its maker. They are verified as those of users are.
    ///
    /// Errors: [`AuthError::Unauthorized`]; [`AuthError::Slowed`] after too many wrong ones; [`PasswordError::Busy`] if
    /// too many are sent.
    ///
    /// [`PasswordError::Busy`]: super::password::PasswordError::Busy
    pub async fn log_in_by_share(
        &self,
        share: &Credential,
        password: &str,
        address: IpAddr,
        now: Instant,
    ) -> Result<ShareLogin> {
        let id = share.secret().ok_or(AuthError::Unauthorized)?.id;
        // A name that no user has: it has slashes.
        let sender = Sender::new(&format!("/s/{}", id.0), address);
        let sent = SentPassword { password, sender, now };
        let read = || async { self.password_of_share(share).await };
        let hash = self.verifier.verify_sent(sent, read).await?.ok_or(AuthError::Unauthorized)?;
        Ok(ShareLogin { id, hash })
    }

    /// The hash of a share that is open, twice.
    async fn password_of_share(&self, share: &Credential) -> Result<Option<(PasswordHash, PasswordHash)>> {
        let authority = match self.authority(share).await {
            Ok(authority) => authority,
            Err(AuthError::Unauthorized) => return Ok(None),
            Err(error) => return Err(error),
        };
        let hash = authority.share().and_then(|open| open.share.password.clone());
        Ok(hash.map(|hash| (hash.clone(), hash)))
    }

    /// What a browser sends in place of the password, for [`SHARE_LOGIN_SECONDS`].
    pub async fn seal_share_login(&self, ShareLogin { id, hash }: &ShareLogin) -> Result<String> {
        let until = (self.clock)().ms().saturating_add(i64::from(SHARE_LOGIN_SECONDS) * 1_000);
        let sealed = self.seal_key().await?.seal(context(*id, hash), until.to_be_bytes().to_vec())?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Whether a browser has sent it for this share, while it counts.
    pub async fn is_share_login(&self, open: &OpenShare, sealed: &str) -> Result<bool> {
        let (Some(hash), Ok(sealed)) = (&open.share.password, URL_SAFE_NO_PAD.decode(sealed)) else { return Ok(false) };
        let until = self.seal_key().await?.open(context(open.id, hash), &sealed);
        let until = until.and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes);
        Ok(until.is_some_and(|until| (self.clock)().ms() < until))
    }
}

/// The id has a fixed length, so no other share and hash make the same bytes.
fn context(id: SecretId, PasswordHash(hash): &PasswordHash) -> Vec<u8> {
    [CONTEXT, id.0.as_bytes(), hash.as_bytes()].concat()
}
