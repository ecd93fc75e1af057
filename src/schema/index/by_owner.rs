//! The owner index: the files of one creator by when they were modified or added, newest first.
//!
//! A row key is the creator's bytes reversed, a zero byte, and then the key of the time index. The creator is reversed
//! since names that are assigned in order (`user0001`, `user0002`, ...) differ in their last bytes: so their rows are
//! spread over the table, and not all written at one end of it. No creator has a zero byte. Cells are index entries, as
//! in the time index.

use std::ops::Bound;

use bytes::Bytes;

use super::by_time::{self, Clock};
use crate::schema::ids::{DirId, FileId};
use crate::schema::path::Name;
use crate::schema::timestamp::Timestamp;
use crate::schema::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::RowRange;

/// The name of the table.
pub const TABLE: &str = "owner";

/// The prefix of the keys of all rows of this creator.
fn start(creator: &str) -> Vec<u8> {
    let mut start: Vec<u8> = creator.bytes().rev().collect();
    start.push(0);
    start
}

/// The row key of a file.
pub fn key(creator: &str, clock: Clock, time: Timestamp, id: FileId) -> Bytes {
    [start(creator), by_time::key(clock, time, id).to_vec()].concat().into()
}

/// The time and id that a row key names.
pub fn decode_key(key: &[u8]) -> Result<(Timestamp, FileId), ValueError> {
    let end = key.iter().position(|byte| *byte == 0).ok_or(ValueError::Damaged { what: "owner index key" })?;
    by_time::decode_key(key.get(end + 1..).unwrap_or_default())
}

/// The rows of the files of this creator whose rows in the time index lie in this range.
pub fn range(creator: &str, time: RowRange) -> RowRange {
    let start = start(creator);
    let within_creator = |bound: Bound<Bytes>| bound.map(|key| Bytes::from([&start[..], &key].concat()));
    RowRange { from: within_creator(time.from), to: within_creator(time.to) }
}

/// The value of an index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerIndexEntry {
    /// The directory.
    pub dir: DirId,
    /// The name in that directory.
    pub name: Name,
    /// The media type.
    pub mime: String,
}

impl OwnerIndexEntry {
    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        let value = ValueWriter::new(Self::VERSION).uuid(self.dir.0).bytes(self.name.as_str().as_bytes());
        value.bytes(self.mime.as_bytes()).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for OwnerIndexEntry {
    const NAME: &'static str = "owner index entry";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (dir, name) = (DirId(r.uuid()?), r.text()?);
        let name = Name::parse(name).map_err(|_| r.damaged())?;
        let mime = r.text()?.to_owned();
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
        let entry = OwnerIndexEntry {
            dir: DirId(Uuid::from_bytes([2; 16])),
            name: Name::parse("a.jpg").unwrap(),
            mime: "image/jpeg".into(),
        };
        let bytes = [vec![1], vec![2; 16], b"\x05a.jpg\x0aimage/jpeg".to_vec()].concat();
        assert_eq!(entry.encode().as_ref(), bytes);
        assert_eq!(OwnerIndexEntry::decode(&bytes), Ok(entry));
    }

    #[test]
    fn a_range_contains_the_files_of_one_creator() {
        let at = |creator: &str, ms| key(creator, Clock::Modified, Timestamp::from_ms(ms), FileId(Uuid::nil()));
        let all = range("eva", by_time::range(Clock::Modified, None, None));
        assert!(all.contains(&at("eva", i64::MIN)) && all.contains(&at("eva", i64::MAX)));
        for other in ["ev", "va", "eve", "xeva", "evax", ""] {
            assert!(!all.contains(&at(other, 1)), "{other}");
        }
        let some =
            range("eva", by_time::range(Clock::Modified, Some(Timestamp::from_ms(1)), Some(Timestamp::from_ms(3))));
        assert_eq!([0, 1, 2, 3].map(|ms| some.contains(&at("eva", ms))), [false, true, true, false]);
        assert!(!all.contains(&key("eva", Clock::Added, Timestamp::from_ms(1), FileId(Uuid::nil()))));
    }
}
