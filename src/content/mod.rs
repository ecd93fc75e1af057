//! The bytes of files: taken in, stored beside the tables if they are many, and given out checked.
//!
//! Up to [`INLINE`] bytes, content is a cell of the file row, and this module only makes and reads its value.
//! Beyond, it is a [content file](mod@format) under the file's id:
//!
//! 1. An [`Upload`] streams into `new/<id>`, if it leaves the reserve of the file system alone; file and name are
//!    durable when it is [`StagedContent`].
//! 2. The caller that commits rows with its id [keeps](StagedContent::keep) it and [promotes](Content::promote) it out
//!    of `new/` to `<xx>/<id>`. The rename is not synced: readers look in both folders, and at start-up the drive
//!    promotes or removes what is left in `new/`, by the rows.
//! 3. A [`Body`] streams its bytes. Each block is checked before any of it is sent.
//! 4. [`Content::remove`] removes it. A reader that has it open can read on to the end.
//!
//! Nothing here knows of tables, plans or HTTP.

mod body;
pub mod disk;
mod error;
mod folder;
mod format;
mod free_space;
mod reader;
mod staged;
mod stream;
#[cfg(test)]
mod tests;
mod upload;
mod verify;
mod writer;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use body::Body;
pub use error::ContentError;
pub use reader::ContentFile;
pub use staged::StagedContent;
pub use upload::Upload;

use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use crate::budget::Budget;
use crate::schema::FileId;
use disk::{Disk, LocalDisk};
use folder::ContentFolder;
use free_space::{FreeSpace, KeptSpace};

/// Up to so many bytes, content is a cell of the file row.
pub const INLINE: usize = 256 << 10;
/// The most bytes of a file. It bounds the table of checksums that a reader has in memory: 4 bytes for 256 KiB.
pub const LARGEST: u64 = 1 << 40;

/// The folder of content files; clones share it.
#[derive(Clone, Debug)]
pub struct Content {
    folder: Arc<ContentFolder>,
    free_space: Arc<FreeSpace>,
    /// A removal of files has it for writing. A [`RemovalPause`] has it for reading.
    removing: Arc<RwLock<()>>,
    memory: Budget,
}

/// No content file is removed until this is dropped.
pub struct RemovalPause(#[expect(dead_code, reason = "it is there to be dropped")] OwnedRwLockReadGuard<()>);

impl Content {
    /// Makes what is missing of `dir`, `dir/new` and `dir/00` to `dir/ff` (mode 0700, durable); the parent of
    /// `dir` must be there. Returns the ids of the files in `new/` too: an earlier process has neither
    /// promoted nor removed them. Files with other names there are logged and left.
    pub async fn open(dir: &Path) -> Result<(Self, Vec<FileId>), ContentError> {
        Self::open_on(Arc::new(LocalDisk), dir).await
    }

    /// As [`open`](Self::open), on another disk.
    pub async fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<(Self, Vec<FileId>), ContentError> {
        let (dir, calls) = (dir.to_owned(), disk.clone());
        let open = async move {
            let folder = ContentFolder::make(calls, &dir).await?;
            let found = folder.list_new().await?;
            Ok((
                Self {
                    folder: Arc::new(folder),
                    free_space: FreeSpace::new(),
                    memory: Budget::unlimited(),
                    removing: Arc::default(),
                },
                found,
            ))
        };
        run(&*disk, open).await
    }

    /// Opens `dir` for reading what is there, and changes nothing.
    pub fn open_read_only(dir: &Path) -> Result<Self, ContentError> {
        let folder = Arc::new(ContentFolder::open_read_only(Arc::new(LocalDisk), dir)?);
        Ok(Self { folder, free_space: FreeSpace::new(), memory: Budget::unlimited(), removing: Arc::default() })
    }

    /// Errors: `Stopped` once a sync has failed: what is written from then on may not be there after a crash.
    pub fn writable(&self) -> Result<(), ContentError> {
        self.folder.writable()
    }

    /// The same content; besides the reserve, uploads leave as many bytes free as this says, when as many are free as it
    /// is given.
    pub fn leaving_free(self, kept: KeptSpace) -> Self {
        Self { free_space: FreeSpace::besides(kept), ..self }
    }

    /// The same content; the buffers of uploads are of this budget.
    pub fn with_memory(self, memory: Budget) -> Self {
        Self { memory, ..self }
    }

    /// Starts to take in the content of one file.
    pub fn upload(&self) -> Upload {
        Upload::new(self.folder.clone(), self.free_space.clone(), self.memory.clone())
    }

    /// Moves the file from `new/` to where it stays, not synced. Missing in `new/` is fine: it was done before.
    pub async fn promote(&self, id: FileId) -> Result<(), ContentError> {
        let folder = self.folder.clone();
        run(&*self.folder.disk, async move { Ok(folder.promote(id).await?) }).await
    }

    /// Removes no content file until the guard is dropped: for a backup that copies them. Waits for a running removal.
    pub async fn pause_removal(&self) -> RemovalPause {
        RemovalPause(self.removing.clone().read_owned().await)
    }

    /// Removes content files wherever they lie, durably; missing is fine. After an error some may be left. Waits
    /// until no [`RemovalPause`] is left.
    pub async fn remove(&self, ids: &[FileId]) -> Result<(), ContentError> {
        let _removing = self.removing.write().await;
        let (folder, ids) = (self.folder.clone(), ids.to_vec());
        run(&*self.folder.disk, async move { folder.remove(&ids).await }).await
    }

    /// The first bytes of the ids of all promoted files, in order. A byte may have no file any more.
    pub async fn shards(&self) -> Result<Vec<u8>, ContentError> {
        let folder = self.folder.clone();
        run(&*self.folder.disk, async move { Ok(folder.list_shards().await?) }).await
    }

    /// The ids of the promoted files whose ids start with this byte, and the paths of the other files in that folder,
    /// which Rowdrive did not make.
    pub async fn list_shard(&self, first: u8) -> Result<(Vec<FileId>, Vec<PathBuf>), ContentError> {
        let folder = self.folder.clone();
        run(&*self.folder.disk, async move { Ok(folder.list_shard(first).await?) }).await
    }

    /// Opens a content file of `size` bytes of content and checks all but the data:
    /// [`Gone`](ContentError::Gone) if there is none, [`Damaged`](ContentError::Damaged) if it is not as it was
    /// written.
    pub async fn open_file(&self, id: FileId, size: u64) -> Result<ContentFile, ContentError> {
        let folder = self.folder.clone();
        run(&*self.folder.disk, async move { ContentFile::open(&folder, id, size).await }).await
    }
}

/// Runs a job of a disk.
async fn run<T: Send + 'static>(
    disk: &dyn Disk,
    job: impl Future<Output = Result<T, ContentError>> + Send + 'static,
) -> Result<T, ContentError> {
    disk.start(job).await.map_err(io::Error::other)?
}
