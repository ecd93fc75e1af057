//! Free disk space, checked before each write so that a plan is refused before the disk is full.
//!
//! A write that fails half-way leaves the outcome of its plan unknown ([`StoreError::Unknown`]); a plan that is refused
//! before the write does not. Deletes may use the reserve, since they free space.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use super::files::numbered;
use crate::table::StoreError;
use crate::table::store::Result;

/// How long the result of `statvfs` is used, and within how many bytes of a limit it is not.
const MAX_AGE: Duration = Duration::from_millis(100);
const NEAR: u64 = 256 << 20;
/// Bytes kept free in addition to those for a flush of the write buffers; of a small file system an eighth.
const RESERVE: u64 = 64 << 20;
/// Bytes of the ballast file, which a start on a full disk removes; of a small file system an eighth of the reserve.
const BALLAST: u64 = 16 << 20;
/// The name of that file.
const NAME: &str = "ballast";

/// Inodes kept free: RocksDB creates files at its start and later. Of a small file system a sixteenth.
const INODES: u64 = 256;

/// The most files that a flush creates: an SST file per family, a WAL file and a `MANIFEST`.
const FLUSHED: u64 = 24;

/// Bytes and inodes of a file system.
#[derive(Clone, Copy)]
pub(super) struct FileSystemStats {
    pub free: u64,
    pub total: u64,
    /// None if the file system allocates inodes dynamically.
    pub inodes: Option<InodeCount>,
}

#[derive(Clone, Copy)]
pub(super) struct InodeCount {
    pub free: u64,
    pub total: u64,
}

type Probe = Box<dyn Fn() -> io::Result<FileSystemStats> + Send + Sync>;

pub(super) struct DiskSpace {
    dir: PathBuf,
    probe: Probe,
    last: Mutex<Option<(Instant, FileSystemStats)>>,
}

impl DiskSpace {
    /// The space of the file system that holds `dir`.
    pub fn new(dir: &Path) -> Self {
        let folder = dir.to_owned();
        Self::probed(dir, Box::new(move || file_system_space(&folder)))
    }

    pub fn probed(dir: &Path, probe: Probe) -> Self {
        Self { dir: dir.to_owned(), probe, last: Mutex::new(None) }
    }

    /// Errors: `Full` if less than the reserve is free. If `statvfs` fails, assumes that there is space.
    ///
    /// `kept`: bytes to keep free besides. What is in write buffers must be flushed before its WAL file can be deleted,
    /// after a crash by the next start; and a compaction may come.
    pub fn check(&self, kept: u64) -> Result<()> {
        let Some(mut space) = self.free_space() else { return Ok(()) };
        if space.free < (reserve(space) + NEAR).saturating_add(kept) {
            let Some(now) = self.free_space_now() else { return Ok(()) };
            space = now;
        }
        if let Some(InodeCount { free, total }) = space.inodes
            && free < INODES.min(total / 16)
        {
            let (dir, reserve) = (self.dir.display(), INODES.min(total / 16));
            return Err(StoreError::Full(format!("{dir}: {free} inodes left, {reserve} are kept in reserve")));
        }
        self.has(space, reserve(space).saturating_add(kept), "are kept in reserve")
    }

    /// Whether deletes have used half of the reserve. `kept`: as of [`check`](Self::check).
    pub fn is_low(&self, kept: u64) -> bool {
        self.free_space().is_some_and(|space| space.free < (reserve(space) / 2).saturating_add(kept))
    }

    fn has(&self, space: FileSystemStats, bytes: u64, why: &str) -> Result<()> {
        if space.free >= bytes {
            return Ok(());
        }
        let (dir, free) = (self.dir.display(), space.free >> 20);
        Err(StoreError::Full(format!("{dir}: {free} MiB left, {} MiB {why}", bytes >> 20)))
    }

    /// Whether this many bytes can be flushed, and whether a flush is worth it: it frees as much of the WAL.
    pub fn can_flush(&self, unflushed: u64) -> bool {
        let part = |space| reserve(space) / 8;
        let is_enough = |space: FileSystemStats| unflushed >= part(space) && space.free >= unflushed + part(space);
        self.free_space().is_some_and(|space| is_enough(space) && has_inodes_to_flush(space))
    }

    /// Errors: `Full` if this many bytes cannot be flushed now.
    pub fn check_flush(&self, unflushed: u64) -> Result<()> {
        let Some(space) = self.free_space_now() else { return Ok(()) };
        if !has_inodes_to_flush(space) {
            let dir = self.dir.display();
            return Err(StoreError::Full(format!(
                "{dir}: too few inodes are left to write what is in memory to tables"
            )));
        }
        self.has(space, unflushed + reserve(space) / 8, "are needed to write what is in memory to tables")
    }

    /// Whether there is enough space to create the ballast file. `kept`: as of [`check`](Self::check).
    pub fn has_plenty(&self, kept: u64) -> bool {
        self.free_space().is_some_and(|space| is_plenty(space, kept))
    }

    /// The free bytes beyond the reserve.
    pub fn beyond_reserve(&self) -> u64 {
        self.free_space().map_or(u64::MAX, |space| space.free.saturating_sub(reserve(space)))
    }

    /// The space of the file system; none if `statvfs` fails. The result may be up to `MAX_AGE` old.
    pub fn free_space(&self) -> Option<FileSystemStats> {
        match *self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, space)) if at.elapsed() < MAX_AGE => return Some(space),
            _ => {}
        }
        self.free_space_now()
    }

    /// As [`free_space`](Self::free_space), by a new `statvfs`.
    pub fn free_space_now(&self) -> Option<FileSystemStats> {
        let space = (self.probe)().ok()?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), space));
        Some(space)
    }
}

fn reserve(space: FileSystemStats) -> u64 {
    RESERVE.min(space.total / 8)
}

/// Bytes of the file system that holds this folder, and of its reserve; None if `statvfs` fails.
pub(super) fn sizes_of(dir: &Path) -> Option<(u64, u64)> {
    let space = file_system_space(dir).ok().filter(|space| space.total > 0)?;
    Some((space.total, reserve(space)))
}

/// Whether a flush can create its files: if RocksDB cannot create a WAL file, it refuses writes until a restart.
fn has_inodes_to_flush(space: FileSystemStats) -> bool {
    space.inodes.is_none_or(|inodes| inodes.free >= FLUSHED)
}

fn is_plenty(space: FileSystemStats, kept: u64) -> bool {
    space.free >= (2 * reserve(space)).saturating_add(kept)
}

/// Creates the ballast file, if there is plenty of space: a start on a full disk removes it. `kept`: bytes that remain
/// free besides the reserve.
///
/// Returns false if it must be tried again once there is plenty.
pub(super) fn keep_ballast(dir: &Path, kept: u64) -> bool {
    let path = dir.join(NAME);
    let Ok(space) = file_system_space(dir) else { return true };
    let size = BALLAST.min(reserve(space) / 8);
    // A process that was killed may have left a ballast file without its bytes.
    if path.metadata().is_ok_and(|ballast| ballast.len() >= size) {
        return true;
    }
    if !is_plenty(space, kept) {
        return false;
    }
    let kept = File::create(&path).and_then(|file| Ok(fallocate(file, FallocateFlags::empty(), 0, size)?));
    if let Err(error) = kept {
        tracing::info!(%error, "the ballast file for a start on a full disk cannot be created");
        remove_ballast(dir);
    }
    true
}

/// Removes the ballast file. Returns whether there was one.
pub(super) fn remove_ballast(dir: &Path) -> bool {
    fs::remove_file(dir.join(NAME)).is_ok()
}

/// Allocates bytes behind the end of the newest WAL file: they are for deletes, if the disk is full by then. Takes at
/// most half of the free space.
pub(super) fn allocate_log(dir: &Path, bytes: u64) {
    let allocate = || -> io::Result<u64> {
        let (Some((_, log)), space) = (numbered(dir, "log")?.into_iter().next_back(), file_system_space(dir)?) else {
            return Ok(0);
        };
        let (log, bytes) = (File::options().write(true).open(log)?, bytes.min(space.free / 2));
        // The size of the file tells where the log ends, so it must not change.
        fallocate(&log, FallocateFlags::KEEP_SIZE, log.metadata()?.len(), bytes)?;
        Ok(bytes)
    };
    match allocate() {
        Ok(bytes) => tracing::info!(bytes, "a part of the log is allocated for deletes"),
        Err(error) => tracing::warn!(%error, "no part of the log can be allocated: deletes may find the disk full"),
    }
}

fn file_system_space(dir: &Path) -> io::Result<FileSystemStats> {
    let stat = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    let inodes = (stat.f_files > 0).then_some(InodeCount { free: stat.f_favail, total: stat.f_files });
    Ok(FileSystemStats { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks), inodes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free: u64, total: u64) -> DiskSpace {
        DiskSpace::probed(Path::new("/data"), Box::new(move || Ok(FileSystemStats { free, total, inodes: None })))
    }

    #[test]
    fn inodes_are_kept_in_reserve_where_they_are_counted() {
        let space = |free, total| {
            let space = FileSystemStats { free: 1 << 40, total: 1 << 40, inodes: Some(InodeCount { free, total }) };
            DiskSpace::probed(Path::new("/data"), Box::new(move || Ok(space)))
        };
        assert!(space(256, 1 << 20).check(0).is_ok() && space(10, 160).check(0).is_ok());
        assert!(matches!(space(255, 1 << 20).check(0), Err(StoreError::Full(_))));
        assert!(matches!(space(9, 160).check(0), Err(StoreError::Full(_))));
        assert!(space(FLUSHED, 1 << 20).can_flush(1 << 30) && space(FLUSHED, 1 << 20).check_flush(0).is_ok());
        let few = space(FLUSHED - 1, 1 << 20);
        assert!(!few.can_flush(1 << 30) && few.check_flush(0).is_err());
    }

    #[test]
    fn a_flush_may_use_all_but_an_eighth_of_the_reserve() {
        assert!(space(9 << 20, 1 << 40).check_flush(1 << 20).is_ok());
        assert!(matches!(space((9 << 20) - 1, 1 << 40).check_flush(1 << 20), Err(StoreError::Full(_))));
    }

    #[test]
    fn the_reserve_is_64_mib_or_an_eighth() {
        assert!(space(64 << 20, 1 << 40).check(0).is_ok());
        assert!(matches!(space((64 << 20) - 1, 1 << 40).check(0), Err(StoreError::Full(_))));
        assert!(space(1 << 20, 8 << 20).check(0).is_ok());
        assert!(matches!(space((1 << 20) - 1, 8 << 20).check(0), Err(StoreError::Full(_))));
    }

    #[test]
    fn unflushed_bytes_are_kept_free_besides_the_reserve() {
        assert!(space(65 << 20, 1 << 40).check(1 << 20).is_ok());
        assert!(matches!(space(65 << 20, 1 << 40).check((1 << 20) + 1), Err(StoreError::Full(_))));
    }

    #[test]
    fn a_flush_needs_enough_to_flush_and_space_for_it() {
        // With a reserve of 64 MiB, 8 MiB are worth a flush.
        let large = |free| space(free, 1 << 40);
        assert!(large(16 << 20).can_flush(8 << 20));
        assert!(!large(16 << 20).can_flush((8 << 20) - 1) && !large((16 << 20) - 1).can_flush(8 << 20));
        assert!(space(256 << 10, 8 << 20).can_flush(128 << 10));
        assert!(large(0).check(0).is_err());
    }

    #[test]
    fn a_ballast_file_is_created_once_and_removed_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(keep_ballast(dir.path(), 0));
        assert!(keep_ballast(dir.path(), 0));
        let size = dir.path().join(NAME).metadata().unwrap().len();
        assert!(size > 0 && size <= BALLAST);
        // As a killed process has left it.
        File::create(dir.path().join(NAME)).unwrap();
        assert!(keep_ballast(dir.path(), 0));
        assert_eq!(dir.path().join(NAME).metadata().unwrap().len(), size);
        assert!(remove_ballast(dir.path()));
        assert!(!remove_ballast(dir.path()));
    }

    #[test]
    fn a_missing_file_system_counts_as_one_with_space() {
        let dir = tempfile::tempdir().unwrap();
        let space = file_system_space(dir.path()).unwrap();
        assert!(space.total >= space.free && space.free > 0);
        assert!(DiskSpace::new(&dir.path().join("gone")).check(1 << 40).is_ok());
    }
}
