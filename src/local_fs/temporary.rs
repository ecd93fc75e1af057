//! A file that is written under a temporary name and renamed once it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rowdrive::schema::Timestamp;
use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, fallocate,
    flock, futimens, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use uuid::Uuid;

use super::{FsEntry, OpenFolder};

const PREFIX: &str = ".rowdrive-export-";

static RENAMING: Mutex<()> = Mutex::new(());

/// A file under a temporary name; removed on drop, unless it was renamed. Locked while it is open: a file without a
/// lock was left by a killed process.
#[derive(Debug)]
pub struct TemporaryFile {
    folder: Arc<OpenFolder>,
    name: OsString,
    file: File,
    renamed: bool,
}

impl TemporaryFile {
    /// Creates one, with `size` bytes allocated where the file system supports it.
    pub fn create(folder: Arc<OpenFolder>, size: u64) -> io::Result<Self> {
        let name = OsString::from(format!("{PREFIX}{}", Uuid::new_v4().simple()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = File::from(openat(&folder.0, &name, flags, mode)?);
        let created = Self { folder, name, file, renamed: false };
        // On a file system without locks, a second export at the same time may remove the file as stale.
        let _ = flock(&created.file, FlockOperation::NonBlockingLockExclusive);
        if size > 0
            && let Err(error @ (Errno::NOSPC | Errno::FBIG | Errno::DQUOT)) =
                fallocate(&created.file, FallocateFlags::KEEP_SIZE, 0, size)
        {
            return Err(error.into());
        }
        Ok(created)
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Sets its modification time and renames it. `replace`: whether a file of that name is replaced; otherwise it is
    /// an error. A folder, or anything else of that name, is always an error. Returns whether it has replaced a file.
    pub fn place(mut self, name: &OsStr, modified: Timestamp, replace: bool) -> io::Result<bool> {
        let ms = modified.ms();
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec { tv_sec: ms.div_euclid(1000), tv_nsec: ms.rem_euclid(1000) * 1_000_000 };
        futimens(&self.file, &Timestamps { last_access, last_modification })?;
        let has_replaced = if replace {
            self.rename_over_file(name)?
        } else {
            self.rename_to_new(name)?;
            false
        };
        self.renamed = true;
        Ok(has_replaced)
    }

    /// Looks first, since a rename would replace a link, a pipe, a socket or a device too.
    fn rename_over_file(&self, name: &OsStr) -> io::Result<bool> {
        let has_replaced = match self.folder.lookup(name)? {
            None => false,
            Some(FsEntry::File(_)) => true,
            Some(FsEntry::Folder) => return Err(in_the_way("a folder")),
            Some(FsEntry::Other(what)) => return Err(in_the_way(what)),
        };
        renameat(&self.folder.0, &self.name, &self.folder.0, name)?;
        Ok(has_replaced)
    }

    fn rename_to_new(&self, name: &OsStr) -> io::Result<()> {
        match renameat_with(&self.folder.0, &self.name, &self.folder.0, name, RenameFlags::NOREPLACE) {
            // The file system does not support NOREPLACE. With a lock, at least two threads of this process do not
            // replace each other's file.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let _one_at_a_time = RENAMING.lock().unwrap_or_else(PoisonError::into_inner);
                if self.folder.lookup(name)?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Ok(renameat(&self.folder.0, &self.name, &self.folder.0, name)?)
            }
            renamed => Ok(renamed?),
        }
    }
}

fn in_the_way(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("{what} is in the way"))
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.renamed {
            // If this fails, the next export removes it.
            let _ = unlinkat(&self.folder.0, &self.name, AtFlags::empty());
        }
    }
}

/// Whether this is the name of a temporary file.
pub fn is_temporary_name(name: &OsStr) -> bool {
    let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes a temporary file that no process writes any more. If that fails, the next export tries again.
pub fn remove_stale_temporary(folder: &OpenFolder, name: &OsStr) {
    if let Ok(file) = folder.open_file(name)
        && super::file_stamp(&file).is_ok()
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        let _ = unlinkat(&folder.0, name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_only_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(OpenFolder::open(dir.path()).unwrap());
        let place = |content: &[u8], replace| {
            let mut file = TemporaryFile::create(folder.clone(), 0).unwrap();
            file.write(content).unwrap();
            file.place("f".as_ref(), Timestamp::from_ms(0), replace)
        };
        assert!(!place(b"first", false).unwrap());
        assert_eq!(place(b"second", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"first");
        assert!(place(b"third", true).unwrap());
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"third");
        fs::remove_file(dir.path().join("f")).unwrap();
        assert!(!place(b"fourth", true).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::remove_file(dir.path().join("f")).unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join("f")).unwrap();
        for replace in [false, true] {
            assert_eq!(place(b"fifth", replace).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_link(dir.path().join("f")).unwrap().to_str(), Some("elsewhere"));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
