//! Writes a content file: large aligned writes past the page cache, with the checksums of a piece computed
//! while it is written, and the next piece collected meanwhile.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::error::ContentError;
use super::folder::ContentFolder;
use super::format::{BLOCK, BlockChecksums};
use super::free_space::SpaceReservation;
use super::staged::NewFile;
use super::{LARGEST, run};
use crate::budget::{Budget, Permit};
use crate::schema::file::Digest;

/// Bytes written at once: a number of whole blocks.
const PIECE: usize = 4 * BLOCK;
/// The alignment of memory, offsets and lengths of direct writes. No common disk needs a larger one.
const ALIGN: usize = 4096;
/// Pieces in flight at once: one is written, of another the checksums are computed, and a third one keeps both busy when
/// either is late.
const JOBS: usize = 3;

/// Bytes of memory for a piece.
pub const BUFFER: usize = PIECE + ALIGN;

/// A piece of the data, at an aligned address.
struct WriteBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    _permit: Option<Permit>,
}

impl WriteBuffer {
    fn new(permit: Option<Permit>) -> Self {
        let bytes = vec![0; BUFFER];
        // Never out of bounds. If the offset is unknown, the file system refuses the direct write, and a plain one follows.
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { bytes, start, len: 0, _permit: permit }
    }

    /// A buffer without memory.
    fn none() -> Self {
        Self { bytes: Vec::new(), start: 0, len: 0, _permit: None }
    }

    /// Takes as many bytes as fit.
    fn fill(&mut self, from: &mut Bytes) {
        let free = self.bytes.get_mut(self.start + self.len..self.start + PIECE).unwrap_or_default();
        let taken = free.len().min(from.len());
        if let Some(free) = free.get_mut(..taken) {
            from.copy_to_slice(free);
        }
        self.len += taken;
    }

    fn data(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// The part that can be written directly, and the rest, which is shorter than the alignment.
    fn split(&self) -> (&[u8], &[u8]) {
        self.data().split_at(self.len - self.len % ALIGN)
    }
}

/// A piece in flight to the disk; it returns its buffer.
type Job = JoinHandle<Result<WriteBuffer, ContentError>>;

/// The writer of one content file. An error or a cancelled call consumes it: a file that lacks a part cannot be
/// continued.
pub struct ContentWriter {
    new: Arc<NewFile>,
    reservation: SpaceReservation,
    memory: Budget,
    filling: WriteBuffer,
    /// The offset of `filling` in the file.
    at: u64,
    /// Pieces in flight, at most [`JOBS`], the oldest first.
    jobs: VecDeque<Job>,
    /// The checksums of all pieces so far, once the last piece in flight is added.
    checksums: oneshot::Receiver<BlockChecksums>,
}

impl ContentWriter {
    /// `memory`: the budget of its buffers, and the permit for the first one.
    pub async fn create(
        folder: Arc<ContentFolder>,
        reservation: SpaceReservation,
        memory: (Budget, Option<Permit>),
    ) -> Result<Self, ContentError> {
        let disk = folder.disk.clone();
        let new = run(&*disk, async move {
            folder.writable()?;
            Ok(NewFile::create(folder).await?)
        });
        Ok(Self::over(new.await?, reservation, memory))
    }

    fn over(new: NewFile, reservation: SpaceReservation, (memory, permit): (Budget, Option<Permit>)) -> Self {
        let (first, checksums) = oneshot::channel();
        let _ = first.send(BlockChecksums::new());
        let filling = WriteBuffer::new(permit);
        Self { new: Arc::new(new), reservation, memory, filling, at: 0, jobs: VecDeque::new(), checksums }
    }

    /// Appends data; waits while too much is in flight.
    pub async fn write(mut self, mut data: Bytes) -> Result<Self, ContentError> {
        if self.at + self.filling.len as u64 + data.len() as u64 > LARGEST {
            return Err(ContentError::TooLarge);
        }
        while !data.is_empty() {
            self.filling.fill(&mut data);
            if self.filling.len == PIECE {
                let wait = self.jobs.len() == JOBS || self.jobs.front().is_some_and(Job::is_finished);
                let next = if wait { None } else { self.memory.try_take(BUFFER) };
                match next {
                    Some(permit) => self.submit(WriteBuffer::new(Some(permit))).await?,
                    None if wait => {
                        let next = self.oldest().await?;
                        self.submit(next).await?;
                    }
                    // The budget has no other buffer: the first one is reused after it is written.
                    None => {
                        self.submit(WriteBuffer::none()).await?;
                        self.filling = self.oldest().await?;
                    }
                }
            }
        }
        Ok(self)
    }

    /// The buffer of the oldest piece, once it is written.
    async fn oldest(&mut self) -> Result<WriteBuffer, ContentError> {
        let Some(job) = self.jobs.pop_front() else {
            return Ok(WriteBuffer::none());
        };
        let buffer = job.await.map_err(io::Error::other)??;
        Ok(WriteBuffer { len: 0, ..buffer })
    }

    /// Submits the collected piece to be written, and continues with the next buffer.
    ///
    /// Checksums are computed in the order of the pieces. While one piece is written, those of the next are.
    async fn submit(&mut self, next: WriteBuffer) -> Result<(), ContentError> {
        // Checked for every piece: others may have used the reserved space.
        let space = self.new.folder.space().await;
        let in_flight = self.reservation.write(self.filling.len as u64, space)?;
        let piece = mem::replace(&mut self.filling, next);
        let (pass, checksums) = oneshot::channel();
        let before = mem::replace(&mut self.checksums, checksums);
        let (new, at) = (self.new.clone(), self.at);
        self.at += piece.len as u64;
        let disk = self.new.folder.disk.clone();
        self.jobs.push_back(disk.start(async move {
            let mut checksums = before.await.map_err(io::Error::other)?;
            checksums.add(piece.data());
            let _ = pass.send(checksums);
            new.file.write_direct(piece.split().0, at).await?;
            drop(in_flight);
            Ok(piece)
        }));
        Ok(())
    }

    /// Writes the rest, the table and the trailer. File and name are durable when it returns.
    pub async fn finish(mut self) -> Result<(Arc<NewFile>, u64, Digest), ContentError> {
        let rest = self.filling.split().1.to_vec();
        self.submit(WriteBuffer::none()).await?;
        while !self.jobs.is_empty() {
            self.oldest().await?;
        }
        let checksums = self.checksums.await.map_err(io::Error::other)?;
        let (new, disk) = (self.new.clone(), self.new.folder.disk.clone());
        let finish = async move {
            let (size, digest, end) = checksums.done();
            let at = size - rest.len() as u64;
            // These bytes are neither aligned nor large.
            new.file.write(&[rest, end].concat(), at).await?;
            // IMPORTANT: both before anything links to the file. After a power cut the name may exist without the bytes,
            // or the bytes without the name.
            new.folder.synced_file(new.file.sync().await)?;
            new.folder.sync_new().await?;
            Ok((new, size, digest))
        };
        run(&*disk, finish).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::super::disk::LocalDisk;
    use super::super::free_space::FreeSpace;
    use super::*;

    fn reservation() -> SpaceReservation {
        FreeSpace::new().reserve(0, None).unwrap()
    }

    #[tokio::test]
    async fn a_full_disk_ends_the_upload_and_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(ContentFolder::make(Arc::new(LocalDisk), dir.path()).await.unwrap());
        let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
        // In a piece in the middle, and in the last bytes.
        for len in [3 * PIECE, 1000] {
            let mut new = NewFile::create(folder.clone()).await.unwrap();
            new.file = Arc::new(full());
            assert_eq!(fs::read_dir(folder.new_dir()).unwrap().count(), 1);
            let failed = match ContentWriter::over(new, reservation(), (Budget::unlimited(), None))
                .write(vec![1; len].into())
                .await
            {
                Ok(writer) => writer.finish().await.err(),
                Err(e) => Some(e),
            };
            assert!(matches!(failed, Some(ContentError::Full(_))), "{failed:?}");
            for _ in 0..1000 {
                if fs::read_dir(folder.new_dir()).unwrap().count() == 0 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            assert_eq!(fs::read_dir(folder.new_dir()).unwrap().count(), 0);
        }
    }

    #[tokio::test]
    async fn a_failed_write_of_a_piece_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(ContentFolder::make(Arc::new(LocalDisk), dir.path()).await.unwrap());
        let mut new = NewFile::create(folder).await.unwrap();
        new.file = Arc::new(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let mut writer = ContentWriter::over(new, reservation(), (Budget::unlimited(), None))
            .write(vec![1; PIECE].into())
            .await
            .unwrap();
        assert!(matches!(writer.oldest().await, Err(ContentError::Full(_))));
    }

    #[tokio::test]
    async fn one_buffer_is_enough() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(ContentFolder::make(Arc::new(LocalDisk), dir.path()).await.unwrap());
        let memory = Budget::new(2 * PIECE);
        let permit = memory.take(BUFFER).await;
        assert!(memory.try_take(BUFFER).is_none());
        let mut writer = ContentWriter::create(folder, reservation(), (memory.clone(), Some(permit))).await.unwrap();
        let data: Bytes = (0..5 * PIECE as u32 / 4 + 9).flat_map(u32::to_le_bytes).collect();
        for piece in data.chunks(300_001) {
            writer = writer.write(data.slice_ref(piece)).await.unwrap();
            assert!(writer.jobs.len() <= 1);
        }
        let (new, size, digest) = writer.finish().await.unwrap();
        assert_eq!((size, digest), (data.len() as u64, super::super::format::digest(&data)));
        drop(new);
        assert!(memory.try_take(BUFFER).is_some());
    }

    #[tokio::test]
    async fn there_is_a_largest_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(ContentFolder::make(Arc::new(LocalDisk), dir.path()).await.unwrap());
        let mut writer = ContentWriter::create(folder, reservation(), (Budget::unlimited(), None)).await.unwrap();
        writer.at = LARGEST - 10;
        let writer = writer.write(vec![0; 10].into()).await.unwrap();
        assert!(matches!(writer.write(vec![0].into()).await, Err(ContentError::TooLarge)));
    }

    #[test]
    fn buffers_are_aligned() {
        for _ in 0..5 {
            let mut buffer = WriteBuffer::new(None);
            let mut data = Bytes::from(vec![7; PIECE + 3]);
            buffer.fill(&mut data);
            assert_eq!((buffer.len, data.len()), (PIECE, 3));
            assert_eq!(buffer.data().as_ptr().align_offset(ALIGN), 0);
        }
        let mut buffer = WriteBuffer::new(None);
        buffer.fill(&mut vec![7; 2 * ALIGN + 3].into());
        assert_eq!((buffer.split().0.len(), buffer.split().1.len()), (2 * ALIGN, 3));
    }
}
