//! The start id, in `db/` and in `content/`: finds out whether one of the two is an older copy.
//!
//! Each part may be a mount point. The folder below it may have an older copy of that part, with the id of the same
//! store. So each start writes a new start id to both parts, as a disk array counts events to detect a stale member.
//!
//! In `db/` the start id is in the file `last-start`; in `content/` it is in the name of an empty folder, `start-<id>`.
//! An interrupted start leaves `start-<new>.<old>` there, which allows either id in `db/`.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use uuid::Uuid;

use super::id_files;
use super::names::{LAST_START, START_FOLDER};

/// In place of the old id where there was none before.
const NONE: &str = "none";

/// Whether both parts have the same last start. Parts without start ids are of an older version, or were put together
/// by hand.
///
/// A copy of `content/` that was written over an older copy has the ids of both, but an older `content/` lacks the
/// newest one.
pub fn is_same(db: &Path, content: &Path) -> io::Result<bool> {
    let (in_db, in_content) = (id_files::read(&db.join(LAST_START))?, id_files::list(content, START_FOLDER)?);
    let own = in_db.as_deref().unwrap_or(NONE);
    Ok((in_db.is_none() && in_content.is_empty())
        || in_content.iter().flat_map(|ids| ids.split('.')).any(|id| id == own))
}

/// Writes a new start id to both parts, durably. The caller has checked that they belong together.
pub fn write(db: &Path, content: &Path) -> io::Result<()> {
    let old = id_files::read(&db.join(LAST_START))?.unwrap_or_else(|| NONE.to_owned());
    let new = Uuid::new_v4().to_string();
    // IMPORTANT: in this order. While `db/` may have either id, `content/` allows both.
    add(content, &format!("{new}.{old}"))?;
    id_files::write(db, LAST_START, &new)?;
    add(content, &new)?;
    for other in id_files::list(content, START_FOLDER)?.iter().filter(|id| **id != new) {
        fs::remove_dir(content.join(format!("{START_FOLDER}{other}")))?;
    }
    File::open(content)?.sync_all()
}

fn add(content: &Path, id: &str) -> io::Result<()> {
    id_files::create(content, START_FOLDER, id)?;
    File::open(content)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two empty parts.
    fn parts() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (db, content) = (dir.path().join("db"), dir.path().join("content"));
        fs::create_dir(&db).unwrap();
        fs::create_dir(&content).unwrap();
        (dir, db, content)
    }

    #[test]
    fn an_older_copy_of_either_part_is_detected() {
        let (_dir, db, content) = parts();
        assert!(is_same(&db, &content).unwrap());
        write(&db, &content).unwrap();
        let (old_id, old_name) =
            (fs::read(db.join(LAST_START)).unwrap(), id_files::list(&content, START_FOLDER).unwrap().remove(0));
        assert!(is_same(&db, &content).unwrap());
        write(&db, &content).unwrap();
        assert!(is_same(&db, &content).unwrap());
        let now = fs::read(db.join(LAST_START)).unwrap();
        fs::write(db.join(LAST_START), old_id).unwrap();
        assert!(!is_same(&db, &content).unwrap());
        fs::remove_file(db.join(LAST_START)).unwrap();
        assert!(!is_same(&db, &content).unwrap());
        fs::write(db.join(LAST_START), now).unwrap();
        assert!(is_same(&db, &content).unwrap());
        // A copy of `content/` written over an older copy.
        let new_name = id_files::list(&content, START_FOLDER).unwrap().remove(0);
        add(&content, &old_name).unwrap();
        assert!(is_same(&db, &content).unwrap());
        fs::remove_dir(content.join(format!("{START_FOLDER}{new_name}"))).unwrap();
        assert!(!is_same(&db, &content).unwrap());
        write(&db, &content).unwrap();
        assert!(is_same(&db, &content).unwrap() && id_files::list(&content, START_FOLDER).unwrap().len() == 1);
    }

    #[test]
    fn a_start_that_was_interrupted_between_the_two_writes_is_completed() {
        let (_dir, db, content) = parts();
        for _ in 0..2 {
            let old = id_files::read(&db.join(LAST_START)).unwrap().unwrap_or_else(|| NONE.to_owned());
            add(&content, &format!("next.{old}")).unwrap();
            assert!(is_same(&db, &content).unwrap());
            id_files::write(&db, LAST_START, "next").unwrap();
            assert!(is_same(&db, &content).unwrap());
            write(&db, &content).unwrap();
            assert!(is_same(&db, &content).unwrap());
            assert_eq!(fs::read_dir(&content).unwrap().count(), 1);
        }
    }
}
