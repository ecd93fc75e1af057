//! Content of a backup held to the digests in its rows. What has rotted in an earlier backup was linked into this one:
//! it is brought anew from the drive, if the drive's own is sound, else from any earlier backup that has a sound one. So
//! is what is missing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rowdrive::content::{Body, Content, ContentError};
use rowdrive::schema::file::{self, Attributes};
use rowdrive::schema::{CF, FileId};
use rowdrive::table::{Ask, StoreError, Tables};

use super::bring::Doubt;
use super::content::{id as id_of, place};
use super::generations::Generation;
use super::{BackupFailed, Progress, Result, keep_time, make, of};

/// Files that a run reads again without being told to, and bytes of them.
const FILES: usize = 64;
const BYTES: u64 = 256 << 20;

/// Some of many, each with the same chance.
#[derive(Default)]
pub struct Sample {
    of: usize,
    ids: Vec<FileId>,
}

impl Sample {
    pub fn add(&mut self, id: FileId) {
        self.of += 1;
        if self.ids.len() < FILES {
            self.ids.push(id);
        } else if let Some(other) = self.ids.get_mut(random(self.of)) {
            *other = id;
        }
    }
}

fn random(below: usize) -> usize {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    usize::try_from((high ^ low) % (below.max(1) as u64)).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Sound,
    /// The drive's own is sound.
    Mended,
    /// Only an earlier backup has a sound one.
    Saved,
    /// There is no sound one.
    Damaged,
}

impl State {
    /// Whether something is wrong with the drive.
    pub fn is_damage(self) -> bool {
        matches!(self, Self::Saved | Self::Damaged)
    }
}

pub struct Heal<'a> {
    pub data: &'a Path,
    pub partial: &'a Path,
    pub complete: &'a [Generation],
    pub tables: &'a Tables,
}

impl Heal<'_> {
    /// Reads some of the files; tells how many are damaged, on the drive too.
    pub async fn some(&self, sample: &Sample, progress: &mut Progress) -> Result<usize> {
        progress.stage("a sample of the content files");
        let (mut damaged, mut read) = (0, 0);
        for id in &sample.ids {
            let size = fs::metadata(self.partial.join(place(*id))).map_or(0, |found| found.len());
            // A file that is larger than all that may be read is left to `--verify`.
            if read + size > BYTES {
                continue;
            }
            read += size;
            damaged += usize::from(self.one(*id, progress).await?.is_damage());
            progress.add(size);
        }
        Ok(damaged)
    }

    /// Reads those that the drive has, but not as an earlier backup, or that cannot be read there; tells how many are
    /// damaged on the drive.
    pub async fn doubts(&self, doubts: &BTreeMap<PathBuf, Doubt>, progress: &Progress) -> Result<usize> {
        let mut damaged = 0;
        for (name, doubt) in doubts {
            let Some(id) = name.file_name().and_then(id_of) else { continue };
            // Deleted meanwhile, or told by the check.
            let Some(attributes) = self.attributes(id).await? else { continue };
            match doubt {
                Doubt::Differs(earlier) => {
                    let state = self.one(id, progress).await?;
                    damaged += usize::from(state.is_damage());
                    if !state.is_damage() {
                        progress.print(&format!(
                            "{}, of an earlier backup, differs from what the drive has: it was brought anew",
                            earlier.display()
                        ));
                    }
                }
                Doubt::Unreadable(error) => {
                    progress.print(&format!("{} cannot be read on the drive: {error}", name.display()));
                    self.renew(id, &attributes, progress).await?;
                    damaged += 1;
                }
            }
        }
        Ok(damaged)
    }

    /// None if there is no such row, or it cannot be read.
    async fn attributes(&self, id: FileId) -> Result<Option<Attributes>> {
        let row = self.tables.get_many(file::TABLE, &[(id.key(), Ask::families(&[CF]))]).await;
        let row = match row {
            Err(StoreError::Damaged(_)) => return Ok(None),
            row => row.map_err(BackupFailed::Copy)?.into_iter().next(),
        };
        Ok(row.and_then(|row| Attributes::of(&row).ok().flatten()))
    }

    /// Reads one file of the backup, and brings it anew if it is not as its row says.
    pub async fn one(&self, id: FileId, progress: &Progress) -> Result<State> {
        // A row that cannot be read is told by the check.
        let Some(attributes) = self.attributes(id).await? else { return Ok(State::Sound) };
        // One that is missing is told by the check.
        if self.is_sound(self.partial, id, &attributes).await? || !self.partial.join(place(id)).exists() {
            return Ok(State::Sound);
        }
        self.renew(id, &attributes, progress).await
    }

    /// Brings one that the backup lacks, of the file at `path`. Whoever asks names it if nobody has a sound one.
    pub async fn missing(&self, id: FileId, path: Option<&str>, progress: &Progress) -> Result<State> {
        let Some(attributes) = self.attributes(id).await? else { return Ok(State::Damaged) };
        if let Some(folder) = self.partial.join(place(id)).parent() {
            make(folder)?;
        }
        // It may be there, in a folder that cannot be listed.
        if self.bring(self.data, id, &attributes).await? {
            return Ok(State::Mended);
        }
        for one in self.complete.iter().rev() {
            if self.bring(&one.path, id, &attributes).await? {
                progress.print(&format!(
                    "{}: its content file, {}, is missing on the drive, or cannot be read there: {} has a sound one, \
                     which was taken",
                    path.unwrap_or_default().escape_debug(),
                    place(id).display(),
                    one.path.display()
                ));
                return Ok(State::Saved);
            }
        }
        Ok(State::Damaged)
    }

    /// Brings one anew that is not as its row says.
    async fn renew(&self, id: FileId, attributes: &Attributes, progress: &Progress) -> Result<State> {
        let here = self.partial.join(place(id));
        let earlier = self.sharing(&here);
        let earlier = if earlier.is_empty() { String::new() } else { format!(" (shared with {})", earlier.join(", ")) };
        let name = place(id);
        if self.bring(self.data, id, attributes).await? {
            progress.print(&format!(
                "the earlier backup is damaged: {}{earlier} is not as it was stored; it was brought anew from the drive",
                name.display()
            ));
            return Ok(State::Mended);
        }
        for one in self.complete.iter().rev() {
            if self.bring(&one.path, id, attributes).await? {
                progress.print(&format!(
                    "{}{earlier} is damaged, and the drive has no sound one, or it was just deleted: {} has a sound one, \
                     which was taken",
                    name.display(),
                    one.path.display()
                ));
                return Ok(State::Saved);
            }
        }
        progress.print(&format!(
            "{}{earlier} is damaged, and the drive has no sound one: it is damaged there too, or was just deleted",
            name.display()
        ));
        Ok(State::Damaged)
    }

    /// The earlier backups that have the very same file of the disk.
    fn sharing(&self, here: &Path) -> Vec<String> {
        let (Some(this), Ok(name)) = (inode(here), here.strip_prefix(self.partial)) else { return Vec::new() };
        let same = self.complete.iter().filter(|one| inode(&one.path.join(name)) == Some(this));
        same.filter_map(|one| Some(one.path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// `data`: a data folder, or a backup.
    async fn is_sound(&self, data: &Path, id: FileId, of: &Attributes) -> Result<bool> {
        // For reading: opening it as a server does would sync its folders for every file.
        let content = Content::as_it_is(&data.join("content"))?;
        let large = match content.open_large(id, of.size).await {
            Ok(large) => large,
            Err(ContentError::Gone(_) | ContentError::Damaged { .. } | ContentError::Io(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match Body::Large(large).verify(id, of.size, &of.digest).await {
            Ok(()) => Ok(true),
            // A disk that cannot read it any more, too.
            Err(ContentError::Gone(_) | ContentError::Damaged { .. } | ContentError::Io(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies what this folder has over what has rotted; false if it has no sound one.
    async fn bring(&self, data: &Path, id: FileId, of_row: &Attributes) -> Result<bool> {
        let (from, here) = (data.join(place(id)), self.partial.join(place(id)));
        // The very same file of the disk: there is only one.
        if inode(&from).is_none() || inode(&from) == inode(&here) || !self.is_sound(data, id, of_row).await? {
            return Ok(false);
        }
        let mut new = here.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        match fs::copy(&from, &new) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return of(&from, Err(error)),
        }
        let _ = keep_time(&from, &new);
        of(&new, File::open(&new).and_then(|file| file.sync_all()))?;
        // A name of its own: the earlier backups keep the file that they have.
        of(&new, fs::rename(&new, &here))?;
        self.is_sound(self.partial, id, of_row).await
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino())).ok()
}
