//! Reads content files. Every block is checked before any of it is sent.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use tokio::task::JoinHandle;

use super::error::ContentError;
use super::folders::Folders;
use super::format::{self, BLOCK};
use crate::schema::FileId;

/// Bytes read at once; every read but the first starts at a multiple of it.
const PIECE: u64 = 4 * BLOCK as u64;

/// A content file that is open; it stays readable when it is removed.
#[derive(Clone, Debug)]
pub struct Large(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    id: FileId,
    path: PathBuf,
    file: File,
    size: u64,
    /// The checksums of the blocks.
    sums: Vec<u32>,
}

/// What a read gave: whole good blocks, and what ended them before their time.
struct Piece {
    good: Bytes,
    end: Option<ContentError>,
}

impl Large {
    /// Opens it wherever it lies, and checks all but the data. Blocks.
    pub(super) fn open(folders: &Folders, id: FileId, size: u64) -> Result<Self, ContentError> {
        let (file, path) = folders.open(id)?.ok_or(ContentError::Gone(id))?;
        let damaged = |what: &str| damaged(id, &path, what);
        if format::file_len(size) != Some(file.metadata()?.len()) {
            return Err(damaged("it is not of the length it should be"));
        }
        let mut end = vec![0; format::table_len(size) as usize + format::TRAILER];
        file.read_exact_at(&mut end, size)?;
        let sums = format::check_end(size, &end).map_err(damaged)?;
        Ok(Self(Arc::new(Opened { id, path, file, size, sums })))
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// Bytes `[from, to)`, a read ahead of what is taken.
    pub(super) fn stream(self, from: u64, to: u64) -> impl Stream<Item = Result<Bytes, ContentError>> + Send {
        let to = to.min(self.size());
        let reading = Reading { file: self, at: from, to, ahead: None, failed: None };
        stream::unfold(Some(reading), |reading| async { reading?.next().await })
    }
}

/// A stream in the middle of its range.
struct Reading {
    file: Large,
    /// Where the next chunk starts.
    at: u64,
    to: u64,
    /// The read of the next chunk.
    ahead: Option<JoinHandle<Piece>>,
    /// What is wrong behind the chunk given last.
    failed: Option<ContentError>,
}

impl Reading {
    /// The next chunk, and the stream behind it unless it ends there.
    async fn next(mut self) -> Option<(Result<Bytes, ContentError>, Option<Self>)> {
        if let Some(failed) = self.failed {
            return Some((Err(failed), None));
        }
        if self.at >= self.to {
            return None;
        }
        let piece = self.ahead.take().unwrap_or_else(|| self.read());
        let Piece { mut good, end } = match piece.await {
            Ok(piece) => piece,
            Err(e) => return Some((Err(io::Error::other(e).into()), None)),
        };
        good.truncate((self.to - self.at) as usize);
        self.at = piece_end(self.at);
        match end {
            Some(end) if good.is_empty() => return Some((Err(end), None)),
            Some(_) => self.failed = end,
            None if self.at < self.to => self.ahead = Some(self.read()),
            None => (),
        }
        Some((Ok(good), Some(self)))
    }

    fn read(&self) -> JoinHandle<Piece> {
        let (file, at, to) = (self.file.0.clone(), self.at, self.to);
        tokio::task::spawn_blocking(move || file.read(at, to))
    }
}

impl Opened {
    /// Reads the piece at `at`, at most up to `to`, both moved out to the bounds of blocks, and checks it.
    fn read(&self, at: u64, to: u64) -> Piece {
        let block = BLOCK as u64;
        let start = at - at % block;
        let to = to.next_multiple_of(block).min(self.size).min(piece_end(at));
        let mut bytes = vec![0; to.saturating_sub(start) as usize];
        let (filled, failed) = self.fill(&mut bytes, start);
        let mut good = 0;
        let mut end = failed;
        for (i, data) in bytes.chunks(BLOCK).enumerate() {
            let number = start / block + i as u64;
            if good + data.len() > filled {
                break;
            }
            if self.sums.get(number as usize) != Some(&crc32c::crc32c(data)) {
                end = Some(damaged(self.id, &self.path, &format!("block {number} does not match its checksum")));
                break;
            }
            good += data.len();
        }
        let mut good = Bytes::from(bytes).slice(..good);
        // What stands before the range was read for its checksum alone.
        let _ = good.split_to(good.len().min((at - start) as usize));
        Piece { good, end }
    }

    /// How many bytes could be read, and what stopped it.
    fn fill(&self, bytes: &mut [u8], at: u64) -> (usize, Option<ContentError>) {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at + filled as u64) {
                Ok(0) => return (filled, Some(damaged(self.id, &self.path, "it was cut off"))),
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return (filled, Some(e.into())),
            }
        }
        (filled, None)
    }
}

/// The end of the piece in which this byte lies.
fn piece_end(at: u64) -> u64 {
    (at / PIECE + 1) * PIECE
}

fn damaged(id: FileId, path: &std::path::Path, what: &str) -> ContentError {
    ContentError::Damaged { id, what: format!("{}: {what}", path.display()) }
}
