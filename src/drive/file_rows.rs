//! The rows of one version of a file beside its entry: file row, content cell, index rows.

use bytes::Bytes;

use crate::schema::dir::FileEntry;
use crate::schema::file::{self, ContentLocation, FilePosition};
use crate::schema::index::IndexRows;
use crate::schema::{DirId, Name, pending_unlink};
use crate::table::{Change, RowChange};

/// The rows that a plan prepares for a new version in this directory. Nothing links to them before its commit.
pub fn new_version(entry: &FileEntry, dir: DirId, name: &Name, inline: Option<Bytes>) -> Vec<RowChange> {
    let position = FilePosition { dir, name: name.clone(), stay: entry.stay };
    let mut cells = file::put_cells(&entry.attributes, &position);
    cells.extend(inline.map(|data| Change::put(file::C, file::DATA, data)));
    let mut rows = vec![RowChange { table: file::TABLE, row: entry.id.key(), changes: cells }];
    rows.extend(IndexRows { id: entry.id, attributes: &entry.attributes, position: &position }.put());
    rows
}

/// The clean-up of a version that no name reaches any more: its index rows, its file row, its content.
pub fn drop_version(old: &FileEntry, dir: DirId, name: &Name) -> Vec<RowChange> {
    let position = FilePosition { dir, name: name.clone(), stay: old.stay };
    let mut rows = IndexRows { id: old.id, attributes: &old.attributes, position: &position }.delete();
    // IMPORTANT: before the file row is deleted: after the commit only that row leads to the content file.
    if old.attributes.location == ContentLocation::Large {
        rows.push(pending_unlink::put(old.id));
    }
    let changes = file::delete_cells(old.attributes.location);
    rows.push(RowChange { table: file::TABLE, row: old.id.key(), changes });
    rows
}
