//! `rowdrive restore`: a data folder out of a backup.
//!
//! Files are copied, never linked: the drive and the backup share no inode. `db/` gets its final name last. Until then
//! the folder is no drive, and the file `restoring` in it prevents a server from creating an empty drive there.

mod target;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rowdrive::check::CheckSummary;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate::{self, MigrateError};
use rowdrive::table::Tables;

use super::backup::{
    BackupFailed, Manifest, OpenCopy, Progress, Result, check_outside_drives, create_folder, digest, find, is_readable,
    keep_time, remove, verify, with_path,
};
use super::{CommandOutcome, signals, size_arg};
use crate::data_folder;
use target::RestoreTarget;

/// Make a data folder out of a backup; every byte of it is compared with its digest.
///
/// The folder must be empty or missing. After an interruption the same command begins anew. Exit code 1 if the backup
/// holds damage of the drive: the damage is named, and the rest is restored. The same with --damaged for a backup that
/// is damaged itself, which is refused without; and if the manifest of a newer backup cannot be read.
#[derive(Args)]
pub struct Restore {
    /// The folder with the backups, of which the newest is restored, or one of them.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    /// The data folder to create.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// Go on if files of the backup are damaged; each of them is named.
    #[arg(long)]
    damaged: bool,
    /// Memory for caches and write buffers, as in 512MiB or 4GiB; at least 32MiB.
    #[arg(long, value_name = "BYTES", value_parser = size_arg::parse_memory, default_value = "256MiB")]
    memory: u64,
}

impl Restore {
    pub fn run(self) -> Result<CommandOutcome> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.restore())
    }

    async fn restore(self) -> Result<CommandOutcome> {
        signals::explain_interruption()?;
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let (from, manifest, newer) = find(&self.from)?;
        check_names(&from, &manifest)?;
        if let Some(above) = with_path(&self.data, std::path::absolute(&self.data))?.parent() {
            check_outside_drives(above)?;
        }
        let folder = RestoreTarget::take(&self.data, &from)?;
        let data = folder.path.clone();
        let mut copied = Copying { damaged: self.damaged, wrong: 0, progress: Progress::new() };
        for error in &newer {
            copied.progress.print(&format!("{error}: it is passed over, and an older one is restored"));
        }
        copied.progress.stage("content files");
        copied.content(&from.join("content"), &data.join("content"))?;
        copied.progress.stage("the store");
        copied.store(&from.join("db"), &folder.store(), &manifest)?;
        if let Some(drive) = &manifest.drive {
            with_path(&folder.store(), data_folder::write_drive_id(&folder.store(), drive))?;
        }
        folder.name_store()?;

        let Copying { wrong, mut progress, .. } = copied;
        let summary = match check_restored(&data, memory, &mut progress).await {
            // A damaged drive of an older program cannot be brought up to date: it is restored as it was.
            Err(error) if self.damaged || (manifest.damaged && (error.is_damage() || error.is_stopped())) => {
                progress.print(&format!("{error}"));
                progress.print("the content files were not compared with the rows of their files");
                progress.print("`rowdrive serve --degraded` serves what is left of it, for reading");
                complete(folder)?;
                progress.finish()?;
                return Ok(CommandOutcome::WithFailures);
            }
            summary => summary?,
        };
        let is_right = summary.is_right() && wrong == 0;
        if !is_right && !manifest.damaged && !self.damaged {
            return Err(BackupFailed::Damaged(from));
        }
        complete(folder)?;
        let (files, bytes) = (summary.files, summary.bytes);
        progress.print(&format!("{}: {files} files, {bytes} bytes, from {}", data.display(), from.display()));
        progress.finish()?;
        Ok(if is_right && newer.is_empty() { CommandOutcome::Done } else { CommandOutcome::WithFailures })
    }
}

/// Gives the folder a store id of its own: both parts are of one backup, so no start has to compare a sample of
/// them.
fn complete(folder: RestoreTarget) -> Result<()> {
    let data = folder.path.clone();
    let folder_error = |error| BackupFailed::DataFolder(data.clone(), error);
    data_folder::write_ids(&data).map_err(folder_error)?;
    folder.complete()?;
    // This is the last step. Before it, a start completes the ids.
    data_folder::complete_ids(&data).map_err(folder_error)
}

/// Brings the restored store up to date, as its first start would: only then can it be checked.
///
/// A compaction that finds a damaged table stops all writes until the store is opened again. From then on the table is
/// known and not compacted. So this opens the store anew as long as it finds further ones.
async fn migrate(data: &Path, memory: usize) -> Result<()> {
    let mut known = HashSet::new();
    loop {
        let before = known.len();
        let rocks =
            Arc::new(Rocks::open(&data.join("db"), RocksOptions::with_memory(memory)).map_err(BackupFailed::Copy)?);
        let migrated = migrate::up(&Tables::new(rocks.clone())).await;
        rocks.close().await;
        known.extend(rocks.damaged_tables());
        match migrated {
            Err(error) if error.is_stopped() && known.len() > before => {}
            migrated => return Ok(migrated?),
        }
    }
}

/// Checks the restored folder and prints what is wrong.
async fn check_restored(data: &Path, memory: usize, progress: &mut Progress) -> Result<CheckSummary> {
    let copy = match OpenCopy::open(data, memory).await {
        Err(BackupFailed::Schema(MigrateError::Older { .. })) => {
            progress.stage("the tables of an older program");
            migrate(data, memory).await?;
            OpenCopy::open(data, memory).await?
        }
        copy => copy?,
    };
    let summary = verify(&copy, data, true, progress).await;
    copy.close().await;
    summary
}

/// Checks the names of files in the manifest.
///
/// Errors: a name is a path, which could lead out of `db`. No backup writes such a name.
fn check_names(from: &Path, manifest: &Manifest) -> Result<()> {
    match manifest.db.keys().find(|name| Path::new(name).file_name() != Some(OsStr::new(name.as_str()))) {
        Some(name) => Err(BackupFailed::Name(from.to_owned(), name.clone())),
        None => Ok(()),
    }
}

/// Copies the files of a backup.
struct Copying {
    /// Whether to skip damaged files and name them, instead of refusing the backup.
    damaged: bool,
    /// The number of skipped files.
    wrong: u64,
    progress: Progress,
}

impl Copying {
    fn content(&mut self, from: &Path, to: &Path) -> Result<()> {
        create_folder(to)?;
        for entry in with_path(from, fs::read_dir(from))? {
            let entry = with_path(from, entry)?;
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if with_path(&path, entry.file_type())?.is_dir() {
                self.content(&path, &to)?;
            } else if let Some(size) = self.copy(&path, &to)? {
                self.progress.add(size);
                // The next backup compares times to find unchanged files.
                let _ = keep_time(&path, &to);
            }
        }
        Ok(())
    }

    /// Copies the files that the manifest names, and compares each with its size and digest there.
    fn store(&mut self, from: &Path, to: &Path, manifest: &Manifest) -> Result<()> {
        for (name, entry) in &manifest.db {
            let (path, to) = (from.join(name), to.join(name));
            let Some(size) = self.copy(&path, &to)? else { continue };
            if size != entry.size || digest(&to)? != entry.sha256 {
                self.skip(BackupFailed::Damaged(path))?;
            }
            self.progress.add(size);
        }
        Ok(())
    }

    /// Copies a file and returns its size; none if it cannot be read and was skipped.
    fn copy(&mut self, from: &Path, to: &Path) -> Result<Option<u64>> {
        match fs::copy(from, to) {
            Err(error) if !from.is_file() || !is_readable(from) => {
                remove(to)?;
                self.skip(BackupFailed::Unreadable(from.to_owned(), error))?;
                Ok(None)
            }
            copied => with_path(to, copied).map(Some),
        }
    }

    fn skip(&mut self, error: BackupFailed) -> Result<()> {
        if !self.damaged {
            return Err(error);
        }
        self.wrong += 1;
        self.progress.print(&match error {
            BackupFailed::Damaged(path) => format!("{} is not as the backup wrote it", path.display()),
            BackupFailed::Unreadable(path, error) => format!("{} cannot be read: {error}", path.display()),
            other => other.to_string(),
        });
        Ok(())
    }
}
