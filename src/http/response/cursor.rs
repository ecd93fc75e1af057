//! Cursors: opaque, and bound to the resource and the filters of their request.
//!
//! A cursor is base64url of a version byte and of
//!
//! - 1: 16 bytes of a SHA-256 over resource, filters and position, and the position. The hash keeps a cursor from being used
//!   with other filters, where it would skip entries silently. It is no secret: all may be seen that is there
//! - 2: the position, [sealed](CursorSeal) for one user. A page may end at what he may not see

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::problem::{Problem, Result};
use crate::auth::CursorSeal;
use crate::sha256::Sha256;

const PLAIN: u8 = 1;
const SEALED: u8 = 2;
const HASH: usize = 16;

/// A resource and its filters: all but `limit`, which may change between pages.
pub struct CursorScope {
    digest: Sha256,
    seal: Option<CursorSeal>,
}

impl CursorScope {
    pub fn new(resource: &str) -> Self {
        Self { digest: Sha256::new(), seal: None }.filter(Some(resource))
    }

    /// With the seal of the user who asks.
    pub fn sealed(self, seal: Option<CursorSeal>) -> Self {
        Self { seal, ..self }
    }

    /// Adds a filter, also one that is not set: the order of the filters distinguishes them.
    pub fn filter(mut self, value: Option<&str>) -> Self {
        match value {
            None => self.digest.update([0]),
            Some(value) => {
                self.digest.update([1]);
                self.digest.update((value.len() as u64).to_be_bytes());
                self.digest.update(value);
            }
        }
        self
    }

    fn hash(&self, position: &[u8]) -> Vec<u8> {
        let mut digest = self.digest.clone();
        digest.update(position);
        digest.done().iter().take(HASH).copied().collect()
    }

    pub fn encode(&self, position: &[u8]) -> Result<String> {
        let bytes = match &self.seal {
            None => [&[PLAIN], self.hash(position).as_slice(), position].concat(),
            Some(seal) => [&[SEALED], seal.seal(&self.digest.clone().done(), position)?.as_slice()].concat(),
        };
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The position in a cursor.
    pub fn decode(&self, cursor: &str) -> Result<Vec<u8>> {
        let position = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| self.position(&bytes));
        position.ok_or_else(|| {
            Problem::malformed(
                "The cursor is of another request: send it with the filters it came from, or start without one.",
            )
        })
    }

    fn position(&self, cursor: &[u8]) -> Option<Vec<u8>> {
        let (version, rest) = cursor.split_first()?;
        match (*version, &self.seal) {
            (PLAIN, None) => {
                let (hash, position) = rest.split_at_checked(HASH)?;
                (hash == self.hash(position)).then(|| position.to_vec())
            }
            (SEALED, Some(seal)) => seal.open(&self.digest.clone().done(), rest),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_scope() {
        let scope = CursorScope::new("files").filter(Some("a")).filter(None);
        let cursor = scope.encode(b"there").unwrap();
        assert_eq!(scope.decode(&cursor).unwrap(), b"there");
        assert_eq!(scope.decode(&scope.encode(b"").unwrap()).unwrap(), b"");
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
