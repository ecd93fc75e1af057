//! Staged content, which no row links yet: a durable file in `new/`, or the value of a cell, which the commit makes
//! durable.

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

/// A file in `new/`. It is removed when its last reference is dropped, unless it was kept.
///
/// Jobs that work on the file have references too, so a caller may be cancelled at any time: the removal comes after the
/// last write or rename.
pub struct NewFile {
    /// Open for writing.
    pub file: Arc<dyn DiskFile>,
    /// The content folder.
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

    /// Part of a job, which has a reference to the file: no other task uses its name meanwhile.
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
        let removal = RemoveOnDrop { path: self.folder.staged_path(id), disk: disk.clone(), _file: self.file.clone() };
        // Removing a large file takes a while, so a job does it. A runtime that shuts down drops the job, which removes the
        // file too.
        if Handle::try_current().is_ok() {
            disk.start(removal.remove());
        }
    }
}

/// A path that is removed, on drop at the latest, and its open file, which is closed after that.
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

/// The content of an upload that no row links yet. A content file is durable; a cell is written by the commit.
///
/// A content file is removed when this is dropped, unless it is [kept](Self::keep).
pub struct StagedContent {
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of the content.
    pub digest: Digest,
    pub(super) data: StagedData,
}

pub(super) enum StagedData {
    /// The id, and the cell's value.
    Inline(Mutex<FileId>, Bytes),
    Large(Arc<NewFile>),
}

impl StagedContent {
    /// Where the content is stored.
    pub fn location(&self) -> ContentLocation {
        match &self.data {
            StagedData::Inline(..) => ContentLocation::Inline,
            StagedData::Large(_) => ContentLocation::Large,
        }
    }

    /// The value of the content cell of the file row; none for a content file.
    pub fn inline(&self) -> Option<Bytes> {
        match &self.data {
            StagedData::Inline(_, cell) => Some(cell.clone()),
            StagedData::Large(_) => None,
        }
    }

    /// The same content with the permit for its memory, which is released after the commit.
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
            StagedData::Inline(id, _) => *id.lock().unwrap_or_else(PoisonError::into_inner),
            StagedData::Large(file) => file.name().id,
        }
    }

    /// Stages it under another id, which must be new; durable when it returns.
    pub async fn rename(&self, id: FileId) -> Result<(), ContentError> {
        match &self.data {
            StagedData::Inline(old, _) => {
                *old.lock().unwrap_or_else(PoisonError::into_inner) = id;
                Ok(())
            }
            StagedData::Large(file) => {
                let (file, disk) = (file.clone(), file.folder.disk.clone());
                run(&*disk, async move { file.rename(id).await }).await
            }
        }
    }

    /// Keeps the file when this is dropped. Call it before a plan that links the file is sent: the plan may happen even if
    /// its outcome never becomes known.
    pub fn keep(&self) {
        self.set_kept(true);
    }

    /// Removes the file when this is dropped. Call it only if it is certain that no plan links it.
    pub fn release(&self) {
        self.set_kept(false);
    }

    fn set_kept(&self, kept: bool) {
        if let StagedData::Large(file) = &self.data {
            file.name().kept = kept;
        }
    }
}
