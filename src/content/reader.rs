//! Reads content files. Every block is checked before any of it is sent.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::error::ContentError;
use super::folder::ContentFolder;
use super::format::{self, BLOCK};
use crate::schema::FileId;

/// A content file that is open; it stays readable when it is removed.
#[derive(Clone, Debug)]
pub struct ContentFile(pub(super) Arc<OpenContentFile>);

/// An open content file and the checksums of its blocks.
#[derive(Debug)]
pub struct OpenContentFile {
    id: FileId,
    path: PathBuf,
    /// The disk that has the file.
    pub disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    size: u64,
    /// The checksums of the blocks.
    checksums: Vec<u32>,
}

impl ContentFile {
    /// Opens it in `new/` or its shard, and checks all but the data. Part of a job.
    pub(super) async fn open(folder: &ContentFolder, id: FileId, size: u64) -> Result<Self, ContentError> {
        let (file, path) = folder.open(id).await?.ok_or(ContentError::Gone(id))?;
        let mut opened = OpenContentFile { id, path, disk: folder.disk.clone(), file, size, checksums: Vec::new() };
        if format::file_len(size) != Some(opened.file.size().await?) {
            return Err(opened.damaged("it is not of the length it should be"));
        }
        let mut end = vec![0; format::table_len(size) as usize + format::TRAILER];
        let (_, failed) = opened.fill(&mut end, size).await;
        if let Some(failed) = failed {
            return Err(failed);
        }
        opened.checksums = format::check_end(size, &end).map_err(|what| opened.damaged(what))?;
        Ok(Self(Arc::new(opened)))
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.0.size
    }
}

impl OpenContentFile {
    /// Reads data and checks it. Returns how many bytes of `buffer` are whole good blocks, and the error after them.
    ///
    /// The data starts at `at` and ends with a block. Part of a job.
    pub async fn read(&self, buffer: &mut [u8], at: u64) -> (usize, Option<ContentError>) {
        let (filled, failed) = self.fill(buffer, at).await;
        let mut good = 0;
        for (data, number) in buffer.chunks(BLOCK).zip(at / BLOCK as u64..) {
            if good + data.len() > filled {
                break;
            }
            if self.checksums.get(number as usize) != Some(&crc32c::crc32c(data)) {
                return (good, Some(self.damaged(&format!("block {number} does not match its checksum"))));
            }
            good += data.len();
        }
        (good, failed)
    }

    /// Reads as many bytes as possible. Returns how many, and the error that ended it.
    async fn fill(&self, buffer: &mut [u8], at: u64) -> (usize, Option<ContentError>) {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at + filled as u64).await {
                Ok(0) => return (filled, Some(self.damaged("it was cut off"))),
                Ok(read) => filled += read,
                Err(e) => return (filled, Some(e.into())),
            }
        }
        (filled, None)
    }

    fn damaged(&self, what: &str) -> ContentError {
        ContentError::Damaged { id: self.id, what: format!("{}: {what}", self.path.display()) }
    }
}
