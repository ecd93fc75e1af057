//! Whether a folder is one of a drive: the data folder, its `db/` or its `content/`, or a backup.
//!
//! An import of one would put the drive into itself, more of it with each run. An export into one would put old files
//! over those that a server works with, and what was acknowledged since would be lost. So neither enters one.
//!
//! It is known by what is in it, as its name is anybody's choice, and always by two things: a drive may hold a file
//! `store-id`, or a folder `db`, like any other.

use std::fmt;
use std::io;

use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use uuid::Uuid;

use super::{Folder, Found, Kind};

/// Files of `db/`, of a copy of it too. One that was never served has neither id nor lock, one whose first start was
/// broken off has nothing else.
const TABLES: [&str; 4] = ["CURRENT", "tables.json", "store-id", "in-use"];
/// How the folder in `content/` is called that is its id.
const IDS: [&str; 2] = ["store-", "making-"];

/// What of a drive a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Data,
    Backup,
    Tables,
    Content,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "the data folder of a drive",
            Self::Backup => "a backup of a drive",
            Self::Tables => "the db/ of a drive",
            Self::Content => "the content/ of a drive",
        })
    }
}

/// What stands in a folder under the name of `db/` or `content/`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Missing,
    /// A folder, or a link to one.
    There,
    /// A folder that has the marks of that side.
    Known,
}

impl Folder {
    /// What of a drive this folder is, if it is anything of one. Nothing is opened through a link.
    pub fn of_drive(&self) -> io::Result<Option<Part>> {
        if self.is_tables()? {
            Ok(Some(Part::Tables))
        } else if self.is_content()? {
            Ok(Some(Part::Content))
        } else {
            self.of_data()
        }
    }

    /// What of a drive this folder is, or else the nearest one above it that is anything of one.
    pub fn within_drive(&self) -> io::Result<Option<Part>> {
        let (mut part, mut above) = (self.of_drive()?, self.above()?);
        while part.is_none()
            && let Some(folder) = above
        {
            part = folder.of_drive()?;
            above = folder.above()?;
        }
        Ok(part)
    }

    /// The folder that holds this one; none if this is the root.
    fn above(&self) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match openat(&self.0, "..", flags | OFlags::RDONLY, Mode::empty()) {
            // It is another user's, who lets others pass: single names in it can be looked at.
            Err(Errno::ACCESS) => openat(&self.0, "..", flags | OFlags::PATH, Mode::empty()),
            opened => opened,
        };
        let above = opened?;
        let (here, there) = (fstat(&self.0)?, fstat(&above)?);
        let is_root = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        Ok((!is_root).then_some(Self(above)))
    }

    /// The data folder itself, or a backup. Two of three are enough, since any part may lie elsewhere (as a link), not
    /// be mounted, or be of a version that marked none: a mark of its own, both sides, a side with its own marks.
    fn of_data(&self) -> io::Result<Option<Part>> {
        // Under the second name while it is restored.
        let db = self.side("db", Self::is_tables)?.max(self.side("db.restoring", Self::is_tables)?);
        let content = self.side("content", Self::is_content)?;
        if db.max(content) == Side::Missing {
            return Ok(None);
        }
        let (has_both, is_known) = (db.min(content) > Side::Missing, db.max(content) == Side::Known);
        let is_marked = self.has_file("store-id")? || self.has_file("restoring")?;
        // Others have a file of this name too, and even with these folders: it alone is not enough.
        let is_backup = self.has_file("backup.json")?;
        let is_one = (has_both && is_marked) || (is_known && (has_both || is_marked || is_backup));
        Ok(is_one.then_some(if is_backup && !is_marked { Part::Backup } else { Part::Data }))
    }

    fn is_tables(&self) -> io::Result<bool> {
        let mut found = 0;
        for name in TABLES {
            found += usize::from(self.has_file(name)?);
        }
        Ok(found >= 2)
    }

    /// A server makes `new/` before the first file comes: without it there is nothing to lose. It also spares nearly all
    /// other folders from being listed here.
    fn is_content(&self) -> io::Result<bool> {
        if !matches!(self.standing("new")?, Some(Found::Folder)) {
            return Ok(false);
        }
        for entry in self.names()? {
            let (name, told) = match entry {
                // One above the target, that can be passed and not listed.
                Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => return Ok(false),
                entry => entry?,
            };
            let mut ids = IDS.iter().filter_map(|start| name.to_str()?.strip_prefix(start));
            if ids.any(|id| Uuid::parse_str(id).is_ok()) && self.kind(&name, told)? == Some(Kind::Folder) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn side(&self, name: &str, is_known: fn(&Self) -> io::Result<bool>) -> io::Result<Side> {
        match self.standing(name)? {
            None | Some(Found::File(_)) => Ok(Side::Missing),
            Some(Found::Other(_)) => Ok(Side::There),
            Some(Found::Folder) => match self.folder(name.as_ref()) {
                Ok(folder) => Ok(if is_known(&folder)? { Side::Known } else { Side::There }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Side::There),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Side::Missing),
                Err(error) => Err(error),
            },
        }
    }

    fn has_file(&self, name: &str) -> io::Result<bool> {
        Ok(matches!(self.standing(name)?, Some(Found::File(_))))
    }

    /// As [`find`](Self::find). Where this process may look at no name, it can neither read nor write anything: for it
    /// nothing is there.
    fn standing(&self, name: &str) -> io::Result<Option<Found>> {
        match self.find(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            found => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    const STORE: &str = "content/store-8fc6d904-734a-42bd-92ad-438e0b88979e/";
    const MAKING: &str = "content/making-8fc6d904-734a-42bd-92ad-438e0b88979e/";

    /// A folder with these in it: folders end with a slash, links with an at sign.
    fn with(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name.trim_end_matches(['/', '@']));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match name.chars().next_back() {
                Some('/') => fs::create_dir_all(&path).unwrap(),
                Some('@') => symlink("elsewhere", &path).unwrap(),
                _ => fs::write(&path, "").unwrap(),
            }
        }
        dir
    }

    fn of(path: &Path) -> Option<Part> {
        Folder::open(path).unwrap().of_drive().unwrap()
    }

    #[test]
    fn a_data_folder_is_known_in_every_state_that_it_can_be_in() {
        let db = ["db/CURRENT", "db/tables.json", "db/store-id", "db/in-use"];
        for (state, more, db) in [
            ("served", &["store-id", "content/new/", STORE][..], &db[..]),
            ("of a version without ids", &["content/new/"], &["db/CURRENT", "db/tables.json", "db/in-use"]),
            ("begun and broken off", &[MAKING], &["db/store-id", "db/in-use"]),
            ("of which the tables were lost", &["store-id", "content/new/", STORE], &["db/store-id", "db/in-use"]),
            ("of which db is not mounted", &["store-id", "content/new/", STORE], &["db/"]),
            ("of which content is not mounted", &["store-id", "content/"], &db),
            ("of which both are not mounted", &["store-id", "content/"], &["db/"]),
            ("of which content is gone", &["store-id"], &db),
            ("of which both are links", &["store-id", "content@"], &["db@"]),
            ("of which one is a link", &["content@"], &db),
            ("a backup under way", &["content/new/"], &["db/CURRENT", "db/tables.json"]),
            ("being restored", &["restoring", "content/new/"], &["db.restoring/restoring"]),
        ] {
            let dir = with(&[more, db].concat());
            assert_eq!(of(dir.path()), Some(Part::Data), "{state}");
        }
        let backup = with(&["backup.json", "content/new/", "db/CURRENT", "db/tables.json"]);
        assert_eq!(of(backup.path()), Some(Part::Backup));
        assert_eq!(of(&backup.path().join("db")), Some(Part::Tables));
        for id in [STORE, MAKING] {
            let dir = with(&[&["store-id", "content/new/", id][..], &db].concat());
            assert_eq!(of(&dir.path().join("db")), Some(Part::Tables));
            assert_eq!(of(&dir.path().join("content")), Some(Part::Content));
        }
    }

    #[test]
    fn what_merely_has_a_name_of_it_is_none() {
        for names in [
            &["store-id"][..],
            &["CURRENT"],
            &["in-use", "0001_x/"],
            &["db/", "content/"],
            &["store-id", "db/"],
            &["store-id/", "db/", "content/"],
            &["backup.json", "db/", "content/"],
            &["backup.json", "db/data", "content/new/"],
            &["store-id", "CURRENT/", "in-use@"],
            // What holds a side that is mounted, and other things.
            &["db/CURRENT", "db/tables.json", "photos/"],
            &["content/new/", STORE, "photos/"],
            &["new/", "store-front/", "making-of/"],
            &["new/", "store-8fc6d904-734a-42bd-92ad-438e0b88979e"],
            &["store-8fc6d904-734a-42bd-92ad-438e0b88979e/"],
        ] {
            let dir = with(names);
            assert_eq!(of(dir.path()), None, "{names:?}");
        }
    }

    #[test]
    fn what_lies_in_a_data_folder_is_known_by_what_is_above_it() {
        let dir = with(&["d/store-id", "d/db/CURRENT", "d/db/in-use", "d/content/9a/", "d/lost/x/", "beside/"]);
        let within = |path: &str| Folder::open(&dir.path().join(path)).unwrap().within_drive().unwrap();
        assert_eq!(within("d"), Some(Part::Data));
        assert_eq!(within("d/content/9a"), Some(Part::Data));
        assert_eq!(within("d/lost/x"), Some(Part::Data));
        assert_eq!(within("d/db"), Some(Part::Tables));
        assert_eq!(within("beside"), None);
        assert_eq!(within("."), None);
        symlink("d/lost", dir.path().join("link")).unwrap();
        assert_eq!(within("link/x"), Some(Part::Data));
    }
}
