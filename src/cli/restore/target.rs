//! The folder that a restore fills: its marker, its lock, and the files of an interrupted restore.
//!
//! 1. The marker is the file `restoring`. It is recognized by its first line: other programs may use that name too.
//! 2. The restore locks the marker; a server on the folder locks `db/in-use`.
//! 3. A restore removes only what a restore has created, and refuses the folder if there is anything else. `db/` has a
//!    marker of its own.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::backup::{BackupFailed, Result, create_folder, remove, sync_file_system, with_path};
use crate::data_folder::names::{CONTENT, DB, LOCK, RESTORED_DB, RESTORING};

/// The first line of a marker.
const MAGIC: &str = "rowdrive restore, format 1\n";
/// The most bytes of a marker that are read.
const MARKER_BYTES: u64 = 64 << 10;

/// A data folder that this process alone fills.
pub struct RestoreTarget {
    pub path: PathBuf,
    _lock: File,
}

impl RestoreTarget {
    /// Creates the folder if it is missing, locks it, and removes what an interrupted restore has left.
    pub fn take(path: &Path, from: &Path) -> Result<Self> {
        create_folder(path)?;
        let path = with_path(path, fs::canonicalize(path))?;
        let marker = path.join(RESTORING);
        let has_marker = with_path(&marker, marker.try_exists())?;
        if !has_marker && !entries(&path)?.is_empty() {
            return Err(BackupFailed::NotEmpty(path));
        }
        let mut lock =
            with_path(&marker, File::options().create(true).truncate(false).read(true).write(true).open(&marker))?;
        take(&lock, &path)?;
        // The restore that had the lock may have completed meanwhile and removed its marker.
        if !is_same(&lock, &marker) {
            return Err(BackupFailed::Restoring(path));
        }
        let mut text = Vec::new();
        with_path(&marker, (&lock).take(MARKER_BYTES).read_to_end(&mut text))?;
        if text.starts_with(MAGIC.as_bytes()) {
            clear(&path)?;
        } else if !text.is_empty() || !entries(&path)?.is_empty() {
            return Err(BackupFailed::NotEmpty(path));
        }
        if text.is_empty() {
            with_path(&marker, lock.write_all(format!("{MAGIC}{}\n", from.display()).as_bytes()))?;
        }
        // `db` gets its marker before any other file.
        create_folder(&path.join(RESTORED_DB))?;
        let inner = path.join(RESTORED_DB).join(RESTORING);
        with_path(&inner, fs::write(&inner, MAGIC))?;
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
        with_path(&to, named.map_err(io::Error::from))
    }

    /// Removes the markers: from now on a server opens the folder.
    pub fn complete(self) -> Result<()> {
        sync_file_system(&self.path)?;
        // IMPORTANT: the folder's marker first. After an interruption in between, a server opens the folder and a
        // restore refuses it; in the other order both would refuse it.
        for marker in [self.path.join(RESTORING), self.path.join(DB).join(RESTORING)] {
            with_path(&marker, fs::remove_file(&marker))?;
            sync_file_system(&self.path)?;
        }
        Ok(())
    }
}

/// The entries of the folder, without its marker and `lost+found` of an ext4 file system.
fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in with_path(path, fs::read_dir(path))? {
        let entry = with_path(path, entry)?;
        if entry.file_name() != RESTORING && entry.file_name() != "lost+found" {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes the files of an interrupted restore.
///
/// Errors: there is anything else. Then it removes nothing.
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
        Err(error) => with_path(&path, Err(error)),
    }
}

fn take(lock: &File, folder: &Path) -> Result<()> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(BackupFailed::Restoring(folder.to_owned())),
        Err(TryLockError::Error(error)) => with_path(folder, Err(error)),
    }
}

fn is_same(open: &File, path: &Path) -> bool {
    match (open.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(path)) => (open.dev(), open.ino()) == (path.dev(), path.ino()),
        _ => false,
    }
}
