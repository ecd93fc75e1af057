//! Room on the file system for uploads. One that would take what is kept in reserve is refused: before it is taken
//! in if its length is known, else before the piece that goes too far is written. The reserve is for deletes and for
//! the tables' own work. Some inodes are part of it, where a file system counts them.
//!
//! The bytes of an upload are *promised* to it first, then *on their way* to the disk, then counted by the file system.
//! A promise goes only so far ahead of what has come, and all promises together keep no upload out of more than half
//! of the room: a client that says that it will send much, and does not, leaves room for others.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ContentError;

/// Bytes that are left alone, unless told otherwise.
pub const RESERVE: u64 = 64 << 20;
/// Of a small file system, this part is left alone at most: more than rows leave, or the row of a file that just fits
/// would find no room.
const PART: u64 = 7;
/// An upload is promised so many bytes at most at a time; as they come, the next ones.
const AHEAD: u64 = 64 << 20;

/// Inodes that are left alone: more than the tables leave to themselves, so that small files go on. Of a small file
/// system an eighth.
const INODES: u64 = 512;

/// Bytes and inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
    /// None if it makes them as it needs them.
    pub inodes: Option<Inodes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    pub free: u64,
    pub total: u64,
}

/// Errors: `Full` if no file may be made: the inodes that are left are kept in reserve.
pub fn check_inodes(space: Option<Space>) -> Result<(), ContentError> {
    let Some(Space { inodes: Some(Inodes { free, total }), .. }) = space else { return Ok(()) };
    let reserve = INODES.min(total / 8);
    if free > reserve {
        return Ok(());
    }
    let cause = format!("{free} inodes are free, {reserve} are kept in reserve: files of up to 256 KiB need none");
    Err(ContentError::Full(io::Error::new(io::ErrorKind::StorageFull, cause)))
}

/// What uploads have been given of the room, in all.
#[derive(Debug)]
pub struct Room {
    reserve: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    promised: u64,
    on_the_way: u64,
}

impl Room {
    pub fn new(reserve: u64) -> Arc<Self> {
        Arc::new(Self { reserve, taken: Mutex::default() })
    }

    /// Promises so many bytes to an upload; 0 if its length is not known, which asks only that the reserve is whole.
    /// A file system that does not say what is free is taken to have room.
    pub fn promise(self: &Arc<Self>, bytes: u64, space: Option<Space>) -> Result<Promise, ContentError> {
        let mut taken = self.lock();
        let before = if bytes > 0 { taken.promised.min(self.spare(space) / 2) } else { 0 };
        self.check(space, before.saturating_add(taken.on_the_way).saturating_add(bytes))?;
        taken.promised = taken.promised.saturating_add(bytes.min(AHEAD));
        drop(taken);
        Ok(Promise { room: self.clone(), left: bytes })
    }

    /// What is free beside the reserve.
    fn spare(&self, space: Option<Space>) -> u64 {
        space.map_or(u64::MAX, |Space { free, total, .. }| free.saturating_sub(self.reserve.min(total / PART)))
    }

    /// Whether so many bytes may be taken on top of what the file system counts.
    fn check(&self, space: Option<Space>, bytes: u64) -> Result<(), ContentError> {
        let Some(Space { free, total, .. }) = space else { return Ok(()) };
        let reserve = self.reserve.min(total / PART);
        if free >= reserve.saturating_add(bytes) {
            return Ok(());
        }
        let cause = format!("{} MiB are free, {} MiB of them are kept in reserve", free >> 20, reserve >> 20);
        Err(ContentError::Full(io::Error::new(io::ErrorKind::StorageFull, cause)))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an upload may still write, until this is dropped.
#[derive(Debug)]
pub struct Promise {
    room: Arc<Room>,
    /// Of the length that it said. The first [`AHEAD`] of them are promised.
    left: u64,
}

impl Promise {
    /// Asks for room for a piece that is about to be written: others may have taken what was promised, and an upload
    /// of unknown length was promised nothing.
    pub fn write(&mut self, bytes: u64, space: Option<Space>) -> Result<OnTheWay, ContentError> {
        let mut taken = self.room.lock();
        self.room.check(space, taken.on_the_way.saturating_add(bytes))?;
        let before = self.left.min(AHEAD);
        self.left = self.left.saturating_sub(bytes);
        taken.promised = taken.promised.saturating_sub(before).saturating_add(self.left.min(AHEAD));
        taken.on_the_way = taken.on_the_way.saturating_add(bytes);
        drop(taken);
        Ok(OnTheWay { room: self.room.clone(), bytes })
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        taken.promised = taken.promised.saturating_sub(self.left.min(AHEAD));
    }
}

/// A piece that is being written: dropped once the file system counts it.
#[derive(Debug)]
pub struct OnTheWay {
    room: Arc<Room>,
    bytes: u64,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        taken.on_the_way = taken.on_the_way.saturating_sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free: u64) -> Option<Space> {
        Some(Space { free, total: 7_000, inodes: None })
    }

    fn is_full<T: std::fmt::Debug>(asked: Result<T, ContentError>) -> bool {
        matches!(asked, Err(ContentError::Full(_)))
    }

    #[test]
    fn uploads_together_do_not_take_the_reserve() {
        let room = Room::new(1_000);
        let first = room.promise(400, space(2_000)).unwrap();
        assert!(is_full(room.promise(601, space(2_000))));
        let mut second = room.promise(600, space(2_000)).unwrap();
        assert!(is_full(room.promise(501, space(2_000))));
        // Nothing is promised to a small file, or one of unknown length: the reserve is whole.
        let mut unknown = room.promise(0, space(2_000)).unwrap();
        assert!(is_full(room.promise(0, space(999))));
        // A piece is promised, then on its way, then counted by the file system: once at any time.
        let piece = second.write(300, space(2_000)).unwrap();
        assert!(is_full(room.promise(201, space(2_000))) && is_full(unknown.write(701, space(2_000))));
        drop(piece);
        assert!(is_full(room.promise(351, space(1_700))));
        assert!(unknown.write(700, space(1_700)).is_ok());
        // Another program has taken it.
        assert!(is_full(second.write(100, space(1_099))));
        drop((first, second, unknown));
        assert!(room.promise(1_000, space(2_000)).is_ok());
        let taken = room.lock();
        assert_eq!((taken.promised, taken.on_the_way), (0, 0));
    }

    #[test]
    fn an_upload_is_promised_no_more_than_a_part_of_a_large_disk() {
        let space = Some(Space { free: 1 << 40, total: 1 << 41, inodes: None });
        let room = Room::new(1_000);
        assert!(is_full(room.promise(1 << 40, space)), "more than is free");
        let mut all = room.promise((1 << 40) - 1_000, space).unwrap();
        let other = room.promise((1 << 40) - 1_000 - AHEAD, space).unwrap();
        assert_eq!(room.lock().promised, 2 * AHEAD);
        // The next ones are promised as some come, until no more than that are left.
        drop(all.write(AHEAD, space).unwrap());
        assert_eq!(room.lock().promised, 2 * AHEAD);
        drop(all.write((1 << 40) - 2_000 - AHEAD, space).unwrap());
        assert_eq!(room.lock().promised, AHEAD + 1_000);
        drop(all.write(5_000, space).unwrap());
        assert_eq!(room.lock().promised, AHEAD);
        drop((all, other));
        assert_eq!(room.lock().promised, 0);
    }

    #[test]
    fn many_promises_leave_half_of_the_room_to_one_that_comes() {
        let room = Room::new(1_000);
        let many: Vec<_> = [1_000, 500, 500, 500, 500].map(|bytes| room.promise(bytes, space(2_000)).unwrap()).into();
        assert!(is_full(room.promise(501, space(2_000))));
        assert!(room.promise(500, space(2_000)).is_ok());
        drop(many);
        assert!(room.promise(1_000, space(2_000)).is_ok());
    }

    #[test]
    fn inodes_are_kept_in_reserve_where_they_are_counted() {
        let asked = |free, total| {
            check_inodes(Some(Space { free: 1 << 30, total: 1 << 40, inodes: Some(Inodes { free, total }) }))
        };
        assert!(asked(513, 1 << 20).is_ok() && is_full(asked(512, 1 << 20)));
        assert!(asked(11, 80).is_ok() && is_full(asked(10, 80)));
        assert!(check_inodes(space(0)).is_ok() && check_inodes(None).is_ok(), "a file system that does not say");
    }

    #[test]
    fn the_reserve_of_a_small_file_system_is_a_seventh() {
        let room = Room::new(RESERVE);
        assert!(room.promise(10, space(1_010)).is_ok());
        assert!(is_full(room.promise(10, space(1_009))));
        let large = |free| Some(Space { free, total: 1 << 40, inodes: None });
        assert!(room.promise(0, large(RESERVE)).is_ok() && is_full(room.promise(1, large(RESERVE))));
        assert!(room.promise(u64::MAX, None).is_ok(), "a file system that does not say");
    }
}
