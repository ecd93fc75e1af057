//! Room on the file system, so that a full disk is told before a write fails.
//!
//! A write that fails half-way leaves its plan in doubt ([`StoreError::Unknown`]); a plan refused beforehand
//! does not. Deletes go on below the reserve, since they are how room is made, and compaction needs some too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::table::StoreError;
use crate::table::store::Result;

/// The file system is asked at most this often.
const EVERY: Duration = Duration::from_millis(100);
/// Bytes that are left alone; of a small file system an eighth.
const RESERVE: u64 = 64 << 20;

/// Bytes of a file system.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub free: u64,
    pub total: u64,
}

type Probe = Box<dyn Fn() -> io::Result<Room> + Send + Sync>;

pub(super) struct Space {
    dir: PathBuf,
    probe: Probe,
    last: Mutex<Option<(Instant, Room)>>,
}

impl Space {
    /// Watches the file system that holds `dir`.
    pub fn new(dir: &Path) -> Self {
        let asked = dir.to_owned();
        Self::probed(dir, Box::new(move || room(&asked)))
    }

    pub fn probed(dir: &Path, probe: Probe) -> Self {
        Self { dir: dir.to_owned(), probe, last: Mutex::new(None) }
    }

    /// Errors: `Full` when less than the reserve is left. A file system that does not say is taken to have room.
    pub fn check(&self) -> Result<()> {
        let Some(room) = self.room() else { return Ok(()) };
        let reserve = RESERVE.min(room.total / 8);
        if room.free >= reserve {
            return Ok(());
        }
        let (dir, free) = (self.dir.display(), room.free >> 20);
        Err(StoreError::Full(format!("{dir}: {free} MiB left, {} MiB are kept in reserve", reserve >> 20)))
    }

    /// None if the file system does not say.
    pub fn room(&self) -> Option<Room> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((at, room)) if at.elapsed() < EVERY => Some(room),
            _ => {
                let room = (self.probe)().ok()?;
                *last = Some((Instant::now(), room));
                Some(room)
            }
        }
    }
}

fn room(dir: &Path) -> io::Result<Room> {
    let stat = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Room { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free: u64, total: u64) -> Space {
        Space::probed(Path::new("/data"), Box::new(move || Ok(Room { free, total })))
    }

    #[test]
    fn the_reserve_is_64_mib_or_an_eighth() {
        assert!(space(64 << 20, 1 << 40).check().is_ok());
        assert!(matches!(space((64 << 20) - 1, 1 << 40).check(), Err(StoreError::Full(_))));
        assert!(space(1 << 20, 8 << 20).check().is_ok());
        assert!(matches!(space((1 << 20) - 1, 8 << 20).check(), Err(StoreError::Full(_))));
    }

    #[test]
    fn a_file_system_is_asked_and_may_keep_silent() {
        let dir = tempfile::tempdir().unwrap();
        let room = room(dir.path()).unwrap();
        assert!(room.total >= room.free && room.free > 0);
        assert!(Space::new(&dir.path().join("gone")).check().is_ok());
    }
}
