//! The index entries of a file: one cell in each of its five rows in the time, owner and name indexes.
//!
//! An index entry is put before the change that makes it true and deleted after the change that makes it untrue. So a
//! file always has its entries, but an entry may be early or stale, and a reader verifies it against the directory row.

pub mod by_name;
pub mod by_owner;
pub mod by_time;

use uuid::Uuid;

use crate::schema::CF;
use crate::schema::dir::FileEntry;
use crate::schema::file::{Attributes, FilePosition};
use crate::schema::ids::{DirId, FileId};
use crate::schema::path::Name;
use crate::table::{Change, RowChange, RowKey};
use by_name::NameIndexEntry;
use by_owner::OwnerIndexEntry;
use by_time::{Clock, CopiedAttributes, TimeIndexEntry};

/// The index tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexTable {
    /// Files by time: [`by_time`].
    Time,
    /// Files of one creator by time: [`by_owner`].
    Owner,
    /// Files by name: [`by_name`].
    Name,
}

impl IndexTable {
    /// All of them: a new one must be added here too.
    pub const ALL: [Self; 3] = [Self::Time, Self::Owner, Self::Name];

    /// The name of the table.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Time => by_time::TABLE,
            Self::Owner => by_owner::TABLE,
            Self::Name => by_name::TABLE,
        }
    }
}

/// The names of the index tables.
pub const TABLES: [&str; IndexTable::ALL.len()] = {
    let [time, owner, name] = IndexTable::ALL;
    [time.table(), owner.table(), name.table()]
};

/// A file, its attributes and its position: all that its index entries are made of.
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
        let copied = CopiedAttributes::All(self.attributes.clone());
        let by_time = TimeIndexEntry { dir, name: name.clone(), copied }.encode();
        let by_owner = OwnerIndexEntry { dir, name: name.clone(), mime: self.attributes.mime.clone() }.encode();
        let by_name = NameIndexEntry { dir, name }.encode();
        self.rows(|index| {
            let value = match index {
                IndexTable::Time => &by_time,
                IndexTable::Owner => &by_owner,
                IndexTable::Name => &by_name,
            };
            Change::put(CF, self.position.stay.qualifier(), value.clone())
        })
    }

    /// Deletes the same index entries.
    pub fn delete(&self) -> Vec<RowChange> {
        self.rows(|_| Change::delete(CF, self.position.stay.qualifier()))
    }

    fn rows(&self, change: impl Fn(IndexTable) -> Change) -> Vec<RowChange> {
        let keys =
            IndexTable::ALL.into_iter().flat_map(|index| self.keys(index).into_iter().map(move |row| (index, row)));
        keys.map(|(index, row)| RowChange { table: index.table(), row, changes: vec![change(index)] }).collect()
    }

    /// The row keys of the file in an index.
    fn keys(&self, index: IndexTable) -> Vec<RowKey> {
        let Attributes { creator, modified, added, .. } = self.attributes;
        let times = [(Clock::Modified, *modified), (Clock::Added, *added)];
        match index {
            IndexTable::Time => times.map(|(clock, at)| by_time::key(clock, at, self.id)).into(),
            IndexTable::Owner => times.map(|(clock, at)| by_owner::key(creator, clock, at, self.id)).into(),
            IndexTable::Name => vec![by_name::key(&self.position.name.folded(), self.id)],
        }
    }
}

/// The directory that the value of an index entry names, without decoding the rest. None if it is too short; of a
/// version that is not known, it may be any bytes.
pub fn dir_of(value: &[u8]) -> Option<DirId> {
    let dir = value.get(size_of::<u8>()..)?.first_chunk()?;
    Some(DirId(Uuid::from_bytes(*dir)))
}

/// Puts the index entries of the file that this directory entry names.
pub fn put_rows(dir: DirId, name: &Name, entry: &FileEntry) -> Vec<RowChange> {
    let position = FilePosition { dir, name: name.clone(), stay: entry.stay };
    IndexRows { id: entry.id, attributes: &entry.attributes, position: &position }.put()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::file::{ContentLocation, Digest};
    use crate::schema::ids::{FileId, StayId};
    use crate::schema::timestamp::Timestamp;

    #[test]
    fn every_index_entry_names_its_directory_first() {
        let dir = DirId(Uuid::from_bytes([9; 16]));
        let attributes = Attributes {
            size: 1,
            mime: "x/y".into(),
            creator: "eva".into(),
            modified: Timestamp::from_ms(1),
            added: Timestamp::from_ms(2),
            digest: Digest([3; 32]),
            location: ContentLocation::Large,
        };
        let name = Name::parse("a").unwrap();
        let old = TimeIndexEntry {
            dir,
            name: name.clone(),
            copied: CopiedAttributes::Filters { mime: "x/y".into(), creator: "eva".into() },
        };
        let entry = FileEntry { id: FileId(Uuid::nil()), stay: StayId::from_bytes(&[1; 8]).unwrap(), attributes };
        let rows = put_rows(dir, &name, &entry);
        let mut values: Vec<_> = rows
            .into_iter()
            .flat_map(|row| row.changes)
            .map(|change| match change {
                Change::Put { value, .. } => value,
                other => unreachable!("{other:?}"),
            })
            .collect();
        values.push(old.encode());
        assert_eq!(values.len(), 6);
        assert!(values.iter().all(|value| dir_of(value) == Some(dir)));
        assert_eq!([dir_of(b""), dir_of(&[1; 16])], [None, None]);
    }
}
