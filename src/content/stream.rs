//! Gives a range of a content file, reading ahead of what is taken.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::task::JoinHandle;

use super::error::ContentError;
use super::format::BLOCK;
use super::reader::Large;

/// Bytes read at once; every read but the first starts at a multiple of it.
const PIECE: u64 = 2 * BLOCK as u64;
/// Reads ahead of the chunk that was given last. One ahead has to be waited for after every chunk, at a third
/// of the speed of three.
const AHEAD: usize = 3;

/// Bytes `[from, to)` of the data; see [`Body::stream`](super::Body::stream).
pub fn range(file: Large, from: u64, to: u64) -> impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static {
    let to = to.min(file.size());
    let ahead = VecDeque::with_capacity(AHEAD);
    let reading = Reading { file, left: from..to, ahead, pool: Arc::default() };
    stream::unfold(Ok(reading), |state: Next| async {
        match state {
            Ok(reading) => reading.next().await,
            // The end, after an error or with the one that stood behind the chunk given last.
            Err(error) => error.map(|error| (Err(error), Err(None))),
        }
    })
}

/// What follows a chunk: more of them, or an error that is still to be given, or nothing.
type Next = Result<Reading, Option<ContentError>>;

/// A range of which some is given.
struct Reading {
    file: Large,
    /// Of which no read was begun.
    left: Range<u64>,
    /// Reads under way, in order.
    ahead: VecDeque<JoinHandle<Piece>>,
    pool: Arc<Pool>,
}

/// What a read gave: good bytes, and what is wrong behind them.
struct Piece {
    good: Bytes,
    end: Option<ContentError>,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<Bytes, ContentError>, Next)> {
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

    fn read_ahead(&mut self) {
        while self.ahead.len() < AHEAD && !self.left.is_empty() {
            let end = self.left.end.min((self.left.start / PIECE + 1) * PIECE);
            let piece = self.left.start..end;
            self.left.start = end;
            let (file, pool) = (self.file.clone(), self.pool.clone());
            let disk = self.file.0.disk.clone();
            self.ahead.push_back(disk.start(async move { read(&file, &pool, piece).await }));
        }
    }
}

/// Reads all blocks in which the piece lies, and gives what is good of the piece. A job.
async fn read(file: &Large, pool: &Arc<Pool>, piece: Range<u64>) -> Piece {
    let start = piece.start - piece.start % BLOCK as u64;
    let end = piece.end.next_multiple_of(BLOCK as u64).min(file.size());
    let mut buffer = pool.take((end - start) as usize);
    let (good, end) = file.0.read(&mut buffer.bytes, start).await;
    let good = Bytes::from_owner(buffer).slice(..good.min((piece.end - start) as usize));
    let before = (piece.start - start) as usize;
    Piece { good: good.slice(before.min(good.len())..), end }
}

/// The buffers of one stream, used again and again: fresh memory costs as much as reading into it.
#[derive(Default)]
struct Pool(Mutex<Vec<Vec<u8>>>);

/// A buffer that returns to its pool when the last chunk of it is gone.
struct Lent {
    bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    /// A buffer of this length, whatever it holds.
    fn take(self: &Arc<Self>, len: usize) -> Lent {
        let used = self.free().pop();
        let mut bytes = used.unwrap_or_else(|| vec![0; len]);
        bytes.resize(len, 0);
        Lent { bytes, pool: self.clone() }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.free().push(mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::super::Content;
    use super::*;

    #[tokio::test]
    async fn chunks_that_are_held_stay_as_they_are_and_those_let_go_are_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let (content, _) = Content::open(dir.path()).await.unwrap();
        let data: Bytes = (0..20 * PIECE / 4).flat_map(|i| (i as u32).to_le_bytes()).collect();
        let mut upload = content.upload();
        upload.write(data.clone()).await.unwrap();
        let staged = upload.finish().await.unwrap();
        let file = content.open_large(staged.id(), staged.size).await.unwrap();

        let held: Vec<_> = range(file.clone(), 1, u64::MAX).map(Result::unwrap).collect().await;
        assert!(held.concat() == data[1..]);

        let mut addresses: Vec<_> = range(file, 0, u64::MAX).map(|chunk| chunk.unwrap().as_ptr()).collect().await;
        assert_eq!(addresses.len(), 20);
        addresses.sort();
        addresses.dedup();
        assert!(addresses.len() <= AHEAD + 1, "{} buffers", addresses.len());
    }
}
