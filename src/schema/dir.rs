//! The directory table: one row a directory, keyed by its full path, one cell a child.
//!
//! Family `sub` holds `d_<name>` for a directory and `f_<name>` for a file, so that a listing is one range
//! of one row: directories first, then files, each in byte order. The worked example keeps only the UUID in
//! a file's cell; here it is an [`Entry`] with the attributes that a listing shows, so that neither a
//! listing nor a stat reads a second row.

use std::ops::Bound;

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::file::Attributes;
use super::ids::{DirId, FileId, OpId, Place};
use super::op::Phase;
use super::path::{DrivePath, Name};
use super::timestamp::Timestamp;
use super::value::{Reader, ValueError, Writer};
use crate::table::row::prefix_end;
use crate::table::{Change, Check, Column, Guarded};

pub const TABLE: &str = "dir";
/// The family of children.
pub const SUB: &str = "sub";
/// A directory's id: every directory row has it, so its absence is the row's.
pub const ID: &[u8] = b"id";
pub const CREATOR: &[u8] = b"creator";
pub const CREATED: &[u8] = b"created";
/// There only while an operation on a subtree holds the row.
pub const STATE: &[u8] = b"state";

/// What the qualifiers of directories start with.
pub const DIRECTORY: &[u8] = b"d_";
/// What the qualifiers of files start with.
pub const FILE: &[u8] = b"f_";

pub fn id_column() -> Column {
    Column::new(CF, ID)
}

pub fn state_column() -> Column {
    Column::new(CF, STATE)
}

pub fn file_qualifier(name: &Name) -> Bytes {
    [FILE, name.as_str().as_bytes()].concat().into()
}

pub fn directory_qualifier(name: &Name) -> Bytes {
    [DIRECTORY, name.as_str().as_bytes()].concat().into()
}

/// The qualifiers of all children of this kind ([`DIRECTORY`] or [`FILE`]) whose names start so.
pub fn range(kind: &[u8], prefix: &str) -> (Bound<Bytes>, Bound<Bytes>) {
    let prefix = [kind, prefix.as_bytes()].concat();
    let end = prefix_end(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(Bytes::from(prefix)), end)
}

/// The child that a qualifier names: its kind ([`DIRECTORY`] or [`FILE`]) and its name.
pub fn child(qualifier: &[u8]) -> Result<(&'static [u8], Name), ValueError> {
    let named = [DIRECTORY, FILE].into_iter().find_map(|kind| Some((kind, qualifier.strip_prefix(kind)?)));
    let named = named.and_then(|(kind, name)| Some((kind, Name::parse(std::str::from_utf8(name).ok()?).ok()?)));
    named.ok_or(ValueError::Damaged { what: "directory's list of names" })
}

/// The value of `sub:f_<name>`: which file stands there, and what a listing shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: FileId,
    pub place: Place,
    pub attributes: Attributes,
}

impl Entry {
    pub fn encode(&self) -> Bytes {
        self.attributes.write(Writer::new(1).uuid(self.id.0).place(&self.place)).done()
    }

    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("file entry", 1, value)?;
        let entry = Self { id: FileId(r.uuid()?), place: r.place()?, attributes: Attributes::read(&mut r)? };
        r.end()?;
        Ok(entry)
    }
}

/// The value of `sub:d_<name>`: which directory stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub id: DirId,
    pub creator: String,
    pub created: Timestamp,
}

impl DirEntry {
    pub fn encode(&self) -> Bytes {
        Writer::new(1).uuid(self.id.0).time(self.created).bytes(self.creator.as_bytes()).done()
    }

    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("directory entry", 1, value)?;
        let entry = Self { id: DirId(r.uuid()?), created: r.time()?, creator: r.text()?.to_owned() };
        r.end()?;
        Ok(entry)
    }

    /// The cells of the directory's own row.
    pub fn row(&self) -> Vec<Change> {
        vec![
            Change::put(CF, ID, encode_id(self.id)),
            Change::put(CF, CREATOR, Writer::new(1).bytes(self.creator.as_bytes()).done()),
            Change::put(CF, CREATED, Writer::new(1).time(self.created).done()),
        ]
    }
}

/// The value of `cf:state`: which operation holds the row, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A row of the subtree that the operation moves or deletes.
    Closed(OpId),
    /// A row of the subtree that the operation makes at the new path.
    Staged(OpId),
}

impl State {
    pub fn op(self) -> OpId {
        match self {
            Self::Closed(op) | Self::Staged(op) => op,
        }
    }

    /// Whether a row with this mark reads as live while its operation is so far. Without a record it has aborted.
    pub fn is_live(self, phase: Phase) -> bool {
        match self {
            Self::Closed(_) => phase != Phase::Committed,
            Self::Staged(_) => phase == Phase::Committed,
        }
    }

    /// The row at this path without its mark, if it still has this one.
    pub fn unmark(self, path: &DrivePath) -> Guarded {
        self.change(path, vec![Change::delete(CF, STATE)])
    }

    /// No row at this path, if it still has this mark.
    pub fn remove(self, path: &DrivePath) -> Guarded {
        self.change(path, removal_whole())
    }

    /// The row as it was before an operation that did not happen.
    pub fn clear(self, path: &DrivePath) -> Guarded {
        match self {
            Self::Closed(_) => self.unmark(path),
            Self::Staged(_) => self.remove(path),
        }
    }

    fn change(self, path: &DrivePath, changes: Vec<Change>) -> Guarded {
        let checks = vec![Check::Equals(state_column(), self.encode())];
        Guarded { table: TABLE, row: path.key(), checks, changes }
    }

    pub fn encode(self) -> Bytes {
        let kind = match self {
            Self::Closed(_) => 0,
            Self::Staged(_) => 1,
        };
        Writer::new(1).number(kind).uuid(self.op().0).done()
    }

    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("directory's state", 1, value)?;
        let state = match (r.number()?, OpId(r.uuid()?)) {
            (0, op) => Self::Closed(op),
            (1, op) => Self::Staged(op),
            _ => return Err(r.damaged()),
        };
        r.end()?;
        Ok(state)
    }
}

/// The removal of a directory row that has no children.
pub fn removal() -> Vec<Change> {
    [ID, CREATOR, CREATED].into_iter().map(|q| Change::delete(CF, q)).collect()
}

/// The removal of a directory row that an operation holds, with all its children.
pub fn removal_whole() -> Vec<Change> {
    let mut changes = removal();
    changes.push(Change::delete(CF, STATE));
    changes.push(Change::DeleteFamily { family: SUB });
    changes
}

/// The value of `cf:id`.
pub fn encode_id(id: DirId) -> Bytes {
    Writer::new(1).uuid(id.0).done()
}

pub fn decode_id(value: &[u8]) -> Result<DirId, ValueError> {
    let (_, mut r) = Reader::new("directory id", 1, value)?;
    let id = DirId(r.uuid()?);
    r.end()?;
    Ok(id)
}

/// The value of `cf:creator`.
pub fn decode_creator(value: &[u8]) -> Result<String, ValueError> {
    let (_, mut r) = Reader::new("directory's creator", 1, value)?;
    let creator = r.text()?.to_owned();
    r.end()?;
    Ok(creator)
}

/// The value of `cf:created`.
pub fn decode_created(value: &[u8]) -> Result<Timestamp, ValueError> {
    let (_, mut r) = Reader::new("directory's time", 1, value)?;
    let created = r.time()?;
    r.end()?;
    Ok(created)
}

/// The operation id that no operation has: what mkdir writes where a move writes its own.
pub const NO_OPERATION: Uuid = Uuid::nil();

#[cfg(test)]
mod tests {
    use super::super::file::{Digest, Location};
    use super::*;

    #[test]
    fn golden_bytes() {
        let entry = Entry {
            id: FileId(Uuid::from_bytes([7; 16])),
            place: Place::CREATED,
            attributes: Attributes {
                size: 300,
                mime: "image/jpeg".into(),
                creator: "tom".into(),
                modified: Timestamp::from_ms(2),
                added: Timestamp::from_ms(3),
                digest: Digest([9; 32]),
                location: Location::Inline,
            },
        };
        let mut bytes = vec![1];
        bytes.extend([7; 16]);
        bytes.extend([1, 0, 0xac, 2, 4, 6, 0]);
        bytes.extend(b"\x0aimage/jpeg\x03tom");
        bytes.extend([9; 32]);
        assert_eq!(entry.encode().as_ref(), bytes);
        assert_eq!(Entry::decode(&bytes), Ok(entry));

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
        for damaged in [b"a.jpg".as_slice(), b"f_", b"f_\xff", b"d_a/b", b""] {
            assert!(matches!(child(damaged), Err(ValueError::Damaged { .. })), "{damaged:?}");
        }
    }

    #[test]
    fn the_row_of_a_directory() {
        let dir = DirEntry { id: DirId::ROOT, creator: "eva".into(), created: Timestamp::from_ms(1) };
        let bytes: Vec<(Vec<u8>, Vec<u8>)> = dir
            .row()
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
