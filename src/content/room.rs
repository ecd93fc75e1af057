//! Room on the file system for uploads. One that would take what is kept in reserve is refused: before it is taken
//! in if its length is known, else before the piece that goes too far is written. The reserve is for deletes and for
//! the tables' own work.
//!
//! The bytes of an upload are *promised* to it first, then *on their way* to the disk, then counted by the file system.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ContentError;

/// Bytes that are left alone, unless told otherwise.
pub const RESERVE: u64 = 64 << 20;
/// Of a small file system, this part is left alone at most.
const PART: u64 = 8;

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
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
        let before = if bytes > 0 { taken.promised } else { 0 };
        self.check(space, before.saturating_add(taken.on_the_way).saturating_add(bytes))?;
        taken.promised = taken.promised.saturating_add(bytes);
        drop(taken);
        Ok(Promise { room: self.clone(), left: bytes })
    }

    /// Whether so many bytes may be taken on top of what the file system counts.
    fn check(&self, space: Option<Space>, bytes: u64) -> Result<(), ContentError> {
        let Some(Space { free, total }) = space else { return Ok(()) };
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
    left: u64,
}

impl Promise {
    /// Asks for room for a piece that is about to be written: others may have taken what was promised, and an upload
    /// of unknown length was promised nothing.
    pub fn write(&mut self, bytes: u64, space: Option<Space>) -> Result<OnTheWay, ContentError> {
        let mut taken = self.room.lock();
        self.room.check(space, taken.on_the_way.saturating_add(bytes))?;
        let of_promise = self.left.min(bytes);
        self.left -= of_promise;
        taken.promised = taken.promised.saturating_sub(of_promise);
        taken.on_the_way = taken.on_the_way.saturating_add(bytes);
        drop(taken);
        Ok(OnTheWay { room: self.room.clone(), bytes })
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        taken.promised = taken.promised.saturating_sub(self.left);
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
        Some(Space { free, total: 8_000 })
    }

    fn is_full<T: std::fmt::Debug>(asked: Result<T, ContentError>) -> bool {
        matches!(asked, Err(ContentError::Full(_)))
    }

    #[test]
    fn uploads_together_do_not_take_the_reserve() {
        let room = Room::new(1_000);
        let first = room.promise(600, space(2_000)).unwrap();
        assert!(is_full(room.promise(401, space(2_000))));
        let mut second = room.promise(400, space(2_000)).unwrap();
        assert!(is_full(room.promise(1, space(2_000))));
        // Nothing is promised to a small file, or one of unknown length: the reserve is whole.
        let mut unknown = room.promise(0, space(2_000)).unwrap();
        assert!(is_full(room.promise(0, space(999))));
        // A piece is promised, then on its way, then counted by the file system: once at any time.
        let piece = second.write(300, space(2_000)).unwrap();
        assert!(is_full(room.promise(1, space(2_000))) && is_full(unknown.write(701, space(2_000))));
        drop(piece);
        assert!(is_full(room.promise(1, space(1_700))));
        assert!(unknown.write(700, space(1_700)).is_ok());
        // Another program has taken it.
        assert!(is_full(second.write(100, space(1_099))));
        drop((first, second, unknown));
        assert!(room.promise(1_000, space(2_000)).is_ok());
        let taken = room.lock();
        assert_eq!((taken.promised, taken.on_the_way), (0, 0));
    }

    #[test]
    fn the_reserve_of_a_small_file_system_is_an_eighth() {
        let room = Room::new(RESERVE);
        assert!(room.promise(10, space(1_010)).is_ok());
        assert!(is_full(room.promise(10, space(1_009))));
        let large = |free| Some(Space { free, total: 1 << 40 });
        assert!(room.promise(0, large(RESERVE)).is_ok() && is_full(room.promise(1, large(RESERVE))));
        assert!(room.promise(u64::MAX, None).is_ok(), "a file system that does not say");
    }
}
