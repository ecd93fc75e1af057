//! Lists the drive, one directory after the other, depth first, and queues its files for download.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowdrive::api::entry::EntryJson;
use rowdrive::schema::{DrivePath, Name};
use tokio::sync::mpsc;

use super::target::{Claim, TargetFolder};
use crate::client::retry::RetryPolicy;
use crate::client::stats::TransferStats;
use crate::client::{DriveClient, FailureScope};
use crate::local_fs::{FsEntry, printable, run_blocking};

pub struct FileDownload {
    pub target: Arc<TargetFolder>,
    pub local: OsString,
    pub claim: Claim,
    /// The local path, for messages.
    pub shown: String,
    pub path: DrivePath,
    pub entry: EntryJson<'static>,
}

pub struct ExportPlanner {
    pub client: DriveClient,
    pub retry: RetryPolicy,
    pub stats: Arc<TransferStats>,
    pub jobs: mpsc::Sender<FileDownload>,
}

/// A directory in the queue. Its local folder is opened only when the planner lists it, so that at most one folder for
/// each level of the tree is open.
struct QueuedDirectory {
    parent: Arc<TargetFolder>,
    /// None for the top, which is `parent` itself.
    local: Option<(OsString, Claim)>,
    shown: PathBuf,
    path: DrivePath,
}

/// Why a name that is unique on the drive cannot be used in the local folder.
pub const TAKEN: &str = "this folder has another name already that its file system treats as the same";

impl ExportPlanner {
    /// Lists the directory at `path` and all below it.
    pub async fn run(self, top: Arc<TargetFolder>, shown: PathBuf, path: DrivePath) {
        let mut queue = vec![QueuedDirectory { parent: top, local: None, shown, path }];
        while let Some(next) = queue.pop() {
            self.directory(next, &mut queue).await;
        }
    }

    async fn directory(&self, this: QueuedDirectory, queue: &mut Vec<QueuedDirectory>) {
        let QueuedDirectory { parent, local, shown: place, path } = this;
        let target = match run_blocking(move || enter(parent, local)).await {
            Ok((target, made)) => {
                if made {
                    self.stats.made_folder();
                }
                target
            }
            Err(error) => return self.fail(&place, &format!("{error}, so nothing below it was fetched")),
        };
        let mut cursor: Option<String> = None;
        loop {
            let page = self.retry.run(async || self.client.list_page(&path, cursor.as_deref()).await).await;
            let page = match page {
                Ok(Some(page)) => page,
                Ok(None) => return self.fail(&place, "its directory is gone from the drive"),
                Err(error) => return self.stats.fail(format!("{}: {error}", printable(&place)), error.scope()),
            };
            let claims: Vec<_> = page.entries.iter().map(|entry| target.claim(OsStr::new(&*entry.name))).collect();
            if page.next.is_none() {
                // Before the last downloads: stale files may take the disk space that these need.
                let target = target.clone();
                let _ = tokio::task::spawn_blocking(move || target.remove_left_overs()).await;
            }
            for (entry, claim) in page.entries.into_iter().zip(claims) {
                self.entry((&target, claim), &place, &path, entry, queue).await;
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return,
            }
        }
    }

    async fn entry(
        &self,
        (target, claim): (&Arc<TargetFolder>, Claim),
        place: &Path,
        directory: &DrivePath,
        entry: EntryJson<'static>,
        queue: &mut Vec<QueuedDirectory>,
    ) {
        // IMPORTANT: use only valid names: a name with a slash, or `..`, would lead out of the folder.
        let name = Name::parse(&entry.name).ok().filter(|name| name.as_str() == entry.name);
        let Some(path) = name.and_then(|name| directory.join(&name).ok()) else {
            return self.fail(place, &format!("the server gives {:?} for a name in it", entry.name));
        };
        let (local, shown) = (OsString::from(&*entry.name), place.join(&*entry.name));
        if entry.is_directory() {
            queue.push(QueuedDirectory { parent: target.clone(), local: Some((local, claim)), shown, path });
        } else {
            let shown = crate::local_fs::printable(&shown);
            self.send(FileDownload { target: target.clone(), local, claim, shown, path, entry }).await;
        }
    }

    pub async fn send(&self, job: FileDownload) {
        // The workers receive until the planner is dropped, so sending cannot fail.
        let _ = self.jobs.send(job).await;
    }

    fn fail(&self, place: &Path, why: &str) {
        self.stats.fail(format!("{}: {why}", printable(place)), FailureScope::Item);
    }
}

/// Opens a folder, and creates it if it is missing; also returns whether it was created.
fn enter(parent: Arc<TargetFolder>, local: Option<(OsString, Claim)>) -> io::Result<(Arc<TargetFolder>, bool)> {
    let Some((local, claim)) = local else {
        return Ok((parent, false));
    };
    let folder = &parent.folder;
    let made = match (folder.lookup(&local)?, claim) {
        (None, _) => {
            folder.create_folder(&local)?;
            true
        }
        (Some(FsEntry::Folder), Claim::Replace) => false,
        // Two directories would be merged, and files of the same name in them would replace each other.
        (Some(FsEntry::Folder), Claim::New) => return Err(io::Error::other(TAKEN)),
        (Some(FsEntry::File(_)), _) => return Err(io::Error::other("a file is in the way of the folder")),
        (Some(FsEntry::Other(what)), _) => {
            return Err(io::Error::other(format!("{what} is in the way of the folder")));
        }
    };
    Ok((Arc::new(TargetFolder::open(folder.open_folder(&local)?)?), made))
}
