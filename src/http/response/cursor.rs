//! Cursors: opaque, and bound to the resource and the filters of their request.
//!
//! A cursor is base64url of a version byte, 16 bytes of a SHA-256 over resource, filters and position, and the position.
//! The hash keeps a cursor from being used with other filters, where it would skip entries silently. The hash is no
//! secret: a cursor gives its client no further rights.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::problem::{Problem, Result};

const VERSION: u8 = 1;
const HASH: usize = 16;

/// A resource and its filters: all but `limit`, which may change between pages.
pub struct CursorScope(Sha256);

impl CursorScope {
    pub fn new(resource: &str) -> Self {
        Self(Sha256::new()).filter(Some(resource))
    }

    /// Adds a filter, also one that is not set: the order of the filters distinguishes them.
    pub fn filter(mut self, value: Option<&str>) -> Self {
        match value {
            None => self.0.update([0]),
            Some(value) => {
                self.0.update([1]);
                self.0.update((value.len() as u64).to_be_bytes());
                self.0.update(value);
            }
        }
        self
    }

    fn hash(&self, position: &[u8]) -> Vec<u8> {
        self.0.clone().chain_update(position).finalize().iter().take(HASH).copied().collect()
    }

    pub fn encode(&self, position: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode([&[VERSION], self.hash(position).as_slice(), position].concat())
    }

    /// The position in a cursor.
    pub fn decode(&self, cursor: &str) -> Result<Vec<u8>> {
        let other = || {
            Problem::malformed(
                "The cursor is of another request: send it with the filters it came from, or start without one.",
            )
        };
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| other())?;
        let (version, rest) = bytes.split_first().ok_or_else(other)?;
        let (hash, position) = rest.split_at_checked(HASH).ok_or_else(other)?;
        if *version == VERSION && hash == self.hash(position) { Ok(position.to_vec()) } else { Err(other()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_scope() {
        let scope = CursorScope::new("files").filter(Some("a")).filter(None);
        let cursor = scope.encode(b"there");
        assert_eq!(scope.decode(&cursor).unwrap(), b"there");
        assert_eq!(scope.decode(&scope.encode(b"")).unwrap(), b"");
        for other in [
            CursorScope::new("find").filter(Some("a")).filter(None),
            CursorScope::new("files").filter(None).filter(Some("a")),
            CursorScope::new("files").filter(Some("a")),
            CursorScope::new("files").filter(Some("")).filter(None),
        ] {
            assert!(other.decode(&cursor).is_err());
        }
        for at in 0..cursor.len() {
            let mut bytes = cursor.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let tampered = String::from_utf8(bytes).unwrap();
            assert!(scope.decode(&tampered).is_err(), "{tampered}");
        }
        for odd in ["", "A", "====", "ü", &cursor[..cursor.len() - 1], &format!("{cursor}=")] {
            assert!(scope.decode(odd).is_err(), "{odd}");
        }
    }
}
