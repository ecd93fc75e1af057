//! The time index: files by when they were modified or added, newest first.
//!
//! A row key is the clock (1 byte), the inverted milliseconds (8 bytes, big-endian `!((ms as u64) ^ (1 << 63))`,
//! so that later times sort first) and the file's id (16 bytes). Each cell is an index entry: its qualifier is a stay id,
//! its value the position of the file during that stay, and the attributes of the file, which never change.

use std::borrow::Cow;
use std::ops::Bound;

use bytes::Bytes;
use uuid::Uuid;

use crate::schema::file::{Attributes, AttributesRef};
use crate::schema::ids::{DirId, FileId};
use crate::schema::path::Name;
use crate::schema::timestamp::Timestamp;
use crate::schema::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::RowRange;

/// The name of the table.
pub const TABLE: &str = "time";

/// Which of a file's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clock {
    #[default]
    /// `modified`: the time that the client has given.
    Modified,
    /// `added`: the time of the upload.
    Added,
}

impl Clock {
    /// Both clocks.
    pub const ALL: [Self; 2] = [Self::Modified, Self::Added];

    fn byte(self) -> u8 {
        match self {
            Self::Modified => 0,
            Self::Added => 1,
        }
    }
}

fn inverted(time: Timestamp) -> u64 {
    !((time.ms() as u64) ^ (1 << 63))
}

/// The bytes of a row key.
pub const KEY_BYTES: usize = 25;

/// The row key of a file.
pub fn key(clock: Clock, time: Timestamp, id: FileId) -> Bytes {
    Bytes::copy_from_slice(&key_bytes(clock, time, id))
}

/// The same as an array.
pub fn key_bytes(clock: Clock, time: Timestamp, id: FileId) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let parts = [&[clock.byte()][..], &inverted(time).to_be_bytes(), id.0.as_bytes()];
    for (to, from) in key.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    key
}

/// The clock of a row key.
pub fn clock(key: &[u8]) -> Option<Clock> {
    let byte = key.first()?;
    Clock::ALL.into_iter().find(|clock| clock.byte() == *byte)
}

/// The time and id that a row key names.
pub fn decode_key(key: &[u8]) -> Result<(Timestamp, FileId), ValueError> {
    let damaged = ValueError::Damaged { what: "time index key" };
    let (_, rest) = key.split_first().ok_or(damaged.clone())?;
    let (ms, id) = rest.split_at_checked(8).ok_or(damaged.clone())?;
    let ms = u64::from_be_bytes(ms.try_into().map_err(|_| damaged.clone())?);
    let id = Uuid::from_slice(id).map_err(|_| damaged)?;
    Ok((Timestamp::from_ms(((!ms) ^ (1 << 63)) as i64), FileId(id)))
}

/// The rows of all files with `from <= time < to`; a missing bound bounds nothing.
pub fn range(clock: Clock, from: Option<Timestamp>, to: Option<Timestamp>) -> RowRange {
    let at = |after: u64| [&[clock.byte()][..], &after.to_be_bytes()].concat();
    let next_clock = || vec![clock.byte() + 1];
    // Keys of one millisecond and all later ones lie below the next greater inverted number.
    let below = |time: Timestamp| inverted(time).checked_add(1).map_or_else(next_clock, at);
    let first = to.map_or_else(|| vec![clock.byte()], below);
    let end = from.map_or_else(next_clock, below);
    RowRange { from: Bound::Included(first.into()), to: Bound::Excluded(end.into()) }
}

/// The value of an index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeIndexEntry {
    /// The directory.
    pub dir: DirId,
    /// The name in that directory.
    pub name: Name,
    /// The copied attributes.
    pub copied: CopiedAttributes,
}

/// The attributes in an index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiedAttributes {
    /// All of them.
    All(Attributes),
    /// Of an entry of version 1: what queries filter by.
    Filters {
        /// The media type.
        mime: String,
        /// The user name of the creator.
        creator: String,
    },
}

impl CopiedAttributes {
    /// The media type.
    pub fn mime(&self) -> &str {
        match self {
            Self::All(attributes) => &attributes.mime,
            Self::Filters { mime, .. } => mime,
        }
    }
}

impl TimeIndexEntry {
    /// The stored bytes, in the version that holds what it has.
    pub fn encode(&self) -> Bytes {
        let start = |version| ValueWriter::new(version).uuid(self.dir.0).bytes(self.name.as_str().as_bytes());
        match &self.copied {
            CopiedAttributes::All(attributes) => attributes.write(start(Self::VERSION)).done(),
            CopiedAttributes::Filters { mime, creator } => {
                start(1).bytes(mime.as_bytes()).bytes(creator.as_bytes()).done()
            }
        }
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for TimeIndexEntry {
    const NAME: &'static str = "time index entry";
    const VERSION: u8 = 2;

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (dir, name) = position(r)?;
        Ok(Self { dir, name, copied: CopiedAttributes::All(Attributes::read(r)?) })
    }

    fn upgrade(_version: u8, r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (dir, name) = position(r)?;
        let (mime, creator) = (r.text()?.to_owned(), r.text()?.to_owned());
        Ok(Self { dir, name, copied: CopiedAttributes::Filters { mime, creator } })
    }
}

/// A [`TimeIndexEntry`] with all attributes, whose texts are borrowed from a stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TimeIndexEntryRef<'a> {
    pub dir: DirId,
    pub name: Cow<'a, str>,
    pub attributes: AttributesRef<'a>,
}

impl<'a> TimeIndexEntryRef<'a> {
    /// Whether a stored value has all attributes: those of older versions do not.
    pub fn is_stored_in(value: &[u8]) -> bool {
        value.first() == Some(&TimeIndexEntry::VERSION)
    }

    /// Decodes a stored value that [has all attributes](Self::is_stored_in).
    pub fn decode(value: &'a [u8]) -> Result<Self, ValueError> {
        value::decode_newest::<TimeIndexEntry, _>(value, |r| {
            let (dir, name) = (DirId(r.uuid()?), r.text()?);
            let name = Name::check(name).map_err(|_| r.damaged())?;
            Ok(Self { dir, name, attributes: AttributesRef::read(r)? })
        })
    }
}

fn position(r: &mut ValueReader<'_>) -> Result<(DirId, Name), ValueError> {
    let (dir, name) = (DirId(r.uuid()?), r.text()?);
    Ok((dir, Name::parse(name).map_err(|_| r.damaged())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::file::{ContentLocation, Digest};

    fn id(byte: u8) -> FileId {
        FileId(Uuid::from_bytes([byte; 16]))
    }

    #[test]
    fn golden_bytes() {
        let bytes = key(Clock::Added, Timestamp::from_ms(1), id(6));
        assert_eq!(bytes.as_ref(), [vec![1, 0x7f, 255, 255, 255, 255, 255, 255, 254], vec![6; 16]].concat());
        assert_eq!(decode_key(&bytes), Ok((Timestamp::from_ms(1), id(6))));
        let (mime, creator) = ("x/y".to_owned(), "eva".to_owned());
        let filters = CopiedAttributes::Filters { mime: mime.clone(), creator: creator.clone() };
        let all = CopiedAttributes::All(Attributes {
            size: 300,
            mime,
            creator,
            modified: Timestamp::from_ms(-1),
            added: Timestamp::from_ms(64),
            digest: Digest([3; 32]),
            location: ContentLocation::Large,
        });
        let numbers = [0xac, 2, 1, 0x80, 1, 1].as_slice();
        for (copied, version, numbers, digest) in [(filters, 1, &[][..], &[][..]), (all, 2, numbers, &[3; 32])] {
            let entry =
                TimeIndexEntry { dir: DirId(Uuid::from_bytes([2; 16])), name: Name::parse("a").unwrap(), copied };
            let position = [[version].as_slice(), &[2; 16], b"\x01a"].concat();
            let bytes = [&position, numbers, b"\x03x/y\x03eva", digest].concat();
            assert_eq!(entry.encode().as_ref(), bytes);
            assert_eq!(TimeIndexEntryRef::is_stored_in(&bytes), version == 2);
            match (&entry.copied, TimeIndexEntryRef::decode(&bytes)) {
                (CopiedAttributes::Filters { .. }, Err(_)) => {}
                (CopiedAttributes::All(all), Ok(TimeIndexEntryRef { dir, name, attributes })) => {
                    assert_eq!((dir, &*name, attributes), (entry.dir, entry.name.as_str(), all.borrowed()));
                }
                (_, other) => panic!("{other:?}"),
            }
            assert!(TimeIndexEntryRef::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert_eq!(TimeIndexEntry::decode(&bytes), Ok(entry));
        }
    }

    #[test]
    fn newest_first_over_1970_and_ties_by_id() {
        let times = [i64::MAX, 5, 1, 0, -1, -5, i64::MIN];
        let keys: Vec<_> = times.map(|ms| key(Clock::Modified, Timestamp::from_ms(ms), id(1))).to_vec();
        assert!(keys.is_sorted());
        assert!(
            key(Clock::Modified, Timestamp::from_ms(1), id(1)) < key(Clock::Modified, Timestamp::from_ms(1), id(2))
        );
    }

    #[test]
    fn ranges_are_half_open() {
        let within = |from: Option<i64>, to: Option<i64>, ms: i64| {
            let range = range(Clock::Modified, from.map(Timestamp::from_ms), to.map(Timestamp::from_ms));
            [id(0), id(255)].map(|id| range.contains(&key(Clock::Modified, Timestamp::from_ms(ms), id)))
        };
        assert_eq!(within(Some(1), Some(3), 1), [true; 2]);
        assert_eq!(within(Some(1), Some(3), 2), [true; 2]);
        assert_eq!(within(Some(1), Some(3), 3), [false; 2]);
        assert_eq!(within(Some(1), Some(3), 0), [false; 2]);
        assert_eq!(within(Some(1), Some(1), 1), [false; 2]);
        assert_eq!(within(None, None, i64::MIN), [true; 2]);
        assert_eq!(within(None, Some(0), -1), [true; 2]);
        assert_eq!(within(Some(i64::MIN), None, i64::MIN), [true; 2]);
        let other = range(Clock::Modified, None, None);
        assert!(!other.contains(&key(Clock::Added, Timestamp::from_ms(1), id(1))));
    }
}
