//! A file in `new/` that nobody links to yet, and what an upload hands to its caller.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::runtime::Handle;

use super::disk::{Disk, DiskFile};
use super::error::ContentError;
use super::folder::ContentFolder;
use super::run;
use crate::budget::Permit;
use crate::schema::FileId;
use crate::schema::file::{ContentLocation, Digest};

/// A file in `new/`. It is removed when its last holder is gone, unless it was kept.
///
/// Whoever works on the file in the background holds it too, so a caller may be cancelled at any time: the
/// removal comes after the last write or rename.
pub struct NewFile {
    /// Open for writing.
    pub file: Arc<dyn DiskFile>,
    /// The folder that holds it.
    pub folder: Arc<ContentFolder>,
    name: Mutex<StagedName>,
}

#[derive(Clone, Copy)]
struct StagedName {
    id: FileId,
    kept: bool,
}

impl NewFile {
    /// Part of a job.
    pub async fn create(folder: Arc<ContentFolder>) -> io::Result<Self> {
        let id = FileId::random();
        let file = folder.create(id).await?;
        Ok(Self { file, folder, name: Mutex::new(StagedName { id, kept: false }) })
    }

    /// Part of a job, which holds the file: nothing else looks at its name meanwhile.
    async fn rename(&self, id: FileId) -> Result<(), ContentError> {
        let before = self.name().id;
        self.folder.disk.rename(&self.folder.staged_path(before), &self.folder.staged_path(id)).await?;
        self.name().id = id;
        self.folder.sync_new().await
    }

    fn name(&self) -> MutexGuard<'_, StagedName> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let StagedName { id, kept } = *self.name();
        if kept {
            return;
        }
        let disk = self.folder.disk.clone();
        let doomed = RemoveOnDrop { path: self.folder.staged_path(id), disk: disk.clone(), _file: self.file.clone() };
        // Freeing a large file takes a while. A runtime that is shutting down drops the job, and so the file.
        if Handle::try_current().is_ok() {
            disk.start(doomed.remove());
        }
    }
}

/// A path that is removed, on drop if not before, and the file open there, which is closed after that.
struct RemoveOnDrop {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    _file: Arc<dyn DiskFile>,
}

impl RemoveOnDrop {
    /// A job.
    async fn remove(mut self) {
        let path = std::mem::take(&mut self.path);
        log_failed_removal(&path, self.disk.remove(&path).await);
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty()
            && let Some(removed) = self.disk.remove(&self.path).now_or_never()
        {
            log_failed_removal(&self.path, removed);
        }
    }
}

fn log_failed_removal(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "an unfinished upload could not be removed");
    }
}

/// The content of an upload, durable where it lies outside the tables, and linked by nothing yet.
///
/// A file of its own is removed when this is dropped, unless it is [held](Self::keep).
pub struct StagedContent {
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of the content.
    pub digest: Digest,
    pub(super) data: StagedData,
}

pub(super) enum StagedData {
    /// The cell's value.
    Inline(FileId, Bytes),
    Large(Arc<NewFile>),
}

impl StagedContent {
    /// Where the content lies.
    pub fn location(&self) -> ContentLocation {
        match &self.data {
            StagedData::Inline(..) => ContentLocation::Inline,
            StagedData::Large(_) => ContentLocation::Large,
        }
    }

    /// The value of the file row's content cell, unless the content is a file of its own.
    pub fn inline(&self) -> Option<Bytes> {
        match &self.data {
            StagedData::Inline(_, cell) => Some(cell.clone()),
            StagedData::Large(_) => None,
        }
    }

    /// The same content, with the permit for the memory that it has: kept until the write that links it is done.
    pub fn with_permit(mut self, mut permit: Permit) -> Self {
        if let StagedData::Inline(_, cell) = &mut self.data {
            permit.shrink(cell.len());
            *cell = permit.attach(mem::take(cell));
        }
        self
    }

    /// The id under which it is staged: random, or given by [`rename`](Self::rename).
    pub fn id(&self) -> FileId {
        match &self.data {
            StagedData::Inline(id, _) => *id,
            StagedData::Large(file) => file.name().id,
        }
    }

    /// Stages it under another id, which must be fresh; durable when it returns.
    pub async fn rename(&mut self, id: FileId) -> Result<(), ContentError> {
        match &mut self.data {
            StagedData::Inline(old, _) => {
                *old = id;
                Ok(())
            }
            StagedData::Large(file) => {
                let (file, disk) = (file.clone(), file.folder.disk.clone());
                run(&*disk, async move { file.rename(id).await }).await
            }
        }
    }

    /// A write that links the file is on its way, or was done: whatever happens to this process, the file stays.
    pub fn keep(&self) {
        self.set_kept(true);
    }

    /// No write links the file, for certain: it is removed when this is dropped.
    pub fn release(&self) {
        self.set_kept(false);
    }

    fn set_kept(&self, kept: bool) {
        if let StagedData::Large(file) = &self.data {
            file.name().kept = kept;
        }
    }
}
