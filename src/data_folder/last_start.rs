//! The mark of the last start, in `db/` and in `content/`: whether one of them is an older copy of itself.
//!
//! Each part may be a mount point, with an older copy of that part in the folder below it, which has the id of the same
//! store. So each start writes a fresh mark to both parts, as a disk array counts events to detect a stale member.
//!
//! In `db/` the mark is a file, `last-start`; in `content/` it is the name of an empty folder, `start-<mark>`. An
//! interrupted start leaves `start-<new>.<old>` there, which allows either mark in `db/`.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use uuid::Uuid;

use super::marks;
use super::names::{LAST_START, START_FOLDER};

/// Stands for the old mark where there was none before.
const NONE: &str = "none";

/// Whether both parts had the same last start. Parts without any mark are of an older version, or put together by hand.
///
/// A copy that was written over an older copy has the marks of both, but an older `content/` lacks the newest.
pub fn is_same(db: &Path, content: &Path) -> io::Result<bool> {
    let (in_db, in_content) = (marks::read(&db.join(LAST_START))?, marks::list(content, START_FOLDER)?);
    let own = in_db.as_deref().unwrap_or(NONE);
    Ok((in_db.is_none() && in_content.is_empty())
        || in_content.iter().flat_map(|mark| mark.split('.')).any(|m| m == own))
}

/// Writes a fresh mark to both parts, durably. The caller has found that they belong together.
pub fn mark(db: &Path, content: &Path) -> io::Result<()> {
    let old = marks::read(&db.join(LAST_START))?.unwrap_or_else(|| NONE.to_owned());
    let new = Uuid::new_v4().to_string();
    // IMPORTANT: in this order. While `db/` may have either mark, `content/` allows both.
    add(content, &format!("{new}.{old}"))?;
    marks::write(db, LAST_START, &new)?;
    add(content, &new)?;
    for other in marks::list(content, START_FOLDER)?.iter().filter(|mark| **mark != new) {
        fs::remove_dir(content.join(format!("{START_FOLDER}{other}")))?;
    }
    File::open(content)?.sync_all()
}

fn add(content: &Path, mark: &str) -> io::Result<()> {
    marks::create(content, START_FOLDER, mark)?;
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
        assert!(is_same(&db, &content).unwrap());
        mark(&db, &content).unwrap();
        let (old_mark, old_name) =
            (fs::read(db.join(LAST_START)).unwrap(), marks::list(&content, START_FOLDER).unwrap().remove(0));
        assert!(is_same(&db, &content).unwrap());
        mark(&db, &content).unwrap();
        assert!(is_same(&db, &content).unwrap());
        let now = fs::read(db.join(LAST_START)).unwrap();
        fs::write(db.join(LAST_START), old_mark).unwrap();
        assert!(!is_same(&db, &content).unwrap());
        fs::remove_file(db.join(LAST_START)).unwrap();
        assert!(!is_same(&db, &content).unwrap());
        fs::write(db.join(LAST_START), now).unwrap();
        assert!(is_same(&db, &content).unwrap());
        // A copy over an older copy.
        let new_name = marks::list(&content, START_FOLDER).unwrap().remove(0);
        add(&content, &old_name).unwrap();
        assert!(is_same(&db, &content).unwrap());
        fs::remove_dir(content.join(format!("{START_FOLDER}{new_name}"))).unwrap();
        assert!(!is_same(&db, &content).unwrap());
        mark(&db, &content).unwrap();
        assert!(is_same(&db, &content).unwrap() && marks::list(&content, START_FOLDER).unwrap().len() == 1);
    }

    #[test]
    fn a_start_that_is_broken_off_between_the_marks_goes_on() {
        let (_dir, db, content) = parts();
        for _ in 0..2 {
            let old = marks::read(&db.join(LAST_START)).unwrap().unwrap_or_else(|| NONE.to_owned());
            add(&content, &format!("next.{old}")).unwrap();
            assert!(is_same(&db, &content).unwrap());
            marks::write(&db, LAST_START, "next").unwrap();
            assert!(is_same(&db, &content).unwrap());
            mark(&db, &content).unwrap();
            assert!(is_same(&db, &content).unwrap());
            assert_eq!(fs::read_dir(&content).unwrap().count(), 1);
        }
    }
}
