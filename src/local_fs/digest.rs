//! SHA-256 of local files, in the form that the drive's API uses.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rowdrive::schema::file;
use rowdrive::sha256::Sha256;

use super::run_blocking;

/// Bytes read at a time.
const CHUNK: usize = 512 << 10;
/// Bytes hashed by one blocking job. A job cannot be cancelled: an interrupted program waits for no more than this.
const PER_JOB: u64 = 64 << 20;

#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest in the form of `Repr-Digest` (RFC 9530).
    pub fn digest(self) -> String {
        rowdrive::api::digest::format(&file::Digest(self.0.done()))
    }

    pub fn digest_of(bytes: &[u8]) -> String {
        let mut hasher = Self::default();
        hasher.update(bytes);
        hasher.digest()
    }
}

/// The digest of a file's first `size` bytes.
pub async fn file_digest(file: Arc<File>, size: u64) -> io::Result<String> {
    let mut hasher = Hasher::default();
    let mut at = 0;
    while at < size {
        let (file, end) = (file.clone(), size.min(at + PER_JOB));
        hasher = run_blocking(move || hash_range(&file, hasher, at, end)).await?;
        at = end;
    }
    Ok(hasher.digest())
}

fn hash_range(file: &File, mut hasher: Hasher, mut at: u64, end: u64) -> io::Result<Hasher> {
    while at < end {
        let chunk = read_chunk(file, at, end)?;
        hasher.update(&chunk);
        at += chunk.len() as u64;
    }
    Ok(hasher)
}

/// Reads at least one byte from `at` on, and none from `end` on.
///
/// Errors: the file ends at `at`.
pub fn read_chunk(file: &File, at: u64, end: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK)];
    match file.read_at(&mut buffer, at)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            buffer.truncate(read);
            Ok(buffer.into())
        }
    }
}
