//! The folder of content files. Everything here runs in jobs of the [disk](super::disk).
//!
//! `<dir>/new/<uuid>` holds uploads that are not promoted yet, `<dir>/<xx>/<uuid>` the rest, where `xx`
//! are the first two digits of the id. No name that a user chose ever reaches the file system.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::disk::{Disk, DiskFile};
use super::error::ContentError;
use super::free_space::FileSystemSpace;
use crate::schema::FileId;

/// The folder of content files on its disk.
#[derive(Debug)]
pub struct ContentFolder {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Why nothing more is written.
    stopped: OnceLock<String>,
}

impl ContentFolder {
    /// Makes `dir` and `dir/new` if they are missing. The parent of `dir` must exist.
    pub async fn make(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<Self> {
        let folder = Self { disk, dir: std::path::absolute(dir)?, stopped: OnceLock::new() };
        folder.disk.make_folder(&folder.dir).await?;
        folder.disk.make_folder(&folder.new_dir()).await?;
        // Always: an earlier process may have made the folders and lost power before it synced them.
        folder.disk.sync_folder(&folder.dir).await?;
        folder.disk.sync_folder(folder.dir.parent().unwrap_or(&folder.dir)).await?;
        Ok(folder)
    }

    /// Errors: `Stopped` once a sync has failed, and of a folder that is open for reading only.
    pub fn writable(&self) -> Result<(), ContentError> {
        self.stopped.get().map_or(Ok(()), |cause| Err(ContentError::Stopped(cause.clone())))
    }

    /// Handles the result of a folder's sync. A failed sync is final, whatever its cause: the system may have dropped
    /// names that it could not write, also those of other uploads, and a second sync would succeed without them.
    ///
    /// Errors: `Stopped` with the first failure, also on a full disk: a second sync could succeed without the names.
    fn synced(&self, done: io::Result<()>) -> Result<(), ContentError> {
        if let Err(error) = done
            && self.stopped.set(error.to_string()).is_ok()
        {
            tracing::error!(%error, "a sync of content failed: no more writes are taken until a restart");
        }
        self.writable()
    }

    /// Handles the result of a new file's sync. On a full disk only its upload fails, since the file has no other data.
    pub fn synced_file(&self, done: io::Result<()>) -> Result<(), ContentError> {
        match done.map_err(ContentError::from) {
            Err(full @ ContentError::Full(_)) => Err(full),
            Err(ContentError::Io(error)) => self.synced(Err(error)),
            done => done.and_then(|()| self.writable()),
        }
    }

    /// The folder as it is, for reading.
    pub fn open_read_only(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<Self> {
        let folder = Self { disk, dir: std::path::absolute(dir)?, stopped: OnceLock::new() };
        let _new = folder.stopped.set("it is open for reading only".to_owned());
        Ok(folder)
    }

    /// The folder of uploads that no commit has linked yet.
    pub fn new_dir(&self) -> PathBuf {
        self.dir.join("new")
    }

    /// The free space; none if the file system does not report it.
    pub async fn space(&self) -> Option<FileSystemSpace> {
        self.disk.space(&self.dir).await.ok()
    }

    /// The path of a file before its promotion.
    pub fn staged_path(&self, id: FileId) -> PathBuf {
        self.dir.join("new").join(id.to_string())
    }

    /// The folder of all files whose ids start with the same byte.
    pub fn shard_dir(&self, id: FileId) -> PathBuf {
        let [first, ..] = *id.0.as_bytes();
        self.dir.join(format!("{first:02x}"))
    }

    /// The path of a file after its promotion.
    pub fn permanent_path(&self, id: FileId) -> PathBuf {
        self.shard_dir(id).join(id.to_string())
    }

    /// The ids of the files in `new/`. A file of another name was not made by the drive: it is logged and left.
    pub async fn list_new(&self) -> io::Result<Vec<FileId>> {
        let mut found = Vec::new();
        for file in self.disk.list(&self.new_dir()).await? {
            let id = file.name.to_str().and_then(|name| Uuid::parse_str(name).ok()).map(FileId);
            match id {
                // An upload has one spelling of a UUID as its name; others are foreign.
                Some(id) if file.name == *id.to_string() && file.is_file => found.push(id),
                _ => {
                    let path = self.new_dir().join(file.name);
                    tracing::warn!(path = %path.display(), "not a content file: left where it is");
                }
            }
        }
        Ok(found)
    }

    /// The first bytes of ids that have folders, in order.
    pub async fn list_shards(&self) -> io::Result<Vec<u8>> {
        let listed = self.disk.list(&self.dir).await?;
        let first = |name: &str| u8::from_str_radix(name, 16).ok().filter(|first| *name == *format!("{first:02x}"));
        let mut found: Vec<u8> = listed.iter().filter_map(|folder| first(folder.name.to_str()?)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The ids of the permanent files whose ids start with this byte, and the paths of files with other names.
    pub async fn list_shard(&self, first: u8) -> io::Result<(Vec<FileId>, Vec<PathBuf>)> {
        let (mut found, mut foreign) = (Vec::new(), Vec::new());
        let folder = self.dir.join(format!("{first:02x}"));
        for file in self.disk.list(&folder).await? {
            let path = folder.join(file.name);
            let id = path.file_name().and_then(|name| Uuid::parse_str(name.to_str()?).ok()).map(FileId);
            match id.filter(|id| self.permanent_path(*id) == path) {
                Some(id) => found.push(id),
                None => foreign.push(path),
            }
        }
        Ok((found, foreign))
    }

    /// Moves a file from `new/` to its shard. It syncs nothing: a file that is in `new/` again after a crash is promoted
    /// again. A file that is not in `new/` was promoted already.
    pub async fn promote(&self, id: FileId) -> io::Result<()> {
        let (from, to) = (self.staged_path(id), self.permanent_path(id));
        if missing_is_fine(self.disk.rename(&from, &to).await)? || !self.disk.exists(&from).await? {
            return Ok(());
        }
        self.disk.make_folder(&self.shard_dir(id)).await?; // the first file of its shard
        missing_is_fine(self.disk.rename(&from, &to).await).map(drop)
    }

    /// Removes the files, and syncs every folder that has had one of them, or may have had.
    pub async fn remove(&self, ids: &[FileId]) -> Result<(), ContentError> {
        self.writable()?;
        let mut touched = BTreeSet::new();
        for &id in ids {
            let (staged, permanent) = (self.staged_path(id), self.permanent_path(id));
            if missing_is_fine(self.disk.remove(&staged).await)? {
                touched.insert(self.new_dir());
            } else if missing_is_fine(self.disk.remove(&permanent).await)? {
                touched.insert(self.shard_dir(id));
            } else {
                missing_is_fine(self.disk.remove(&staged).await)?;
                // An earlier process may have removed it and crashed before it synced the folder.
                touched.extend([self.new_dir(), self.shard_dir(id)]);
            }
        }
        // A missing file counts as removed before, unless the content folder is missing too: `new/` always exists.
        if !touched.is_empty() && !self.disk.exists(&self.new_dir()).await? {
            let cause = format!("{} is missing: is it not mounted?", self.new_dir().display());
            return Err(io::Error::new(io::ErrorKind::NotFound, cause).into());
        }
        for folder in &touched {
            let synced = self.disk.sync_folder(folder).await;
            self.synced(missing_is_fine(synced).map(drop))?;
        }
        Ok(())
    }

    /// Opens the file where it is, also during its promotion; `None` if it is missing.
    ///
    /// The order is shard, `new/`, shard: a file that is promoted after the first look is found by the third.
    pub async fn open(&self, id: FileId) -> io::Result<Option<(Arc<dyn DiskFile>, PathBuf)>> {
        for path in [self.permanent_path(id), self.staged_path(id), self.permanent_path(id)] {
            match self.disk.open(&path).await {
                Ok(file) => return Ok(Some((file, path))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => (),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Makes the file in `new/`.
    pub async fn create(&self, id: FileId) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(&self.staged_path(id)).await
    }

    /// Makes names in `new/`, and removals from it, durable.
    pub async fn sync_new(&self) -> Result<(), ContentError> {
        let synced = self.disk.sync_folder(&self.new_dir()).await;
        self.synced(synced)
    }
}

/// Whether the file existed.
fn missing_is_fine(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::LocalDisk;
    use super::*;

    #[tokio::test]
    async fn a_missing_file_does_not_count_as_removed_if_nothing_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ContentFolder::make(Arc::new(LocalDisk), dir.path()).await.unwrap();
        let id = FileId::random();
        folder.remove(&[id]).await.unwrap();
        std::fs::remove_dir(folder.new_dir()).unwrap();
        assert!(matches!(folder.remove(&[id]).await, Err(ContentError::Io(_))));
        // After it is mounted again, removals work.
        std::fs::create_dir(folder.new_dir()).unwrap();
        folder.remove(&[id]).await.unwrap();
    }

    #[tokio::test]
    async fn a_failed_sync_is_final_except_of_a_file_on_a_full_disk() {
        let failed = |kind: io::ErrorKind| Err(io::Error::from(kind));
        let (full, broken) = (io::ErrorKind::StorageFull, io::ErrorKind::Other);
        for (of_file, kind) in [(true, full), (true, broken), (false, full), (false, broken)] {
            let dir = tempfile::tempdir().unwrap();
            let folder = ContentFolder::make(Arc::new(LocalDisk), dir.path()).await.unwrap();
            let result = if of_file { folder.synced_file(failed(kind)) } else { folder.synced(failed(kind)) };
            let writes_go_on = of_file && kind == full;
            // The error says what holds afterwards.
            assert_eq!(matches!(result, Err(ContentError::Full(_))), writes_go_on);
            assert_eq!(matches!(result, Err(ContentError::Stopped(_))), !writes_go_on);
            assert_eq!(folder.writable().is_ok(), writes_go_on, "{of_file} {kind}");
            // A later sync that succeeds changes nothing.
            assert_eq!(folder.sync_new().await.is_ok(), writes_go_on);
        }
    }
}
