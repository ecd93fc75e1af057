//! The `op` table: records of running operations on whole subtrees, keyed by operation id.
//!
//! A record's phase decides how all rows that the operation locks are read: when it changes to *committed*, the
//! subtree disappears from its old path and, if it is moved, appears at the new one.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::ids::{DirId, OpId};
use super::path::DrivePath;
use super::value::{self, StoredValue, ValueError, ValueReader, ValueWriter};
use crate::table::{Change, Check, Column, ConditionalRow, Row};

/// The name of the table.
pub const TABLE: &str = "op";
/// The qualifier of the phase.
pub const PHASE: &[u8] = b"phase";
/// The qualifier of the record.
pub const WHAT: &[u8] = b"what";

/// The phase of an operation. An operation without a record has aborted: the record of a committed one is deleted only
/// after all its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows may be locked and copied; readers see no change yet.
    Prepared,
    /// Committed: only clean-up is left.
    Committed,
    /// It will not be committed: only clean-up is left.
    Aborted,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubtreeOpKind {
    /// A move.
    Move {
        /// The new path.
        to: DrivePath,
    },
    /// A recursive delete.
    Delete,
}

impl SubtreeOpKind {
    /// The new path of a move.
    pub fn target(&self) -> Option<&DrivePath> {
        match self {
            Self::Move { to } => Some(to),
            Self::Delete => None,
        }
    }
}

/// What an operation does, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// The path of the subtree before the operation.
    pub from: DrivePath,
    /// The id of the directory at `from`.
    pub root: DirId,
    /// Whether it is moved or deleted.
    pub kind: SubtreeOpKind,
}

impl Phase {
    /// The stored bytes, in the newest version.
    pub fn encode(self) -> Bytes {
        let phase = match self {
            Self::Prepared => 0,
            Self::Committed => 1,
            Self::Aborted => 2,
        };
        ValueWriter::new(Self::VERSION).number(phase).done()
    }

    /// Decodes a stored value of any known version.
    pub fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for Phase {
    const NAME: &'static str = "operation's phase";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let phase = match r.number()? {
            0 => Self::Prepared,
            1 => Self::Committed,
            2 => Self::Aborted,
            _ => return Err(r.damaged()),
        };
        Ok(phase)
    }
}

impl OpRecord {
    /// Whether it frees disk space, so that it may use the reserve.
    pub fn frees_space(&self) -> bool {
        self.kind == SubtreeOpKind::Delete
    }

    /// The cells of a new record.
    pub fn put_cells(&self) -> Vec<Change> {
        let (kind, to) = match &self.kind {
            SubtreeOpKind::Move { to } => (0, to.as_str()),
            SubtreeOpKind::Delete => (1, ""),
        };
        let what = ValueWriter::new(Self::VERSION).number(kind).uuid(self.root.0);
        let what = what.bytes(self.from.as_str().as_bytes()).bytes(to.as_bytes()).done();
        vec![Change::put(CF, PHASE, Phase::Prepared.encode()), Change::put(CF, WHAT, what)]
    }

    /// Decodes a stored value of any known version.
    fn decode(value: &[u8]) -> Result<Self, ValueError> {
        value::decode(value)
    }
}

impl StoredValue for OpRecord {
    const NAME: &'static str = "operation's record";

    fn read_fields(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (kind, root, from, to) = (r.number()?, DirId(r.uuid()?), r.text()?, r.text()?);
        let path = |text: &str| DrivePath::parse(text).map_err(|_| ValueError::Damaged { what: "operation's path" });
        let kind = match kind {
            0 => SubtreeOpKind::Move { to: path(to)? },
            1 => SubtreeOpKind::Delete,
            _ => return Err(r.damaged()),
        };
        let from = path(from)?;
        Ok(Self { from, root, kind })
    }
}

/// Changes the phase from prepared to another one.
pub fn decide(id: OpId, phase: Phase) -> ConditionalRow {
    ConditionalRow {
        table: TABLE,
        row: id.key(),
        checks: vec![Check::Equals(phase_column(), Phase::Prepared.encode())],
        changes: vec![Change::put(CF, PHASE, phase.encode())],
    }
}

/// The record in a row; none if there is none.
pub fn decode_record(row: &Row) -> Result<Option<(Phase, OpRecord)>, ValueError> {
    let (Some(phase), Some(what)) = (row.get(CF, PHASE), row.get(CF, WHAT)) else { return Ok(None) };
    Ok(Some((Phase::decode(phase)?, OpRecord::decode(what)?)))
}

/// Both cells of a record.
pub fn columns() -> Vec<Column> {
    vec![phase_column(), Column::new(CF, WHAT)]
}

/// The cell of the phase.
pub fn phase_column() -> Column {
    Column::new(CF, PHASE)
}

/// Deletes the record.
pub fn delete_cells() -> Vec<Change> {
    [PHASE, WHAT].into_iter().map(|q| Change::delete(CF, q)).collect()
}

/// The operation of a row key.
pub fn decode_key(key: &Bytes) -> Result<OpId, ValueError> {
    Uuid::from_slice(key).map(OpId).map_err(|_| ValueError::Damaged { what: "operation's key" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    fn stored(what: &OpRecord) -> Row {
        let cell = |change| match change {
            Change::Put { family, qualifier, value } => (family, Cell { qualifier, value }),
            other => panic!("{other:?}"),
        };
        Row::new(what.put_cells().into_iter().map(cell).collect::<Vec<_>>())
    }

    #[test]
    fn golden_bytes() {
        let path = |text| DrivePath::parse(text).unwrap();
        let root = DirId(Uuid::from_bytes([6; 16]));
        let moved = OpRecord { from: path("/a"), root, kind: SubtreeOpKind::Move { to: path("/b/c") } };
        let bytes = [vec![1, 0], vec![6; 16], b"\x02/a\x04/b/c".to_vec()].concat();
        assert_eq!(stored(&moved).get(CF, WHAT).unwrap().as_ref(), bytes);
        assert_eq!(decode_record(&stored(&moved)), Ok(Some((Phase::Prepared, moved))));
        let deleted = OpRecord { from: path("/a"), root, kind: SubtreeOpKind::Delete };
        let bytes = [vec![1, 1], vec![6; 16], b"\x02/a\x00".to_vec()].concat();
        assert_eq!(stored(&deleted).get(CF, WHAT).unwrap().as_ref(), bytes);
        assert_eq!(decode_record(&stored(&deleted)), Ok(Some((Phase::Prepared, deleted))));
        assert_eq!(decode_record(&Row::default()), Ok(None));
        assert!(OpRecord::decode(&bytes[..10]).is_err());
        for (phase, byte) in [(Phase::Prepared, 0), (Phase::Committed, 1), (Phase::Aborted, 2)] {
            assert_eq!(phase.encode().as_ref(), [1, byte]);
            assert_eq!(Phase::decode(&[1, byte]), Ok(phase));
        }
        assert!(Phase::decode(&[1, 3]).is_err());
    }
}
