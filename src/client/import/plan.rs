//! Compares one folder after the other, depth first, with its directory on the drive, and queues the tasks.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowdrive::api::entry::EntryJson;
use rowdrive::schema::path::LEVELS;
use rowdrive::schema::{DrivePath, Name, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::names::{NameMapping, map_names};
use crate::client::overwrite::{Decision, OTHER_FILE, decide, note_left};
use crate::client::retry::RetryPolicy;
use crate::client::stats::{TransferNote, TransferStats};
use crate::client::{DriveClient, FailureScope, Result};
use crate::data_folder::part::{self, DrivePart};
use crate::local_fs::{FileStamp, FsKind, OpenFolder, printable, run_blocking};

/// A task for a worker.
pub enum ImportTask {
    /// Create a directory.
    Make(DrivePath),
    File(FileUpload),
}

impl ImportTask {
    /// The path on the drive.
    pub fn path(&self) -> &DrivePath {
        match self {
            Self::Make(path) => path,
            Self::File(file) => &file.path,
        }
    }
}

/// A place among the folders that are open, until its last clone is dropped.
pub type FolderPlace = Arc<OwnedSemaphorePermit>;

pub struct FileUpload {
    pub folder: Arc<OpenFolder>,
    /// Of the folder.
    pub _place: Option<FolderPlace>,
    pub local: OsString,
    /// The local path, for messages.
    pub shown: String,
    pub path: DrivePath,
    /// The file at this path of the drive, if there is one.
    pub there: Option<RemoteFile>,
}

/// The compared attributes of an entry of the drive.
pub struct RemoteFile {
    directory: bool,
    size: u64,
    modified: Option<Timestamp>,
    digest: String,
}

impl FileUpload {
    /// `overwrite`: whether a file with other content is replaced.
    pub fn decide(&self, version: &FileStamp, digest: &str, overwrite: bool) -> Decision {
        decide(self.there.as_ref().map(|there| there.is(version, digest)), overwrite)
    }

    /// Names it as one that is not sent, since the drive has another one.
    pub fn note_left(&self, stats: &TransferStats) {
        note_left(stats, &self.shown, "the drive", OTHER_FILE);
    }
}

impl RemoteFile {
    /// Whether it has this content, with this time.
    pub fn is(&self, version: &FileStamp, digest: &str) -> bool {
        (self.size, self.modified, self.digest.as_str()) == (version.size, Some(version.modified()), digest)
    }
}

impl From<EntryJson<'static>> for RemoteFile {
    fn from(entry: EntryJson<'static>) -> Self {
        let (directory, modified) = (entry.is_directory(), entry.modified_time());
        Self { directory, size: entry.bytes(), modified, digest: entry.digest.unwrap_or_default() }
    }
}

/// Folders that are open at a time: those with queued files, and one for each level of the tree. More than a path has
/// levels, or the planner could wait for itself.
pub const OPEN_FOLDERS: usize = 2 * LEVELS;

pub struct ImportPlanner {
    /// With a permit for each open folder.
    pub places: Arc<Semaphore>,
    pub client: DriveClient,
    pub retry: RetryPolicy,
    pub stats: Arc<TransferStats>,
    pub jobs: mpsc::Sender<ImportTask>,
}

/// A folder in the queue. It is opened only when the planner reads it, so that at most one folder for each level of the
/// tree is open.
struct QueuedFolder {
    parent: Arc<OpenFolder>,
    /// Of the parent.
    _place: Option<FolderPlace>,
    /// None for the top, which is `parent` itself.
    local: Option<OsString>,
    shown: PathBuf,
    path: DrivePath,
    /// Whether the drive has it.
    there: bool,
}

impl ImportPlanner {
    /// Compares the folder `top` and all below it.
    pub async fn run(self, top: Arc<OpenFolder>, shown: PathBuf, path: DrivePath) {
        let mut queue = vec![QueuedFolder { parent: top, _place: None, local: None, shown, path, there: true }];
        while let Some(next) = queue.pop() {
            self.folder(next, &mut queue).await;
        }
    }

    async fn folder(&self, this: QueuedFolder, queue: &mut Vec<QueuedFolder>) {
        let QueuedFolder { parent, local, shown: place, path, there, _place } = this;
        // This fails only if the semaphore is closed, and nothing closes it.
        let open = self.places.clone().acquire_owned().await.ok().map(Arc::new);
        let (folder, names) = match run_blocking(move || read(parent, local)).await {
            Ok(Read::Folder(folder, names)) => (folder, names),
            Ok(Read::OfDrive(part)) => return self.skip(&place, &part.to_string()),
            Err(error) => return self.fail(&place, &format!("the folder cannot be read: {error}")),
        };
        let mut on_drive = HashMap::new();
        if !there {
            self.send(ImportTask::Make(path.clone())).await;
        } else if let Err(error) = self.list(&path, &mut on_drive).await {
            return self.stats.fail(format!("{}: {error}", printable(&place)), error.scope());
        }
        for (local, found, name) in self.named(&place, names) {
            let below = place.join(&local);
            let path = match path.join(&name) {
                Ok(path) => path,
                Err(error) => {
                    self.fail(&below, &error.to_string());
                    continue;
                }
            };
            let there = on_drive.remove(name.as_str());
            let is_folder = matches!(found, FsKind::Folder);
            match there {
                Some(RemoteFile { directory: true, .. }) if !is_folder => {
                    self.fail(&below, "the drive has a folder of this name");
                }
                Some(RemoteFile { directory: false, .. }) if is_folder => {
                    self.fail(&below, "the drive has a file of this name, so nothing below it was sent");
                }
                there if is_folder => {
                    let (parent, local, there) = (folder.clone(), Some(local), there.is_some());
                    queue.push(QueuedFolder { parent, _place: open.clone(), local, shown: below, path, there });
                }
                there => {
                    let (folder, place, shown) = (folder.clone(), open.clone(), printable(&below));
                    self.send(ImportTask::File(FileUpload { folder, _place: place, local, shown, path, there })).await;
                }
            }
        }
    }

    /// The files and folders with their names on the drive. Reports those without a valid name.
    fn named(&self, place: &Path, names: Vec<(OsString, FsKind)>) -> Vec<(OsString, FsKind, Name)> {
        let mut wanted = Vec::new();
        for (local, found) in names {
            match found {
                FsKind::Other(what) => self.skip(&place.join(&local), what),
                FsKind::File | FsKind::Folder => wanted.push((local, found)),
            }
        }
        let mut named = Vec::new();
        for (local, found, verdict) in map_names(wanted) {
            match verdict {
                NameMapping::Refused(why) => self.fail(&place.join(&local), &why),
                NameMapping::Same(name) => named.push((local, found, name)),
                NameMapping::Composed(name) => {
                    let what =
                        format!("{}: it is {name}, composed (NFC), on the drive", printable(&place.join(&local)));
                    self.stats.note(TransferNote::Renamed, what);
                    named.push((local, found, name));
                }
            }
        }
        named
    }

    /// All entries of a directory of the drive; none if it was deleted meanwhile.
    async fn list(&self, path: &DrivePath, found: &mut HashMap<String, RemoteFile>) -> Result<()> {
        let mut cursor: Option<String> = None;
        loop {
            let page = self.retry.run(async || self.client.list_page(path, cursor.as_deref()).await).await?;
            let Some(page) = page else {
                return Ok(());
            };
            found.extend(page.entries.into_iter().map(|entry| (entry.name.to_string(), entry.into())));
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn send(&self, job: ImportTask) {
        // The workers receive until the planner is dropped, so sending cannot fail.
        let _ = self.jobs.send(job).await;
    }

    fn skip(&self, place: &Path, what: &str) {
        self.stats.note(TransferNote::Skipped, format!("{}: it is {what}", printable(place)));
    }

    fn fail(&self, place: &Path, why: &str) {
        self.stats.fail(format!("{}: {why}", printable(place)), FailureScope::Item);
    }
}

/// The result of reading a local folder.
enum Read {
    /// A folder and its entries.
    Folder(Arc<OpenFolder>, Vec<(OsString, FsKind)>),
    OfDrive(DrivePart),
}

/// Reads a folder, without entries that are removed meanwhile.
fn read(parent: Arc<OpenFolder>, local: Option<OsString>) -> io::Result<Read> {
    let folder = match local {
        Some(local) => Arc::new(parent.open_folder(&local)?),
        None => parent,
    };
    if let Some(part) = part::identify(&folder)? {
        return Ok(Read::OfDrive(part));
    }
    let mut names = Vec::new();
    for entry in folder.entries()? {
        let (name, kind) = entry?;
        if let Some(found) = folder.kind(&name, kind)? {
            names.push((name, found));
        }
    }
    Ok(Read::Folder(folder, names))
}
