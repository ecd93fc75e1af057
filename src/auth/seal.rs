//! Seals what clients keep for the server: the positions of cursors, and that the password of a share was right.
//!
//! AES-256-GCM-SIV (RFC 8452) with a random nonce: one that comes twice by chance shows no more than that two texts of
//! one context are equal. The key is made with the first user, and stays.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};

use super::Auth;
use super::error::{AuthError, Result};
use super::random::{RandomError, random};
use crate::schema::{CF, meta};
use crate::table::Change;

/// The key of a store, once it was read.
pub type KnownSealKey = Arc<OnceLock<SealKey>>;

/// The key. Cheap to clone.
#[derive(Clone)]
pub struct SealKey(Arc<RandomizedNonceKey>);

/// No key appears in a log.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}

impl Auth {
    /// The key of this store.
    ///
    /// Errors: [`AuthError::Unauthorized`] before the first user.
    pub(super) async fn seal_key(&self) -> Result<SealKey> {
        if let Some(known) = self.seal_key.get() {
            return Ok(known.clone());
        }
        let stored = self.tables.cell(meta::TABLE, meta::USERS, CF, meta::CURSOR_KEY).await?;
        let key = SealKey::new(&meta::decode_cursor_key(&stored.ok_or(AuthError::Unauthorized)?)?)?;
        Ok(self.seal_key.get_or_init(|| key).clone())
    }
}

/// A new key, stored with the first user.
pub(super) fn put_seal_key() -> Result<Change> {
    Ok(Change::put(CF, meta::CURSOR_KEY, meta::encode_cursor_key(&random()?)))
}

impl SealKey {
    pub(super) fn new(key: &[u8; meta::CURSOR_KEY_BYTES]) -> Result<Self> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM_SIV, key).map_err(RandomError::new)?;
        Ok(Self(Arc::new(cipher)))
    }

    /// `context`: what the text is of; it opens for nothing else.
    pub fn seal(&self, context: Vec<u8>, mut text: Vec<u8>) -> Result<Vec<u8>> {
        let nonce = self.0.seal_in_place_append_tag(Aad::from(context), &mut text).map_err(RandomError::new)?;
        Ok([nonce.as_ref().as_slice(), &text].concat())
    }

    /// The text; none if it was not sealed in this context.
    pub fn open(&self, context: Vec<u8>, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let (nonce, mut sealed) = (Nonce::try_assume_unique_for_key(nonce).ok()?, sealed.to_vec());
        self.0.open_in_place(nonce, Aad::from(context), &mut sealed).ok().map(|text| text.to_vec())
    }
}
