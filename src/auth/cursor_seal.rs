//! Seals the cursors of users and of shares. A page may end at a file that its user may not see, so a cursor must not show
//! its position. What proves that a share's password was right is sealed likewise.
//!
//! AES-256-GCM-SIV (RFC 8452) with a random nonce: one that comes twice by chance shows no more than that two cursors of
//! one scope are equal. The key is made with the first user, and stays.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};

use super::Auth;
use super::authority::Credential;
use super::error::{AuthError, Result};
use super::random::{RandomError, random};
use crate::schema::{CF, meta};
use crate::table::Change;

/// Positions are filled up to a multiple of so many bytes, so that their length shows nothing of most names.
const STEP: usize = 64;
/// Ends a position before it is filled up with zeros (ISO/IEC 7816-4).
const END: u8 = 0x80;

/// The key of the cursors of a store, once it was read.
pub type KnownCursorKey = Arc<OnceLock<Arc<RandomizedNonceKey>>>;

/// Seals the cursors of one user, or of one share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CursorSeal {
    key: Arc<RandomizedNonceKey>,
    /// The name of the user, or the id of the share after a slash, which no name has.
    holder: String,
}

impl Auth {
    /// The seal of the cursors of a user or a share; none of somebody who is neither.
    pub async fn cursor_seal(&self, credential: &Credential) -> Result<Option<CursorSeal>> {
        let Some(user) = credential.user() else { return Ok(None) };
        let holder = match credential.secret().filter(|_| credential.is_share()) {
            Some(share) => format!("/{}", share.id.0),
            None => user.as_str().to_owned(),
        };
        let key = match self.cursor_key.get() {
            Some(known) => known.clone(),
            None => {
                let stored = self.tables.cell(meta::TABLE, meta::USERS, CF, meta::CURSOR_KEY).await?;
                let key = meta::decode_cursor_key(&stored.ok_or(AuthError::Unauthorized)?)?;
                let cipher = RandomizedNonceKey::new(&AES_256_GCM_SIV, &key).map_err(RandomError::new)?;
                self.cursor_key.get_or_init(|| Arc::new(cipher)).clone()
            }
        };
        Ok(Some(CursorSeal { key, holder }))
    }
}

/// A new key, stored with the first user.
pub(super) fn put_cursor_key() -> Result<Change> {
    Ok(Change::put(CF, meta::CURSOR_KEY, meta::encode_cursor_key(&random()?)))
}

impl CursorSeal {
    /// `scope`: what the cursor is of, of one length always; it opens for nothing else.
    pub fn seal(&self, scope: &[u8], position: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = [position, &[END]].concat();
        sealed.resize(sealed.len().next_multiple_of(STEP), 0);
        let nonce = self.key.seal_in_place_append_tag(self.context(scope), &mut sealed).map_err(RandomError::new)?;
        Ok([nonce.as_ref().as_slice(), &sealed].concat())
    }

    /// The position; none if it is not of this scope and this user.
    pub fn open(&self, scope: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let (nonce, mut sealed) = (Nonce::try_assume_unique_for_key(nonce).ok()?, sealed.to_vec());
        let filled = self.key.open_in_place(nonce, self.context(scope), &mut sealed).ok()?;
        let end = filled.iter().rposition(|byte| *byte == END)?;
        filled.get(..end).map(<[u8]>::to_vec)
    }

    fn context(&self, scope: &[u8]) -> Aad<Vec<u8>> {
        Aad::from([scope, self.holder.as_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(key: u8, user: &str) -> CursorSeal {
        let key = Arc::new(RandomizedNonceKey::new(&AES_256_GCM_SIV, &[key; 32]).unwrap());
        CursorSeal { key, holder: user.to_owned() }
    }

    #[test]
    fn a_cursor_shows_nothing_and_opens_for_its_user_and_scope_alone() {
        let (eve, scope) = (seal(1, "eve"), [3; 32]);
        for position in [&b""[..], b"secret.jpg", &[0x80, 0, 0x80], &[0; 64], &[7; 63], &[7; 700]] {
            let sealed = eve.seal(&scope, position).unwrap();
            assert_eq!(eve.open(&scope, &sealed).as_deref(), Some(position));
            assert_eq!((sealed.len() - NONCE_LEN - 16) % STEP, 0);
            assert!(position.len() < 4 || !sealed.windows(4).any(|part| part == &position[..4]));
            for (other, scope) in [(&seal(1, "tom"), scope), (&seal(2, "eve"), scope), (&eve, [4; 32])] {
                assert_eq!(other.open(&scope, &sealed), None);
            }
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(eve.open(&scope, &changed), None, "{at}");
            }
        }
        assert_ne!(eve.seal(&scope, b"a").unwrap(), eve.seal(&scope, b"a").unwrap());
        for odd in [&b""[..], &[0; 11], &[0; 12], &[0; 28], &[0; 92]] {
            assert_eq!(eve.open(&scope, odd), None);
        }
    }
}
