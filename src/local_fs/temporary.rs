//! A file under a temporary name, until it is whole.

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

use super::Folder;

const START: &str = ".rowdrive-export-";

static RENAMING: Mutex<()> = Mutex::new(());

/// Dropping it removes it. It is locked as long as it is open, so that what a killed process has left can be told
/// from what another one is writing.
#[derive(Debug)]
pub struct Temporary {
    folder: Arc<Folder>,
    name: OsString,
    file: File,
    placed: bool,
}

impl Temporary {
    /// Makes one, with room for so many bytes where the file system can promise it.
    pub fn create(folder: Arc<Folder>, size: u64) -> io::Result<Self> {
        let name = OsString::from(format!("{START}{}", Uuid::new_v4().simple()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = File::from(openat(&folder.0, &name, flags, mode)?);
        let made = Self { folder, name, file, placed: false };
        // Where locks are not known, a second export beside this one may take the file for a left-over.
        let _ = flock(&made.file, FlockOperation::NonBlockingLockExclusive);
        if size > 0
            && let Err(error @ (Errno::NOSPC | Errno::FBIG | Errno::DQUOT)) =
                fallocate(&made.file, FallocateFlags::KEEP_SIZE, 0, size)
        {
            return Err(error.into());
        }
        Ok(made)
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives it its time and its name. A file of that name is replaced, or is an error; anything else is an error.
    pub fn place(mut self, name: &OsStr, modified: Timestamp, replace: bool) -> io::Result<()> {
        let ms = modified.ms();
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec { tv_sec: ms.div_euclid(1000), tv_nsec: ms.rem_euclid(1000) * 1_000_000 };
        futimens(&self.file, &Timestamps { last_access, last_modification })?;
        if replace {
            renameat(&self.folder.0, &self.name, &self.folder.0, name)?;
        } else {
            self.rename_to_new(name)?;
        }
        self.placed = true;
        Ok(())
    }

    fn rename_to_new(&self, name: &OsStr) -> io::Result<()> {
        match renameat_with(&self.folder.0, &self.name, &self.folder.0, name, RenameFlags::NOREPLACE) {
            // Some file systems cannot refuse to replace. Then files of this process at least do not replace each other.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let _one_at_a_time = RENAMING.lock().unwrap_or_else(PoisonError::into_inner);
                if self.folder.find(name)?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Ok(renameat(&self.folder.0, &self.name, &self.folder.0, name)?)
            }
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            // If it cannot be removed now, the next export does.
            let _ = unlinkat(&self.folder.0, &self.name, AtFlags::empty());
        }
    }
}

/// Whether a temporary file may bear this name.
pub fn is_temporary(name: &OsStr) -> bool {
    let id = name.to_str().and_then(|name| name.strip_prefix(START));
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes a temporary file, unless a process is writing it, or it is no file at all. What cannot be removed now is left
/// to the next export.
pub fn remove_left_over(folder: &Folder, name: &OsStr) {
    if let Ok(file) = folder.file(name)
        && super::version(&file).is_ok()
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
    fn a_file_is_replaced_only_where_that_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(Folder::open(dir.path()).unwrap());
        let place = |content: &[u8], replace| {
            let mut file = Temporary::create(folder.clone(), 0).unwrap();
            file.write(content).unwrap();
            file.place("f".as_ref(), Timestamp::from_ms(0), replace)
        };
        place(b"first", false).unwrap();
        assert_eq!(place(b"second", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"first");
        place(b"third", true).unwrap();
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"third");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
