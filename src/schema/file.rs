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
pub const ATTR: &[u8] = b"attr";
pub const DIR: &[u8] = b"dir";
pub const NAME: &[u8] = b"name";
pub const PLACE: &[u8] = b"place";
pub const DATA: &[u8] = b"data";

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

impl Attributes {
    pub(super) fn write(&self, to: Writer) -> Writer {
        let location = match self.location {
            Location::Inline => 0,
            Location::Large => 1,
        };
        to.number(self.size)
            .time(self.modified)
            .time(self.added)
            .number(location)
            .bytes(self.mime.as_bytes())
            .bytes(self.creator.as_bytes())
            .raw(&self.digest.0)
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, ValueError> {
        let (size, modified, added) = (r.number()?, r.time()?, r.time()?);
        let location = match r.number()? {
            0 => Location::Inline,
            1 => Location::Large,
            _ => return Err(r.damaged()),
        };
        let (mime, creator) = (r.text()?.to_owned(), r.text()?.to_owned());
        let digest = Digest(r.raw(32)?.try_into().map_err(|_| r.damaged())?);
        Ok(Self { size, mime, creator, modified, added, digest, location })
    }

    /// The value of `cf:attr`.
    pub fn encode(&self) -> Bytes {
        self.write(Writer::new(1)).done()
    }

    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("file row", 1, value)?;
        let attributes = Self::read(&mut r)?;
        r.end()?;
        Ok(attributes)
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
    let mut cells = vec![Change::put(CF, ATTR, attributes.encode())];
    cells.extend(standing.row());
    cells
}

/// The removal of a file row, cell by cell, so that no engine has to look which cells there are.
pub fn removal(location: Location) -> Vec<Change> {
    let mut cells: Vec<_> = [ATTR, DIR, NAME, PLACE].into_iter().map(|q| Change::delete(CF, q)).collect();
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

    #[test]
    fn golden_bytes() {
        let attributes = Attributes {
            size: 1,
            mime: "text/plain".into(),
            creator: "é".into(),
            modified: Timestamp::from_ms(-1),
            added: Timestamp::from_ms(64),
            digest: Digest([3; 32]),
            location: Location::Large,
        };
        let mut bytes = vec![1, 1, 1, 0x80, 1, 1];
        bytes.extend(b"\x0atext/plain\x02\xc3\xa9");
        bytes.extend([3; 32]);
        assert_eq!(attributes.encode().as_ref(), bytes);
        assert_eq!(Attributes::decode(&bytes), Ok(attributes));
        assert!(matches!(Attributes::decode(&bytes[..20]), Err(ValueError::Damaged { .. })));
        bytes.push(0);
        assert!(matches!(Attributes::decode(&bytes), Err(ValueError::Damaged { .. })));
        bytes[0] = 2;
        assert!(matches!(Attributes::decode(&bytes), Err(ValueError::Newer { .. })));
    }

    #[test]
    fn standing_is_three_cells() {
        let standing = Standing {
            dir: DirId(Uuid::from_bytes([4; 16])),
            name: Name::parse("b.jpg").unwrap(),
            place: Place::CREATED,
        };
        let cells: Vec<_> = standing
            .row()
            .into_iter()
            .map(|c| match c {
                Change::Put { family, qualifier, value } => (family, Cell { qualifier, value }),
                other => panic!("{other:?}"),
            })
            .collect();
        let dir = [vec![1], vec![4; 16]].concat();
        let values: Vec<_> = cells.iter().map(|(_, c)| c.value.to_vec()).collect();
        assert_eq!(values, [dir, b"\x01\x05b.jpg".to_vec(), vec![1, 1, 0]]);
        assert_eq!(Standing::of(&Row::new(cells.clone())), Ok(Some(standing)));
        assert_eq!(Standing::of(&Row::default()), Ok(None));
        assert!(Standing::of(&Row::new(cells[..2].to_vec())).is_err());
    }
}
