//! Free disk space for uploads. An upload that would use the reserve is refused: before its body is read if its length is
//! known, else before the first piece that would use the reserve is written. The reserve is for deletes and for the
//! tables' own work. It includes some inodes, if the file system counts them.
//!
//! The bytes of an upload are *reserved* first, then *in flight* to the disk, then counted by the file system. A
//! reservation covers only the next bytes of an upload, and all reservations together take at most half of the free
//! space from another upload. So a client that announces much and does not send it leaves space for others.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ContentError;

/// The reserve in bytes: more than the tables keep free, so that they store the row of a file that just fits.
const RESERVE: u64 = 72 << 20;
/// The reserve is at most this part of a small file system: a seventh, where the tables keep an eighth.
const RESERVE_DIVISOR: u64 = 7;
/// An upload reserves at most so many bytes ahead of the bytes that it has written.
const AHEAD: u64 = 64 << 20;

/// Inodes in reserve, at most a quarter of all. The tables keep fewer free, so that small files, which need no inode of
/// their own, can still be stored; until a compaction has merged them, each flush leaves some files.
const INODES: u64 = 512;

/// Bytes and inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
    /// None if the file system makes inodes as it needs them.
    pub inodes: Option<Inodes>,
}

/// Inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    /// Free inodes.
    pub free: u64,
    /// All inodes.
    pub total: u64,
}

/// Errors: `Full` if only the inodes in reserve are left.
pub fn check_inodes(space: Option<FileSystemSpace>) -> Result<(), ContentError> {
    let Some(FileSystemSpace { inodes: Some(Inodes { free, total }), .. }) = space else { return Ok(()) };
    let reserve = INODES.min(total / 4);
    if free > reserve {
        return Ok(());
    }
    let cause = format!("{free} inodes are free, {reserve} are kept in reserve: files of up to 256 KiB need none");
    Err(ContentError::Full(io::Error::new(io::ErrorKind::StorageFull, cause)))
}

/// Bytes to leave free besides the reserve, out of so many free bytes.
pub type KeptSpace = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// The free space of a file system, and how much of it is allocated to uploads.
pub struct FreeSpace {
    reserve: u64,
    kept: KeptSpace,
    allocated: Mutex<AllocatedSpace>,
}

impl fmt::Debug for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreeSpace").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct AllocatedSpace {
    reserved: u64,
    in_flight: u64,
}

impl FreeSpace {
    /// Keeps the reserve alone.
    pub fn new() -> Arc<Self> {
        Self::besides(Box::new(|_| 0))
    }

    /// Keeps the reserve, and these bytes.
    pub fn besides(kept: KeptSpace) -> Arc<Self> {
        Arc::new(Self { reserve: RESERVE, kept, allocated: Mutex::default() })
    }

    /// The bytes that uploads leave free.
    fn left_free(&self, FileSystemSpace { free, total, .. }: FileSystemSpace) -> u64 {
        let reserve = self.reserve.min(total / RESERVE_DIVISOR);
        reserve.saturating_add((self.kept)(free.saturating_sub(reserve)))
    }

    /// Reserves so many bytes for an upload. With 0, if the length is unknown, it only checks that the reserve is whole. A
    /// file system that does not report its free space counts as large enough.
    pub fn reserve(
        self: &Arc<Self>,
        bytes: u64,
        space: Option<FileSystemSpace>,
    ) -> Result<SpaceReservation, ContentError> {
        let mut allocated = self.lock();
        let before = if bytes > 0 { allocated.reserved.min(self.spare(space) / 2) } else { 0 };
        self.check(space, before.saturating_add(allocated.in_flight).saturating_add(bytes))?;
        allocated.reserved = allocated.reserved.saturating_add(bytes.min(AHEAD));
        drop(allocated);
        Ok(SpaceReservation { free_space: self.clone(), left: bytes })
    }

    /// The free bytes beyond the reserve.
    fn spare(&self, space: Option<FileSystemSpace>) -> u64 {
        space.map_or(u64::MAX, |space| space.free.saturating_sub(self.left_free(space)))
    }

    /// Whether so many bytes may be used beyond those that the file system counts.
    fn check(&self, space: Option<FileSystemSpace>, bytes: u64) -> Result<(), ContentError> {
        let Some(space) = space else { return Ok(()) };
        let (free, kept) = (space.free, self.left_free(space));
        if free >= kept.saturating_add(bytes) {
            return Ok(());
        }
        let cause = format!("{} MiB are free, {} MiB of them are kept in reserve", free >> 20, kept >> 20);
        Err(ContentError::Full(io::Error::new(io::ErrorKind::StorageFull, cause)))
    }

    fn lock(&self) -> MutexGuard<'_, AllocatedSpace> {
        self.allocated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reserved bytes of an upload, until this is dropped.
#[derive(Debug)]
pub struct SpaceReservation {
    free_space: Arc<FreeSpace>,
    /// Bytes of the announced length that are not written yet. The first [`AHEAD`] of them are reserved.
    left: u64,
}

impl SpaceReservation {
    /// Checks the free space for a piece before it is written: other programs may have used it, and an upload of unknown
    /// length has reserved nothing.
    pub fn write(&mut self, bytes: u64, space: Option<FileSystemSpace>) -> Result<WriteInFlight, ContentError> {
        let mut allocated = self.free_space.lock();
        self.free_space.check(space, allocated.in_flight.saturating_add(bytes))?;
        let before = self.left.min(AHEAD);
        self.left = self.left.saturating_sub(bytes);
        allocated.reserved = allocated.reserved.saturating_sub(before).saturating_add(self.left.min(AHEAD));
        allocated.in_flight = allocated.in_flight.saturating_add(bytes);
        drop(allocated);
        Ok(WriteInFlight { free_space: self.free_space.clone(), bytes })
    }
}

impl Drop for SpaceReservation {
    fn drop(&mut self) {
        let mut allocated = self.free_space.lock();
        allocated.reserved = allocated.reserved.saturating_sub(self.left.min(AHEAD));
    }
}

/// A piece that is being written: dropped once the file system counts it.
#[derive(Debug)]
pub struct WriteInFlight {
    free_space: Arc<FreeSpace>,
    bytes: u64,
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        let mut allocated = self.free_space.lock();
        allocated.in_flight = allocated.in_flight.saturating_sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free: u64) -> Option<FileSystemSpace> {
        Some(FileSystemSpace { free, total: 7_000, inodes: None })
    }

    fn keeping(reserve: u64) -> Arc<FreeSpace> {
        Arc::new(FreeSpace { reserve, kept: Box::new(|_| 0), allocated: Mutex::default() })
    }

    fn is_full<T: std::fmt::Debug>(asked: Result<T, ContentError>) -> bool {
        matches!(asked, Err(ContentError::Full(_)))
    }

    #[test]
    fn uploads_together_do_not_take_the_reserve() {
        let free_space = keeping(1_000);
        let first = free_space.reserve(400, space(2_000)).unwrap();
        assert!(is_full(free_space.reserve(601, space(2_000))));
        let mut second = free_space.reserve(600, space(2_000)).unwrap();
        assert!(is_full(free_space.reserve(501, space(2_000))));
        // An upload of unknown length reserves nothing, but the reserve must be whole.
        let mut unknown = free_space.reserve(0, space(2_000)).unwrap();
        assert!(is_full(free_space.reserve(0, space(999))));
        // A piece is reserved, then in flight, then counted by the file system: once at any time.
        let piece = second.write(300, space(2_000)).unwrap();
        assert!(is_full(free_space.reserve(201, space(2_000))) && is_full(unknown.write(701, space(2_000))));
        drop(piece);
        assert!(is_full(free_space.reserve(351, space(1_700))));
        assert!(unknown.write(700, space(1_700)).is_ok());
        // Another program has used the space.
        assert!(is_full(second.write(100, space(1_099))));
        drop((first, second, unknown));
        assert!(free_space.reserve(1_000, space(2_000)).is_ok());
        let allocated = free_space.lock();
        assert_eq!((allocated.reserved, allocated.in_flight), (0, 0));
    }

    #[test]
    fn an_upload_reserves_no_more_than_a_part_of_a_large_disk() {
        let space = Some(FileSystemSpace { free: 1 << 40, total: 1 << 41, inodes: None });
        let free_space = keeping(1_000);
        assert!(is_full(free_space.reserve(1 << 40, space)), "more than is free");
        let mut all = free_space.reserve((1 << 40) - 1_000, space).unwrap();
        let other = free_space.reserve((1 << 40) - 1_000 - AHEAD, space).unwrap();
        assert_eq!(free_space.lock().reserved, 2 * AHEAD);
        // The next bytes are reserved as others are written, until no more than that are left.
        drop(all.write(AHEAD, space).unwrap());
        assert_eq!(free_space.lock().reserved, 2 * AHEAD);
        drop(all.write((1 << 40) - 2_000 - AHEAD, space).unwrap());
        assert_eq!(free_space.lock().reserved, AHEAD + 1_000);
        drop(all.write(5_000, space).unwrap());
        assert_eq!(free_space.lock().reserved, AHEAD);
        drop((all, other));
        assert_eq!(free_space.lock().reserved, 0);
    }

    #[test]
    fn many_reservations_leave_half_of_the_free_space_to_another_upload() {
        let free_space = keeping(1_000);
        let many: Vec<_> =
            [1_000, 500, 500, 500, 500].map(|bytes| free_space.reserve(bytes, space(2_000)).unwrap()).into();
        assert!(is_full(free_space.reserve(501, space(2_000))));
        assert!(free_space.reserve(500, space(2_000)).is_ok());
        drop(many);
        assert!(free_space.reserve(1_000, space(2_000)).is_ok());
    }

    #[test]
    fn uploads_leave_what_the_tables_need_besides_the_reserve() {
        // The tables need 300 bytes, and say 500 as long as that much is free.
        let kept = |free: u64| if free >= 500 { 500 } else { 300 };
        let free_space = Arc::new(FreeSpace { reserve: 1_000, kept: Box::new(kept), allocated: Mutex::default() });
        assert!(free_space.reserve(500, space(2_000)).is_ok() && is_full(free_space.reserve(501, space(2_000))));
        assert!(free_space.reserve(199, space(1_499)).is_ok() && is_full(free_space.reserve(200, space(1_499))));
        assert!(is_full(free_space.reserve(0, space(1_299))));
        let mut unknown = free_space.reserve(0, space(1_300)).unwrap();
        assert!(is_full(unknown.write(1, space(1_300))));
    }

    #[test]
    fn inodes_are_kept_in_reserve_where_they_are_counted() {
        let asked = |free, total| {
            check_inodes(Some(FileSystemSpace { free: 1 << 30, total: 1 << 40, inodes: Some(Inodes { free, total }) }))
        };
        assert!(asked(513, 1 << 20).is_ok() && is_full(asked(512, 1 << 20)));
        assert!(asked(21, 80).is_ok() && is_full(asked(20, 80)));
        assert!(check_inodes(space(0)).is_ok() && check_inodes(None).is_ok(), "a file system that reports nothing");
    }

    #[test]
    fn the_reserve_of_a_small_file_system_is_a_seventh() {
        let free_space = FreeSpace::new();
        assert!(free_space.reserve(10, space(1_010)).is_ok());
        assert!(is_full(free_space.reserve(10, space(1_009))));
        let large = |free| Some(FileSystemSpace { free, total: 1 << 40, inodes: None });
        assert!(free_space.reserve(0, large(RESERVE)).is_ok() && is_full(free_space.reserve(1, large(RESERVE))));
        assert!(free_space.reserve(u64::MAX, None).is_ok(), "a file system that reports nothing");
    }
}
