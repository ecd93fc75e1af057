//! Who has asked lately, with what was read of his account: as long as no write of that has begun, it is not read
//! again.
//!
//! A store that others write to beside this process does not know that, so nothing is kept of it.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::authority::Asker;
use super::credential::Proof;
use crate::schema::timestamp::Timestamp;

/// How many requesters are kept, each with few grants.
const ASKERS: usize = 512;
/// How many grants of all of them: some hundred bytes each.
const GRANTS: u64 = 8 << 10;

/// The hasher has fixed keys, so that a seeded run keeps the same ones each time. Digests and hashes of passwords are
/// random, so no client can choose ones that collide.
pub(super) struct KeptAskers(Cache<Proof, Arc<Asker>, GrantWeighter, BuildHasherDefault<DefaultHasher>>);

#[derive(Clone)]
struct GrantWeighter;

impl Weighter<Proof, Arc<Asker>> for GrantWeighter {
    fn weight(&self, _: &Proof, asker: &Arc<Asker>) -> u64 {
        let everyone = asker.everyone.as_ref().map_or(0, |(_, grants)| grants.len());
        (GRANTS / ASKERS as u64).max((asker.grants.len() + everyone) as u64)
    }
}

impl Default for KeptAskers {
    fn default() -> Self {
        let (hasher, lifecycle) = (BuildHasherDefault::default(), DefaultLifecycle::default());
        Self(Cache::with(ASKERS, GRANTS, GrantWeighter, hasher, lifecycle))
    }
}

impl KeptAskers {
    /// What a read would find now; none if it has to be read.
    pub fn find(&self, proof: &Proof, now: Timestamp) -> Option<Arc<Asker>> {
        self.0.get(proof).filter(|asker| asker.is_current(now))
    }

    /// Keeps what was read, if it can be known later whether it has changed.
    pub fn keep(&self, proof: &Proof, asker: &Arc<Asker>) {
        if asker.can_be_kept() {
            self.0.insert(proof.clone(), asker.clone());
        }
    }
}
