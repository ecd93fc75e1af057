//! The backups in a folder. Each is a numbered data folder with a manifest, which is written last.
//!
//! A backup is made in `partial` and renamed once it is complete and durable. An old one is renamed before it is
//! removed. So each backup that the program has numbered is complete; one that people have copied into the
//! folder may not be.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::copier::{create_folder, sync_file_system};
use super::{BackupFailed, Result, with_path};
use crate::data_folder::names::{CONTENT, DB, LOCK, MANIFEST};

const PARTIAL: &str = "partial";
/// The name of a backup while it is removed.
const BEING_REMOVED: &str = "going";
/// What is in a backup.
const PARTS: &[&str] = &[DB, CONTENT, MANIFEST];

/// Whether a folder is a backup. Nothing may change a backup: its manifest has the digest of each file of `db`.
pub fn is_backup(dir: &Path) -> bool {
    dir.join(MANIFEST).exists()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this format and of the layout of the backup.
    pub format: u32,
    /// The version of the program that made it.
    pub program: String,
    /// The version of the store's schema.
    pub schema: u32,
    /// The time when the backup was complete, in RFC 3339.
    pub made: String,
    /// The id of the drive. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// The number of files of the drive.
    pub files: u64,
    /// Whether the drive was damaged.
    pub damaged: bool,
    /// The files of `db`.
    pub db: BTreeMap<String, ManifestFile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ManifestFile {
    /// In bytes.
    pub size: u64,
    /// In hexadecimal digits.
    pub sha256: String,
}

/// A complete backup.
pub struct CompleteBackup {
    number: u64,
    pub path: PathBuf,
    pub manifest: Manifest,
}

/// The backups of a folder, oldest first.
pub struct BackupList {
    pub readable: Vec<CompleteBackup>,
    /// The numbers of backups with a manifest that is missing or cannot be read, and the errors.
    pub unreadable: Vec<(u64, BackupFailed)>,
}

impl BackupList {
    /// The newest backup with the id of a drive, if that is another drive than this one.
    pub fn of_another(&self, drive: Option<&str>) -> Option<&CompleteBackup> {
        let newest = self.readable.iter().rev().find(|one| one.manifest.drive.is_some())?;
        // A data folder without an id was never served by this version.
        (drive.is_some() && newest.manifest.drive.as_deref() != drive).then_some(newest)
    }

    /// One more than the highest number of these. `dir`: their folder.
    ///
    /// Errors: `NoNumber` if a backup has the highest number.
    fn next_number(&self, dir: &Path) -> Result<u64> {
        let unread = self.unreadable.iter().map(|(number, _)| *number);
        let last = self.readable.iter().map(|one| one.number).chain(unread).max().unwrap_or_default();
        last.checked_add(1).ok_or_else(|| BackupFailed::NoNumber(dir.to_owned()))
    }
}

pub struct BackupFolder {
    dir: PathBuf,
    _lock: File,
}

impl BackupFolder {
    /// Locks the folder of backups; creates it if it is missing.
    ///
    /// Errors: `Inside` if the data folder is in it, or it in the data folder; `Busy` while another backup is made there;
    /// `NotOurs` if the folder `going` has what no backup makes.
    pub fn open(dir: &Path, data: &Path) -> Result<Self> {
        create_folder(dir)?;
        let dir = with_path(dir, fs::canonicalize(dir))?;
        if dir.starts_with(data) || data.starts_with(&dir) {
            return Err(BackupFailed::Inside);
        }
        let lock = dir.join(LOCK);
        let file = with_path(&lock, File::options().create(true).truncate(false).write(true).open(&lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupFailed::Busy(dir)),
            Err(TryLockError::Error(error)) => return with_path(&lock, Err(error)),
        }
        let folder = Self { dir, _lock: file };
        folder.finish_removal()?;
        Ok(folder)
    }

    /// The folder of the unfinished backup, the one after these. It may have files that an interrupted run has copied.
    ///
    /// Errors: `NotOurs` if something else is there; `NoNumber` if there is no number for the backup.
    pub fn partial(&self, complete: &BackupList) -> Result<PathBuf> {
        // Refused before hours of copying, not after.
        complete.next_number(&self.dir)?;
        let partial = self.dir.join(PARTIAL);
        check_own(&partial)?;
        create_folder(&partial)?;
        Ok(partial)
    }

    pub fn complete(&self) -> Result<BackupList> {
        complete(&self.dir)
    }

    /// Writes the manifest of the backup in `partial`, and renames the backup to its number.
    pub fn add(&self, manifest: &Manifest) -> Result<PathBuf> {
        let partial = self.dir.join(PARTIAL);
        let path = partial.join(MANIFEST);
        let text = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::from)?;
        with_path(&path, File::create(&path).and_then(|mut file| file.write_all(&text)))?;
        // IMPORTANT: sync before the rename: a folder with a number is complete.
        sync_file_system(&partial)?;
        let number = self.complete()?.next_number(&self.dir)?;
        let time: String = manifest.made.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
        let to = self.dir.join(format!("{number:04}_{time}"));
        with_path(&to, fs::rename(&partial, &to))?;
        sync_file_system(&self.dir)?;
        Ok(to)
    }

    /// Removes backups older than the last `many` undamaged ones of this drive.
    ///
    /// Backups of other drives, and those with an unreadable manifest, are neither counted nor removed. A backup
    /// without a drive id counts as one of this drive. A backup of a damaged drive may lack files: it is not counted,
    /// and is removed once it is older than those that are kept. A backup with a file that no backup makes is
    /// not removed.
    ///
    /// Returns the backups with such files, as errors.
    pub fn remove_old(&self, many: usize, drive: Option<&str>) -> Result<Vec<BackupFailed>> {
        let mut complete = self.complete()?.readable;
        complete.retain(|one| one.manifest.drive.is_none() || one.manifest.drive.as_deref() == drive);
        let mut undamaged = complete.iter().rev().filter(|one| !one.manifest.damaged);
        let oldest = undamaged.nth(many.saturating_sub(1)).map_or(0, |one| one.number);
        let mut left = Vec::new();
        for old in complete.iter().filter(|one| one.number < oldest) {
            // IMPORTANT: before the rename. As `going`, the folder would make all later backups fail.
            if let Some(foreign) = foreign_entry(&old.path)? {
                left.push(BackupFailed::Mixed(old.path.clone(), foreign));
                continue;
            }
            with_path(&old.path, fs::rename(&old.path, self.dir.join(BEING_REMOVED)))?;
            self.finish_removal()?;
        }
        Ok(left)
    }

    fn finish_removal(&self) -> Result<()> {
        let removed = self.dir.join(BEING_REMOVED);
        check_own(&removed)?;
        if removed.exists() { with_path(&removed, fs::remove_dir_all(&removed)) } else { Ok(()) }
    }
}

/// Other programs, and people, may have made a folder `partial` or `going`.
///
/// Errors: [`BackupFailed::NotOurs`] if there is anything here but a backup, or parts of one.
fn check_own(dir: &Path) -> Result<()> {
    if foreign_entry(dir)?.is_some() { Err(BackupFailed::NotOurs(dir.to_owned())) } else { Ok(()) }
}

/// A path at this place that no backup makes; none if there is nothing here but a backup, or parts of one.
fn foreign_entry(dir: &Path) -> Result<Option<PathBuf>> {
    match fs::symlink_metadata(dir) {
        Ok(found) if !found.is_dir() => return Ok(Some(dir.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return with_path(dir, Err(error)),
    }
    for entry in with_path(dir, fs::read_dir(dir))? {
        let entry = with_path(dir, entry)?;
        if !PARTS.iter().any(|part| entry.file_name() == *part) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// The number in the name of a backup: `0001_2026-01-02T03-04-05`.
fn number(name: &str) -> Option<u64> {
    let (number, time) = name.split_once('_')?;
    let is_time = time.len() == 19 && time.bytes().all(|byte| byte.is_ascii_digit() || b"T-".contains(&byte));
    // `parse` alone would take `+7`.
    let is_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    if is_time && is_digits { number.parse().ok() } else { None }
}

fn complete(dir: &Path) -> Result<BackupList> {
    let mut found = BackupList { readable: Vec::new(), unreadable: Vec::new() };
    for entry in with_path(dir, fs::read_dir(dir))? {
        let entry = with_path(dir, entry)?;
        let Some(number) = entry.file_name().to_str().and_then(number) else { continue };
        match read(&entry.path()) {
            Ok(Some(manifest)) => found.readable.push(CompleteBackup { number, path: entry.path(), manifest }),
            // An incomplete copy of a backup. If it were skipped silently, an older backup would count as the newest.
            Ok(None) => found.unreadable.push((number, BackupFailed::NoBackup(entry.path()))),
            Err(error) => found.unreadable.push((number, error)),
        }
    }
    found.readable.sort_by_key(|backup| backup.number);
    found.unreadable.sort_by_key(|(number, _)| *number);
    Ok(found)
}

/// The backup at this path, or else the newest readable one in this folder, and the errors of newer ones.
pub fn find(path: &Path) -> Result<(PathBuf, Manifest, Vec<BackupFailed>)> {
    let path = with_path(path, fs::canonicalize(path))?;
    if let Some(manifest) = read(&path)? {
        return Ok((path, manifest, Vec::new()));
    }
    let BackupList { mut readable, unreadable } = complete(&path)?;
    let Some(last) = readable.pop() else { return Err(BackupFailed::NoBackup(path)) };
    let newer = unreadable.into_iter().filter(|(number, _)| *number > last.number).map(|(_, error)| error);
    Ok((last.path, last.manifest, newer.collect()))
}

/// Reads the manifest of a backup; none if there is none.
fn read(backup: &Path) -> Result<Option<Manifest>> {
    let path = backup.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => match serde_json::from_slice::<Manifest>(&text) {
            Ok(manifest) if manifest.format == 1 => Ok(Some(manifest)),
            _ => Err(BackupFailed::NoBackup(backup.to_owned())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => with_path(&path, Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_backup_is_a_number_and_a_time() {
        assert_eq!(number("0001_2026-01-02T03-04-05"), Some(1));
        assert_eq!(number("18446744073709551615_2026-01-02T03-04-05"), Some(u64::MAX));
        for other in
            ["+7_2026-01-02T03-04-05", "_2026-01-02T03-04-05", "7_2026-01-02", "7_2026-01-02T03-04-0x", "7", ""]
        {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
