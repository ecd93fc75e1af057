//! Which addresses have used which shares, for the audit log: in bounded memory, so one of long ago counts as new again.

use std::net::IpAddr;

use quick_cache::sync::Cache;

use crate::schema::ids::SecretId;

/// Pairs of a share and an address that are known.
const KNOWN: usize = 10_000;

/// The addresses that have used a share.
pub struct ShareVisitors(Cache<(SecretId, IpAddr), ()>);

impl Default for ShareVisitors {
    fn default() -> Self {
        Self(Cache::new(KNOWN))
    }
}

impl ShareVisitors {
    /// Whether a share is used from this address for the first time. Of several at once each may be the first.
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
        let visitors = ShareVisitors::default();
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let shares = [SecretId::random(), SecretId::random()];
        for (share, address) in [(shares[0], a), (shares[0], b), (shares[1], a)] {
            assert!(visitors.is_first(share, address) && !visitors.is_first(share, address));
        }
    }
}
