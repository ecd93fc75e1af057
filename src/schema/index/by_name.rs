//! The name index: files of all directories by their folded names.
//!
//! A row key is the folded name, a zero byte, the kind (1 byte; files only for now) and the file's id. No
//! name holds a zero byte, so byte order is the order by folded name, then by id. Cells are index entries, as in the
//! time index.

use bytes::Bytes;
use uuid::Uuid;

use crate::schema::ids::{DirId, FileId};
use crate::schema::path::Name;
use crate::schema::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::RowRange;

/// The name of the table.
pub const TABLE: &str = "name";
const KIND_FILE: u8 = b'f';

/// `folded` is [`Name::folded`].
pub fn key(folded: &str, id: FileId) -> Bytes {
    [folded.as_bytes(), &[0, KIND_FILE], id.0.as_bytes()].concat().into()
}

/// The folded name and the id that a row key names.
pub fn decode_key(key: &[u8]) -> Result<(&str, FileId), ValueError> {
    let damaged = ValueError::Damaged { what: "name index key" };
    let (folded, id) = key.len().checked_sub(16).and_then(|at| key.split_at_checked(at)).ok_or(damaged.clone())?;
    let folded = folded.strip_suffix(&[0, KIND_FILE]).ok_or(damaged.clone())?;
    let folded = std::str::from_utf8(folded).map_err(|_| damaged.clone())?;
    let id = Uuid::from_slice(id).map_err(|_| damaged)?;
    Ok((folded, FileId(id)))
}

/// The rows of all files whose folded name is this one.
pub fn exact(folded: &str) -> RowRange {
    RowRange::prefix(&[folded.as_bytes(), &[0, KIND_FILE]].concat())
}

/// The rows of all files whose folded name starts with this text.
pub fn prefix(folded: &str) -> RowRange {
    RowRange::prefix(folded.as_bytes())
}

/// The value of an index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameIndexEntry {
    /// The directory.
    pub dir: DirId,
    /// The name in that directory.
    pub name: Name,
}

impl NameIndexEntry {
    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        ValueWriter::new(Self::VERSION).uuid(self.dir.0).bytes(self.name.as_str().as_bytes()).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for NameIndexEntry {
    const NAME: &'static str = "name index entry";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (dir, name) = (DirId(r.uuid()?), r.text()?);
        let name = Name::parse(name).map_err(|_| r.damaged())?;
        Ok(Self { dir, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let id = FileId(Uuid::from_bytes([6; 16]));
        let bytes = key("a.jpg", id);
        assert_eq!(bytes.as_ref(), [b"a.jpg\0f".to_vec(), vec![6; 16]].concat());
        assert_eq!(decode_key(&bytes), Ok(("a.jpg", id)));
        assert!(decode_key(b"a").is_err());
        let entry = NameIndexEntry { dir: DirId(Uuid::from_bytes([2; 16])), name: Name::parse("A.jpg").unwrap() };
        let bytes = [vec![1], vec![2; 16], b"\x05A.jpg".to_vec()].concat();
        assert_eq!(entry.encode().as_ref(), bytes);
        assert_eq!(NameIndexEntry::decode(&bytes), Ok(entry));
    }

    #[test]
    fn ranges_contain_exactly_their_names() {
        let id = FileId(Uuid::from_bytes([0; 16]));
        assert!(exact("a").contains(&key("a", id)) && !exact("a").contains(&key("ab", id)));
        assert!(prefix("a").contains(&key("ab", id)) && !prefix("a").contains(&key("b", id)));
        assert!(key("a", FileId(Uuid::from_bytes([255; 16]))) < key("a ", id));
    }
}
