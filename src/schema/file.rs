//! The file table: one row a version of a file, keyed by its random id.
//!
//! Rows are immutable but for where the file stands (`cf:dir`, `cf:name`, `cf:place`), which a move changes.
//! An overwrite makes a new row, so the copy of the attributes in the directory table can never be stale.

use bytes::Bytes;

use super::CF;
use super::ids::{DirId, Place};
use super::path::Name;
use super::timestamp::Timestamp;
use super::value::{Reader, ValueError, Writer};
use crate::table::{Change, Column, Row};

pub const TABLE: &str = "file";
/// The family of content stored inline.
pub const C: &str = "c";
pub const CREATOR: &[u8] = b"creator";
pub const SIZE: &[u8] = b"size";
pub const TYPE: &[u8] = b"type";
pub const MODIFIED: &[u8] = b"modified";
pub const ADDED: &[u8] = b"added";
pub const DIGEST: &[u8] = b"digest";
/// Where the content lies.
pub const CONTENT: &[u8] = b"content";
pub const DIR: &[u8] = b"dir";
pub const NAME: &[u8] = b"name";
pub const PLACE: &[u8] = b"place";
pub const DATA: &[u8] = b"data";

/// All cells of a file row in family `cf`.
const CELLS: [&[u8]; 10] = [CREATOR, SIZE, TYPE, MODIFIED, ADDED, DIGEST, CONTENT, DIR, NAME, PLACE];

/// The version byte that starts inline content.
pub const DATA_VERSION: u8 = 1;

/// SHA-256 of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// Where a file's content lies. It is stored, never computed from the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// `c:data` of the file row.
    Inline,
    /// A content file of its own.
    Large,
}

/// What is known of a version of a file, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes.
    pub size: u64,
    /// Media type, as the uploader gave it or as guessed from the name.
    pub mime: String,
    pub creator: String,
    /// The client's time.
    pub modified: Timestamp,
    /// The server's time just before the commit.
    pub added: Timestamp,
    pub digest: Digest,
    pub location: Location,
}

impl Location {
    fn write(self, to: Writer) -> Writer {
        to.number(match self {
            Self::Inline => 0,
            Self::Large => 1,
        })
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, ValueError> {
        match r.number()? {
            0 => Ok(Self::Inline),
            1 => Ok(Self::Large),
            _ => Err(r.damaged()),
        }
    }

    /// Reads the value of `cf:content`.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("file's place of content", 1, value)?;
        let location = Self::read(&mut r)?;
        r.end()?;
        Ok(location)
    }
}

impl Attributes {
    pub(super) fn write(&self, to: Writer) -> Writer {
        let to = to.number(self.size).time(self.modified).time(self.added);
        self.location.write(to).bytes(self.mime.as_bytes()).bytes(self.creator.as_bytes()).raw(&self.digest.0)
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, ValueError> {
        let (size, modified, added) = (r.number()?, r.time()?, r.time()?);
        let location = Location::read(r)?;
        let (mime, creator) = (r.text()?.to_owned(), r.text()?.to_owned());
        let digest = Digest(r.raw(32)?.try_into().map_err(|_| r.damaged())?);
        Ok(Self { size, mime, creator, modified, added, digest, location })
    }

    /// Reads them from a file row; `None` if the row has none of their cells.
    pub fn of(row: &Row) -> Result<Option<Self>, ValueError> {
        let cells = [CREATOR, SIZE, TYPE, MODIFIED, ADDED, DIGEST, CONTENT].map(|q| row.get(CF, q));
        let [Some(creator), Some(size), Some(mime), Some(modified), Some(added), Some(digest), Some(content)] = cells
        else {
            let part = cells.iter().any(Option::is_some);
            return if part { Err(ValueError::Damaged { what: "file row" }) } else { Ok(None) };
        };
        let whole = |value| Reader::new("file's attribute", 1, value).map(|(_, r)| r);
        let mut digest = whole(digest)?;
        Ok(Some(Self {
            size: whole(size)?.number()?,
            mime: whole(mime)?.text()?.to_owned(),
            creator: whole(creator)?.text()?.to_owned(),
            modified: whole(modified)?.time()?,
            added: whole(added)?.time()?,
            digest: Digest(digest.raw(32)?.try_into().map_err(|_| digest.damaged())?),
            location: Location::decode(content)?,
        }))
    }

    /// The cells of the file row that hold them, a cell each.
    pub fn row(&self) -> Vec<Change> {
        let value = || Writer::new(1);
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

/// Where a file stands: what a move changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub dir: DirId,
    pub name: Name,
    pub place: Place,
}

impl Standing {
    /// The cells of the file row that say so.
    pub fn row(&self) -> Vec<Change> {
        vec![
            Change::put(CF, DIR, Writer::new(1).uuid(self.dir.0).done()),
            Change::put(CF, NAME, Writer::new(1).bytes(self.name.as_str().as_bytes()).done()),
            Change::put(CF, PLACE, encode_place(&self.place)),
        ]
    }

    pub fn columns() -> Vec<Column> {
        [DIR, NAME, PLACE].into_iter().map(|q| Column::new(CF, q)).collect()
    }

    /// Reads them back; `None` if the row is gone.
    pub fn of(row: &Row) -> Result<Option<Self>, ValueError> {
        let cells = [DIR, NAME, PLACE].map(|q| row.get(CF, q));
        let [Some(dir), Some(name), Some(place)] = cells else {
            let part = cells.iter().any(Option::is_some);
            return if part { Err(ValueError::Damaged { what: "file row" }) } else { Ok(None) };
        };
        let (_, mut d) = Reader::new("file's directory", 1, dir)?;
        let (_, mut n) = Reader::new("file's name", 1, name)?;
        let (_, mut p) = Reader::new("file's place", 1, place)?;
        let name = n.text()?;
        let name = Name::parse(name).map_err(|_| n.damaged())?;
        Ok(Some(Self { dir: DirId(d.uuid()?), name, place: p.place()? }))
    }
}

/// The value of `cf:place`.
pub fn encode_place(place: &Place) -> Bytes {
    Writer::new(1).place(place).done()
}

/// All cells of a new file row, but for inline content.
pub fn row(attributes: &Attributes, standing: &Standing) -> Vec<Change> {
    let mut cells = attributes.row();
    cells.extend(standing.row());
    cells
}

/// The removal of a file row, cell by cell, so that no engine has to look which cells there are.
pub fn removal(location: Location) -> Vec<Change> {
    let mut cells: Vec<_> = CELLS.into_iter().map(|q| Change::delete(CF, q)).collect();
    if location == Location::Inline {
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
            location: Location::Large,
        };
        let cells = puts(attributes.row());
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
        let row = Row::new(puts(attributes.row()));
        assert_eq!(Attributes::of(&row), Ok(Some(attributes)));
        assert_eq!(Attributes::of(&Row::default()), Ok(None));
        assert!(Attributes::of(&Row::new(row.cells()[1..].to_vec())).is_err());
        assert_eq!(Location::decode(b"\x01\x01"), Ok(Location::Large));
        assert_eq!(Location::decode(b"\x01\x00"), Ok(Location::Inline));
        for damaged in [b"".as_slice(), b"\x00\x01", b"\x01", b"\x01\x02", b"\x01\x01\x00"] {
            assert!(matches!(Location::decode(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
        }
        assert!(matches!(Location::decode(b"\x02\x01"), Err(ValueError::Newer { .. })));
    }

    #[test]
    fn a_removal_names_every_cell_that_was_put() {
        let standing = Standing {
            dir: DirId(Uuid::from_bytes([4; 16])),
            name: Name::parse("b.jpg").unwrap(),
            place: Place::CREATED,
        };
        let attributes = Attributes {
            size: 0,
            mime: String::new(),
            creator: String::new(),
            modified: Timestamp::from_ms(0),
            added: Timestamp::from_ms(0),
            digest: Digest([0; 32]),
            location: Location::Inline,
        };
        let mut put: Vec<_> = puts(row(&attributes, &standing)).into_iter().map(|(f, c)| (f, c.qualifier)).collect();
        put.push((C, Bytes::from_static(DATA)));
        let removed = |location| -> Vec<_> {
            let column = |change| match change {
                Change::Delete { family, qualifier } => (family, qualifier),
                other => panic!("{other:?}"),
            };
            removal(location).into_iter().map(column).collect()
        };
        assert_eq!(removed(Location::Inline), put);
        put.pop();
        assert_eq!(removed(Location::Large), put);
    }

    #[test]
    fn standing_is_three_cells() {
        let standing = Standing {
            dir: DirId(Uuid::from_bytes([4; 16])),
            name: Name::parse("b.jpg").unwrap(),
            place: Place::CREATED,
        };
        let cells = puts(standing.row());
        let dir = [vec![1], vec![4; 16]].concat();
        let values: Vec<_> = cells.iter().map(|(_, c)| c.value.to_vec()).collect();
        assert_eq!(values, [dir, b"\x01\x05b.jpg".to_vec(), vec![1, 1, 0]]);
        assert_eq!(Standing::of(&Row::new(cells.clone())), Ok(Some(standing)));
        assert_eq!(Standing::of(&Row::default()), Ok(None));
        assert!(Standing::of(&Row::new(cells[..2].to_vec())).is_err());
    }
}
