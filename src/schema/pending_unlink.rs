//! The `unlink` table: content files that no row names any more and that are to be removed.
//!
//! The plan that drops a file puts the row in its `finish`. The row is deleted once the content file is removed.

use bytes::Bytes;
use uuid::Uuid;

use super::CF;
use super::ids::FileId;
use super::value::ValueError;
use crate::table::{Change, RowChange};

/// The name of the table.
pub const TABLE: &str = "unlink";
const QUALIFIER: &[u8] = b"u";
const VALUE: &[u8] = &[1];

/// Puts the row of a content file that is to be removed.
pub fn put(id: FileId) -> RowChange {
    RowChange { table: TABLE, row: id.key(), changes: vec![Change::put(CF, QUALIFIER, VALUE)] }
}

/// Deletes the row of a content file that was removed.
pub fn delete(id: FileId) -> RowChange {
    RowChange { table: TABLE, row: id.key(), changes: vec![Change::delete(CF, QUALIFIER)] }
}

/// The file of a row key.
pub fn decode_key(key: &Bytes) -> Result<FileId, ValueError> {
    Uuid::from_slice(key).map(FileId).map_err(|_| ValueError::Damaged { what: "unlink key" })
}
