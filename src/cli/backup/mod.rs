//! `rowdrive backup`: a copy of a drive at one instant, made while the drive is served or stopped.
//!
//! 1. Copy the content files. They never change, so this needs no server.
//! 2. The [source] makes a checkpoint of its store at one instant, and from then on removes no content file.
//! 3. Copy the checkpoint, then the content files that it names and that are still missing. Release the source.
//! 4. Check the copy as `rowdrive check` does, write its manifest, and give it its number in the
//!    [folder of backups](backup_folder).
//!
//! Files that an earlier backup has are hard links to it. The next run uses what an interrupted one has copied.

mod backup_folder;
mod content_files;
mod content_path;
mod copier;
mod copy_store;
mod progress;
mod repair_content;
mod repair_tables;
mod sample;
mod server;
mod source;
mod verify;
mod watchdog;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use rowdrive::check::{CheckError, CheckSummary, FindingKind};
use rowdrive::content::ContentError;
use rowdrive::migrate::{LATEST, MigrateError};
use rowdrive::schema::{FileId, Timestamp};
use rowdrive::table::StoreError;

use super::{CommandOutcome, signals, size_arg};
use crate::data_folder::part::{self, DrivePart};
use crate::data_folder::{self, DataFolderError, FolderState};
use backup_folder::{BackupFolder, BackupList};
pub use backup_folder::{Manifest, find, is_backup};
use content_files::ContentCopy;
use copier::{FileCopier, Suspicion};
pub use copier::{create_folder, digest, is_readable, keep_time, sync_file_system};
pub use progress::Progress;
use repair_content::{ContentRepair, ContentState};
use repair_tables::CopiedStore;
use sample::Sample;
pub use server::{Backups, remove, remove_checkpoints};
use source::BackupSource;
use verify::inspect;
pub use verify::{OpenCopy, verify};

/// Copy a drive as it is at one instant, while it is served or stopped.
///
/// Run again, it copies only what is new. Each backup is a data folder of its own, under BACKUP; what several have in
/// common is there once where the file system knows hard links. Exit code 1 if the drive itself is damaged: what is
/// wrong is named, the backup is kept, and no older one is removed.
#[derive(Args)]
pub struct Backup {
    /// The folder that gets the backups; made if it is missing.
    #[arg(value_name = "BACKUP")]
    to: PathBuf,
    /// The data folder of the drive, on this machine.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// How many backups to keep; older ones are removed once a new one is complete.
    #[arg(long, value_name = "NUMBER", default_value = "7")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    keep: usize,
    /// Go on although the newest backup in the folder is of another drive, whose backups are all kept.
    #[arg(long)]
    of_another_drive: bool,
    /// Read every byte of the backup, and compare it with its digest.
    #[arg(long)]
    verify: bool,
    /// Memory for caches and write buffers, as in 512MiB or 4GiB; at least 32MiB.
    #[arg(long, value_name = "BYTES", value_parser = size_arg::parse_memory, default_value = "256MiB")]
    memory: u64,
}

/// Why there is no new backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupFailed {
    #[error("{0} is no data folder: there is no {0}/db")]
    NoStore(PathBuf),
    #[error(
        "{0} is a backup: opening it as a drive would change it, and it could not be restored any more. Copy its folder \
         with `cp -a`"
    )]
    OfBackup(PathBuf),
    #[error(
        "{0} belongs to the user with the number {1}, and the server is stopped: run the backup as that user, or what it \
         writes there would be in the server's way"
    )]
    Owner(PathBuf, u32),
    #[error("{0} lies in {1}: name a folder outside of it")]
    Within(PathBuf, DrivePart),
    #[error("the backup cannot be in the data folder, nor the data folder in the backup")]
    Inside,
    #[error("{0}: another backup is running")]
    Busy(PathBuf),
    #[error(
        "{0}, the newest backup there, is not of the drive in {1}. Is the right drive not mounted? Mount it; or give \
         backups of this one a folder of their own. --of-another-drive goes on here, and keeps all those of the other one"
    )]
    OtherDrive(PathBuf, PathBuf),
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    #[error("the data folder {0} cannot be opened: {1}{hint}", hint = super::recovery_hint(.1))]
    Store(PathBuf, StoreError),
    #[error("the data folder {0} cannot be opened: {1}")]
    DataFolder(PathBuf, DataFolderError),
    #[error("the server cannot give a copy of its store: {0}")]
    Refused(String),
    #[error("the server has ended, and its checkpoint with it: run the backup again to continue")]
    Gone,
    #[error("the copy cannot be opened: {0}")]
    Copy(StoreError),
    #[error("the tables cannot be opened: {0}")]
    Schema(#[from] MigrateError),
    #[error("the check of the copy failed: {0}")]
    Check(#[from] CheckError),
    #[error("content cannot be listed: {0}")]
    Content(#[from] ContentError),
    #[error("{0} is no backup: it has no backup.json of format 1")]
    NoBackup(PathBuf),
    #[error("{0} was not made by a backup: move it away, or keep the backups in another folder")]
    NotOurs(PathBuf),
    #[error("{0} has a folder with the number {max}, which no other number follows: move that away", max = u64::MAX)]
    NoNumber(PathBuf),
    #[error("{0} is an old backup, and not removed: no backup makes {1}, so move that away")]
    Mixed(PathBuf, PathBuf),
    #[error("{0} is not empty: a drive is restored into a folder of its own")]
    NotEmpty(PathBuf),
    #[error("{0} is in use: a restore fills it, or a server serves it")]
    Restoring(PathBuf),
    #[error("{0} was not made by the restore that was broken off here: move it away, or restore into another folder")]
    Foreign(PathBuf),
    #[error(
        "{0} is damaged: it is not as the backup wrote it; take another backup, or restore what is left with --damaged"
    )]
    Damaged(PathBuf),
    #[error("{0} cannot be read: {1}; take another backup, or restore what is left with --damaged")]
    Unreadable(PathBuf, io::Error),
    #[error("{0} is damaged: its backup.json names {1:?} in db/, which is no name of a file; take another backup")]
    Name(PathBuf, String),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

impl BackupFailed {
    /// Whether the store has stopped its writes, until it is opened again.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Schema(error) if error.is_stopped())
    }

    /// Whether the tables are damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Copy(StoreError::Damaged(_)) => true,
            Self::Schema(error) => error.is_damage(),
            _ => false,
        }
    }
}

pub type Result<T> = std::result::Result<T, BackupFailed>;

/// Errors: the path is inside a part of a drive, or inside a backup. What is created there would be lost with it.
pub fn check_outside_drives(path: &Path) -> Result<()> {
    match with_path(path, part::enclosing_path(path))? {
        Some(part) => Err(BackupFailed::Within(path.to_owned(), part)),
        None => Ok(()),
    }
}

/// Adds the path to an IO error.
pub fn with_path<T>(path: &Path, done: io::Result<T>) -> Result<T> {
    done.map_err(|error| BackupFailed::File(path.to_owned(), error))
}

impl Backup {
    pub fn run(self) -> Result<CommandOutcome> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.backup())
    }

    async fn backup(self) -> Result<CommandOutcome> {
        signals::explain_interruption()?;
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let state = data_folder::compare(&self.data).map_err(|e| BackupFailed::DataFolder(self.data.clone(), e))?;
        if state == FolderState::New {
            return Err(BackupFailed::NoStore(self.data));
        }
        if is_backup(&self.data) {
            return Err(BackupFailed::OfBackup(self.data));
        }
        let data = with_path(&self.data, std::fs::canonicalize(&self.data))?;
        check_outside_drives(&self.to)?;
        let folder = BackupFolder::open(&self.to, &data)?;
        let found = folder.complete()?;
        let mut progress = Progress::new();
        let drive = with_path(&data, data_folder::drive_id(&data))?;
        self.check_existing(&found, &data, drive.as_deref(), &progress)?;
        let partial = folder.partial(&found)?;
        let BackupList { readable: complete, unreadable: passed_over } = found;
        // A damaged backup may have damaged files: link none of them.
        let last = complete.iter().rev().find(|one| !one.manifest.damaged);
        let mut copier = FileCopier::new(&partial);
        let earlier = last.map(|last| last.path.as_path());

        source::idle(&data).await?;
        progress.stage("content files");
        ContentCopy { data: &data, last: earlier, copier: &mut copier, progress: &mut progress }.copy_all()?;
        let source = BackupSource::open(&data, memory).await?;
        progress.stage("the store");
        let (db, unread) = copy_store::copy(source.store(), (&complete, last), &mut copier, &mut progress)?;
        let mut store = CopiedStore::new(source.store(), &partial, &complete, db);
        let (copy, damaged_tables) = store.open(memory, &mut progress).await?;
        let db = store.entries;
        progress.stage("the last content files");
        let mut contents = ContentCopy { data: &data, last: earlier, copier: &mut copier, progress: &mut progress };
        let sample = contents.copy_named(&copy.tables).await?;
        copier.finish()?;
        // From now on the drive may remove content files again, and a stopped drive may be started.
        source.end().await?;

        for path in &copier.differing {
            progress.print(&format!(
                "{}, of an earlier backup, differs from what the drive has: it was copied again",
                path.display()
            ));
        }
        let repair = ContentRepair { data: &data, partial: &partial, complete: &complete, tables: &copy.tables };
        let (summary, damaged) = self.check(&copy, &repair, (&sample, &copier.suspicions), &mut progress).await?;
        for (folder, error) in &copier.unlisted {
            progress.print(&format!("{} cannot be listed on the drive: {error}", folder.display()));
        }
        if copier.linked {
            progress.print(&format!(
                "{} is on the disk of the drive: its files are links, which do not help if the disk breaks",
                self.to.display()
            ));
        }
        let damaged = damaged || unread + damaged_tables + copier.unlisted.len() > 0;
        copy.close().await;
        let made = Timestamp::now().rfc3339();
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let CheckSummary { files, bytes, .. } = summary;
        let manifest = Manifest { format: 1, program, schema: LATEST, made, drive, files, damaged, db };
        let path = folder.add(&manifest)?;
        let leaves = !damaged && self.remove_old(&folder, manifest.drive.as_deref(), &progress)?;
        let unread = if self.verify { "" } else { "; content was read in part: --verify reads all of it" };
        progress.print(&format!("{}: {files} files, {bytes} bytes; {}{unread}", path.display(), copier.in_words()));
        progress.finish()?;
        Ok(if damaged || !passed_over.is_empty() || leaves {
            CommandOutcome::WithFailures
        } else {
            CommandOutcome::Done
        })
    }

    /// Removes old backups. Prints those that have to be left, and returns whether there are any.
    fn remove_old(&self, folder: &BackupFolder, drive: Option<&str>, progress: &Progress) -> Result<bool> {
        let left = folder.remove_old(self.keep, drive)?;
        left.iter().for_each(|error| progress.print(&error.to_string()));
        Ok(!left.is_empty())
    }

    /// Prints what is unexpected in the folder of backups.
    ///
    /// Errors: its newest backup is of another drive.
    fn check_existing(&self, found: &BackupList, data: &Path, drive: Option<&str>, progress: &Progress) -> Result<()> {
        for (_, error) in &found.unreadable {
            progress.print(&format!(
                "{error}: it is passed over, and never removed; remove it by hand once it is not needed"
            ));
        }
        if found.readable.is_empty() && found.unreadable.is_empty() {
            progress.print(&format!("{}: begins a new folder of backups", self.to.display()));
        }
        match found.of_another(drive) {
            Some(newest) if !self.of_another_drive => {
                Err(BackupFailed::OtherDrive(newest.path.clone(), data.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Checks the copy, replaces damaged content files by sound ones of the drive or of another backup, and returns
    /// whether damage remains. Reads a sample of the content also without `--verify`.
    async fn check(
        &self,
        copy: &OpenCopy,
        repair: &ContentRepair<'_>,
        (sample, suspicions): (&Sample, &BTreeMap<PathBuf, Suspicion>),
        progress: &mut Progress,
    ) -> Result<(CheckSummary, bool)> {
        let mut damaged = repair.check_suspicions(suspicions, progress).await?;
        let (mut summary, damaged_content) = inspect(copy, repair.partial, self.verify, progress).await?;
        for finding in damaged_content {
            let missing = finding.kind == FindingKind::ContentMissing;
            let id = uuid::Uuid::parse_str(&finding.row).ok().map(FileId);
            let state = match id {
                Some(id) if missing => repair.restore_missing(id, finding.path.as_deref(), progress).await?,
                Some(id) => repair.check_file(id, progress).await?,
                None => ContentState::Damaged,
            };
            damaged += usize::from(state.is_damage());
            let is_repaired = matches!(state, ContentState::Repaired | ContentState::Salvaged);
            summary.repaired += u64::from(is_repaired);
            if !is_repaired {
                progress.print(&finding.to_string());
            }
        }
        if !self.verify {
            damaged += repair.check_sample(sample, progress).await?;
        }
        let damaged = damaged > 0 || !summary.is_right();
        Ok((summary, damaged))
    }
}
