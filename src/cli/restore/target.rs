//! The folder that a restore fills: its mark, its lock, and what an interrupted restore has left in it.
//!
//! 1. The mark is the file `restoring`. Only its first line makes it one: other programs may use that name too.
//! 2. The restore locks the mark; a server on the folder locks `db/in-use`.
//! 3. Only what a restore has created is removed. Anything else is named and refused; `db/` has a mark of its own.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::backup::{BackupFailed, Result, create_folder, of, remove, sync_file_system};
use crate::data_folder::names::{CONTENT, DB, LOCK, RESTORED_DB, RESTORING};

/// The first line of a mark.
const MAGIC: &str = "rowdrive restore, format 1\n";
/// Bytes of a mark that are read.
const LONG: u64 = 64 << 10;

/// A data folder that this process alone fills.
pub struct RestoreTarget {
    pub path: PathBuf,
    _lock: File,
}

impl RestoreTarget {
    /// Creates the folder if it is missing, locks it, and removes what an interrupted restore has left.
    pub fn take(path: &Path, from: &Path) -> Result<Self> {
        create_folder(path)?;
        let path = of(path, fs::canonicalize(path))?;
        let mark = path.join(RESTORING);
        let is_marked = of(&mark, mark.try_exists())?;
        if !is_marked && !entries(&path)?.is_empty() {
            return Err(BackupFailed::NotEmpty(path));
        }
        let mut lock = of(&mark, File::options().create(true).truncate(false).read(true).write(true).open(&mark))?;
        take(&lock, &path)?;
        // The restore that had the lock may have completed meanwhile and removed its mark.
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
        // `db` gets its mark before anything else.
        create_folder(&path.join(RESTORED_DB))?;
        let inner = path.join(RESTORED_DB).join(RESTORING);
        of(&inner, fs::write(&inner, MAGIC))?;
        sync_file_system(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// The folder that the store is copied to.
    pub fn store(&self) -> PathBuf {
        self.path.join(RESTORED_DB)
    }

    /// Renames the store to `db` once all of it is durable. Never replaces an entry of that name.
    pub fn name_store(&self) -> Result<()> {
        sync_file_system(&self.path)?;
        let to = self.path.join(DB);
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let named = rustix::fs::renameat_with(rustix::fs::CWD, self.store(), rustix::fs::CWD, &to, flags);
        of(&to, named.map_err(io::Error::from))
    }

    /// Removes the marks: from now on a server opens the folder.
    pub fn complete(self) -> Result<()> {
        sync_file_system(&self.path)?;
        // IMPORTANT: the folder's mark first. After an interruption in between, a server opens the folder and a restore
        // refuses it; in the other order both would refuse it.
        for mark in [self.path.join(RESTORING), self.path.join(DB).join(RESTORING)] {
            of(&mark, fs::remove_file(&mark))?;
            sync_file_system(&self.path)?;
        }
        Ok(())
    }
}

/// The entries of the folder, without its mark and what an ext4 file system has at its top.
fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in of(path, fs::read_dir(path))? {
        let entry = of(path, entry)?;
        if entry.file_name() != RESTORING && entry.file_name() != "lost+found" {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes what an interrupted restore has left; nothing if there is anything else.
fn clear(path: &Path) -> Result<()> {
    let entries = entries(path)?;
    let mut locked = None;
    for entry in &entries {
        let name = entry.file_name();
        if name == Some(OsStr::new(DB)) {
            locked = lock_store(entry, path)?;
            let inner = entry.join(RESTORING);
            if !fs::read(&inner).is_ok_and(|text| text == MAGIC.as_bytes()) {
                return Err(BackupFailed::Foreign(entry.clone()));
            }
        } else if name != Some(OsStr::new(CONTENT)) && name != Some(OsStr::new(RESTORED_DB)) {
            return Err(BackupFailed::Foreign(entry.clone()));
        }
    }
    for entry in &entries {
        remove(entry)?;
    }
    drop(locked);
    Ok(())
}

/// Locks the store as a server does; none if no process has opened it yet.
fn lock_store(db: &Path, folder: &Path) -> Result<Option<File>> {
    let path = db.join(LOCK);
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
