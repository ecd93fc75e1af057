//! Which start `db/` and `content/` had last: the same one, or one of them is an older copy of itself.
//!
//! Each part may be mounted, and an older copy of it may lie below the mount point, with the id of the same store. So
//! each start puts a fresh mark on both parts, as an array of disks counts its events to tell a stale member.
//!
//! In `db/` the mark is a file, `last-start`; in `content/` it is the name of an empty folder, `start-<mark>`. A start
//! that is broken off leaves `start-<new>.<old>` there: then either mark is right in `db/`.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use uuid::Uuid;

use super::store_id;

const FILE: &str = "last-start";
const FOLDER: &str = "start-";
/// The old mark, where there was none before.
const NONE: &str = "none";

/// Whether both parts had the same last start. Parts without any mark are of an older version, or put together by hand.
///
/// A copy that was made over an older copy has the marks of both: an older `content/` has not the newest.
pub fn is_the_same(db: &Path, content: &Path) -> io::Result<bool> {
    let (in_db, in_content) = (store_id::id_in(&db.join(FILE))?, marks(content)?);
    let own = in_db.as_deref().unwrap_or(NONE);
    Ok((in_db.is_none() && in_content.is_empty())
        || in_content.iter().flat_map(|mark| mark.split('.')).any(|m| m == own))
}

/// Puts a fresh mark on both parts, durably. Whoever calls has found that they belong together.
pub fn mark(db: &Path, content: &Path) -> io::Result<()> {
    let old = store_id::id_in(&db.join(FILE))?.unwrap_or_else(|| NONE.to_owned());
    let new = Uuid::new_v4().to_string();
    // IMPORTANT: in this order: `content/` knows both marks as long as it is not known which one `db/` has.
    add(content, &format!("{new}.{old}"))?;
    store_id::write(db, FILE, &new)?;
    add(content, &new)?;
    for other in marks(content)?.iter().filter(|mark| **mark != new) {
        fs::remove_dir(content.join(format!("{FOLDER}{other}")))?;
    }
    File::open(content)?.sync_all()
}

fn marks(content: &Path) -> io::Result<Vec<String>> {
    let names = store_id::names(content)?;
    Ok(names.iter().filter_map(|name| Some(name.strip_prefix(FOLDER)?.to_owned())).collect())
}

fn add(content: &Path, mark: &str) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(content.join(format!("{FOLDER}{mark}")))?;
    File::open(content)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts, and what the marks of each are.
    fn parts() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (db, content) = (dir.path().join("db"), dir.path().join("content"));
        fs::create_dir(&db).unwrap();
        fs::create_dir(&content).unwrap();
        (dir, db, content)
    }

    #[test]
    fn an_older_copy_of_either_part_is_told() {
        let (_dir, db, content) = parts();
        assert!(is_the_same(&db, &content).unwrap());
        mark(&db, &content).unwrap();
        let (old_mark, old_name) = (fs::read(db.join(FILE)).unwrap(), marks(&content).unwrap().remove(0));
        assert!(is_the_same(&db, &content).unwrap());
        mark(&db, &content).unwrap();
        assert!(is_the_same(&db, &content).unwrap());
        let now = fs::read(db.join(FILE)).unwrap();
        fs::write(db.join(FILE), old_mark).unwrap();
        assert!(!is_the_same(&db, &content).unwrap());
        fs::remove_file(db.join(FILE)).unwrap();
        assert!(!is_the_same(&db, &content).unwrap());
        fs::write(db.join(FILE), now).unwrap();
        assert!(is_the_same(&db, &content).unwrap());
        // A copy over an older copy.
        let new_name = marks(&content).unwrap().remove(0);
        add(&content, &old_name).unwrap();
        assert!(is_the_same(&db, &content).unwrap());
        fs::remove_dir(content.join(format!("{FOLDER}{new_name}"))).unwrap();
        assert!(!is_the_same(&db, &content).unwrap());
        mark(&db, &content).unwrap();
        assert!(is_the_same(&db, &content).unwrap() && marks(&content).unwrap().len() == 1);
    }

    #[test]
    fn a_start_that_is_broken_off_between_the_marks_goes_on() {
        let (_dir, db, content) = parts();
        for _ in 0..2 {
            let old = store_id::id_in(&db.join(FILE)).unwrap().unwrap_or_else(|| NONE.to_owned());
            add(&content, &format!("next.{old}")).unwrap();
            assert!(is_the_same(&db, &content).unwrap());
            store_id::write(&db, FILE, "next").unwrap();
            assert!(is_the_same(&db, &content).unwrap());
            mark(&db, &content).unwrap();
            assert!(is_the_same(&db, &content).unwrap());
            assert_eq!(fs::read_dir(&content).unwrap().count(), 1);
        }
    }
}
