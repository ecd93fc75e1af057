//! What is done to row keys so that load spreads, and what it costs.

use sha2::{Digest, Sha256};

use super::keys::Shape;
use super::splits::Alphabet;

/// Bytes of a hash that stands for a key or a folder.
const HASH: usize = 16;

/// A change of all row keys of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    None,
    /// One of so many bytes before the key, found by hashing it. At most 256.
    Salt(u16),
    /// A hash instead of the key.
    Hash,
    /// A hash instead of the folder, then the name.
    HashFolder,
    /// The bytes of a number or of a text backwards; a name after a number stays.
    Reverse,
    /// Undoes the drive's inversion of times: later times last.
    Ascending,
    /// Undoes the drive's reversal of creators.
    CreatorForward,
}

impl Remedy {
    pub fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Salt(salts) => format!("salt {salts}"),
            Self::Hash => "hash".to_owned(),
            Self::HashFolder => "hash of the folder".to_owned(),
            Self::Reverse => "reverse".to_owned(),
            Self::Ascending => "times ascending".to_owned(),
            Self::CreatorForward => "creator not reversed".to_owned(),
        }
    }

    /// What it costs, for a table of such keys; nothing if it is no remedy.
    pub fn cost(self, shape: Shape) -> Option<String> {
        let text = match self {
            Self::None | Self::CreatorForward => return None,
            Self::Salt(1) => "a byte a key, and nothing is spread".to_owned(),
            Self::Salt(salts) => format!("a scan reads {salts} ranges and merges them"),
            Self::Hash => "no range is left: a listing or a period scans the whole table".to_owned(),
            Self::HashFolder => {
                "a listing is one range, a subtree is one for each folder; one busy folder stays hot".to_owned()
            }
            Self::Reverse if matches!(shape, Shape::Number | Shape::NumberAndName) => {
                "no scan in the order of ids".to_owned()
            }
            Self::Reverse => "a folder or a prefix of names is no range any more".to_owned(),
            Self::Ascending => "the newest files are at the end: read backwards".to_owned(),
        };
        Some(text)
    }

    /// The first bytes of keys of this shape, with this remedy.
    pub fn alphabet(self, shape: Shape) -> Alphabet {
        match (self, shape) {
            (Self::Salt(_) | Self::Hash | Self::HashFolder, _) => Alphabet::Binary,
            (_, Shape::Path | Shape::Name | Shape::Owner) => Alphabet::Text,
            _ => Alphabet::Binary,
        }
    }

    /// Writes what becomes of a key of this shape into `out`, which is emptied first.
    pub fn apply(self, shape: Shape, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::None => out.extend_from_slice(key),
            Self::Salt(salts) => {
                out.push(salt(key, salts));
                out.extend_from_slice(key);
            }
            Self::Hash => out.extend(hash(key)),
            Self::HashFolder => {
                let (folder, name) = key.split_at(folder_len(shape, key));
                out.extend(hash(folder));
                out.extend_from_slice(name);
            }
            Self::Reverse => {
                out.extend_from_slice(key);
                let len = if shape == Shape::NumberAndName { size_of::<u64>() } else { key.len() };
                reverse_first(out, len);
            }
            Self::Ascending => {
                out.extend_from_slice(key);
                for byte in out.iter_mut().skip(time_at(shape, key)).take(size_of::<u64>()) {
                    *byte = !*byte;
                }
            }
            Self::CreatorForward => {
                out.extend_from_slice(key);
                let creator = if shape == Shape::Owner { creator_len(key) } else { 0 };
                reverse_first(out, creator);
            }
        }
    }
}

/// Salts lie evenly over the values of a byte, so that even splits fall between them.
fn salt(key: &[u8], salts: u16) -> u8 {
    let salts = u32::from(salts).clamp(1, 256);
    (crc32c::crc32c(key) % salts * 256 / salts) as u8
}

fn hash(key: &[u8]) -> impl Iterator<Item = u8> {
    Sha256::digest(key).into_iter().take(HASH)
}

fn reverse_first(key: &mut [u8], len: usize) {
    let len = len.min(key.len());
    if let Some(part) = key.get_mut(..len) {
        part.reverse();
    }
}

/// How much of a key names the folder; all of it where none is named.
fn folder_len(shape: Shape, key: &[u8]) -> usize {
    let len = match shape {
        Shape::Path => key.iter().rposition(|byte| *byte == b'/').unwrap_or(key.len()),
        Shape::NumberAndName => size_of::<u64>(),
        Shape::RandomAndName => size_of::<u128>(),
        _ => key.len(),
    };
    len.min(key.len())
}

fn creator_len(key: &[u8]) -> usize {
    key.iter().position(|byte| *byte == 0).unwrap_or(key.len())
}

/// Where the time of a key starts, after its clock; its end if it has none.
fn time_at(shape: Shape, key: &[u8]) -> usize {
    match shape {
        Shape::Time => 1,
        Shape::Owner => creator_len(key) + 2,
        _ => key.len(),
    }
}

#[cfg(test)]
mod tests {
    use rowdrive::schema::index::by_time::{self, Clock};
    use rowdrive::schema::{FileId, Timestamp, index::by_owner};
    use uuid::Uuid;

    use super::*;

    fn applied(remedy: Remedy, shape: Shape, key: &[u8]) -> Vec<u8> {
        let mut out = b"left".to_vec();
        remedy.apply(shape, key, &mut out);
        out
    }

    #[test]
    fn salts_lie_on_the_even_splits_and_the_key_follows() {
        let mut seen = [0; 256];
        for n in 0..1_000u64 {
            let key = applied(Remedy::Salt(4), Shape::Number, &n.to_be_bytes());
            assert_eq!(key[1..], n.to_be_bytes());
            seen[usize::from(key[0])] += 1;
        }
        let used: Vec<usize> = (0..256).filter(|n| seen[*n] > 0).collect();
        assert_eq!(used, [0x00, 0x40, 0x80, 0xc0]);
        assert!(used.iter().all(|n| (200..300).contains(&seen[*n])), "{seen:?}");
        assert_eq!(applied(Remedy::Salt(1), Shape::Path, b"/a"), b"\0/a");
        // CRC-32C of "123456789" is 0xe3069283 (its check value), which is 3 modulo 16.
        assert_eq!(applied(Remedy::Salt(16), Shape::Path, b"123456789"), b"\x30123456789");
    }

    #[test]
    fn a_hash_stands_for_the_key_or_for_its_folder() {
        // SHA-256 of "abc" (FIPS 180-2, appendix B.1), its first half.
        let abc = 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223_u128.to_be_bytes();
        assert_eq!(applied(Remedy::Hash, Shape::Path, b"abc"), abc);
        assert_eq!(applied(Remedy::HashFolder, Shape::Path, b"abc/d"), [&abc[..], b"/d"].concat());
        let of = |name: &str| {
            applied(Remedy::HashFolder, Shape::NumberAndName, &[b"\0\0\0\0\0\0\0\x07", name.as_bytes()].concat())
        };
        assert_eq!(of("a")[..HASH], of("b")[..HASH]);
        assert_eq!(of("a")[HASH..], *b"a");
    }

    #[test]
    fn numbers_and_texts_are_reversed() {
        assert_eq!(applied(Remedy::Reverse, Shape::Path, b"/a/b.c"), b"c.b/a/");
        assert_eq!(applied(Remedy::Reverse, Shape::Number, &1u64.to_be_bytes()), 1u64.to_le_bytes());
        let key = applied(Remedy::Reverse, Shape::NumberAndName, b"\0\0\0\0\0\0\0\x01ab");
        assert_eq!(key, b"\x01\0\0\0\0\0\0\0ab");
    }

    #[test]
    fn what_the_drive_does_to_keys_is_undone() {
        let id = FileId(Uuid::from_bytes([6; 16]));
        let at = |ms| Timestamp::from_ms(ms);
        let later = |shape, of: &dyn Fn(i64) -> Vec<u8>| {
            let plain = [of(1), of(2)].map(|key| applied(Remedy::Ascending, shape, &key));
            (of(1) < of(2), plain[0] < plain[1])
        };
        assert_eq!(later(Shape::Time, &|ms| by_time::key(Clock::Added, at(ms), id).to_vec()), (false, true));
        let owned = |ms| by_owner::key("eva", Clock::Added, at(ms), id).to_vec();
        assert_eq!(later(Shape::Owner, &owned), (false, true));
        let forward = applied(Remedy::CreatorForward, Shape::Owner, &owned(1));
        assert_eq!(forward, [b"eva\0", &by_time::key(Clock::Added, at(1), id)[..]].concat());
    }

    #[test]
    fn keys_of_other_shapes_are_left_whole() {
        for remedy in [Remedy::Ascending, Remedy::CreatorForward] {
            assert_eq!(applied(remedy, Shape::Path, b"/a/b"), b"/a/b");
        }
        for remedy in [Remedy::HashFolder, Remedy::Reverse, Remedy::Ascending, Remedy::CreatorForward] {
            for shape in [Shape::Path, Shape::NumberAndName, Shape::Owner, Shape::Time] {
                applied(remedy, shape, b"");
            }
        }
    }
}
