//! The `unlink` table: large content files that no name reaches any more and that are to be removed.
//!
//! The row is put in the `finish` of the very plan that drops the file, and removed when the content is gone.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::ids::FileId;
use super::value::ValueError;
use crate::table::{Change, RowChange};

/// The name of the table.
pub const TABLE: &str = "unlink";
const MARK: &[u8] = b"u";
const VALUE: &[u8] = &[1];

/// Puts the row of a content file that is to be removed.
pub fn put(id: FileId) -> RowChange {
    RowChange { table: TABLE, row: id.key(), changes: vec![Change::put(CF, MARK, VALUE)] }
}

/// Deletes the row of a content file that is gone.
pub fn delete(id: FileId) -> RowChange {
    RowChange { table: TABLE, row: id.key(), changes: vec![Change::delete(CF, MARK)] }
}

/// The file of a row key.
pub fn decode_key(key: &Bytes) -> Result<FileId, ValueError> {
    Uuid::from_slice(key).map(FileId).map_err(|_| ValueError::Damaged { what: "unlink key" })
}
