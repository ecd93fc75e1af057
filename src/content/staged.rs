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
use super::folders::Folders;
use super::run;
use crate::budget::Permit;
use crate::schema::FileId;
use crate::schema::file::{Digest, Location};

/// A file in `new/`. It is removed when its last holder is gone, unless it was kept.
///
/// Whoever works on the file in the background holds it too, so a caller may be cancelled at any time: the
/// removal comes after the last write or rename.
pub struct NewFile {
    /// Open for writing.
    pub file: Arc<dyn DiskFile>,
    pub folders: Arc<Folders>,
    name: Mutex<Named>,
}

#[derive(Clone, Copy)]
struct Named {
    id: FileId,
    kept: bool,
}

impl NewFile {
    /// Part of a job.
    pub async fn create(folders: Arc<Folders>) -> io::Result<Self> {
        let id = FileId::random();
        let file = folders.create(id).await?;
        Ok(Self { file, folders, name: Mutex::new(Named { id, kept: false }) })
    }

    /// Part of a job, which holds the file: nothing else looks at its name meanwhile.
    async fn rename(&self, id: FileId) -> Result<(), ContentError> {
        let before = self.name().id;
        self.folders.disk.rename(&self.folders.staged(before), &self.folders.staged(id)).await?;
        self.name().id = id;
        self.folders.sync_new().await
    }

    fn name(&self) -> MutexGuard<'_, Named> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let Named { id, kept } = *self.name();
        if kept {
            return;
        }
        let disk = self.folders.disk.clone();
        let doomed = Doomed { path: self.folders.staged(id), disk: disk.clone(), _file: self.file.clone() };
        // Freeing a large file takes a while. A runtime that is shutting down drops the job, and so the file.
        if Handle::try_current().is_ok() {
            disk.start(doomed.remove());
        }
    }
}

/// A path that is removed, on drop if not before, and the file open there, which is closed after that.
struct Doomed {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    _file: Arc<dyn DiskFile>,
}

impl Doomed {
    /// A job.
    async fn remove(mut self) {
        let path = std::mem::take(&mut self.path);
        told(&path, self.disk.remove(&path).await);
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty()
            && let Some(removed) = self.disk.remove(&self.path).now_or_never()
        {
            told(&self.path, removed);
        }
    }
}

fn told(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "an unfinished upload could not be removed");
    }
}

/// The content of an upload, durable where it lies outside the tables, and linked by nothing yet.
///
/// A file of its own is removed when this is dropped, unless it is [held](Self::hold).
pub struct Staged {
    /// Bytes.
    pub size: u64,
    pub digest: Digest,
    pub(super) held: Held,
}

pub(super) enum Held {
    /// The cell's value.
    Inline(FileId, Bytes),
    Large(Arc<NewFile>),
}

impl Staged {
    pub fn location(&self) -> Location {
        match &self.held {
            Held::Inline(..) => Location::Inline,
            Held::Large(_) => Location::Large,
        }
    }

    /// The value of the file row's content cell, unless the content is a file of its own.
    pub fn inline(&self) -> Option<Bytes> {
        match &self.held {
            Held::Inline(_, cell) => Some(cell.clone()),
            Held::Large(_) => None,
        }
    }

    /// The same content, with the permit for the memory that it has: kept until the write that links it is done.
    pub fn paid(mut self, mut permit: Permit) -> Self {
        if let Held::Inline(_, cell) = &mut self.held {
            permit.shrink(cell.len());
            *cell = permit.hold(mem::take(cell));
        }
        self
    }

    /// The id under which it is staged: random, or given by [`rename`](Self::rename).
    pub fn id(&self) -> FileId {
        match &self.held {
            Held::Inline(id, _) => *id,
            Held::Large(file) => file.name().id,
        }
    }

    /// Stages it under another id, which must be fresh; durable when it returns.
    pub async fn rename(&mut self, id: FileId) -> Result<(), ContentError> {
        match &mut self.held {
            Held::Inline(old, _) => {
                *old = id;
                Ok(())
            }
            Held::Large(file) => {
                let (file, disk) = (file.clone(), file.folders.disk.clone());
                run(&*disk, async move { file.rename(id).await }).await
            }
        }
    }

    /// A write that links the file is on its way, or was done: whatever happens to this process, the file stays.
    pub fn hold(&self) {
        self.set_kept(true);
    }

    /// No write links the file, for certain: it is removed when this is dropped.
    pub fn let_go(&self) {
        self.set_kept(false);
    }

    fn set_kept(&self, kept: bool) {
        if let Held::Large(file) = &self.held {
            file.name().kept = kept;
        }
    }
}
