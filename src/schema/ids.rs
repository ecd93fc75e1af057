//! Identities: of files, of directories, and of the places where a file has stood.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

/// The id of one version of a file: a random UUID (RFC 9562, version 4), never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub Uuid);

/// The id of a directory; it stays when the directory moves. The root's is nil.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirId(pub Uuid);

impl FileId {
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The row key in the file table: 16 bytes.
    pub fn key(self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }
}

impl DirId {
    pub const ROOT: Self = Self(Uuid::nil());

    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The row key in the `dirid` table: 16 bytes.
    pub fn key(self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }
}

/// The id of an operation on a subtree: a UUID version 7 (RFC 9562), so that older ones are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub Uuid);

impl OpId {
    pub fn now() -> Self {
        Self(Uuid::now_v7())
    }

    /// The row key in the `op` table: 16 bytes.
    pub fn key(self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DirId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a file stands, as its hints name it: one zero byte where it was created, 8 random bytes drawn by
/// every try of a move.
///
/// It is the qualifier of every hint, so that a hint is made once and removed once: neither a late clean-up
/// nor a rival's can remove the hint of another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    bytes: [u8; 8],
    len: usize,
}

impl Place {
    pub const CREATED: Self = Self { bytes: [0; 8], len: 1 };

    pub fn random() -> Self {
        // Bytes 0 to 5 and 10 to 15 of a version 4 UUID are all random.
        let [a, b, c, d, e, f, .., g, h] = *Uuid::new_v4().as_bytes();
        Self { bytes: [a, b, c, d, e, f, g, h], len: 8 }
    }

    /// `None` unless it is 1 or 8 bytes long.
    pub fn from_bytes(from: &[u8]) -> Option<Self> {
        if !matches!(from.len(), 1 | 8) {
            return None;
        }
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
        Some(Self { bytes, len: from.len() })
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    /// The qualifier of the file's hints.
    pub fn qualifier(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_differ_and_keep_their_bytes() {
        assert_eq!(Place::CREATED.as_bytes(), [0]);
        let (a, b) = (Place::random(), Place::random());
        assert_eq!(a.as_bytes().len(), 8);
        assert_ne!(a, b);
        assert_eq!(Place::from_bytes(a.as_bytes()), Some(a));
        assert_eq!(Place::from_bytes(&[0]), Some(Place::CREATED));
        assert_eq!(Place::from_bytes(&[1, 2]), None);
    }
}
