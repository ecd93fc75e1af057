//! All hints of a file: what its rows in the time and name indexes are while it stands in one place.

use super::CF;
use super::file::{Attributes, Standing};
use super::ids::FileId;
use super::name::{self, NameHint};
use super::time::{self, Clock, TimeHint};
use crate::table::{Change, RowChange};

/// A file, its attributes and where it stands: everything that its hints are made of.
pub struct Indexed<'a> {
    pub id: FileId,
    pub attributes: &'a Attributes,
    pub standing: &'a Standing,
}

impl Indexed<'_> {
    /// The hints, one cell in each of three rows.
    pub fn put(&self) -> Vec<RowChange> {
        let Standing { dir, name, .. } = self.standing;
        let time = TimeHint {
            dir: *dir,
            name: name.clone(),
            creator: self.attributes.creator.clone(),
            mime: self.attributes.mime.clone(),
        };
        let time = time.encode();
        let name = NameHint { dir: *dir, name: name.clone() }.encode();
        self.rows(|table| {
            let value = if table == time::TABLE { time.clone() } else { name.clone() };
            Change::put(CF, self.standing.place.qualifier(), value)
        })
    }

    /// The removal of the same hints.
    pub fn remove(&self) -> Vec<RowChange> {
        self.rows(|_| Change::delete(CF, self.standing.place.qualifier()))
    }

    fn rows(&self, change: impl Fn(&'static str) -> Change) -> Vec<RowChange> {
        let at = |clock| match clock {
            Clock::Modified => self.attributes.modified,
            Clock::Added => self.attributes.added,
        };
        let times = Clock::ALL.map(|clock| (time::TABLE, time::key(clock, at(clock), self.id)));
        let name = (name::TABLE, name::key(&self.standing.name.folded(), self.id));
        let rows = times.into_iter().chain([name]);
        rows.map(|(table, row)| RowChange { table, row, changes: vec![change(table)] }).collect()
    }
}
