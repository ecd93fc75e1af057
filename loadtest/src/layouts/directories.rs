//! All directories in memory, by their ids: what a scan needs to say where a file stands.

use std::collections::HashMap;

use rowdrive::schema::DirId;

use super::newest::Newest;
use super::{Period, is_within};

/// Where a file stands: the id of its directory, and its name.
pub type Spot = (DirId, String);

#[derive(Default)]
pub struct Directories(HashMap<DirId, (DirId, String)>);

impl Directories {
    pub fn add(&mut self, id: DirId, parent: DirId, name: &str) {
        self.0.insert(id, (parent, name.to_owned()));
    }

    /// The path of a directory; the root's is empty.
    pub fn path(&self, mut id: DirId) -> String {
        let mut names = Vec::new();
        while let Some((parent, name)) = self.0.get(&id) {
            names.push(name.as_str());
            id = *parent;
        }
        names.iter().rev().flat_map(|name| ["/", name]).collect()
    }

    /// The path of a file.
    pub fn path_of(&self, (parent, name): &Spot) -> String {
        format!("{}/{name}", self.path(*parent))
    }

    /// The directory of this path.
    pub fn find(&self, path: &str) -> Option<DirId> {
        path.split('/').skip(1).try_fold(DirId::ROOT, |at, wanted| {
            let found = self.0.iter().find(|(_, (parent, name))| *parent == at && name == wanted);
            found.map(|(id, _)| *id)
        })
    }
}

/// The files of a period, for a scan that learns only at its end where each of them stands.
pub struct Search<'a> {
    period: &'a Period,
    newest: Newest<Spot>,
    /// Those that lie below the period's directory, or elsewhere.
    undecided: Vec<(i64, Spot)>,
}

impl<'a> Search<'a> {
    pub fn new(period: &'a Period) -> Self {
        Self { period, newest: Newest::new(period), undecided: Vec::new() }
    }

    pub fn offer(&mut self, modified: i64, parent: DirId, name: &str) {
        if self.period.under.is_empty() {
            self.newest.offer(modified, || (parent, name.to_owned()));
        } else if (self.period.from..self.period.to).contains(&modified) {
            self.undecided.push((modified, (parent, name.to_owned())));
        }
    }

    /// Newest first, by their paths.
    pub fn done(self, directories: &Directories) -> Vec<(i64, String)> {
        let Self { period, mut newest, undecided } = self;
        for (modified, spot) in undecided {
            if is_within(&directories.path(spot.0), &period.under) {
                newest.offer(modified, || spot);
            }
        }
        newest.done().into_iter().map(|(modified, spot)| (modified, directories.path_of(&spot))).collect()
    }
}

#[cfg(test)]
mod tests {
    use ::uuid::Uuid;

    use super::*;

    #[test]
    fn paths_are_found_and_told() {
        let [a, b] = [1, 2].map(|id| DirId(Uuid::from_u128(id)));
        let mut directories = Directories::default();
        directories.add(b, a, "b");
        directories.add(a, DirId::ROOT, "a");
        assert_eq!(directories.path(b), "/a/b");
        assert_eq!(directories.path(DirId::ROOT), "");
        assert_eq!(directories.find("/a/b"), Some(b));
        assert_eq!(directories.find(""), Some(DirId::ROOT));
        assert_eq!(directories.find("/b"), None);
    }
}
