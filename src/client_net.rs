//! The address of a client, as limits count it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
