//! The file table: one row for each version of a file, keyed by its random id.
//!
//! Rows are immutable except for the file's position (`cf:dir`, `cf:name`, `cf:place`), which a move changes.
//! An overwrite makes a new row, so the copy of the attributes in the directory table is never stale.

use bytes::Bytes;

use super::CF;
use super::ids::{DirId, StayId};
use super::path::Name;
use super::timestamp::Timestamp;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Change, Column, Row};

/// The name of the table.
pub const TABLE: &str = "file";
/// The family of content stored inline.
pub const C: &str = "c";
/// The qualifier of the creator.
pub const CREATOR: &[u8] = b"creator";
/// The qualifier of the size.
pub const SIZE: &[u8] = b"size";
/// The qualifier of the media type.
pub const TYPE: &[u8] = b"type";
/// The qualifier of the client's time.
pub const MODIFIED: &[u8] = b"modified";
/// The qualifier of the server's time.
pub const ADDED: &[u8] = b"added";
/// The qualifier of the digest.
pub const DIGEST: &[u8] = b"digest";
/// The qualifier of the location of the content.
pub const CONTENT: &[u8] = b"content";
/// The qualifier of the directory's id.
pub const DIR: &[u8] = b"dir";
/// The qualifier of the name.
pub const NAME: &[u8] = b"name";
/// The qualifier of the stay id.
pub const STAY: &[u8] = b"place";
/// The qualifier of inline content, in family `c`.
pub const DATA: &[u8] = b"data";

/// All cells of a file row in family `cf`.
const CELLS: [&[u8]; 10] = [CREATOR, SIZE, TYPE, MODIFIED, ADDED, DIGEST, CONTENT, DIR, NAME, STAY];

/// The version byte that starts inline content.
pub const DATA_VERSION: u8 = 1;

/// SHA-256 of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// Where a file's content is stored. This is a stored value, never computed from the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentLocation {
    /// `c:data` of the file row.
    Inline,
    /// A content file of its own.
    Large,
}

/// The attributes of a version of a file, independent of its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes.
    pub size: u64,
    /// Media type, as the uploader gave it or as guessed from the name.
    pub mime: String,
    /// The user name of the creator.
    pub creator: String,
    /// The client's time.
    pub modified: Timestamp,
    /// The server's time just before the commit.
    pub added: Timestamp,
    /// The SHA-256 of the content.
    pub digest: Digest,
    /// Where the content is stored.
    pub location: ContentLocation,
}

impl ContentLocation {
    fn write(self, to: ValueWriter) -> ValueWriter {
        to.number(match self {
            Self::Inline => 0,
            Self::Large => 1,
        })
    }

    fn read(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        match r.number()? {
            0 => Ok(Self::Inline),
            1 => Ok(Self::Large),
            _ => Err(r.damaged()),
        }
    }

    /// Reads the value of `cf:content`.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for ContentLocation {
    const NAME: &'static str = "file's place of content";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        Self::read(r)
    }
}

impl Attributes {
    /// The fields of two stored values, [`FileEntry`](super::dir::FileEntry) and
    /// [`TimeIndexEntry`](super::index::by_time::TimeIndexEntry): a change of them is a new version of both.
    pub(super) fn write(&self, to: ValueWriter) -> ValueWriter {
        let to = to.number(self.size).time(self.modified).time(self.added);
        self.location.write(to).bytes(self.mime.as_bytes()).bytes(self.creator.as_bytes()).raw(&self.digest.0)
    }

    /// Skips to the times, and reads `modified` and `added`.
    pub(super) fn read_times(r: &mut ValueReader<'_>) -> Result<[Timestamp; 2], ValueError> {
        r.number()?;
        Ok([r.time()?, r.time()?])
    }

    pub(super) fn read(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (size, modified, added) = (r.number()?, r.time()?, r.time()?);
        let location = ContentLocation::read(r)?;
        let (mime, creator) = (r.text()?.to_owned(), r.text()?.to_owned());
        let digest = Digest(r.raw(32)?.try_into().map_err(|_| r.damaged())?);
        Ok(Self { size, mime, creator, modified, added, digest, location })
    }

    /// Reads them from a file row; `None` if the row has none of their cells.
    pub fn from_row(row: &Row) -> Result<Option<Self>, ValueError> {
        let cells = [CREATOR, SIZE, TYPE, MODIFIED, ADDED, DIGEST, CONTENT].map(|q| row.get(CF, q));
        let [Some(creator), Some(size), Some(mime), Some(modified), Some(added), Some(digest), Some(content)] = cells
        else {
            let part = cells.iter().any(Option::is_some);
            return if part { Err(ValueError::Damaged { what: "file row" }) } else { Ok(None) };
        };
        let whole = |value| ValueReader::version_1("file's attribute", value);
        let mut digest = whole(digest)?;
        Ok(Some(Self {
            size: whole(size)?.number()?,
            mime: whole(mime)?.text()?.to_owned(),
            creator: whole(creator)?.text()?.to_owned(),
            modified: whole(modified)?.time()?,
            added: whole(added)?.time()?,
            digest: Digest(digest.raw(32)?.try_into().map_err(|_| digest.damaged())?),
            location: ContentLocation::decode(content)?,
        }))
    }

    /// Puts the attributes into the file row, a cell each.
    pub fn put_cells(&self) -> Vec<Change> {
        let value = || ValueWriter::new(1);
        vec![
            Change::put(CF, CREATOR, value().bytes(self.creator.as_bytes()).done()),
            Change::put(CF, SIZE, value().number(self.size).done()),
            Change::put(CF, TYPE, value().bytes(self.mime.as_bytes()).done()),
            Change::put(CF, MODIFIED, value().time(self.modified).done()),
            Change::put(CF, ADDED, value().time(self.added).done()),
            Change::put(CF, DIGEST, value().raw(&self.digest.0).done()),
            Change::put(CF, CONTENT, self.location.write(value()).done()),
        ]
    }
}

/// The position of a file: what a move changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The directory.
    pub dir: DirId,
    /// The name in that directory.
    pub name: Name,
    /// The stay, which is the qualifier of its index entries.
    pub stay: StayId,
}

impl FilePosition {
    /// Puts the position into the file row, three cells.
    pub fn put_cells(&self) -> Vec<Change> {
        vec![
            Change::put(CF, DIR, ValueWriter::new(1).uuid(self.dir.0).done()),
            Change::put(CF, NAME, ValueWriter::new(1).bytes(self.name.as_str().as_bytes()).done()),
            Change::put(CF, STAY, encode_stay(&self.stay)),
        ]
    }

    /// The three cells of the position.
    pub fn columns() -> Vec<Column> {
        [DIR, NAME, STAY].into_iter().map(|q| Column::new(CF, q)).collect()
    }

    /// Reads the position from a file row; `None` if the row does not exist.
    pub fn from_row(row: &Row) -> Result<Option<Self>, ValueError> {
        let cells = [DIR, NAME, STAY].map(|q| row.get(CF, q));
        let [Some(dir), Some(name), Some(place)] = cells else {
            let part = cells.iter().any(Option::is_some);
            return if part { Err(ValueError::Damaged { what: "file row" }) } else { Ok(None) };
        };
        let mut d = ValueReader::version_1("file's directory", dir)?;
        let mut n = ValueReader::version_1("file's name", name)?;
        let mut p = ValueReader::version_1("file's place", place)?;
        let name = n.text()?;
        let name = Name::parse(name).map_err(|_| n.damaged())?;
        Ok(Some(Self { dir: DirId(d.uuid()?), name, stay: p.stay_id()? }))
    }
}

/// The value of `cf:place`.
pub fn encode_stay(stay: &StayId) -> Bytes {
    ValueWriter::new(1).stay_id(stay).done()
}

/// All cells of a new file row, except inline content.
pub fn put_cells(attributes: &Attributes, position: &FilePosition) -> Vec<Change> {
    let mut cells = attributes.put_cells();
    cells.extend(position.put_cells());
    cells
}

/// Deletes a file row cell by cell, so that no engine has to read which cells exist.
pub fn delete_cells(location: ContentLocation) -> Vec<Change> {
    let mut cells: Vec<_> = CELLS.into_iter().map(|q| Change::delete(CF, q)).collect();
    if location == ContentLocation::Inline {
        cells.push(Change::delete(C, DATA));
    }
    cells
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::table::Cell;

    fn puts(changes: Vec<Change>) -> Vec<(&'static str, Cell)> {
        let put = |change| match change {
            Change::Put { family, qualifier, value } => (family, Cell { qualifier, value }),
            other => panic!("{other:?}"),
        };
        changes.into_iter().map(put).collect()
    }

    #[test]
    fn attributes_are_a_cell_each() {
        let attributes = Attributes {
            size: 300,
            mime: "text/plain".into(),
            creator: "é".into(),
            modified: Timestamp::from_ms(-1),
            added: Timestamp::from_ms(64),
            digest: Digest([3; 32]),
            location: ContentLocation::Large,
        };
        let cells = puts(attributes.put_cells());
        let cells: Vec<_> = cells.iter().map(|(_, c)| (c.qualifier.as_ref(), c.value.as_ref())).collect();
        let digest = [vec![1], vec![3; 32]].concat();
        let expected: [(&[u8], &[u8]); 7] = [
            (b"creator", b"\x01\x02\xc3\xa9"),
            (b"size", b"\x01\xac\x02"),
            (b"type", b"\x01\x0atext/plain"),
            (b"modified", b"\x01\x01"),
            (b"added", b"\x01\x80\x01"),
            (b"digest", &digest),
            (b"content", b"\x01\x01"),
        ];
        assert_eq!(cells, expected);
        let row = Row::new(puts(attributes.put_cells()));
        assert_eq!(Attributes::from_row(&row), Ok(Some(attributes)));
        assert_eq!(Attributes::from_row(&Row::default()), Ok(None));
        assert!(Attributes::from_row(&Row::new(row.cells()[1..].to_vec())).is_err());
        assert_eq!(ContentLocation::decode(b"\x01\x01"), Ok(ContentLocation::Large));
        assert_eq!(ContentLocation::decode(b"\x01\x00"), Ok(ContentLocation::Inline));
        for damaged in [b"".as_slice(), b"\x00\x01", b"\x01", b"\x01\x02", b"\x01\x01\x00"] {
            assert!(matches!(ContentLocation::decode(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
        }
        assert!(matches!(ContentLocation::decode(b"\x02\x01"), Err(ValueError::Newer { .. })));
    }

    #[test]
    fn a_removal_names_every_cell_that_was_put() {
        let position = FilePosition {
            dir: DirId(Uuid::from_bytes([4; 16])),
            name: Name::parse("b.jpg").unwrap(),
            stay: StayId::CREATED,
        };
        let attributes = Attributes {
            size: 0,
            mime: String::new(),
            creator: String::new(),
            modified: Timestamp::from_ms(0),
            added: Timestamp::from_ms(0),
            digest: Digest([0; 32]),
            location: ContentLocation::Inline,
        };
        let mut put: Vec<_> =
            puts(put_cells(&attributes, &position)).into_iter().map(|(f, c)| (f, c.qualifier)).collect();
        put.push((C, Bytes::from_static(DATA)));
        let removed = |location| -> Vec<_> {
            let column = |change| match change {
                Change::Delete { family, qualifier } => (family, qualifier),
                other => panic!("{other:?}"),
            };
            delete_cells(location).into_iter().map(column).collect()
        };
        assert_eq!(removed(ContentLocation::Inline), put);
        put.pop();
        assert_eq!(removed(ContentLocation::Large), put);
    }

    #[test]
    fn a_position_is_three_cells() {
        let position = FilePosition {
            dir: DirId(Uuid::from_bytes([4; 16])),
            name: Name::parse("b.jpg").unwrap(),
            stay: StayId::CREATED,
        };
        let cells = puts(position.put_cells());
        let dir = [vec![1], vec![4; 16]].concat();
        let values: Vec<_> = cells.iter().map(|(_, c)| c.value.to_vec()).collect();
        assert_eq!(values, [dir, b"\x01\x05b.jpg".to_vec(), vec![1, 1, 0]]);
        assert_eq!(FilePosition::from_row(&Row::new(cells.clone())), Ok(Some(position)));
        assert_eq!(FilePosition::from_row(&Row::default()), Ok(None));
        assert!(FilePosition::from_row(&Row::new(cells[..2].to_vec())).is_err());
    }
}
