//! The lock of a folder: one process has it at a time.
//!
//! RocksDB has a lock of its own, but takes it after `tables.json` was read; another process may then have changed it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::table::StoreError;
use crate::table::store::Result;

/// The file whose lock means that a process has the folder.
const IN_USE: &str = "in-use";
/// How long a folder is waited for in any case: a process that is just ending may still have it, or a child that one
/// has forked and that has not come to its own program yet.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// The lock is tried so often.
const EVERY: Duration = Duration::from_millis(20);

/// A folder that this process alone has, until it is dropped.
pub struct Folder {
    dir: PathBuf,
    lock: File,
}

impl Folder {
    /// Makes the folder and takes it. One that is in use is waited for so long, and the log says so if that is long.
    ///
    /// Errors: `Failed` if it is still in use then, or cannot be made.
    pub fn take(dir: &Path, patience: Duration) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(dir, &e))?;
        let file = File::options().create(true).truncate(false).write(true).open(dir.join(IN_USE));
        Self::lock(dir, file.map_err(|e| failed(dir, &e))?, patience)
    }

    /// As [`take`](Self::take) if any process has had it before; else nothing is made.
    pub fn take_as_it_is(dir: &Path, patience: Duration) -> Result<Option<Self>> {
        match File::open(dir.join(IN_USE)) {
            Ok(file) => Self::lock(dir, file, patience).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(dir, &e)),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether its path still leads to it: all other files of it are opened by their paths. Where that cannot be known,
    /// it is taken to.
    pub(super) fn is_in_its_place(&self) -> bool {
        let file = |found: fs::Metadata| (found.dev(), found.ino());
        match (fs::metadata(self.dir.join(IN_USE)).map(file), self.lock.metadata().map(file)) {
            (Ok(there), Ok(own)) => there == own,
            (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
            (_, Err(_)) => true,
        }
    }

    fn lock(dir: &Path, file: File, patience: Duration) -> Result<Self> {
        let (begun, mut told) = (Instant::now(), false);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { dir: dir.to_owned(), lock: file }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {}
                Err(TryLockError::WouldBlock) => {
                    let by = holder(&file).map(|holder| format!(" by {holder}")).unwrap_or_default();
                    return Err(StoreError::Failed(format!("the folder {} is in use{by}", dir.display())));
                }
                Err(TryLockError::Error(e)) => return Err(failed(dir, &e)),
            }
            if !told && begun.elapsed() >= SOON {
                told = true;
                let by = holder(&file).unwrap_or_else(|| "another process".to_owned());
                let (folder, seconds) = (dir.display(), patience.as_secs());
                tracing::warn!(%folder, by, "the folder is in use: it is waited for, {seconds} s at most");
            }
            std::thread::sleep(EVERY.min(patience));
        }
    }
}

fn failed(dir: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", dir.display()))
}

/// The process that has locked the file, as far as the system tells: not that of another container.
fn holder(file: &File) -> Option<String> {
    let file = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // As in `1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF`; who waits has an arrow before `FLOCK`.
    let pid = locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, found, ..] if found == file => Some(pid.to_owned()),
        _ => None,
    })?;
    let called = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let called = String::from_utf8_lossy(&called);
    let mut words = called.split('\0').filter(|word| !word.is_empty());
    let program = words.next().map(|program| program.rsplit('/').next().unwrap_or(program).to_owned());
    let called: Vec<_> = program.into_iter().chain(words.next().map(str::to_owned)).collect();
    Some(format!("process {pid} ({})", called.join(" ")))
}

#[cfg(test)]
mod tests {
    use std::process;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_folder_in_use_is_waited_for_and_then_refused_with_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = Folder::take(dir.path(), Duration::ZERO).unwrap();
        for patience in [Duration::ZERO, Duration::from_millis(50)] {
            match Folder::take(dir.path(), patience).map(drop) {
                Err(StoreError::Failed(said)) => {
                    assert!(
                        said.contains("is in use by process") && said.contains(&process::id().to_string()),
                        "{said}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        let (tell, told) = channel();
        let path = dir.path().to_owned();
        let second = std::thread::spawn(move || {
            tell.send(()).unwrap();
            Folder::take(&path, Duration::from_secs(600)).unwrap()
        });
        told.recv().unwrap();
        drop(first);
        drop(second.join().unwrap());
        assert!(Folder::take_as_it_is(dir.path(), Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn a_folder_that_was_moved_away_is_not_in_its_place() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, aside) = (scratch.path().join("dir"), scratch.path().join("aside"));
        let folder = Folder::take(&dir, Duration::ZERO).unwrap();
        assert!(folder.is_in_its_place());
        fs::rename(&dir, &aside).unwrap();
        assert!(!folder.is_in_its_place());
        let other = Folder::take(&dir, Duration::ZERO).unwrap();
        assert!(!folder.is_in_its_place() && other.is_in_its_place());
    }

    #[test]
    fn a_folder_that_nobody_has_had_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let none = dir.path().join("none");
        assert!(Folder::take_as_it_is(&none, Duration::ZERO).unwrap().is_none());
        assert!(!none.exists());
    }
}
