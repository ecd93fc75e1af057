//! The folder that a restore fills: its mark, its lock, and what a restore that was broken off has left in it.
//!
//! 1. A mark is believed by its first line only: a file of that name may be anybody's.
//! 2. Whoever fills the folder has the mark locked; a server on it has `db/in-use` locked.
//! 3. Only what a restore makes is removed; anything else is named and refused. `db/` is known by a mark of its own.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::backup::{BackupFailed, Result, make, of, remove, sync_all};
use crate::cli::store_id;

/// In a data folder that is not whole yet, and in its store.
pub const MARK: &str = store_id::RESTORING;
/// What the store is called until it is whole.
const NEW_DB: &str = "db.restoring";
const DB: &str = "db";
/// The first line of a mark.
const MAGIC: &str = "rowdrive restore, format 1\n";
/// Whose lock a server has.
const IN_USE: &str = "in-use";
/// A mark is no longer than this.
const LONG: u64 = 64 << 10;

/// This process alone fills it.
pub struct Folder {
    pub path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is missing, and empties it of what a restore has left that was broken off.
    pub fn take(path: &Path, from: &Path) -> Result<Self> {
        make(path)?;
        let path = of(path, fs::canonicalize(path))?;
        let mark = path.join(MARK);
        let is_marked = of(&mark, mark.try_exists())?;
        if !is_marked && !entries(&path)?.is_empty() {
            return Err(BackupFailed::NotEmpty(path));
        }
        let mut lock = of(&mark, File::options().create(true).truncate(false).read(true).write(true).open(&mark))?;
        take(&lock, &path)?;
        // The restore that had it may have come to its end meanwhile, and its mark is gone.
        if !is_same(&lock, &mark) {
            return Err(BackupFailed::Restoring(path));
        }
        let mut text = Vec::new();
        of(&mark, (&lock).take(LONG).read_to_end(&mut text))?;
        if text.starts_with(MAGIC.as_bytes()) {
            clear(&path)?;
        } else if !text.is_empty() || !entries(&path)?.is_empty() {
            return Err(BackupFailed::NotEmpty(path));
        }
        if text.is_empty() {
            of(&mark, lock.write_all(format!("{MAGIC}{}\n", from.display()).as_bytes()))?;
        }
        // The store's mark is there before anything of it.
        make(&path.join(NEW_DB))?;
        let inner = path.join(NEW_DB).join(MARK);
        of(&inner, fs::write(&inner, MAGIC))?;
        sync_all(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where the store is put together.
    pub fn store(&self) -> PathBuf {
        self.path.join(NEW_DB)
    }

    /// Gives the store its name, once all is there and durable. What got that name meanwhile is never replaced.
    pub fn name_store(&self) -> Result<()> {
        sync_all(&self.path)?;
        let to = self.path.join(DB);
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let named = rustix::fs::renameat_with(rustix::fs::CWD, self.store(), rustix::fs::CWD, &to, flags);
        of(&to, named.map_err(io::Error::from))
    }

    /// Makes it a data folder that a server takes.
    pub fn whole(self) -> Result<()> {
        sync_all(&self.path)?;
        // IMPORTANT: that of the folder first: a `db` without a mark of its own is never removed.
        for mark in [self.path.join(MARK), self.path.join(DB).join(MARK)] {
            of(&mark, fs::remove_file(&mark))?;
            sync_all(&self.path)?;
        }
        Ok(())
    }
}

/// What is in it, but for its mark and what an ext4 file system has at its top.
fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in of(path, fs::read_dir(path))? {
        let entry = of(path, entry)?;
        if entry.file_name() != MARK && entry.file_name() != "lost+found" {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes what a restore has left that was broken off: all of it or, if there is anything else, nothing.
fn clear(path: &Path) -> Result<()> {
    let entries = entries(path)?;
    let mut locked = None;
    for entry in &entries {
        let name = entry.file_name();
        if name == Some(OsStr::new(DB)) {
            locked = lock_store(entry, path)?;
            let inner = entry.join(MARK);
            if !fs::read(&inner).is_ok_and(|text| text == MAGIC.as_bytes()) {
                return Err(BackupFailed::Foreign(entry.clone()));
            }
        } else if name != Some(OsStr::new("content")) && name != Some(OsStr::new(NEW_DB)) {
            return Err(BackupFailed::Foreign(entry.clone()));
        }
    }
    for entry in &entries {
        remove(entry)?;
    }
    drop(locked);
    Ok(())
}

/// Nothing if no process has had the store yet.
fn lock_store(db: &Path, folder: &Path) -> Result<Option<File>> {
    let path = db.join(IN_USE);
    match File::open(&path) {
        Ok(file) => {
            take(&file, folder)?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => of(&path, Err(error)),
    }
}

fn take(lock: &File, folder: &Path) -> Result<()> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(BackupFailed::Restoring(folder.to_owned())),
        Err(TryLockError::Error(error)) => of(folder, Err(error)),
    }
}

fn is_same(open: &File, path: &Path) -> bool {
    match (open.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(path)) => (open.dev(), open.ino()) == (path.dev(), path.ino()),
        _ => false,
    }
}
