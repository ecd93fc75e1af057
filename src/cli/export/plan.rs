//! What is to be fetched: one directory of the drive after the other, depth first.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowdrive::schema::{DrivePath, Name};
use tokio::sync::mpsc;

use crate::cli::local::{Folder, Found, blocking, shown, sweep};
use crate::cli::remote::patience::Patience;
use crate::cli::remote::{Entry, Remote};
use crate::cli::transfer::Tally;

pub struct FileJob {
    pub folder: Arc<Folder>,
    pub local: OsString,
    /// For people.
    pub shown: String,
    pub path: DrivePath,
    pub entry: Entry,
}

pub struct Planner {
    pub remote: Remote,
    pub patience: Patience,
    pub tally: Arc<Tally>,
    pub jobs: mpsc::Sender<FileJob>,
}

/// A directory that is still to be gone through. Its folder is opened when its turn comes, so that no more folders
/// are open at once than the tree has levels.
struct Ahead {
    parent: Arc<Folder>,
    /// None for the topmost, which is `parent` itself.
    local: Option<OsString>,
    shown: PathBuf,
    path: DrivePath,
}

impl Planner {
    pub async fn walk(self, top: Arc<Folder>, shown: PathBuf, path: DrivePath) {
        let mut ahead = vec![Ahead { parent: top, local: None, shown, path }];
        while let Some(next) = ahead.pop() {
            self.directory(next, &mut ahead).await;
        }
    }

    async fn directory(&self, this: Ahead, ahead: &mut Vec<Ahead>) {
        let Ahead { parent, local, shown: place, path } = this;
        let folder = match blocking(move || enter(parent, local)).await {
            Ok((folder, made)) => {
                if made {
                    self.tally.made_folder();
                }
                folder
            }
            Err(error) => return self.fail(&place, &format!("{error}, so nothing below it was fetched")),
        };
        let mut cursor: Option<String> = None;
        loop {
            let page = self.patience.with(async || self.remote.page(&path, cursor.as_deref()).await).await;
            let page = match page {
                Ok(Some(page)) => page,
                Ok(None) => return self.fail(&place, "its directory is gone from the drive"),
                Err(error) => return self.tally.fail(format!("{}: {error}", shown(&place)), error.is_shared()),
            };
            for entry in page.entries {
                self.entry(&folder, &place, &path, entry, ahead).await;
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return,
            }
        }
    }

    async fn entry(
        &self,
        folder: &Arc<Folder>,
        place: &Path,
        directory: &DrivePath,
        entry: Entry,
        ahead: &mut Vec<Ahead>,
    ) {
        // IMPORTANT: a name becomes a local one only if it is a name: a slash or `..` would lead elsewhere.
        let name = Name::parse(&entry.name).ok().filter(|name| name.as_str() == entry.name);
        let Some(path) = name.and_then(|name| directory.join(&name).ok()) else {
            return self.fail(place, &format!("the server gives {:?} for a name in it", entry.name));
        };
        let (local, shown) = (OsString::from(&entry.name), place.join(&entry.name));
        if entry.is_directory() {
            ahead.push(Ahead { parent: folder.clone(), local: Some(local), shown, path });
        } else {
            let shown = crate::cli::local::shown(&shown);
            self.give(FileJob { folder: folder.clone(), local, shown, path, entry }).await;
        }
    }

    pub async fn give(&self, job: FileJob) {
        // Whoever takes the jobs is there until they end.
        let _ = self.jobs.send(job).await;
    }

    fn fail(&self, place: &Path, why: &str) {
        self.tally.fail(format!("{}: {why}", shown(place)), false);
    }
}

/// Opens a folder, made if it is missing, and whether it was.
fn enter(parent: Arc<Folder>, local: Option<OsString>) -> io::Result<(Arc<Folder>, bool)> {
    let Some(local) = local else {
        // What cannot be swept now is swept by the next.
        let _ = sweep(&parent);
        return Ok((parent, false));
    };
    let made = match parent.find(&local)? {
        None => {
            parent.make(&local)?;
            true
        }
        Some(Found::Folder) => false,
        Some(Found::File(_)) => return Err(io::Error::other("a file is in the way of the folder")),
        Some(Found::Other(what)) => return Err(io::Error::other(format!("{what} is in the way of the folder"))),
    };
    let folder = parent.folder(&local)?;
    if !made {
        let _ = sweep(&folder);
    }
    Ok((Arc::new(folder), made))
}
