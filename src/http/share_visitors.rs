//! From where shares were used, for the audit log: in bounded memory, so a use of long ago is noted again.

use std::net::IpAddr;

use quick_cache::sync::Cache;

use crate::schema::ids::SecretId;

/// Uses that are known.
const USES: usize = 10_000;

/// Which shares were used from which addresses.
pub struct ShareUses(Cache<(SecretId, IpAddr), ()>);

impl Default for ShareUses {
    fn default() -> Self {
        Self(Cache::new(USES))
    }
}

impl ShareUses {
    /// Whether this is the first use of a share from an address. Of several at once each may be the first.
    pub fn is_first(&self, share: SecretId, address: IpAddr) -> bool {
        let is_known = self.0.get(&(share, address)).is_some();
        if !is_known {
            self.0.insert((share, address), ());
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_share_and_address_is_first_once() {
        let uses = ShareUses::default();
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let shares = [SecretId::random(), SecretId::random()];
        for (share, address) in [(shares[0], a), (shares[0], b), (shares[1], a)] {
            assert!(uses.is_first(share, address) && !uses.is_first(share, address));
        }
    }
}
