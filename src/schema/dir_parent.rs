//! The `dirid` table: where each directory hangs, keyed by its id.
//!
//! A file's hints name its directory by id; the path is found by walking these rows up to the root. So a
//! directory's move changes one row here, and no hint.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::ids::DirId;
use super::path::Name;
use super::value::{Reader, ValueError, Writer};
use crate::table::{Change, Column};

pub const TABLE: &str = "dirid";
pub const LINK: &[u8] = b"e";

/// The value of `cf:e`: the parent's id, the name in it, and the operation that put the directory there
/// (nil when mkdir made it): two equal walks prove a path only if the operations are equal too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirLink {
    pub parent: DirId,
    pub name: Name,
    pub operation: Uuid,
}

impl DirLink {
    pub fn encode(&self) -> Bytes {
        Writer::new(1).uuid(self.parent.0).uuid(self.operation).bytes(self.name.as_str().as_bytes()).done()
    }

    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        let (_, mut r) = Reader::new("directory link", 1, value)?;
        let (parent, operation, name) = (DirId(r.uuid()?), r.uuid()?, r.text()?);
        let name = Name::parse(name).map_err(|_| r.damaged())?;
        r.end()?;
        Ok(Self { parent, name, operation })
    }

    /// The only cell of the row.
    pub fn row(&self) -> Vec<Change> {
        vec![Change::put(CF, LINK, self.encode())]
    }
}

pub fn removal() -> Vec<Change> {
    vec![Change::delete(CF, LINK)]
}

pub fn column() -> Column {
    Column::new(CF, LINK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let link = DirLink {
            parent: DirId(Uuid::from_bytes([2; 16])),
            name: Name::parse("a").unwrap(),
            operation: Uuid::nil(),
        };
        let bytes = [vec![1], vec![2; 16], vec![0; 16], b"\x01a".to_vec()].concat();
        assert_eq!(link.encode().as_ref(), bytes);
        assert_eq!(DirLink::decode(&bytes), Ok(link));
        assert!(DirLink::decode(&bytes[..30]).is_err());
    }
}
