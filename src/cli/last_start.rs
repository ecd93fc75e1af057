//! Which start `db/` and `content/` had last: the same one, or one of them is an older copy of itself.
//!
//! Each part may be mounted, and an older copy of it may lie below the mount point, with the id of the same store. So
//! each start puts a fresh mark on both parts, as an array of disks counts its events to tell a stale member.
//!
//! In `db/` the mark is a file, `last-start`; in `content/` it is the name of an empty folder, `start-<mark>`, which
//! takes no room. A start that is broken off leaves `start-<new>.<old>` there: then either mark is right in `db/`.

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
pub fn is_the_same(db: &Path, content: &Path) -> io::Result<bool> {
    let in_db = store_id::id_in(&db.join(FILE))?;
    Ok(match (in_db, store_id::of_content(content, FOLDER)?) {
        (None, None) => true,
        (in_db, Some(marks)) => {
            let in_db = in_db.as_deref().unwrap_or(NONE);
            let (new, old) = marks.split_once('.').unwrap_or((&marks, &marks));
            in_db == new || in_db == old
        }
        (Some(_), None) => false,
    })
}

/// Puts a fresh mark on both parts, durably. Whoever calls has found that they belong together.
pub fn mark(db: &Path, content: &Path) -> io::Result<()> {
    let old = store_id::id_in(&db.join(FILE))?.unwrap_or_else(|| NONE.to_owned());
    let new = Uuid::new_v4().to_string();
    // IMPORTANT: in this order: `content/` knows both marks as long as it is not known which one `db/` has.
    name(content, &format!("{FOLDER}{new}.{old}"))?;
    store_id::write(db, FILE, &new)?;
    name(content, &format!("{FOLDER}{new}"))
}

/// Gives the folder that is the mark its name; makes it if there is none.
fn name(content: &Path, new: &str) -> io::Result<()> {
    let to = content.join(new);
    match store_id::of_content(content, FOLDER)? {
        Some(marks) => fs::rename(content.join(format!("{FOLDER}{marks}")), to)?,
        None => DirBuilder::new().mode(0o700).create(to)?,
    }
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
        let (old_mark, old_name) = (fs::read(db.join(FILE)).unwrap(), store_id::of_content(&content, FOLDER).unwrap());
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
        name(&content, &format!("{FOLDER}{}", old_name.unwrap())).unwrap();
        assert!(!is_the_same(&db, &content).unwrap());
    }

    #[test]
    fn a_start_that_is_broken_off_between_the_marks_goes_on() {
        let (_dir, db, content) = parts();
        for _ in 0..2 {
            let old = store_id::id_in(&db.join(FILE)).unwrap().unwrap_or_else(|| NONE.to_owned());
            name(&content, &format!("{FOLDER}next.{old}")).unwrap();
            assert!(is_the_same(&db, &content).unwrap());
            store_id::write(&db, FILE, "next").unwrap();
            assert!(is_the_same(&db, &content).unwrap());
            mark(&db, &content).unwrap();
            assert!(is_the_same(&db, &content).unwrap());
            assert_eq!(fs::read_dir(&content).unwrap().count(), 1);
        }
    }
}
