//! `rowdrive backup`: a copy of a drive as it is at one instant, made while it is served.
//!
//! 1. Content files are brought, most of them while nothing else is asked for: they never change.
//! 2. The [source] makes a copy of its store as of one instant, and keeps every content file from then on.
//! 3. That copy, then the content files that it names and that are not there yet, are brought; the source is let go.
//! 4. The whole is checked as any data folder is, gets its manifest, and takes its place among the [generations].
//!
//! What an earlier generation has is linked, not copied. Whoever breaks it off loses nothing: what was brought is found
//! by the next run.

mod alive;
mod bring;
mod content;
mod generations;
mod heal;
mod progress;
mod server;
mod source;
mod store;
mod tables;
mod verify;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use rowdrive::check::{CheckError, Kind, Summary};
use rowdrive::content::ContentError;
use rowdrive::migrate::{LATEST, MigrateError};
use rowdrive::schema::{FileId, Timestamp};
use rowdrive::table::StoreError;

use super::local::{Folder, Part};
use super::store_id::{self, Apart, Sides};
use super::{Ended, size};
use bring::{Bring, Doubt};
pub use bring::{is_readable, keep_time, make, sync_all};
use content::Contents;
use generations::{Complete, Generations};
pub use generations::{Manifest, find, is_backup};
use heal::{Heal, Sample, State};
pub use progress::Progress;
pub use server::{Backups, remove, remove_checkpoints};
use source::Source;
pub use store::digest;
use tables::CopiedStore;
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
    /// Memory for caches and write buffers, as in 512MiB or 4GiB.
    #[arg(long, value_name = "BYTES", value_parser = size::parse, default_value = "256MiB")]
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
    Within(PathBuf, Part),
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
    #[error("the data folder {0} cannot be opened: {1}{hint}", hint = super::hint(.1))]
    Store(PathBuf, StoreError),
    #[error("the data folder {0} cannot be opened: {1}")]
    Apart(PathBuf, Apart),
    #[error("the server cannot give a copy of its store: {0}")]
    Refused(String),
    #[error("the server has ended, and with it the copy of its store: run the backup again to go on")]
    Gone,
    #[error("the copy cannot be opened: {0}")]
    Copy(StoreError),
    #[error("the tables cannot be opened: {0}")]
    Schema(#[from] MigrateError),
    #[error("the check of the copy broke off: {0}")]
    Check(#[from] CheckError),
    #[error("content cannot be listed: {0}")]
    Content(#[from] ContentError),
    #[error("{0} is no backup: it has no backup.json of format 1")]
    NoBackup(PathBuf),
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

pub type Result<T> = std::result::Result<T, BackupFailed>;

/// Errors: what is made there would lie in a folder of a drive, or in a backup, and would go with it.
pub fn outside(path: &Path) -> Result<()> {
    let absolute = of(path, std::path::absolute(path))?;
    for above in absolute.ancestors() {
        match Folder::open(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let part = of(above, opened.and_then(|folder| folder.within_drive()))?;
                return part.map_or(Ok(()), |part| Err(BackupFailed::Within(path.to_owned(), part)));
            }
        }
    }
    Ok(())
}

/// Names the file of an error.
pub fn of<T>(path: &Path, done: io::Result<T>) -> Result<T> {
    done.map_err(|error| BackupFailed::File(path.to_owned(), error))
}

impl Backup {
    pub fn run(self) -> Result<Ended> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.backup())
    }

    async fn backup(self) -> Result<Ended> {
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let sides = store_id::compare(&self.data).map_err(|e| BackupFailed::Apart(self.data.clone(), e))?;
        if sides == Sides::New {
            return Err(BackupFailed::NoStore(self.data));
        }
        if is_backup(&self.data) {
            return Err(BackupFailed::OfBackup(self.data));
        }
        let data = of(&self.data, std::fs::canonicalize(&self.data))?;
        outside(&self.to)?;
        let generations = Generations::open(&self.to, &data)?;
        let found = generations.complete()?;
        let mut progress = Progress::new();
        let drive = of(&data, store_id::drive(&data))?;
        self.look_at(&found, &data, drive.as_deref(), &progress)?;
        let Complete { sound: complete, unread: passed_over } = found;
        let partial = generations.partial()?;
        // What may be damaged is not linked.
        let last = complete.iter().rev().find(|one| !one.manifest.damaged);
        let mut bring = Bring::new(&partial);
        let earlier = last.map(|last| last.path.as_path());

        source::idle(&data).await?;
        progress.stage("content files");
        Contents { data: &data, last: earlier, bring: &mut bring, progress: &mut progress }.ahead()?;
        let source = Source::open(&data, memory).await?;
        progress.stage("the store");
        let (db, unread) = store::bring(source.store(), (&complete, last), &mut bring, &mut progress)?;
        let mut store = CopiedStore::new(source.store(), &partial, &complete, db);
        let (copy, rotten) = store.open(memory, &mut progress).await?;
        let db = store.entries;
        progress.stage("the last content files");
        let mut contents = Contents { data: &data, last: earlier, bring: &mut bring, progress: &mut progress };
        let sample = contents.named(&copy.tables).await?;
        bring.finish()?;
        // From here on the drive may be started, and remove what it wants to.
        source.end().await?;

        for path in &bring.differing {
            progress.print(&format!(
                "{}, of an earlier backup, differs from what the drive has: it was brought anew",
                path.display()
            ));
        }
        let heal = Heal { data: &data, partial: &partial, complete: &complete, tables: &copy.tables };
        let (summary, damaged) = self.check(&copy, &heal, (&sample, &bring.doubts), &mut progress).await?;
        for (folder, error) in &bring.unlisted {
            progress.print(&format!("{} cannot be listed on the drive: {error}", folder.display()));
        }
        if bring.linked {
            progress.print(&format!(
                "{} is on the disk of the drive: its files are links, which do not help if the disk breaks",
                self.to.display()
            ));
        }
        let damaged = damaged || unread + rotten + bring.unlisted.len() > 0;
        copy.close().await;
        let made = Timestamp::now().rfc3339();
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let Summary { files, bytes, .. } = summary;
        let manifest = Manifest { format: 1, program, schema: LATEST, made, drive, files, damaged, db };
        let path = generations.add(&manifest)?;
        if !damaged {
            generations.keep(self.keep, manifest.drive.as_deref())?;
        }
        let unread = if self.verify { "" } else { "; content was read in part: --verify reads all of it" };
        progress.print(&format!("{}: {files} files, {bytes} bytes; {}{unread}", path.display(), bring.in_words()));
        progress.ended()?;
        Ok(if damaged || !passed_over.is_empty() { Ended::WithFailures } else { Ended::Done })
    }

    /// Tells what is not expected of the folder of backups.
    ///
    /// Errors: its newest backup is of another drive.
    fn look_at(&self, found: &Complete, data: &Path, drive: Option<&str>, progress: &Progress) -> Result<()> {
        for (_, error) in &found.unread {
            progress.print(&format!(
                "{error}: it is passed over, and never removed; remove it by hand once it is not needed"
            ));
        }
        if found.sound.is_empty() && found.unread.is_empty() {
            progress.print(&format!("{}: begins a new folder of backups", self.to.display()));
        }
        match found.of_another(drive) {
            Some(newest) if !self.of_another_drive => {
                Err(BackupFailed::OtherDrive(newest.path.clone(), data.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is damaged, after what can be brought anew was. Some of its content is read in any case.
    async fn check(
        &self,
        copy: &OpenCopy,
        heal: &Heal<'_>,
        (sample, doubts): (&Sample, &BTreeMap<PathBuf, Doubt>),
        progress: &mut Progress,
    ) -> Result<(Summary, bool)> {
        let mut damaged = heal.doubts(doubts, progress).await?;
        let (mut summary, rotten) = inspect(copy, heal.partial, self.verify, progress).await?;
        for finding in rotten {
            let missing = finding.kind == Kind::ContentMissing;
            let id = uuid::Uuid::parse_str(&finding.row).ok().map(FileId);
            let state = match id {
                Some(id) if missing => heal.missing(id, finding.path.as_deref(), progress).await?,
                Some(id) => heal.one(id, progress).await?,
                None => State::Damaged,
            };
            damaged += usize::from(state.is_damage());
            let healed = matches!(state, State::Mended | State::Saved);
            summary.repaired += u64::from(healed);
            if !healed {
                progress.print(&finding.to_string());
            }
        }
        if !self.verify {
            damaged += heal.some(sample, progress).await?;
        }
        let damaged = damaged > 0 || !summary.is_right();
        Ok((summary, damaged))
    }
}
