//! The index entries of a file: one cell in each of its five rows in the time, owner and name indexes.
//!
//! An index entry is put before the change that makes it true and deleted after the change that makes it untrue. So a
//! file always has its entries, but an entry may be early or stale, and a reader verifies it against the directory row.

pub mod by_name;
pub mod by_owner;
pub mod by_time;

use crate::schema::CF;
use crate::schema::dir::FileEntry;
use crate::schema::file::{Attributes, FilePosition};
use crate::schema::ids::{DirId, FileId};
use crate::schema::path::Name;
use crate::table::{Change, RowChange};
use by_name::NameIndexEntry;
use by_owner::OwnerIndexEntry;
use by_time::{Clock, TimeIndexEntry};

/// The index tables.
pub const TABLES: [&str; 3] = [by_time::TABLE, by_owner::TABLE, by_name::TABLE];

/// A file, its attributes and its position: everything that its index entries are made of.
pub struct IndexRows<'a> {
    /// The file.
    pub id: FileId,
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// Its position.
    pub position: &'a FilePosition,
}

impl IndexRows<'_> {
    /// Puts the index entries.
    pub fn put(&self) -> Vec<RowChange> {
        let (dir, name) = (self.position.dir, self.position.name.clone());
        let (creator, mime) = (self.attributes.creator.clone(), self.attributes.mime.clone());
        let by_time = TimeIndexEntry { dir, name: name.clone(), creator, mime: mime.clone() }.encode();
        let by_owner = OwnerIndexEntry { dir, name: name.clone(), mime }.encode();
        let by_name = NameIndexEntry { dir, name }.encode();
        self.rows(|table| {
            let value = match table {
                by_time::TABLE => &by_time,
                by_owner::TABLE => &by_owner,
                _ => &by_name,
            };
            Change::put(CF, self.position.stay.qualifier(), value.clone())
        })
    }

    /// Deletes the same index entries.
    pub fn delete(&self) -> Vec<RowChange> {
        self.rows(|_| Change::delete(CF, self.position.stay.qualifier()))
    }

    fn rows(&self, change: impl Fn(&'static str) -> Change) -> Vec<RowChange> {
        let Attributes { creator, modified, added, .. } = self.attributes;
        let times = [(Clock::Modified, *modified), (Clock::Added, *added)];
        let by_time = times.map(|(clock, at)| (by_time::TABLE, by_time::key(clock, at, self.id)));
        let by_owner = times.map(|(clock, at)| (by_owner::TABLE, by_owner::key(creator, clock, at, self.id)));
        let by_name = (by_name::TABLE, by_name::key(&self.position.name.folded(), self.id));
        let rows = by_time.into_iter().chain(by_owner).chain([by_name]);
        rows.map(|(table, row)| RowChange { table, row, changes: vec![change(table)] }).collect()
    }
}

/// Puts the index entries of the file that this directory entry names.
pub fn put_rows(dir: DirId, name: &Name, entry: &FileEntry) -> Vec<RowChange> {
    let position = FilePosition { dir, name: name.clone(), stay: entry.stay };
    IndexRows { id: entry.id, attributes: &entry.attributes, position: &position }.put()
}
