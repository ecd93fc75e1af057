//! What is to be done: one folder after the other, depth first, each listed once here and once on the drive.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowdrive::schema::{DrivePath, Name, Timestamp};
use tokio::sync::mpsc;

use super::names::{Verdict, judge};
use crate::cli::local::{Folder, Kind, Part, blocking, shown};
use crate::cli::remote::patience::Patience;
use crate::cli::remote::{Entry, Outlook, Remote, Result};
use crate::cli::transfer::{Note, Tally};

/// One thing to do on the drive.
pub enum Job {
    /// A folder that is not there.
    Make(DrivePath),
    File(FileJob),
}

pub struct FileJob {
    pub folder: Arc<Folder>,
    pub local: OsString,
    /// For people.
    pub shown: String,
    pub path: DrivePath,
    /// The file that the drive has there.
    pub there: Option<There>,
}

/// What the drive has.
pub struct There {
    directory: bool,
    pub size: u64,
    pub modified: Option<Timestamp>,
    pub digest: String,
}

impl From<Entry> for There {
    fn from(entry: Entry) -> Self {
        let (directory, modified) = (entry.is_directory(), entry.modified());
        Self { directory, size: entry.size, modified, digest: entry.digest }
    }
}

pub struct Planner {
    pub remote: Remote,
    pub patience: Patience,
    pub tally: Arc<Tally>,
    pub jobs: mpsc::Sender<Job>,
}

/// A folder that is still to be gone through. It is opened when its turn comes, so that no more folders are open at
/// once than the tree has levels.
struct Ahead {
    parent: Arc<Folder>,
    /// None for the topmost, which is `parent` itself.
    local: Option<OsString>,
    shown: PathBuf,
    path: DrivePath,
    /// The drive has it.
    there: bool,
}

impl Planner {
    pub async fn walk(self, top: Arc<Folder>, shown: PathBuf, path: DrivePath) {
        let mut ahead = vec![Ahead { parent: top, local: None, shown, path, there: true }];
        while let Some(next) = ahead.pop() {
            self.folder(next, &mut ahead).await;
        }
    }

    async fn folder(&self, this: Ahead, ahead: &mut Vec<Ahead>) {
        let Ahead { parent, local, shown: place, path, there } = this;
        let (folder, names) = match blocking(move || read(parent, local)).await {
            Ok(Read::Folder(folder, names)) => (folder, names),
            Ok(Read::OfDrive(part)) => return self.skip(&place, &part.to_string()),
            Err(error) => return self.fail(&place, &format!("the folder cannot be read: {error}")),
        };
        let mut on_drive = HashMap::new();
        if !there {
            self.give(Job::Make(path.clone())).await;
        } else if let Err(error) = self.list(&path, &mut on_drive).await {
            return self.tally.fail(format!("{}: {error}", shown(&place)), error.outlook());
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
            let is_folder = matches!(found, Kind::Folder);
            match there {
                Some(There { directory: true, .. }) if !is_folder => {
                    self.fail(&below, "the drive has a folder of this name");
                }
                Some(There { directory: false, .. }) if is_folder => {
                    self.fail(&below, "the drive has a file of this name, so nothing below it was sent");
                }
                there if is_folder => {
                    let (parent, local, there) = (folder.clone(), Some(local), there.is_some());
                    ahead.push(Ahead { parent, local, shown: below, path, there });
                }
                there => {
                    let (folder, shown) = (folder.clone(), shown(&below));
                    self.give(Job::File(FileJob { folder, local, shown, path, there })).await;
                }
            }
        }
    }

    /// The files and folders, by the names that they get; the others are told.
    fn named(&self, place: &Path, names: Vec<(OsString, Kind)>) -> Vec<(OsString, Kind, Name)> {
        let mut wanted = Vec::new();
        for (local, found) in names {
            match found {
                Kind::Other(what) => self.skip(&place.join(&local), what),
                Kind::File | Kind::Folder => wanted.push((local, found)),
            }
        }
        let mut named = Vec::new();
        for (local, found, verdict) in judge(wanted) {
            match verdict {
                Verdict::Refused(why) => self.fail(&place.join(&local), &why),
                Verdict::Same(name) => named.push((local, found, name)),
                Verdict::Composed(name) => {
                    let what = format!("{}: it is {name}, composed (NFC), on the drive", shown(&place.join(&local)));
                    self.tally.note(Note::Renamed, what);
                    named.push((local, found, name));
                }
            }
        }
        named
    }

    /// All that a directory of the drive holds. One that is gone since holds nothing.
    async fn list(&self, path: &DrivePath, found: &mut HashMap<String, There>) -> Result<()> {
        let mut cursor: Option<String> = None;
        loop {
            let page = self.patience.with(async || self.remote.page(path, cursor.as_deref()).await).await?;
            let Some(page) = page else {
                return Ok(());
            };
            found.extend(page.entries.into_iter().map(|entry| (entry.name.clone(), entry.into())));
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn give(&self, job: Job) {
        // Whoever takes the jobs is there until they end.
        let _ = self.jobs.send(job).await;
    }

    fn skip(&self, place: &Path, what: &str) {
        self.tally.note(Note::Skipped, format!("{}: it is {what}", shown(place)));
    }

    fn fail(&self, place: &Path, why: &str) {
        self.tally.fail(format!("{}: {why}", shown(place)), Outlook::Open);
    }
}

/// What a folder turns out to be.
enum Read {
    /// Any other, with what it holds.
    Folder(Arc<Folder>, Vec<(OsString, Kind)>),
    OfDrive(Part),
}

/// What a folder holds; what vanishes while it is read was not there.
fn read(parent: Arc<Folder>, local: Option<OsString>) -> io::Result<Read> {
    let folder = match local {
        Some(local) => Arc::new(parent.folder(&local)?),
        None => parent,
    };
    if let Some(part) = folder.of_drive()? {
        return Ok(Read::OfDrive(part));
    }
    let mut names = Vec::new();
    for entry in folder.names()? {
        let (name, kind) = entry?;
        if let Some(found) = folder.kind(&name, kind)? {
            names.push((name, found));
        }
    }
    Ok(Read::Folder(folder, names))
}
