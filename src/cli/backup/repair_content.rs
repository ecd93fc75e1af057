//! Compares content files of a backup with the digests in their rows, and replaces damaged and missing ones.
//!
//! A damaged file of an earlier backup may have been linked into this one. It is copied again: from the drive if the
//! file is sound there, else from any earlier backup where it is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rowdrive::content::{Body, Content, ContentError};
use rowdrive::schema::file::{self, Attributes};
use rowdrive::schema::{CF, FileId, file_row};
use rowdrive::table::{RowQuery, StoreError, Tables};

use super::backup_folder::CompleteBackup;
use super::content_path::{id_in_name, path_of};
use super::copier::Suspicion;
use super::sample::Sample;
use super::{BackupFailed, Progress, Result, create_folder, keep_time, with_path};

/// Bytes of a sample that are read.
const BYTES: u64 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentState {
    Sound,
    /// Replaced by the sound file of the drive.
    Repaired,
    /// Replaced by the sound file of an earlier backup; the drive has none.
    Salvaged,
    /// Damaged, and there is no sound file.
    Damaged,
}

impl ContentState {
    /// Whether the file on the drive is damaged.
    pub fn is_damage(self) -> bool {
        matches!(self, Self::Salvaged | Self::Damaged)
    }
}

pub struct ContentRepair<'a> {
    pub data: &'a Path,
    pub partial: &'a Path,
    pub complete: &'a [CompleteBackup],
    pub tables: &'a Tables,
}

impl ContentRepair<'_> {
    /// Reads a sample of the files, and returns the number of those that are damaged on the drive too.
    pub async fn check_sample(&self, sample: &Sample, progress: &mut Progress) -> Result<usize> {
        progress.stage("a sample of the content files");
        let (mut damaged, mut read) = (0, 0);
        for id in sample.ids() {
            let size = fs::metadata(self.partial.join(path_of(*id))).map_or(0, |found| found.len());
            // Only `--verify` reads larger files.
            if read + size > BYTES {
                continue;
            }
            read += size;
            damaged += usize::from(self.check_file(*id, progress).await?.is_damage());
            progress.add(size);
        }
        Ok(damaged)
    }

    /// Checks the files that differ between the drive and an earlier backup, or cannot be read on the drive. Returns
    /// the number of those that are damaged on the drive.
    pub async fn check_suspicions(
        &self,
        suspicions: &BTreeMap<PathBuf, Suspicion>,
        progress: &Progress,
    ) -> Result<usize> {
        let mut damaged = 0;
        for (name, suspicion) in suspicions {
            let Some(id) = name.file_name().and_then(id_in_name) else { continue };
            // Deleted meanwhile, or reported by the check.
            let Some(attributes) = self.attributes(id).await? else { continue };
            match suspicion {
                Suspicion::Differs(earlier) => {
                    let state = self.check_file(id, progress).await?;
                    damaged += usize::from(state.is_damage());
                    if !state.is_damage() {
                        progress.print(&format!(
                            "{}, of an earlier backup, differs from what the drive has: it was copied again",
                            earlier.display()
                        ));
                    }
                }
                Suspicion::Unreadable(error) => {
                    progress.print(&format!("{} cannot be read on the drive: {error}", name.display()));
                    self.replace(id, &attributes, progress).await?;
                    damaged += 1;
                }
            }
        }
        Ok(damaged)
    }

    /// The attributes in the file row; none if there is no such row, or it cannot be read.
    async fn attributes(&self, id: FileId) -> Result<Option<Attributes>> {
        let row = self.tables.get_many(file::TABLE, &[(id.key(), RowQuery::families(&[CF]))]).await;
        let row = match row {
            Err(StoreError::Damaged(_)) => return Ok(None),
            row => row.map_err(BackupFailed::Copy)?.into_iter().next(),
        };
        Ok(row.and_then(|row| file_row::attributes(&row).ok().flatten()))
    }

    /// Reads one file of the backup, and replaces it if its digest differs from that in its row.
    pub async fn check_file(&self, id: FileId, progress: &Progress) -> Result<ContentState> {
        // The check reports a row that cannot be read.
        let Some(attributes) = self.attributes(id).await? else { return Ok(ContentState::Sound) };
        // The check reports a missing file.
        if self.is_sound(self.partial, id, &attributes).await? || !self.partial.join(path_of(id)).exists() {
            return Ok(ContentState::Sound);
        }
        self.replace(id, &attributes, progress).await
    }

    /// Copies a content file that the backup lacks, of the drive's file at `path`. The caller reports it if there is no
    /// sound one.
    pub async fn restore_missing(&self, id: FileId, path: Option<&str>, progress: &Progress) -> Result<ContentState> {
        let Some(attributes) = self.attributes(id).await? else { return Ok(ContentState::Damaged) };
        if let Some(folder) = self.partial.join(path_of(id)).parent() {
            create_folder(folder)?;
        }
        // It may exist on the drive, in a folder that cannot be listed.
        if self.copy_from(self.data, id, &attributes).await? {
            return Ok(ContentState::Repaired);
        }
        for one in self.complete.iter().rev() {
            if self.copy_from(&one.path, id, &attributes).await? {
                progress.print(&format!(
                    "{}: its content file, {}, is missing on the drive, or cannot be read there: {} has a sound one, \
                     which was used",
                    path.unwrap_or_default().escape_debug(),
                    path_of(id).display(),
                    one.path.display()
                ));
                return Ok(ContentState::Salvaged);
            }
        }
        Ok(ContentState::Damaged)
    }

    /// Replaces a file of which the digest differs from that in its row.
    async fn replace(&self, id: FileId, attributes: &Attributes, progress: &Progress) -> Result<ContentState> {
        let here = self.partial.join(path_of(id));
        let earlier = self.sharing(&here);
        let earlier = if earlier.is_empty() { String::new() } else { format!(" (shared with {})", earlier.join(", ")) };
        let name = path_of(id);
        if self.copy_from(self.data, id, attributes).await? {
            progress.print(&format!(
                "the earlier backup is damaged: {}{earlier} is not as it was stored; it was copied again from the drive",
                name.display()
            ));
            return Ok(ContentState::Repaired);
        }
        for one in self.complete.iter().rev() {
            if self.copy_from(&one.path, id, attributes).await? {
                progress.print(&format!(
                    "{}{earlier} is damaged, and the drive has no sound one, or it was just deleted: {} has a sound one, \
                     which was used",
                    name.display(),
                    one.path.display()
                ));
                return Ok(ContentState::Salvaged);
            }
        }
        progress.print(&format!(
            "{}{earlier} is damaged, and the drive has no sound one: it is damaged there too, or was just deleted",
            name.display()
        ));
        Ok(ContentState::Damaged)
    }

    /// The earlier backups that share this inode.
    fn sharing(&self, here: &Path) -> Vec<String> {
        let (Some(this), Ok(name)) = (inode(here), here.strip_prefix(self.partial)) else { return Vec::new() };
        let same = self.complete.iter().filter(|one| inode(&one.path.join(name)) == Some(this));
        same.filter_map(|one| Some(one.path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// `data`: a data folder, or a backup.
    async fn is_sound(&self, data: &Path, id: FileId, of: &Attributes) -> Result<bool> {
        // Open it read-only: an open for writing syncs its folders each time.
        let content = Content::open_read_only(&data.join("content"))?;
        let large = match content.open_file(id, of.size).await {
            Ok(large) => large,
            Err(ContentError::Gone(_) | ContentError::Damaged { .. } | ContentError::Io(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match Body::Large(large).verify(id, of.size, &of.digest).await {
            Ok(()) => Ok(true),
            // An IO error counts as damage: the disk cannot read it any more.
            Err(ContentError::Gone(_) | ContentError::Damaged { .. } | ContentError::Io(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the file of the backup by that of this data folder or backup; false if that is not sound.
    async fn copy_from(&self, data: &Path, id: FileId, of_row: &Attributes) -> Result<bool> {
        let (from, here) = (data.join(path_of(id)), self.partial.join(path_of(id)));
        // The same inode is the same damaged file.
        if inode(&from).is_none() || inode(&from) == inode(&here) || !self.is_sound(data, id, of_row).await? {
            return Ok(false);
        }
        let mut new = here.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        match fs::copy(&from, &new) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return with_path(&from, Err(error)),
        }
        let _ = keep_time(&from, &new);
        with_path(&new, File::open(&new).and_then(|file| file.sync_all()))?;
        // Renamed over the old name: earlier backups keep their inode.
        with_path(&new, fs::rename(&new, &here))?;
        self.is_sound(self.partial, id, of_row).await
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino())).ok()
}
