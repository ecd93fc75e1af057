//! A file in `new/` that nobody links to yet, and what an upload hands to its caller.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::runtime::Handle;

use super::error::ContentError;
use super::folders::{self, Folders};
use super::run;
use crate::schema::FileId;
use crate::schema::file::{Digest, Location};

/// A file in `new/`. It is removed when its last holder is gone, unless it was kept.
///
/// Whoever works on the file in the background holds it too, so a caller may be cancelled at any time: the
/// removal comes after the last write or rename.
pub struct NewFile {
    /// Open for writing.
    pub file: Arc<File>,
    pub folders: Arc<Folders>,
    name: Mutex<Named>,
}

#[derive(Clone, Copy)]
struct Named {
    id: FileId,
    kept: bool,
}

impl NewFile {
    /// Blocks.
    pub fn create(folders: Arc<Folders>) -> io::Result<Self> {
        let id = FileId::random();
        let file = Arc::new(folders.create(id)?);
        Ok(Self { file, folders, name: Mutex::new(Named { id, kept: false }) })
    }

    /// Blocks.
    fn rename(&self, id: FileId) -> io::Result<()> {
        let mut name = self.name();
        fs::rename(self.folders.staged(name.id), self.folders.staged(id))?;
        name.id = id;
        folders::sync(&self.folders.new_dir())
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
        let doomed = Doomed { path: self.folders.staged(id), _file: self.file.clone() };
        // Freeing a large file takes a while. A runtime that is shutting down drops the job, and so the file.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(doomed));
        }
    }
}

/// A path that is removed on drop, and the file open there, which is closed after that.
struct Doomed {
    path: PathBuf,
    _file: Arc<File>,
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "an unfinished upload could not be removed");
        }
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
                let file = file.clone();
                run(move || Ok(file.rename(id)?)).await
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
