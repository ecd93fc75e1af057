//! Streams a range of a content file, and reads ahead of its consumer.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::error::ContentError;
use super::format::BLOCK;
use super::reader::ContentFile;
use crate::budget::{Budget, Permit};

/// Bytes read at once; every read but the first starts at a multiple of it.
const PIECE: u64 = 2 * BLOCK as u64;
/// Reads ahead of the last chunk. With one read ahead the consumer waits after every chunk, at a third of the speed of
/// three.
const AHEAD: usize = 3;

/// Bytes `[from, to)` of the data; see [`Body::stream_within`](super::Body::stream_within).
pub fn range(
    file: ContentFile,
    memory: Budget,
    from: u64,
    to: u64,
) -> impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static {
    let to = to.min(file.size());
    let ahead = VecDeque::with_capacity(AHEAD);
    let pool = Arc::new(BufferPool { free: Mutex::default(), returned: Notify::new(), memory });
    let reading = RangeReader { file, left: from..to, ahead, pool };
    stream::unfold(Ok(reading), |state: Next| async {
        match state {
            Ok(reading) => reading.next().await,
            // The end: after an error, or with the error that follows the last chunk.
            Err(error) => error.map(|error| (Err(error), Err(None))),
        }
    })
}

/// What follows a chunk: more chunks, a last error, or nothing.
type Next = Result<RangeReader, Option<ContentError>>;

/// A range that is being read.
struct RangeReader {
    file: ContentFile,
    /// The part that no read has begun on.
    left: Range<u64>,
    /// Reads under way, in order.
    ahead: VecDeque<JoinHandle<Piece>>,
    pool: Arc<BufferPool>,
}

/// The result of a read: good bytes, and the error after them.
struct Piece {
    good: Bytes,
    end: Option<ContentError>,
}

impl RangeReader {
    async fn next(mut self) -> Option<(Result<Bytes, ContentError>, Next)> {
        if self.ahead.is_empty() && !self.left.is_empty() {
            let buffer = self.pool.wait().await;
            self.read(buffer);
        }
        self.read_ahead();
        let piece = match self.ahead.pop_front()?.await {
            Ok(piece) => piece,
            Err(e) => return Some((Err(io::Error::other(e).into()), Err(None))),
        };
        match piece {
            Piece { good, end: Some(end) } if good.is_empty() => Some((Err(end), Err(None))),
            Piece { good, end: Some(end) } => Some((Ok(good), Err(Some(end)))),
            Piece { good, end: None } => {
                self.read_ahead();
                Some((Ok(good), Ok(self)))
            }
        }
    }

    /// Starts further reads while there are buffers.
    fn read_ahead(&mut self) {
        while self.ahead.len() < AHEAD && !self.left.is_empty() {
            let fresh = || self.pool.memory.try_take(PIECE as usize).map(ReadBuffer::new);
            let Some(buffer) = self.pool.used().or_else(fresh) else { return };
            self.read(buffer);
        }
    }

    /// Starts to read the next piece.
    fn read(&mut self, buffer: ReadBuffer) {
        let end = self.left.end.min((self.left.start / PIECE + 1) * PIECE);
        let piece = self.left.start..end;
        self.left.start = end;
        let (file, pooled) = (self.file.clone(), PooledBuffer { buffer, pool: self.pool.clone() });
        let disk = self.file.0.disk.clone();
        self.ahead.push_back(disk.start(async move { read(&file, pooled, piece).await }));
    }
}

/// Reads all blocks of the piece, and returns its good bytes. A job.
async fn read(file: &ContentFile, mut pooled: PooledBuffer, piece: Range<u64>) -> Piece {
    let start = piece.start - piece.start % BLOCK as u64;
    let end = piece.end.next_multiple_of(BLOCK as u64).min(file.size());
    pooled.buffer.bytes.resize((end - start) as usize, 0);
    let (good, end) = file.0.read(&mut pooled.buffer.bytes, start).await;
    let good = Bytes::from_owner(pooled).slice(..good.min((piece.end - start) as usize));
    let before = (piece.start - start) as usize;
    Piece { good: good.slice(before.min(good.len())..), end }
}

/// Memory for a piece, with its permit of the budget.
struct ReadBuffer {
    bytes: Vec<u8>,
    permit: Permit,
}

impl ReadBuffer {
    fn new(permit: Permit) -> Self {
        Self { bytes: Vec::new(), permit }
    }
}

/// The buffers of one stream. They are reused: fresh memory costs as much as reading into it.
struct BufferPool {
    free: Mutex<Vec<ReadBuffer>>,
    returned: Notify,
    memory: Budget,
}

/// A buffer that returns to its pool when its last chunk is dropped.
struct PooledBuffer {
    buffer: ReadBuffer,
    pool: Arc<BufferPool>,
}

impl BufferPool {
    /// A used buffer. It may have any bytes.
    fn used(&self) -> Option<ReadBuffer> {
        self.free().pop()
    }

    /// A buffer from the pool or from the budget, whichever is free first: while the budget is used up, the chunk before
    /// may return its buffer.
    async fn wait(&self) -> ReadBuffer {
        loop {
            if let Some(used) = self.used() {
                return used;
            }
            // In order, so that a seeded run is the same every time.
            tokio::select! {
                biased;
                permit = self.memory.take(PIECE as usize) => return ReadBuffer::new(permit),
                () = self.returned.notified() => {}
            }
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<ReadBuffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.bytes
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let permit = mem::take(&mut self.buffer.permit);
        let bytes = mem::take(&mut self.buffer.bytes);
        // While other requests wait for memory, the buffer returns to the budget.
        if !self.pool.memory.is_short() {
            self.pool.free().push(ReadBuffer { bytes, permit });
            self.pool.returned.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt;
    use tokio::time::timeout;

    use super::super::Content;
    use super::*;

    #[tokio::test]
    async fn buffers_are_reused_only_after_their_chunks_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let (content, _) = Content::open(dir.path()).await.unwrap();
        let data: Bytes = (0..20 * PIECE / 4).flat_map(|i| (i as u32).to_le_bytes()).collect();
        let mut upload = content.upload();
        upload.write(data.clone()).await.unwrap();
        let staged = upload.finish().await.unwrap();
        let file = content.open_file(staged.id(), staged.size).await.unwrap();

        let chunks: Vec<_> = range(file.clone(), Budget::unlimited(), 1, u64::MAX).map(Result::unwrap).collect().await;
        assert!(chunks.concat() == data[1..]);

        let mut addresses: Vec<_> =
            range(file.clone(), Budget::unlimited(), 0, u64::MAX).map(|chunk| chunk.unwrap().as_ptr()).collect().await;
        assert_eq!(addresses.len(), 20);
        addresses.sort();
        addresses.dedup();
        assert!(addresses.len() <= AHEAD + 1, "{} buffers", addresses.len());

        // With memory for one buffer, the next chunk waits until the one before it is dropped.
        let memory = Budget::new(PIECE as usize * 3 / 2);
        let mut pieces = Box::pin(range(file, memory.clone(), 0, u64::MAX));
        let (mut whole, mut last) = (Vec::new(), None);
        for _ in 0..20 {
            let mut next = pieces.next();
            if last.is_some() {
                assert!(timeout(Duration::from_millis(20), &mut next).await.is_err());
            }
            drop(last);
            let chunk = timeout(Duration::from_secs(20), next).await.unwrap().unwrap().unwrap();
            whole.extend_from_slice(&chunk);
            last = Some(chunk);
        }
        assert!(whole == data && pieces.next().await.is_none());
        drop((pieces, last));
        assert!(memory.try_take(PIECE as usize).is_some());
    }
}
