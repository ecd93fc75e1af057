//! What is to be fetched: one directory of the drive after the other, depth first.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowdrive::schema::{DrivePath, Name};
use tokio::sync::mpsc;

use super::target::{Claim, Target};
use crate::cli::local::{Found, blocking, shown};
use crate::cli::remote::patience::Patience;
use crate::cli::remote::{Entry, Outlook, Remote};
use crate::cli::transfer::Tally;

pub struct FileJob {
    pub target: Arc<Target>,
    pub local: OsString,
    pub claim: Claim,
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
    parent: Arc<Target>,
    /// None for the topmost, which is `parent` itself.
    local: Option<(OsString, Claim)>,
    shown: PathBuf,
    path: DrivePath,
}

/// A name that the drive has once, and the local folder for something else.
pub const TAKEN: &str = "another name stands there already that this folder takes for the same";

impl Planner {
    pub async fn walk(self, top: Arc<Target>, shown: PathBuf, path: DrivePath) {
        let mut ahead = vec![Ahead { parent: top, local: None, shown, path }];
        while let Some(next) = ahead.pop() {
            self.directory(next, &mut ahead).await;
        }
    }

    async fn directory(&self, this: Ahead, ahead: &mut Vec<Ahead>) {
        let Ahead { parent, local, shown: place, path } = this;
        let target = match blocking(move || enter(parent, local)).await {
            Ok((target, made)) => {
                if made {
                    self.tally.made_folder();
                }
                target
            }
            Err(error) => return self.fail(&place, &format!("{error}, so nothing below it was fetched")),
        };
        let mut cursor: Option<String> = None;
        loop {
            let page = self.patience.with(async || self.remote.page(&path, cursor.as_deref()).await).await;
            let page = match page {
                Ok(Some(page)) => page,
                Ok(None) => return self.fail(&place, "its directory is gone from the drive"),
                Err(error) => return self.tally.fail(format!("{}: {error}", shown(&place)), error.outlook()),
            };
            let claims: Vec<_> = page.entries.iter().map(|entry| target.claim(OsStr::new(&entry.name))).collect();
            if page.next.is_none() {
                // Before the last files come: left-overs may hold the room that they need.
                let target = target.clone();
                let _ = tokio::task::spawn_blocking(move || target.remove_left_overs()).await;
            }
            for (entry, claim) in page.entries.into_iter().zip(claims) {
                self.entry((&target, claim), &place, &path, entry, ahead).await;
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return,
            }
        }
    }

    async fn entry(
        &self,
        (target, claim): (&Arc<Target>, Claim),
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
            ahead.push(Ahead { parent: target.clone(), local: Some((local, claim)), shown, path });
        } else {
            let shown = crate::cli::local::shown(&shown);
            self.give(FileJob { target: target.clone(), local, claim, shown, path, entry }).await;
        }
    }

    pub async fn give(&self, job: FileJob) {
        // Whoever takes the jobs is there until they end.
        let _ = self.jobs.send(job).await;
    }

    fn fail(&self, place: &Path, why: &str) {
        self.tally.fail(format!("{}: {why}", shown(place)), Outlook::Open);
    }
}

/// Opens a folder, made if it is missing, and whether it was.
fn enter(parent: Arc<Target>, local: Option<(OsString, Claim)>) -> io::Result<(Arc<Target>, bool)> {
    let Some((local, claim)) = local else {
        return Ok((parent, false));
    };
    let folder = &parent.folder;
    let made = match (folder.find(&local)?, claim) {
        (None, _) => {
            folder.make(&local)?;
            true
        }
        (Some(Found::Folder), Claim::Replace) => false,
        // Both directories would become one, and files of one name in them one file.
        (Some(Found::Folder), Claim::New) => return Err(io::Error::other(TAKEN)),
        (Some(Found::File(_)), _) => return Err(io::Error::other("a file is in the way of the folder")),
        (Some(Found::Other(what)), _) => {
            return Err(io::Error::other(format!("{what} is in the way of the folder")));
        }
    };
    Ok((Arc::new(Target::open(folder.folder(&local)?)?), made))
}
