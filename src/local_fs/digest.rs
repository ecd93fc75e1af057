//! SHA-256 of local files, as the drive writes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rowdrive::schema::file;
use sha2::{Digest, Sha256};

use super::blocking;

/// Bytes read at a time.
const PIECE: usize = 512 << 10;
/// Bytes hashed at a time: whoever interrupts waits for no more.
const STRETCH: u64 = 64 << 20;

#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// As in `Repr-Digest` (RFC 9530).
    pub fn digest(self) -> String {
        rowdrive::http::repr_digest(&file::Digest(self.0.finalize().into()))
    }

    pub fn of(bytes: &[u8]) -> String {
        let mut hasher = Self::default();
        hasher.update(bytes);
        hasher.digest()
    }
}

/// The digest of a file's first `size` bytes.
pub async fn digest(file: Arc<File>, size: u64) -> io::Result<String> {
    let mut hasher = Hasher::default();
    let mut at = 0;
    while at < size {
        let (file, end) = (file.clone(), size.min(at + STRETCH));
        hasher = blocking(move || stretch(&file, hasher, at, end)).await?;
        at = end;
    }
    Ok(hasher.digest())
}

fn stretch(file: &File, mut hasher: Hasher, mut at: u64, end: u64) -> io::Result<Hasher> {
    while at < end {
        let piece = piece(file, at, end)?;
        hasher.update(&piece);
        at += piece.len() as u64;
    }
    Ok(hasher)
}

/// Some of the bytes from `at` on, at least one; an error if the file ends there, before `end`.
pub fn piece(file: &File, at: u64, end: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(end - at).unwrap_or(PIECE).min(PIECE)];
    match file.read_at(&mut buffer, at)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            buffer.truncate(read);
            Ok(buffer.into())
        }
    }
}
