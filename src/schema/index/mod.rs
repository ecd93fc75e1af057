//! All hints of a file: what its rows in the time, owner and name indexes are while it stands in one place.

use super::CF;
use super::dir::Entry;
use super::file::{Attributes, Standing};
use super::ids::{DirId, FileId};
use super::name::{self, NameHint};
use super::owner::{self, OwnerHint};
use super::path::Name;
use super::time::{self, Clock, TimeHint};
use crate::table::{Change, RowChange};

/// The tables of hints.
pub const TABLES: [&str; 3] = [time::TABLE, owner::TABLE, name::TABLE];

/// A file, its attributes and where it stands: everything that its hints are made of.
pub struct Indexed<'a> {
    pub id: FileId,
    pub attributes: &'a Attributes,
    pub standing: &'a Standing,
}

impl Indexed<'_> {
    /// The hints, one cell in each of five rows.
    pub fn put(&self) -> Vec<RowChange> {
        let (dir, name) = (self.standing.dir, self.standing.name.clone());
        let (creator, mime) = (self.attributes.creator.clone(), self.attributes.mime.clone());
        let by_time = TimeHint { dir, name: name.clone(), creator, mime: mime.clone() }.encode();
        let by_owner = OwnerHint { dir, name: name.clone(), mime }.encode();
        let by_name = NameHint { dir, name }.encode();
        self.rows(|table| {
            let value = match table {
                time::TABLE => &by_time,
                owner::TABLE => &by_owner,
                _ => &by_name,
            };
            Change::put(CF, self.standing.place.qualifier(), value.clone())
        })
    }

    /// The removal of the same hints.
    pub fn remove(&self) -> Vec<RowChange> {
        self.rows(|_| Change::delete(CF, self.standing.place.qualifier()))
    }

    fn rows(&self, change: impl Fn(&'static str) -> Change) -> Vec<RowChange> {
        let Attributes { creator, modified, added, .. } = self.attributes;
        let times = [(Clock::Modified, *modified), (Clock::Added, *added)];
        let by_time = times.map(|(clock, at)| (time::TABLE, time::key(clock, at, self.id)));
        let by_owner = times.map(|(clock, at)| (owner::TABLE, owner::key(creator, clock, at, self.id)));
        let by_name = (name::TABLE, name::key(&self.standing.name.folded(), self.id));
        let rows = by_time.into_iter().chain(by_owner).chain([by_name]);
        rows.map(|(table, row)| RowChange { table, row, changes: vec![change(table)] }).collect()
    }
}

/// The hints of the file that this entry of this directory names.
pub fn hints(dir: DirId, name: &Name, entry: &Entry) -> Vec<RowChange> {
    let standing = Standing { dir, name: name.clone(), place: entry.place };
    Indexed { id: entry.id, attributes: &entry.attributes, standing: &standing }.put()
}
