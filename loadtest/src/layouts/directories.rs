//! All directories in memory, by their ids: what a scan needs to say where a file stands.

use std::collections::HashMap;

use rowdrive::schema::DirId;

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

    /// The directory of this path.
    pub fn find(&self, path: &str) -> Option<DirId> {
        path.split('/').skip(1).try_fold(DirId::ROOT, |at, wanted| {
            let found = self.0.iter().find(|(_, (parent, name))| *parent == at && name == wanted);
            found.map(|(id, _)| *id)
        })
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
