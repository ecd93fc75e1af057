//! The directory table: one row for each directory, keyed by its full path, with one cell for each child.
//!
//! Family `sub` has `d_<name>` for a directory and `f_<name>` for a file, so that a listing is one range
//! of one row: directories first, then files, each in byte order. The cell of a file is a [`FileEntry`], which has the
//! attributes that a listing shows besides the id, so that neither a listing nor a stat reads a second row.

use std::borrow::Cow;
use std::ops::Bound;

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::file::{Attributes, AttributesRef};
use super::ids::{DirId, FileId, OpId, StayId};
use super::path::{DrivePath, Name};
use super::subtree_op::{OpRecord, Phase, SubtreeOpKind};
use super::timestamp::Timestamp;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::row::prefix_end;
use crate::table::{Change, Check, Column, ConditionalRow};

/// The name of the table.
pub const TABLE: &str = "dir";
/// The family of children.
pub const SUB: &str = "sub";
/// The qualifier of the id. Every directory row has this cell: without it there is no row.
pub const ID: &[u8] = b"id";
/// The qualifier of the creator.
pub const CREATOR: &[u8] = b"creator";
/// The qualifier of the time of creation.
pub const CREATED: &[u8] = b"created";
/// The qualifier of the lock: the cell exists only while a subtree operation locks the row.
pub const LOCK: &[u8] = b"state";

/// The prefix of the qualifiers of directories.
pub const DIRECTORY: &[u8] = b"d_";
/// The prefix of the qualifiers of files.
pub const FILE: &[u8] = b"f_";

/// The cell that every directory row has.
pub fn id_column() -> Column {
    Column::new(CF, ID)
}

/// The cell of the lock.
pub fn lock_column() -> Column {
    Column::new(CF, LOCK)
}

/// The qualifier of a file in its directory.
pub fn file_qualifier(name: &Name) -> Bytes {
    [FILE, name.as_str().as_bytes()].concat().into()
}

/// The qualifier of a directory in its parent.
pub fn directory_qualifier(name: &Name) -> Bytes {
    [DIRECTORY, name.as_str().as_bytes()].concat().into()
}

/// The qualifiers of all children of this kind ([`DIRECTORY`] or [`FILE`]) whose names start with `prefix`.
pub fn range(kind: &[u8], prefix: &str) -> (Bound<Bytes>, Bound<Bytes>) {
    let prefix = [kind, prefix.as_bytes()].concat();
    let end = prefix_end(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(Bytes::from(prefix)), end)
}

/// The child that a qualifier names: its kind ([`DIRECTORY`] or [`FILE`]) and its name.
pub fn child(qualifier: &[u8]) -> Result<(&'static [u8], Name), ValueError> {
    parse_child(qualifier, |name| Name::parse(name).ok())
}

/// As [`child`], with the text of the name, borrowed if it is stored as it is.
pub fn child_text(qualifier: &[u8]) -> Result<(&'static [u8], Cow<'_, str>), ValueError> {
    parse_child(qualifier, |name| Name::check(name).ok())
}

fn parse_child<'a, T>(
    qualifier: &'a [u8],
    parse: impl Fn(&'a str) -> Option<T>,
) -> Result<(&'static [u8], T), ValueError> {
    let named = [DIRECTORY, FILE].into_iter().find_map(|kind| Some((kind, qualifier.strip_prefix(kind)?)));
    let named = named.and_then(|(kind, name)| Some((kind, parse(std::str::from_utf8(name).ok()?)?)));
    named.ok_or(ValueError::Damaged { what: "directory's list of names" })
}

/// The value of `sub:f_<name>`: the file of that name, and its attributes that a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The file.
    pub id: FileId,
    /// The stay, which is the qualifier of its index entries.
    pub stay: StayId,
    /// The attributes that a listing shows.
    pub attributes: Attributes,
}

impl FileEntry {
    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        self.attributes.write(ValueWriter::new(Self::VERSION).uuid(self.id.0).stay_id(&self.stay)).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }

    /// The id, `modified` and `added` of a stored value; the rest is not decoded.
    pub fn decode_times(value: &[u8]) -> Result<(FileId, [Timestamp; 2]), ValueError> {
        let (_, mut r) = ValueReader::new(Self::NAME, Self::VERSION, value)?;
        let id = FileId(r.uuid()?);
        r.stay_id()?;
        Ok((id, Attributes::read_times(&mut r)?))
    }
}

impl StoredValue for FileEntry {
    const NAME: &'static str = "file entry";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        FileEntryRef::read(r).map(FileEntryRef::to_owned)
    }
}

/// [`FileEntry`] whose texts are borrowed from a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FileEntryRef<'a> {
    pub id: FileId,
    pub stay: StayId,
    pub attributes: AttributesRef<'a>,
}

impl<'a> FileEntryRef<'a> {
    /// Decodes a stored value; there is one version so far.
    pub fn decode(value: &'a [u8]) -> Result<Self, ValueError> {
        value::decode_newest::<FileEntry, _>(value, Self::read)
    }

    fn read(r: &mut ValueReader<'a>) -> Result<Self, ValueError> {
        Ok(Self { id: FileId(r.uuid()?), stay: r.stay_id()?, attributes: AttributesRef::read(r)? })
    }

    /// The same entry, with texts of its own.
    pub fn to_owned(self) -> FileEntry {
        FileEntry { id: self.id, stay: self.stay, attributes: self.attributes.to_owned() }
    }
}

/// The value of `sub:d_<name>`: the directory of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The directory.
    pub id: DirId,
    /// The user name of the creator.
    pub creator: String,
    /// The time of creation.
    pub created: Timestamp,
}

impl DirEntry {
    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        ValueWriter::new(Self::VERSION).uuid(self.id.0).time(self.created).bytes(self.creator.as_bytes()).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }

    /// The cells of the directory's own row.
    pub fn put_cells(&self) -> Vec<Change> {
        vec![
            Change::put(CF, ID, encode_id(self.id)),
            Change::put(CF, CREATOR, ValueWriter::new(1).bytes(self.creator.as_bytes()).done()),
            Change::put(CF, CREATED, ValueWriter::new(1).time(self.created).done()),
        ]
    }
}

impl StoredValue for DirEntry {
    const NAME: &'static str = "directory entry";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        DirEntryRef::read(r).map(DirEntryRef::to_owned)
    }
}

/// [`DirEntry`] whose text is borrowed from a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DirEntryRef<'a> {
    pub id: DirId,
    pub creator: &'a str,
    pub created: Timestamp,
}

impl<'a> DirEntryRef<'a> {
    /// Decodes a stored value; there is one version so far.
    pub fn decode(value: &'a [u8]) -> Result<Self, ValueError> {
        value::decode_newest::<DirEntry, _>(value, Self::read)
    }

    fn read(r: &mut ValueReader<'a>) -> Result<Self, ValueError> {
        Ok(Self { id: DirId(r.uuid()?), created: r.time()?, creator: r.text()? })
    }

    /// The same entry, with a text of its own.
    pub fn to_owned(self) -> DirEntry {
        DirEntry { id: self.id, creator: self.creator.to_owned(), created: self.created }
    }
}

/// The value of `cf:state`: the operation that locks the row, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// A row of the subtree that the operation moves or deletes.
    Source(OpId),
    /// A row of the subtree that the operation makes at the new path.
    Copy(OpId),
}

impl RowLock {
    /// The operation that locks the row.
    pub fn op(self) -> OpId {
        match self {
            Self::Source(op) | Self::Copy(op) => op,
        }
    }

    /// Whether readers see a row with this lock while its operation is in this phase, or has no record. Without one it
    /// counts as aborted: a committed record is deleted after all its locks, so no row that still has this lock can belong
    /// to it.
    pub fn is_live(self, phase: Option<Phase>) -> bool {
        let is_committed = phase == Some(Phase::Committed);
        match self {
            Self::Source(_) => !is_committed,
            Self::Copy(_) => is_committed,
        }
    }

    /// Whether a row with this lock, and the files in it, count for their creators: while readers see it, and after its delete
    /// until it is removed. `record`: that of its operation.
    pub fn is_counted(self, record: Option<&(Phase, OpRecord)>) -> bool {
        let is_deleted = matches!(record, Some((Phase::Committed, OpRecord { kind: SubtreeOpKind::Delete, .. })));
        self.is_live(record.map(|(phase, _)| *phase)) || (is_deleted && matches!(self, Self::Source(_)))
    }

    /// Removes the lock of the row at this path, if the row still has this one.
    pub fn unlock(self, path: &DrivePath) -> ConditionalRow {
        self.change(path, vec![Change::delete(CF, LOCK)])
    }

    /// Deletes the row at this path, if it still has this lock.
    pub fn remove_row(self, path: &DrivePath) -> ConditionalRow {
        self.change(path, delete_row())
    }

    /// Restores the row as it was before the operation.
    pub fn roll_back(self, path: &DrivePath) -> ConditionalRow {
        match self {
            Self::Source(_) => self.unlock(path),
            Self::Copy(_) => self.remove_row(path),
        }
    }

    fn change(self, path: &DrivePath, changes: Vec<Change>) -> ConditionalRow {
        let checks = vec![Check::Equals(lock_column(), self.encode())];
        ConditionalRow { table: TABLE, row: path.key(), checks, changes }
    }

    /// The stored bytes, in the newest version.
    pub fn encode(self) -> Bytes {
        let kind = match self {
            Self::Source(_) => 0,
            Self::Copy(_) => 1,
        };
        ValueWriter::new(Self::VERSION).number(kind).uuid(self.op().0).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for RowLock {
    const NAME: &'static str = "directory's state";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let state = match (r.number()?, OpId(r.uuid()?)) {
            (0, op) => Self::Source(op),
            (1, op) => Self::Copy(op),
            _ => return Err(r.damaged()),
        };
        Ok(state)
    }
}

/// Deletes a directory row that has no children.
pub fn delete_cells() -> Vec<Change> {
    [ID, CREATOR, CREATED].into_iter().map(|q| Change::delete(CF, q)).collect()
}

/// Deletes a directory row that an operation locks, with all its children.
pub fn delete_row() -> Vec<Change> {
    let mut changes = delete_cells();
    changes.push(Change::delete(CF, LOCK));
    changes.push(Change::DeleteFamily { family: SUB });
    changes
}

/// The value of `cf:id`.
pub fn encode_id(id: DirId) -> Bytes {
    ValueWriter::new(1).uuid(id.0).done()
}

/// Decodes the value of `cf:id`.
pub fn decode_id(value: &[u8]) -> Result<DirId, ValueError> {
    let mut r = ValueReader::version_1("directory id", value)?;
    let id = DirId(r.uuid()?);
    r.end()?;
    Ok(id)
}

/// The value of `cf:creator`.
pub fn decode_creator(value: &[u8]) -> Result<String, ValueError> {
    let mut r = ValueReader::version_1("directory's creator", value)?;
    let creator = r.text()?.to_owned();
    r.end()?;
    Ok(creator)
}

/// The value of `cf:created`.
pub fn decode_created(value: &[u8]) -> Result<Timestamp, ValueError> {
    let mut r = ValueReader::version_1("directory's time", value)?;
    let created = r.time()?;
    r.end()?;
    Ok(created)
}

/// The id that no operation has: mkdir writes it where a move writes its own.
pub const NO_OPERATION: Uuid = Uuid::nil();

#[cfg(test)]
mod tests {
    use super::super::file::{ContentLocation, Digest};
    use super::*;

    #[test]
    fn golden_bytes() {
        let entry = FileEntry {
            id: FileId(Uuid::from_bytes([7; 16])),
            stay: StayId::CREATED,
            attributes: Attributes {
                size: 300,
                mime: "image/jpeg".into(),
                creator: "tom".into(),
                modified: Timestamp::from_ms(2),
                added: Timestamp::from_ms(3),
                digest: Digest([9; 32]),
                location: ContentLocation::Inline,
            },
        };
        let mut bytes = vec![1];
        bytes.extend([7; 16]);
        bytes.extend([1, 0, 0xac, 2, 4, 6, 0]);
        bytes.extend(b"\x0aimage/jpeg\x03tom");
        bytes.extend([9; 32]);
        assert_eq!(entry.encode().as_ref(), bytes);
        assert_eq!(FileEntry::decode_times(&bytes), Ok((entry.id, [2, 3].map(Timestamp::from_ms))));
        assert_eq!(FileEntryRef::decode(&bytes).map(FileEntryRef::to_owned), Ok(entry.clone()));
        assert_eq!(FileEntry::decode(&bytes), Ok(entry));

        let dir =
            DirEntry { id: DirId(Uuid::from_bytes([5; 16])), creator: "eva".into(), created: Timestamp::from_ms(-1) };
        let mut bytes = vec![1];
        bytes.extend([5; 16]);
        bytes.extend(b"\x01\x03eva");
        assert_eq!(dir.encode().as_ref(), bytes);
        assert_eq!(DirEntry::decode(&bytes), Ok(dir));
        let name = Name::parse("a.jpg").unwrap();
        assert_eq!(file_qualifier(&name).as_ref(), b"f_a.jpg");
        assert_eq!(directory_qualifier(&name).as_ref(), b"d_a.jpg");
        assert_eq!(child(b"f_a.jpg"), Ok((FILE, name.clone())));
        assert_eq!(child(b"d_a.jpg"), Ok((DIRECTORY, name)));
        assert_eq!(child_text(b"f_e\xcc\x81"), Ok((FILE, "é".into())));
        for damaged in [b"a.jpg".as_slice(), b"f_", b"f_\xff", b"d_a/b", b"f_.", b"f_a\x7f", b""] {
            assert!(matches!(child(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
            assert!(matches!(child_text(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
        }
    }

    #[test]
    fn the_row_of_a_directory() {
        let dir = DirEntry { id: DirId::ROOT, creator: "eva".into(), created: Timestamp::from_ms(1) };
        let bytes: Vec<(Vec<u8>, Vec<u8>)> = dir
            .put_cells()
            .into_iter()
            .map(|c| match c {
                Change::Put { qualifier, value, .. } => (qualifier.to_vec(), value.to_vec()),
                other => panic!("{other:?}"),
            })
            .collect();
        let id = [vec![1], vec![0; 16]].concat();
        assert_eq!(
            bytes,
            [
                (b"id".to_vec(), id.clone()),
                (b"creator".to_vec(), b"\x01\x03eva".to_vec()),
                (b"created".to_vec(), vec![1, 2])
            ]
        );
        assert_eq!(decode_id(&id), Ok(DirId::ROOT));
        assert_eq!(decode_creator(b"\x01\x03eva"), Ok("eva".to_owned()));
        assert_eq!(decode_created(&[1, 2]), Ok(Timestamp::from_ms(1)));
        assert!(matches!(decode_id(&[2, 0]), Err(ValueError::Newer { found: 2, known: 1, .. })));
    }
}
