//! Takes the content of a file as it comes in.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::error::ContentError;
use super::folder::ContentFolder;
use super::format;
use super::free_space::{FreeSpace, SpaceReservation, check_inodes};
use super::staged::{StagedContent, StagedData};
use super::writer::{BUFFER, ContentWriter};
use super::{INLINE, LARGEST, run};
use crate::budget::{Budget, Permit};
use crate::schema::FileId;
use crate::schema::file::DATA_VERSION;

/// Up to so many bytes are hashed where they are: a hop to another thread would take longer.
const HASH_HERE: usize = 32 << 10;

/// Content that is coming in: collected up to [`INLINE`] bytes, streamed into a file of its own beyond, with 1 MiB in
/// memory, and up to 4 if the budget has them. One of a [stranger](Self::of_stranger) has that only once the file begins.
///
/// Dropping it leaves nothing behind. It is of no more use after an error, or after a
/// [`write`](Self::write) that was cancelled.
pub struct Upload {
    folder: Arc<ContentFolder>,
    free_space: Arc<FreeSpace>,
    /// What [`reserve`](Self::reserve) was given, until a file of its own takes it.
    reservation: Option<SpaceReservation>,
    memory: Budget,
    /// Of the budget: the cell, or the first buffer of a file.
    permit: Option<Permit>,
    /// Of whom: what he tells of the length holds nothing.
    is_of_stranger: bool,
    /// `None` after an error.
    state: Option<State>,
}

enum State {
    /// The cell's value as far as it is known: the version byte, then the bytes.
    Small(Vec<u8>),
    Large(Box<ContentWriter>),
}

impl Upload {
    pub(super) fn new(folder: Arc<ContentFolder>, free_space: Arc<FreeSpace>, memory: Budget) -> Self {
        let state = Some(State::Small(vec![DATA_VERSION]));
        Self { folder, free_space, reservation: None, memory, permit: None, is_of_stranger: false, state }
    }

    /// One of which anybody can begin many: it holds memory and disk space as its bytes come, not as it tells, and its buffers
    /// are of this budget.
    pub fn of_stranger(self, memory: Budget) -> Self {
        Self { memory, is_of_stranger: true, ..self }
    }

    /// Its buffers are not of the budget: the caller holds a permit for them.
    pub fn with_unlimited_memory(self) -> Self {
        Self { memory: Budget::unlimited(), ..self }
    }

    /// Whether too many others wait for the same memory.
    pub fn is_crowded(&self) -> bool {
        self.memory.is_crowded()
    }

    /// Asks for room, before the first byte comes, for content of this length, or of an unknown one. Waits for memory.
    pub async fn reserve(&mut self, length: Option<u64>) -> Result<(), ContentError> {
        if length.is_some_and(|length| length > LARGEST) {
            return Err(ContentError::TooLarge);
        }
        let cell = length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= INLINE);
        // What becomes a cell takes no room here, and the store asks for its own: this may be a disk of its own, and full.
        // If more comes than was said, `write` asks for room before it makes a file.
        if cell.is_none() {
            let space = self.folder.space().await;
            if length.is_some() {
                check_inodes(space)?;
            }
            let reservation = self.free_space.reserve(length.unwrap_or(0), space)?;
            // What is told has to fit now.
            self.reservation = Some(reservation).filter(|_| !self.is_of_stranger);
        }
        // All at once: uploads that each had a part of what they need would wait for each other.
        let unknown = if self.is_of_stranger { INLINE } else { BUFFER };
        self.permit = Some(self.memory.take(cell.unwrap_or(unknown)).await);
        if let (Some(length), Some(State::Small(bytes))) = (cell, &mut self.state) {
            bytes.reserve_exact(length);
        }
        Ok(())
    }

    /// Waits for the memory that so many next bytes need, for an upload of a stranger. Call it before each
    /// [`write`](Self::write).
    pub async fn grow(&mut self, bytes: usize) {
        // It has a cell, and buffers are of another lane: those who have one never wait for who has a cell.
        if self.is_of_stranger && matches!(&self.state, Some(State::Small(cell)) if cell.len() + bytes > 1 + INLINE) {
            self.permit = Some(self.memory.take(BUFFER).await);
        }
    }

    /// Takes the next bytes; waits while the disk is behind.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ContentError> {
        let next = match self.state.take().ok_or_else(given_up)? {
            State::Small(mut cell) if cell.len() + bytes.len() <= 1 + INLINE => {
                let length = cell.len() + bytes.len();
                if length > cell.capacity() {
                    // Not beyond what the permit of a stranger is for.
                    let capacity = (2 * cell.capacity()).clamp(length, 1 + INLINE);
                    cell.reserve_exact(capacity - cell.len());
                }
                cell.extend_from_slice(&bytes);
                State::Small(cell)
            }
            State::Small(cell) => {
                let space = self.folder.space().await;
                check_inodes(space)?;
                let promise = match self.reservation.take() {
                    Some(promise) => promise,
                    None => self.free_space.reserve(0, space)?,
                };
                let memory = (self.memory.clone(), self.permit.take());
                let writer = ContentWriter::create(self.folder.clone(), promise, memory).await?;
                let writer = writer.write(Bytes::from(cell).slice(1..)).await?;
                State::Large(Box::new(writer.write(bytes).await?))
            }
            State::Large(writer) => State::Large(Box::new(writer.write(bytes).await?)),
        };
        self.state = Some(next);
        Ok(())
    }

    /// Ends the content. A file of its own is durable, and so is its name, before this returns.
    pub async fn finish(self) -> Result<StagedContent, ContentError> {
        match self.state.ok_or_else(given_up)? {
            State::Small(cell) => {
                let cell = match self.permit {
                    // The store's queue of plans has the cell too, until the write is done.
                    Some(mut permit) => {
                        permit.shrink(cell.capacity());
                        permit.attach(cell.into())
                    }
                    None => cell.into(),
                };
                let data = cell.slice(1..);
                let size = data.len() as u64;
                let digest = if data.len() <= HASH_HERE {
                    format::digest(&data)
                } else {
                    run(&*self.folder.disk, async move { Ok(format::digest(&data)) }).await?
                };
                Ok(StagedContent { size, digest, data: StagedData::Inline(Mutex::new(FileId::random()), cell) })
            }
            State::Large(writer) => {
                let (new, size, digest) = writer.finish().await?;
                Ok(StagedContent { size, digest, data: StagedData::Large(new) })
            }
        }
    }
}

fn given_up() -> ContentError {
    ContentError::Io(io::Error::other("the upload has failed before"))
}
