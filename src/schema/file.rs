//! The file table: one row for each version of a file, keyed by its random id.
//!
//! A row has two cells, and a third one with small content: `cf:attributes`, which never changes, and `cf:position`, which
//! a move changes. An overwrite makes a new row, so the copy of the attributes in the directory table is never stale.
//!
//! Rows are read with [`super::file_row`], which knows those of older schemas too.

use bytes::Bytes;

use super::CF;
use super::ids::{DirId, StayId};
use super::path::Name;
use super::timestamp::Timestamp;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Change, Check, Column};

/// The name of the table.
pub const TABLE: &str = "file";
/// The family of content stored inline.
pub const C: &str = "c";
/// The qualifier of the attributes.
pub const ATTRIBUTES: &[u8] = b"attributes";
/// The qualifier of the position.
pub const POSITION: &[u8] = b"position";
/// The qualifier of inline content, in family `c`.
pub const DATA: &[u8] = b"data";

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
    pub(super) fn write(self, to: ValueWriter) -> ValueWriter {
        to.number(match self {
            Self::Inline => 0,
            Self::Large => 1,
        })
    }

    pub(super) fn read(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        match r.number()? {
            0 => Ok(Self::Inline),
            1 => Ok(Self::Large),
            _ => Err(r.damaged()),
        }
    }
}

impl Attributes {
    /// The fields of `cf:attributes` and of two other stored values, [`FileEntry`](super::dir::FileEntry) and
    /// [`TimeIndexEntry`](super::index::by_time::TimeIndexEntry): a change of them is a new version of all three.
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
        AttributesRef::read(r).map(AttributesRef::to_owned)
    }

    /// The same attributes, borrowed.
    pub fn borrowed(&self) -> AttributesRef<'_> {
        let Self { size, mime, creator, modified, added, digest, location } = self;
        let (size, modified, added, digest, location) = (*size, *modified, *added, *digest, *location);
        AttributesRef { size, mime, creator, modified, added, digest, location }
    }

    /// The value of `cf:attributes`.
    pub fn encode(&self) -> Bytes {
        self.write(ValueWriter::new(Self::VERSION)).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

/// [`Attributes`] whose texts are borrowed from a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AttributesRef<'a> {
    pub size: u64,
    pub mime: &'a str,
    pub creator: &'a str,
    pub modified: Timestamp,
    pub added: Timestamp,
    pub digest: Digest,
    pub location: ContentLocation,
}

impl<'a> AttributesRef<'a> {
    pub(super) fn read(r: &mut ValueReader<'a>) -> Result<Self, ValueError> {
        let (size, modified, added) = (r.number()?, r.time()?, r.time()?);
        let location = ContentLocation::read(r)?;
        let (mime, creator) = (r.text()?, r.text()?);
        let digest = Digest(r.raw(32)?.try_into().map_err(|_| r.damaged())?);
        Ok(Self { size, mime, creator, modified, added, digest, location })
    }

    /// The same attributes, with texts of their own.
    pub fn to_owned(self) -> Attributes {
        let Self { size, mime, creator, modified, added, digest, location } = self;
        Attributes { size, mime: mime.to_owned(), creator: creator.to_owned(), modified, added, digest, location }
    }
}

impl StoredValue for Attributes {
    const NAME: &'static str = "file's attributes";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        Self::read(r)
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
    /// The value of `cf:position`.
    pub fn encode(&self) -> Bytes {
        let to = ValueWriter::new(Self::VERSION).uuid(self.dir.0).bytes(self.name.as_str().as_bytes());
        to.stay_id(&self.stay).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }

    /// Puts the position into the file row.
    pub fn put_cell(&self) -> Change {
        Change::put(CF, POSITION, self.encode())
    }

    /// The check that the file is at this position.
    pub fn check(&self) -> Check {
        Check::Equals(Column::new(CF, POSITION), self.encode())
    }
}

impl StoredValue for FilePosition {
    const NAME: &'static str = "file's position";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (dir, name) = (DirId(r.uuid()?), r.text()?);
        let name = Name::parse(name).map_err(|_| r.damaged())?;
        Ok(Self { dir, name, stay: r.stay_id()? })
    }
}

/// All cells of a new file row, except inline content.
pub fn put_cells(attributes: &Attributes, position: &FilePosition) -> Vec<Change> {
    vec![Change::put(CF, ATTRIBUTES, attributes.encode()), position.put_cell()]
}

/// Deletes a file row cell by cell, so that no engine has to read which cells exist.
pub fn delete_cells(location: ContentLocation) -> Vec<Change> {
    let mut cells = vec![Change::delete(CF, ATTRIBUTES), Change::delete(CF, POSITION)];
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

    fn file() -> (Attributes, FilePosition) {
        let attributes = Attributes {
            size: 300,
            mime: "text/plain".into(),
            creator: "é".into(),
            modified: Timestamp::from_ms(-1),
            added: Timestamp::from_ms(64),
            digest: Digest([3; 32]),
            location: ContentLocation::Large,
        };
        let dir = DirId(Uuid::from_bytes([4; 16]));
        let position = FilePosition { dir, name: Name::parse("b.jpg").unwrap(), stay: StayId::CREATED };
        (attributes, position)
    }

    fn puts(changes: Vec<Change>) -> Vec<(&'static str, Cell)> {
        let put = |change| match change {
            Change::Put { family, qualifier, value } => (family, Cell { qualifier, value }),
            other => panic!("{other:?}"),
        };
        changes.into_iter().map(put).collect()
    }

    #[test]
    fn golden_bytes() {
        let (attributes, position) = file();
        let cells = puts(put_cells(&attributes, &position));
        let values: Vec<_> = cells.iter().map(|(_, c)| (c.qualifier.to_vec(), c.value.to_vec())).collect();
        let numbers = [1, 0xac, 2, 1, 0x80, 1, 1].as_slice();
        let bytes = [numbers, b"\x0atext/plain\x02\xc3\xa9", &[3; 32]].concat();
        let place = [[1].as_slice(), &[4; 16], b"\x05b.jpg\x01\x00"].concat();
        assert_eq!(values, [(b"attributes".to_vec(), bytes), (b"position".to_vec(), place)]);
        assert_eq!(Attributes::decode(&cells[0].1.value), Ok(attributes));
        assert_eq!(FilePosition::decode(&cells[1].1.value), Ok(position));
    }

    #[test]
    fn damaged_and_newer_values_are_errors() {
        let (attributes, position) = file();
        let damages: [fn(&mut Vec<u8>); 3] = [|v| v.truncate(v.len() - 1), |v| v.push(0), Vec::clear];
        for damage in damages {
            let (mut attributes, mut position) = (attributes.encode().to_vec(), position.encode().to_vec());
            damage(&mut attributes);
            damage(&mut position);
            assert!(matches!(Attributes::decode(&attributes), Err(ValueError::Damaged { .. })));
            assert!(matches!(FilePosition::decode(&position), Err(ValueError::Damaged { .. })));
        }
        let mut newer = attributes.encode().to_vec();
        newer[0] = 2;
        assert!(matches!(Attributes::decode(&newer), Err(ValueError::Newer { .. })));
    }

    #[test]
    fn a_removal_names_every_cell_that_was_put() {
        let (attributes, position) = file();
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
}
