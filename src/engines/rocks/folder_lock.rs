//! The lock of a folder: only one process has it at a time.
//!
//! RocksDB has a lock of its own, but takes it only after `tables.json` was read: another process could change that
//! file in between.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::table::StoreError;
use crate::table::store::Result;

/// The file that is locked with `flock`. It stays when the lock is released.
const IN_USE: &str = "in-use";
/// How long to wait for the lock in any case: a process that is about to exit may still have it, or a forked child that
/// has not called `exec` yet.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// Interval between attempts to lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The error message about a folder that [was moved](FolderLock::is_at_path).
pub(super) const FOLDER_MOVED: &str = "the folder was moved away, or another one has taken its place";

/// The exclusive lock of a folder, released when dropped.
pub struct FolderLock {
    dir: PathBuf,
    /// Device and inode of the locked file.
    id: (u64, u64),
    _locked: File,
}

impl FolderLock {
    /// Creates the folder if it does not exist, and locks it. Waits up to `timeout`; logs a warning after a second.
    ///
    /// Errors: `Failed` if another process still has the lock then, or the folder cannot be created.
    pub fn lock(dir: &Path, timeout: Duration) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(dir, &e))?;
        let file = File::options().create(true).truncate(false).write(true).open(dir.join(IN_USE));
        Self::wait(dir, file.map_err(|e| failed(dir, &e))?, timeout)
    }

    /// Locks a folder that a process has locked before. Returns none for any other folder, and creates nothing.
    ///
    /// Errors: as [`lock`](Self::lock).
    pub fn lock_existing(dir: &Path, timeout: Duration) -> Result<Option<Self>> {
        match File::open(dir.join(IN_USE)) {
            Ok(file) => Self::wait(dir, file, timeout).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(dir, &e)),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the path of the folder still leads to it. That matters since all other files are opened by path. True if
    /// it cannot be determined.
    pub(super) fn is_at_path(&self) -> bool {
        match fs::metadata(self.dir.join(IN_USE)) {
            Ok(found) => file_id(&found) == self.id,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    fn wait(dir: &Path, file: File, timeout: Duration) -> Result<Self> {
        let (start, mut is_logged) = (Instant::now(), false);
        loop {
            match file.try_lock() {
                Ok(()) => {
                    let id = file_id(&file.metadata().map_err(|e| failed(dir, &e))?);
                    return Ok(Self { dir: dir.to_owned(), id, _locked: file });
                }
                Err(TryLockError::WouldBlock) if start.elapsed() < timeout => {}
                Err(TryLockError::WouldBlock) => {
                    let by = holder(&file).map(|holder| format!(" by {holder}")).unwrap_or_default();
                    return Err(StoreError::Failed(format!(
                        "the folder {} is in use{by}: stop that first",
                        dir.display()
                    )));
                }
                Err(TryLockError::Error(e)) => return Err(failed(dir, &e)),
            }
            if !is_logged && start.elapsed() >= SOON {
                is_logged = true;
                let by = holder(&file).unwrap_or_else(|| "another process".to_owned());
                let (folder, seconds) = (dir.display(), timeout.as_secs());
                tracing::warn!(%folder, by, "the folder is in use: waiting up to {seconds} s for it");
            }
            std::thread::sleep(RETRY_INTERVAL.min(timeout));
        }
    }
}

/// Device and inode of a file.
fn file_id(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn failed(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", dir.display()))
}

/// The process that has locked the file; none if the system does not show it, as from another container.
fn holder(file: &File) -> Option<String> {
    let file = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // As in `1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF`; a waiting process has an arrow before `FLOCK`.
    let pid = locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, found, ..] if found == file => Some(pid.to_owned()),
        _ => None,
    })?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command);
    let mut words = command.split('\0').filter(|word| !word.is_empty());
    let program = words.next().map(|program| program.rsplit('/').next().unwrap_or(program).to_owned());
    let command: Vec<_> = program.into_iter().chain(words.next().map(str::to_owned)).collect();
    Some(format!("process {pid} ({})", command.join(" ")))
}

#[cfg(test)]
mod tests {
    use std::process;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_folder_in_use_is_refused_after_the_timeout_and_the_error_names_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::lock(dir.path(), Duration::ZERO).unwrap();
        for timeout in [Duration::ZERO, Duration::from_millis(50)] {
            match FolderLock::lock(dir.path(), timeout).map(drop) {
                Err(StoreError::Failed(said)) => {
                    assert!(
                        said.contains("is in use by process") && said.contains(&process::id().to_string()),
                        "{said}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        let (started, is_started) = channel();
        let path = dir.path().to_owned();
        let second = std::thread::spawn(move || {
            started.send(()).unwrap();
            FolderLock::lock(&path, Duration::from_secs(600)).unwrap()
        });
        is_started.recv().unwrap();
        drop(first);
        drop(second.join().unwrap());
        assert!(FolderLock::lock_existing(dir.path(), Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn a_folder_that_was_moved_away_is_not_at_its_path() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, aside) = (scratch.path().join("dir"), scratch.path().join("aside"));
        let folder = FolderLock::lock(&dir, Duration::ZERO).unwrap();
        assert!(folder.is_at_path());
        fs::rename(&dir, &aside).unwrap();
        assert!(!folder.is_at_path());
        let other = FolderLock::lock(&dir, Duration::ZERO).unwrap();
        assert!(!folder.is_at_path() && other.is_at_path());
    }

    #[test]
    fn a_folder_that_was_never_locked_is_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let none = dir.path().join("none");
        assert!(FolderLock::lock_existing(&none, Duration::ZERO).unwrap().is_none());
        assert!(!none.exists());
    }
}
