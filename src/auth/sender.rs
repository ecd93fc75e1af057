//! From whom a password comes, as wrong passwords are counted.

use std::net::IpAddr;

use crate::client_net::ClientNet;
use crate::schema::user_name::UserName;
use crate::sha256::sha256;

/// A name, and the address from which it was sent with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// The name.
    pub name: SentName,
    /// The address.
    pub net: ClientNet,
}

/// A name in its folded form: all spellings that look the same are one. A text that is no name is itself. Only the
/// SHA-256 is kept, so that a long text takes no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SentName([u8; 32]);

impl Sender {
    /// Who sends a user's name, or any other text in place of one.
    pub fn new(name: &str, address: IpAddr) -> Self {
        Self { name: SentName::new(name), net: ClientNet::new(address) }
    }

    /// Its bytes: each sender has others, of the same length.
    pub fn bytes(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        let (name, address) = bytes.split_at_mut(32);
        name.copy_from_slice(&self.name.0);
        address.copy_from_slice(&self.net.bytes());
        bytes
    }
}

impl SentName {
    /// The name in any spelling.
    pub fn new(name: &str) -> Self {
        let folded = UserName::parse(name).map(|name| name.folded_key());
        Self(sha256(folded.as_deref().unwrap_or(name.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_and_addresses_of_a_client_are_one() {
        let sender = |name: &str, address: &str| Sender::new(name, address.parse().unwrap());
        for (one, other, are_one) in [
            (("tom", "10.0.0.1"), ("TOM", "10.0.0.1"), true),
            (("e\u{301}va", "10.0.0.1"), ("ÉVA", "::ffff:10.0.0.1"), true),
            (("tom", "2001:db8::1"), ("tom", "2001:db8::ffff:0:0:2"), true),
            (("*", "10.0.0.1"), ("*", "10.0.0.1"), true),
            (("tom", "10.0.0.1"), ("tim", "10.0.0.1"), false),
            (("tom", "10.0.0.1"), ("tom", "10.0.0.2"), false),
            (("tom", "2001:db8::1"), ("tom", "2001:db8:0:1::1"), false),
            (("*", "10.0.0.1"), ("", "10.0.0.1"), false),
            (("tom", "0.0.0.1"), ("tom", "::1"), false),
        ] {
            let (one, other) = (sender(one.0, one.1), sender(other.0, other.1));
            assert_eq!((one == other, one.bytes() == other.bytes()), (are_one, are_one), "{one:?} {other:?}");
        }
    }
}
