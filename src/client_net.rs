//! The address of a client, as limits count it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The bits of an IPv6 address that are one client's: every client chooses the others.
const NET: u32 = 64;

/// The address of a client: of IPv6 its /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientNet(IpAddr);

impl ClientNet {
    /// That of a caller who tells no address: no client sends from it.
    pub const NONE: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// Of the address that a client sends from.
    pub fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - NET))).into(),
        })
    }

    /// Its bytes: of IPv4 those of the IPv6 address that stands for it.
    pub fn bytes(self) -> [u8; 16] {
        address_bytes(self.0)
    }
}

/// The bytes of an address: of IPv4 those of the IPv6 address that stands for it.
pub fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A value for each address, as long as anybody holds it.
#[derive(Debug)]
pub struct PerClient<T>(Mutex<HashMap<ClientNet, Weak<T>>>);

impl<T> Default for PerClient<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerClient<T> {
    /// The value of an address.
    pub fn of(&self, address: ClientNet, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.lock();
        if let Some(value) = values.get(&address).and_then(Weak::upgrade) {
            return value;
        }
        // Those that nobody holds leave when there is no room for more. Then there is room for as many again, so each is
        // looked at a few times in all.
        if values.len() == values.capacity() {
            values.retain(|_, value| value.strong_count() > 0);
            values.shrink_to_fit();
            let room = values.len().max(8);
            values.reserve(room);
        }
        let value = Arc::new(make());
        values.insert(address, Arc::downgrade(&value));
        value
    }

    /// All values.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientNet, Weak<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_as_long_as_it_is_held_and_others_leave() {
        let values = PerClient::default();
        let of = |address: &str| values.of(ClientNet::new(address.parse().unwrap()), || address.to_owned());
        let first = of("2001:db8::1");
        assert_eq!((of("2001:db8::2"), of("2001:db8:0:1::1").as_str()), (first.clone(), "2001:db8:0:1::1"));
        drop(first);
        assert_eq!(of("2001:db8::2").as_str(), "2001:db8::2");
        // While many are held, and while few are.
        for held in [1_000, 10] {
            let (values, mut kept) = (PerClient::default(), Vec::new());
            for number in 0..10_000_u32 {
                kept.push(values.of(ClientNet::new(number.to_be_bytes().into()), || number));
                kept.truncate(held);
                let known = values.lock().len();
                assert!(known < 4 * (held + 20), "{known}, {held} are held");
            }
            assert_eq!(values.all().len(), held);
        }
    }
}
