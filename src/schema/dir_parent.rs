//! The `dirid` table: the parent of each directory and its name there, keyed by the directory's id.
//!
//! An index entry names a directory by id; a path lookup follows these rows up to the root. So a directory's move
//! changes one row here, and no index entry.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::ids::DirId;
use super::path::Name;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Change, Column};

/// The name of the table.
pub const TABLE: &str = "dirid";
/// The qualifier of the only cell.
pub const PARENT: &[u8] = b"e";

/// The value of `cf:e`: the parent's id, the name in it, and the operation that put the directory there
/// (nil when mkdir made it). Two path lookups with the same rows prove a path only if the operations are equal too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirParent {
    /// The parent directory.
    pub parent: DirId,
    /// The name in that directory.
    pub name: Name,
    /// The move that wrote the row, or nil.
    pub operation: Uuid,
}

impl DirParent {
    /// The stored bytes, in the newest version.
    pub fn encode(&self) -> Bytes {
        ValueWriter::new(Self::VERSION)
            .uuid(self.parent.0)
            .uuid(self.operation)
            .bytes(self.name.as_str().as_bytes())
            .done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }

    /// The only cell of the row.
    pub fn put_cells(&self) -> Vec<Change> {
        vec![Change::put(CF, PARENT, self.encode())]
    }
}

impl StoredValue for DirParent {
    const NAME: &'static str = "directory link";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (parent, operation, name) = (DirId(r.uuid()?), r.uuid()?, r.text()?);
        let name = Name::parse(name).map_err(|_| r.damaged())?;
        Ok(Self { parent, name, operation })
    }
}

/// Deletes the row.
pub fn delete_cells() -> Vec<Change> {
    vec![Change::delete(CF, PARENT)]
}

/// The only cell of a row.
pub fn column() -> Column {
    Column::new(CF, PARENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let link = DirParent {
            parent: DirId(Uuid::from_bytes([2; 16])),
            name: Name::parse("a").unwrap(),
            operation: Uuid::nil(),
        };
        let bytes = [vec![1], vec![2; 16], vec![0; 16], b"\x01a".to_vec()].concat();
        assert_eq!(link.encode().as_ref(), bytes);
        assert_eq!(DirParent::decode(&bytes), Ok(link));
        assert!(DirParent::decode(&bytes[..30]).is_err());
    }
}
