//! The owner index: the files of one creator by when they were modified or added, newest first.
//!
//! A row key is the creator's bytes reversed, a zero byte, and then what the time index has as its key.
//! Reversed, since names that are given out in order (`user0001`, `user0002`, ...) differ in their last bytes: so
//! they do not all write to one end of the table. No creator holds a zero byte. Cells are hints, as in the time
//! index.

use std::ops::Bound;

use bytes::Bytes;

use super::ids::{DirId, FileId};
use super::path::Name;
use super::time::{self, Clock};
use super::timestamp::Timestamp;
use super::value::{Reader, ValueError, Writer};
use crate::table::RowRange;

pub const TABLE: &str = "owner";

/// What the keys of all rows of this creator start with.
fn start(creator: &str) -> Vec<u8> {
    let mut start: Vec<u8> = creator.bytes().rev().collect();
    start.push(0);
    start
}

pub fn key(creator: &str, clock: Clock, time: Timestamp, id: FileId) -> Bytes {
    [start(creator), time::key(clock, time, id).to_vec()].concat().into()
}

/// The time and id that a row key names.
pub fn decode_key(key: &[u8]) -> Result<(Timestamp, FileId), ValueError> {
    let end = key.iter().position(|byte| *byte == 0).ok_or(ValueError::Damaged { what: "owner index key" })?;
    time::decode_key(key.get(end + 1..).unwrap_or_default())
}

/// The rows of the files of this creator whose rows in the time index lie in this range.
pub fn range(creator: &str, time: RowRange) -> RowRange {
    let start = start(creator);
    let of = |bound: Bound<Bytes>| bound.map(|key| Bytes::from([&start[..], &key].concat()));
    RowRange { from: of(time.from), to: of(time.to) }
}

/// The value of a hint in the owner index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerHint {
    pub dir: DirId,
    pub name: Name,
    pub mime: String,
}

impl OwnerHint {
    pub fn encode(&self) -> Bytes {
        let value = Writer::new(1).uuid(self.dir.0).bytes(self.name.as_str().as_bytes());
        value.bytes(self.mime.as_bytes()).done()
    }

    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("owner hint", 1, value)?;
        let (dir, name) = (DirId(r.uuid()?), r.text()?);
        let name = Name::parse(name).map_err(|_| r.damaged())?;
        let mime = r.text()?.to_owned();
        r.end()?;
        Ok(Self { dir, name, mime })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn golden_bytes() {
        let id = FileId(Uuid::from_bytes([6; 16]));
        let bytes = key("eva", Clock::Added, Timestamp::from_ms(0), id);
        let time = [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(bytes.as_ref(), [b"ave\0\x01".to_vec(), time.to_vec(), vec![6; 16]].concat());
        assert_eq!(decode_key(&bytes), Ok((Timestamp::from_ms(0), id)));
        assert!(decode_key(b"ave").is_err() && decode_key(b"ave\0").is_err());
        let hint = OwnerHint {
            dir: DirId(Uuid::from_bytes([2; 16])),
            name: Name::parse("a.jpg").unwrap(),
            mime: "image/jpeg".into(),
        };
        let bytes = [vec![1], vec![2; 16], b"\x05a.jpg\x0aimage/jpeg".to_vec()].concat();
        assert_eq!(hint.encode().as_ref(), bytes);
        assert_eq!(OwnerHint::decode(&bytes), Ok(hint));
    }

    #[test]
    fn a_range_holds_the_files_of_one_creator() {
        let at = |creator: &str, ms| key(creator, Clock::Modified, Timestamp::from_ms(ms), FileId(Uuid::nil()));
        let all = range("eva", time::range(Clock::Modified, None, None));
        assert!(all.contains(&at("eva", i64::MIN)) && all.contains(&at("eva", i64::MAX)));
        for other in ["ev", "va", "eve", "xeva", "evax", ""] {
            assert!(!all.contains(&at(other, 1)), "{other}");
        }
        let some = range("eva", time::range(Clock::Modified, Some(Timestamp::from_ms(1)), Some(Timestamp::from_ms(3))));
        assert_eq!([0, 1, 2, 3].map(|ms| some.contains(&at("eva", ms))), [false, true, true, false]);
        assert!(!all.contains(&key("eva", Clock::Added, Timestamp::from_ms(1), FileId(Uuid::nil()))));
    }
}
