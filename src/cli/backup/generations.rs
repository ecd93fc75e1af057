//! The backups in a folder: each a data folder, numbered, with a manifest that is written last.
//!
//! A backup is made in `partial` and renamed once it is complete and durable; one that is to go is renamed before it is
//! removed. So whatever bears a number is whole.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bring::{make, sync_all};
use super::{BackupFailed, Result, of};

const MANIFEST: &str = "backup.json";
const PARTIAL: &str = "partial";
const GOING: &str = "going";
const LOCK: &str = "in-use";

/// Whether a folder is a backup, and no drive of its own: the manifest names each file of it.
pub fn is_backup(dir: &Path) -> bool {
    dir.join(MANIFEST).exists()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this file and of the backup's layout.
    pub format: u32,
    /// The version of the program that made it.
    pub program: String,
    /// The version of the store's schema.
    pub schema: u32,
    /// When it was complete.
    pub made: String,
    /// The id of the drive. Earlier versions have written none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Files of the drive.
    pub files: u64,
    /// Whether the drive was damaged.
    pub damaged: bool,
    /// The files of `db`.
    pub db: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub size: u64,
    pub sha256: String,
}

/// A complete backup.
pub struct Generation {
    number: u64,
    pub path: PathBuf,
    pub manifest: Manifest,
}

/// The backups of a folder, in the order they were made in.
pub struct Complete {
    pub sound: Vec<Generation>,
    /// Those whose manifest cannot be read, by number, and why: nobody knows what they are.
    pub unread: Vec<(u64, BackupFailed)>,
}

impl Complete {
    /// The newest backup of a drive with an id, if that is another one.
    pub fn of_another(&self, drive: Option<&str>) -> Option<&Generation> {
        let newest = self.sound.iter().rev().find(|one| one.manifest.drive.is_some())?;
        // A folder that has no id yet was never served by this version: no empty one is made without.
        (drive.is_some() && newest.manifest.drive.as_deref() != drive).then_some(newest)
    }

    fn last_number(&self) -> u64 {
        let unread = self.unread.iter().map(|(number, _)| *number);
        self.sound.iter().map(|one| one.number).chain(unread).max().unwrap_or_default()
    }
}

pub struct Generations {
    dir: PathBuf,
    _lock: File,
}

impl Generations {
    /// Takes the folder for this process alone, made if it is missing.
    pub fn open(dir: &Path, data: &Path) -> Result<Self> {
        make(dir)?;
        let dir = of(dir, fs::canonicalize(dir))?;
        if dir.starts_with(data) || data.starts_with(&dir) {
            return Err(BackupFailed::Inside);
        }
        let lock = dir.join(LOCK);
        let file = of(&lock, File::options().create(true).truncate(false).write(true).open(&lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupFailed::Busy(dir)),
            Err(TryLockError::Error(error)) => return of(&lock, Err(error)),
        }
        let generations = Self { dir, _lock: file };
        generations.remove_going()?;
        Ok(generations)
    }

    /// Where the next is made. What is there already was brought by a run that was broken off.
    pub fn partial(&self) -> Result<PathBuf> {
        let partial = self.dir.join(PARTIAL);
        make(&partial)?;
        Ok(partial)
    }

    pub fn complete(&self) -> Result<Complete> {
        complete(&self.dir)
    }

    /// Gives the one in `partial` its manifest and its place.
    pub fn add(&self, manifest: &Manifest) -> Result<PathBuf> {
        let partial = self.dir.join(PARTIAL);
        let path = partial.join(MANIFEST);
        let text = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::from)?;
        of(&path, File::create(&path).and_then(|mut file| file.write_all(&text)))?;
        // IMPORTANT: all of it is durable before it has its name.
        sync_all(&partial)?;
        let number = self.complete()?.last_number() + 1;
        let time: String = manifest.made.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
        let to = self.dir.join(format!("{number:04}_{time}"));
        of(&to, fs::rename(&partial, &to))?;
        sync_all(&self.dir)?;
        Ok(to)
    }

    /// Removes what is older than the last so many of this drive, undamaged. Those of other drives stay, and count for
    /// none; those without an id may be of this one. Those of a damaged one may lack what it had
    /// lost: they stay, and go, with the ones beside them, and count for none. One whose manifest cannot be read stays.
    pub fn keep(&self, many: usize, drive: Option<&str>) -> Result<()> {
        let mut complete = self.complete()?.sound;
        complete.retain(|one| one.manifest.drive.is_none() || one.manifest.drive.as_deref() == drive);
        let mut undamaged = complete.iter().rev().filter(|one| !one.manifest.damaged);
        let oldest = undamaged.nth(many.saturating_sub(1)).map_or(0, |one| one.number);
        for old in complete.iter().filter(|one| one.number < oldest) {
            of(&old.path, fs::rename(&old.path, self.dir.join(GOING)))?;
            self.remove_going()?;
        }
        Ok(())
    }

    fn remove_going(&self) -> Result<()> {
        let going = self.dir.join(GOING);
        if going.exists() { of(&going, fs::remove_dir_all(&going)) } else { Ok(()) }
    }
}

fn complete(dir: &Path) -> Result<Complete> {
    let mut found = Complete { sound: Vec::new(), unread: Vec::new() };
    for entry in of(dir, fs::read_dir(dir))? {
        let entry = of(dir, entry)?;
        let number = entry.file_name().to_str().and_then(|name| name.split_once('_')?.0.parse().ok());
        let Some(number) = number else { continue };
        match read(&entry.path()) {
            Ok(Some(manifest)) => found.sound.push(Generation { number, path: entry.path(), manifest }),
            Ok(None) => {}
            Err(error) => found.unread.push((number, error)),
        }
    }
    found.sound.sort_by_key(|generation| generation.number);
    found.unread.sort_by_key(|(number, _)| *number);
    Ok(found)
}

/// The backup that stands here, or else the last of those that this folder holds; with why newer ones are passed over.
pub fn find(path: &Path) -> Result<(PathBuf, Manifest, Vec<BackupFailed>)> {
    let path = of(path, fs::canonicalize(path))?;
    if let Some(manifest) = read(&path)? {
        return Ok((path, manifest, Vec::new()));
    }
    let Complete { mut sound, unread } = complete(&path)?;
    let Some(last) = sound.pop() else { return Err(BackupFailed::NoBackup(path)) };
    let newer = unread.into_iter().filter(|(number, _)| *number > last.number).map(|(_, error)| error);
    Ok((last.path, last.manifest, newer.collect()))
}

/// None if there is no manifest.
fn read(backup: &Path) -> Result<Option<Manifest>> {
    let path = backup.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => match serde_json::from_slice::<Manifest>(&text) {
            Ok(manifest) if manifest.format == 1 => Ok(Some(manifest)),
            _ => Err(BackupFailed::NoBackup(backup.to_owned())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => of(&path, Err(error)),
    }
}
