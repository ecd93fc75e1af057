//! Which part of a drive a folder is: the data folder, its `db/`, its `content/`, or a backup.
//!
//! An import of a part would store the drive in itself, more of it with each run. An export into a part would replace
//! files that a server uses by old ones, and lose what was acknowledged since. So neither reads or changes a part.
//!
//! A folder is recognized by its content, since it may have any name, and always by two entries: a user may store a
//! file `store-id`, or a folder `db`, like any other.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use uuid::Uuid;

use super::names;
use crate::local_fs::{FsEntry, FsKind, OpenFolder};

/// Files of `db/`, and of a copy of it. A `db/` that was never served has neither id nor lock; one whose first start
/// was interrupted has nothing else.
const DB_FILES: [&str; 4] = [names::CURRENT, names::TABLES, names::STORE_ID, names::LOCK];
/// Prefixes of the folder in `content/` whose name is the id of the store.
const ID_FOLDERS: [&str; 2] = [names::ID_FOLDER, names::NEW_ID_FOLDER];

/// A folder that belongs to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrivePart {
    Data,
    Backup,
    Tables,
    Content,
}

impl fmt::Display for DrivePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "the data folder of a drive",
            Self::Backup => "a backup of a drive",
            Self::Tables => "the db/ of a drive",
            Self::Content => "the content/ of a drive",
        })
    }
}

/// How certain it is that an entry named `db` or `content` is that part of a drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    Missing,
    /// A folder, or a link to one.
    Present,
    /// A folder with the files of that part.
    Recognized,
}

/// The part of a drive that this folder is; none if it is no part of any. Follows no symbolic link.
pub fn identify(folder: &OpenFolder) -> io::Result<Option<DrivePart>> {
    if is_tables(folder)? {
        Ok(Some(DrivePart::Tables))
    } else if is_content(folder)? {
        Ok(Some(DrivePart::Content))
    } else {
        identify_data_folder(folder)
    }
}

/// The part of a drive that this folder is, or else the nearest folder above it that is one.
pub fn enclosing(folder: &OpenFolder) -> io::Result<Option<DrivePart>> {
    let (mut part, mut parent) = (identify(folder)?, folder.parent()?);
    while part.is_none()
        && let Some(folder) = parent
    {
        part = identify(&folder)?;
        parent = folder.parent()?;
    }
    Ok(part)
}

/// As [`enclosing`], for a path that need not exist yet: begins at its nearest ancestor that does.
pub fn enclosing_path(path: &Path) -> io::Result<Option<DrivePart>> {
    for ancestor in std::path::absolute(path)?.ancestors() {
        match OpenFolder::open(ancestor) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return enclosing(&opened?),
        }
    }
    Ok(None)
}

/// Recognizes a data folder or a backup. Two of three signs are enough, since any part may be elsewhere (as a link),
/// not mounted, or of a version that wrote no ids. The signs: an id in the folder itself, both `db` and `content`, and
/// one of the two with its own files in it.
fn identify_data_folder(folder: &OpenFolder) -> io::Result<Option<DrivePart>> {
    // A restore fills `db` under its second name.
    let db = evidence(folder, names::DB, is_tables)?.max(evidence(folder, names::RESTORED_DB, is_tables)?);
    let content = evidence(folder, names::CONTENT, is_content)?;
    if db.max(content) == Evidence::Missing {
        return Ok(None);
    }
    let (has_both, is_recognized) = (db.min(content) > Evidence::Missing, db.max(content) == Evidence::Recognized);
    let has_marker = has_file(folder, names::STORE_ID)? || has_file(folder, names::RESTORING)?;
    // Other programs use this name too: the file alone, or with two folders of these names, is not enough.
    let is_backup = has_file(folder, names::MANIFEST)?;
    let is_one = (has_both && has_marker) || (is_recognized && (has_both || has_marker || is_backup));
    Ok(is_one.then_some(if is_backup && !has_marker { DrivePart::Backup } else { DrivePart::Data }))
}

fn is_tables(folder: &OpenFolder) -> io::Result<bool> {
    let mut found = 0;
    for name in DB_FILES {
        found += usize::from(has_file(folder, name)?);
    }
    Ok(found >= 2)
}

/// A server creates `new/` before it stores the first file: without `new/` there is nothing to lose. The lookup of
/// `new/` also avoids listing nearly every other folder.
fn is_content(folder: &OpenFolder) -> io::Result<bool> {
    if !matches!(lookup(folder, names::STAGING)?, Some(FsEntry::Folder)) {
        return Ok(false);
    }
    for entry in folder.entries()? {
        let (name, kind) = match entry {
            // This user may search the folder but not list it, as an ancestor of the target.
            Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => return Ok(false),
            entry => entry?,
        };
        let mut ids = ID_FOLDERS.iter().filter_map(|prefix| name.to_str()?.strip_prefix(prefix));
        if ids.any(|id| Uuid::parse_str(id).is_ok()) && folder.kind(&name, kind)? == Some(FsKind::Folder) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn evidence(folder: &OpenFolder, name: &str, recognizes: fn(&OpenFolder) -> io::Result<bool>) -> io::Result<Evidence> {
    match lookup(folder, name)? {
        None | Some(FsEntry::File(_)) => Ok(Evidence::Missing),
        Some(FsEntry::Other(_)) => Ok(Evidence::Present),
        Some(FsEntry::Folder) => match folder.open_folder(name.as_ref()) {
            Ok(inner) => Ok(if recognizes(&inner)? { Evidence::Recognized } else { Evidence::Present }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Evidence::Present),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Evidence::Missing),
            Err(error) => Err(error),
        },
    }
}

fn has_file(folder: &OpenFolder, name: &str) -> io::Result<bool> {
    Ok(matches!(lookup(folder, name)?, Some(FsEntry::File(_))))
}

/// As [`OpenFolder::lookup`]. In a folder that this process may not search, it can neither read nor write: every name
/// there counts as missing.
fn lookup(folder: &OpenFolder, name: &str) -> io::Result<Option<FsEntry>> {
    match folder.lookup(name.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        found => found,
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

    /// A folder with these entries: names of folders end with a slash, those of links with an at sign.
    fn folder_with(names: &[&str]) -> tempfile::TempDir {
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

    fn identify_path(path: &Path) -> Option<DrivePart> {
        identify(&OpenFolder::open(path).unwrap()).unwrap()
    }

    #[test]
    fn a_data_folder_is_recognized_in_every_state() {
        let db = ["db/CURRENT", "db/tables.json", "db/store-id", "db/in-use"];
        for (state, more, db) in [
            ("served", &["store-id", "content/new/", STORE][..], &db[..]),
            ("of a version without ids", &["content/new/"], &["db/CURRENT", "db/tables.json", "db/in-use"]),
            ("of an interrupted first start", &[MAKING], &["db/store-id", "db/in-use"]),
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
            let dir = folder_with(&[more, db].concat());
            assert_eq!(identify_path(dir.path()), Some(DrivePart::Data), "{state}");
        }
        let backup = folder_with(&["backup.json", "content/new/", "db/CURRENT", "db/tables.json"]);
        assert_eq!(identify_path(backup.path()), Some(DrivePart::Backup));
        assert_eq!(identify_path(&backup.path().join("db")), Some(DrivePart::Tables));
        for id in [STORE, MAKING] {
            let dir = folder_with(&[&["store-id", "content/new/", id][..], &db].concat());
            assert_eq!(identify_path(&dir.path().join("db")), Some(DrivePart::Tables));
            assert_eq!(identify_path(&dir.path().join("content")), Some(DrivePart::Content));
        }
    }

    #[test]
    fn a_folder_with_only_one_sign_is_not_recognized() {
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
            // A folder with the files of one part, and other things.
            &["db/CURRENT", "db/tables.json", "photos/"],
            &["content/new/", STORE, "photos/"],
            &["new/", "store-front/", "making-of/"],
            &["new/", "store-8fc6d904-734a-42bd-92ad-438e0b88979e"],
            &["store-8fc6d904-734a-42bd-92ad-438e0b88979e/"],
        ] {
            let dir = folder_with(names);
            assert_eq!(identify_path(dir.path()), None, "{names:?}");
        }
    }

    #[test]
    fn a_folder_in_a_data_folder_is_recognized_by_the_folders_above() {
        let dir = folder_with(&["d/store-id", "d/db/CURRENT", "d/db/in-use", "d/content/9a/", "d/lost/x/", "beside/"]);
        let within = |path: &str| enclosing(&OpenFolder::open(&dir.path().join(path)).unwrap()).unwrap();
        assert_eq!(within("d"), Some(DrivePart::Data));
        assert_eq!(within("d/content/9a"), Some(DrivePart::Data));
        assert_eq!(within("d/lost/x"), Some(DrivePart::Data));
        assert_eq!(within("d/db"), Some(DrivePart::Tables));
        assert_eq!(within("beside"), None);
        assert_eq!(within("."), None);
        symlink("d/lost", dir.path().join("link")).unwrap();
        assert_eq!(within("link/x"), Some(DrivePart::Data));
    }
}
