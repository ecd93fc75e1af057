//! What clients have sent lately, with the credential that it proved and what was read of its account: as long as no
//! write of that has begun, nothing is read for the next request that sends the same, and no password is normalised.
//!
//! A credential is found only while its account is current. So what was found here is valid; a session that was
//! revoked, or a password that was replaced, is not found, and is looked at anew.
//!
//! A store that others write to beside this process does not know what is written, so nothing is kept of it.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::credential::{Credential, SentHash};
use super::remembered::LoginDigest;
use crate::schema::secret::SecretDigest;
use crate::schema::timestamp::Timestamp;

/// How many credentials are kept, each with few grants.
const CREDENTIALS: usize = 512;
/// How many grants of all of them: some hundred bytes each.
const GRANTS: u64 = 8 << 10;
/// How long a password is found after it was verified. The next request with it asks those that are
/// [remembered](super::remembered), which notes that it was sent again.
const FOUND: Duration = Duration::from_secs(1);

/// The hasher has fixed keys, so that a seeded run keeps the same ones each time. Only what has proved an account is
/// kept, and its hashes are random: no client can choose ones that collide.
pub(super) struct KeptCredentials(Cache<SentHash, Kept, GrantWeighter, BuildHasherDefault<DefaultHasher>>);

#[derive(Clone)]
struct Kept {
    credential: Credential,
    /// IMPORTANT: as it was when this was kept. What is in a cache must not change its weight, and a credential that is
    /// read anew may have more grants.
    weight: u64,
}

#[derive(Clone)]
struct GrantWeighter;

impl Weighter<SentHash, Kept> for GrantWeighter {
    fn weight(&self, _: &SentHash, kept: &Kept) -> u64 {
        kept.weight
    }
}

impl Default for KeptCredentials {
    fn default() -> Self {
        let (hasher, lifecycle) = (BuildHasherDefault::default(), DefaultLifecycle::default());
        Self(Cache::with(CREDENTIALS, GRANTS, GrantWeighter, hasher, lifecycle))
    }
}

impl KeptCredentials {
    /// The session, token or share of this secret, if it is known to be valid now.
    pub fn find_secret(&self, sent: SecretDigest, clock: fn() -> Timestamp) -> Option<Credential> {
        self.find(SentHash::Secret(sent), clock)
    }

    /// What a password has proved that was sent with the same name from the same address, if it was verified within a
    /// second, and is known to be right still.
    pub fn find_password(&self, sent: LoginDigest, now: Instant, clock: fn() -> Timestamp) -> Option<Credential> {
        let is_new = |kept: &Credential| {
            kept.kept_as().and_then(|kept| kept.verified).is_some_and(|at| now.saturating_duration_since(at) < FOUND)
        };
        self.find(SentHash::Password(sent), clock).filter(is_new)
    }

    fn find(&self, sent: SentHash, clock: fn() -> Timestamp) -> Option<Credential> {
        self.0.get(&sent).map(|kept| kept.credential).filter(|credential| credential.asker(clock).is_some())
    }

    /// Keeps a credential that has what was read of its account.
    pub fn keep(&self, credential: &Credential) {
        if let Some(kept) = credential.kept_as() {
            let weight = (GRANTS / CREDENTIALS as u64).max(credential.kept_grants() as u64);
            self.0.insert(kept.hash, Kept { credential: credential.clone(), weight });
        }
    }
}
