//! Ids of files, of directories, of operations, and of the stays of a file in one position.

use std::fmt;

use bytes::Bytes;
use uuid::{Builder, Uuid};

pub use self::seeded::seed;

/// The id of one version of a file: a random UUID (RFC 9562, version 4), never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub Uuid);

/// The id of a directory; it stays when the directory moves. The root's is nil.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirId(pub Uuid);

impl FileId {
    /// Generates a new id.
    pub fn random() -> Self {
        Self(random())
    }

    /// The row key in the file table: 16 bytes.
    pub fn key(self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }
}

impl DirId {
    /// The id of the root.
    pub const ROOT: Self = Self(Uuid::nil());

    /// Generates a new id.
    pub fn random() -> Self {
        Self(random())
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
    /// An id that is greater than those of earlier operations of this process.
    pub fn now() -> Self {
        let made = |(ms, bytes)| Builder::from_unix_timestamp_millis(ms, &bytes).into_uuid();
        Self(seeded::now().map_or_else(Uuid::now_v7, made))
    }

    /// The row key in the `op` table: 16 bytes.
    pub fn key(self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }
}

/// The id of a session or a token: a random UUID, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId(pub Uuid);

impl SecretId {
    /// Generates a new id.
    pub fn random() -> Self {
        Self(random())
    }
}

/// The id of a grant: 8 random bytes, new when the grant is given anew. It is the qualifier of its index entries, so
/// that each of them is put once and deleted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub [u8; 8]);

impl GrantId {
    /// Generates a new id.
    pub fn random() -> Self {
        Self(eight_random_bytes())
    }
}

/// Bytes 0 to 5 and 10 to 15 of a version 4 UUID are all random.
fn eight_random_bytes() -> [u8; 8] {
    let [a, b, c, d, e, f, .., g, h] = *random().as_bytes();
    [a, b, c, d, e, f, g, h]
}

/// A UUID version 4.
fn random() -> Uuid {
    seeded::bytes().map_or_else(Uuid::new_v4, |bytes| Builder::from_random_bytes(bytes).into_uuid())
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

/// One stay of a file in one position: one zero byte where the file was created, 8 random bytes for every attempt of a
/// move.
///
/// It is the qualifier of the file's index entries, so that each of them is put once and deleted once: a late clean-up
/// cannot delete the entries of a later stay in the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StayId {
    bytes: [u8; 8],
    len: usize,
}

impl StayId {
    /// The stay of a file where it was created.
    pub const CREATED: Self = Self { bytes: [0; 8], len: 1 };

    /// Generates a new id.
    pub fn random() -> Self {
        Self { bytes: eight_random_bytes(), len: 8 }
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

    /// The bytes: 1 or 8.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    /// The qualifier of the file's index entries.
    pub fn qualifier(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

/// Ids that are generated from a seed.
mod seeded {
    use std::cell::Cell;

    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
        /// Milliseconds: the number of times that were generated.
        static TIMES: Cell<u64> = const { Cell::new(0) };
    }

    /// Generates all further ids of this thread from `seed`, so that a simulated run can be replayed; `None` makes them
    /// random again.
    pub fn seed(seed: Option<u64>) {
        STATE.set(seed);
        TIMES.set(0);
    }

    /// The next 64 bits (splitmix64), if there is a seed.
    fn next() -> Option<u64> {
        let state = STATE.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
        STATE.set(Some(state));
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ (mixed >> 31))
    }

    /// The next 16 bytes, if there is a seed.
    pub fn bytes() -> Option<[u8; 16]> {
        let (high, low) = (u128::from(next()?), u128::from(next()?));
        Some((high << 64 | low).to_be_bytes())
    }

    /// A time that is later with every call, and random bytes.
    pub fn now() -> Option<(u64, [u8; 10])> {
        let [a, b, c, d, e, f, g, h, i, j, ..] = bytes()?;
        TIMES.set(TIMES.get() + 1);
        Some((TIMES.get(), [a, b, c, d, e, f, g, h, i, j]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_ids_are_the_same_again_and_later_operations_are_greater() {
        let make = || {
            seed(Some(7));
            (FileId::random(), DirId::random(), StayId::random(), OpId::now(), OpId::now())
        };
        let (first, again) = (make(), make());
        assert_eq!(first, again);
        assert_ne!(first.0.0, first.1.0);
        assert!(first.3 < first.4);
        seed(None);
        assert_ne!(FileId::random(), make().0);
        seed(None);
    }

    #[test]
    fn stay_ids_differ_and_keep_their_bytes() {
        assert_eq!(StayId::CREATED.as_bytes(), [0]);
        let (a, b) = (StayId::random(), StayId::random());
        assert_eq!(a.as_bytes().len(), 8);
        assert_ne!(a, b);
        assert_eq!(StayId::from_bytes(a.as_bytes()), Some(a));
        assert_eq!(StayId::from_bytes(&[0]), Some(StayId::CREATED));
        assert_eq!(StayId::from_bytes(&[1, 2]), None);
    }
}
