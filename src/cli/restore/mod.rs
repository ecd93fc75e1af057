//! `rowdrive restore`: a data folder out of a backup.
//!
//! Everything is copied, never linked, so that the drive and the backup do not share a byte. `db/` gets its name last:
//! without it the folder is no drive, and a mark beside it keeps a server from making an empty one.

mod folder;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use rowdrive::check::Summary;

use super::backup::{
    BackupFailed, Manifest, OpenCopy, Progress, Result, digest, find, is_readable, keep_time, make, of, outside,
    remove, verify,
};
use super::{Ended, size, store_id};
use folder::Folder;
pub use folder::MARK;

/// Make a data folder out of a backup; every byte of it is compared with its digest.
///
/// The folder must be empty or missing. One whose restoring was broken off is begun anew by the same command. Exit code
/// 1 if the backup holds damage of the drive: what is wrong is named, and the rest is there. The same with --damaged
/// for a backup that has rotted itself, which is refused without; and if the manifest of a newer backup cannot be read.
#[derive(Args)]
pub struct Restore {
    /// The folder with the backups, of which the last is taken, or one of them.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    /// The data folder to make.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// Go to the end also if the backup is not as it was written; each file that is not is named.
    #[arg(long)]
    damaged: bool,
    /// Memory for caches and write buffers, as in 512MiB or 4GiB.
    #[arg(long, value_name = "BYTES", value_parser = size::parse, default_value = "256MiB")]
    memory: u64,
}

impl Restore {
    pub fn run(self) -> Result<Ended> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.restore())
    }

    async fn restore(self) -> Result<Ended> {
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let (from, manifest, newer) = find(&self.from)?;
        named_inside(&from, &manifest)?;
        if let Some(above) = of(&self.data, std::path::absolute(&self.data))?.parent() {
            outside(above)?;
        }
        let folder = Folder::take(&self.data, &from)?;
        let data = folder.path.clone();
        let mut copied = Copied { damaged: self.damaged, wrong: 0, progress: Progress::new() };
        for error in &newer {
            copied.progress.print(&format!("{error}: it is passed over, and an older one is restored"));
        }
        copied.progress.stage("content files");
        copied.content(&from.join("content"), &data.join("content"))?;
        copied.progress.stage("the store");
        copied.store(&from.join("db"), &folder.store(), &manifest)?;
        if let Some(drive) = &manifest.drive {
            of(&folder.store(), store_id::restored(&folder.store(), drive))?;
        }
        folder.name_store()?;

        let Copied { wrong, mut progress, .. } = copied;
        let summary = match inspected(&data, memory, &mut progress).await {
            Err(error) if self.damaged => {
                progress.print(&format!("{error}"));
                progress.print("`rowdrive serve --degraded` serves what is left of it, for reading");
                whole(folder)?;
                progress.ended()?;
                return Ok(Ended::WithFailures);
            }
            summary => summary?,
        };
        let is_right = summary.is_right() && wrong == 0;
        if !is_right && !manifest.damaged && !self.damaged {
            return Err(BackupFailed::Damaged(from));
        }
        whole(folder)?;
        let (files, bytes) = (summary.files, summary.bytes);
        progress.print(&format!("{}: {files} files, {bytes} bytes, from {}", data.display(), from.display()));
        progress.ended()?;
        Ok(if is_right && newer.is_empty() { Ended::Done } else { Ended::WithFailures })
    }
}

/// Makes it a drive with an id of its own: both sides were compared here, and no start needs to judge by a sample
/// whether they belong together.
fn whole(folder: Folder) -> Result<()> {
    let data = folder.path.clone();
    let apart = |error| BackupFailed::Apart(data.clone(), error);
    store_id::begin(&data).map_err(apart)?;
    folder.whole()?;
    // Last: until then a start ends what was begun.
    store_id::finish(&data).map_err(apart)
}

/// Names what is wrong with what was restored.
async fn inspected(data: &Path, memory: usize, progress: &mut Progress) -> Result<Summary> {
    let copy = OpenCopy::open(data, memory).await?;
    let summary = verify(&copy, data, true, progress).await;
    copy.close().await;
    summary
}

/// Errors: a name that leads out of `db`, or to a folder below it. No backup writes one.
fn named_inside(from: &Path, manifest: &Manifest) -> Result<()> {
    match manifest.db.keys().find(|name| Path::new(name).file_name() != Some(OsStr::new(name.as_str()))) {
        Some(name) => Err(BackupFailed::Name(from.to_owned(), name.clone())),
        None => Ok(()),
    }
}

/// What is copied out of a backup.
struct Copied {
    /// Whether what is not as it was written is named and passed over.
    damaged: bool,
    /// Files that were.
    wrong: u64,
    progress: Progress,
}

impl Copied {
    fn content(&mut self, from: &Path, to: &Path) -> Result<()> {
        make(to)?;
        for entry in of(from, fs::read_dir(from))? {
            let entry = of(from, entry)?;
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if of(&path, entry.file_type())?.is_dir() {
                self.content(&path, &to)?;
            } else if let Some(size) = self.one(&path, &to)? {
                self.progress.add(size);
                // By this the next backup knows it as the one it has.
                let _ = keep_time(&path, &to);
            }
        }
        Ok(())
    }

    /// Only what the manifest names, and each only as it is named there.
    fn store(&mut self, from: &Path, to: &Path, manifest: &Manifest) -> Result<()> {
        for (name, entry) in &manifest.db {
            let (path, to) = (from.join(name), to.join(name));
            let Some(size) = self.one(&path, &to)? else { continue };
            if size != entry.size || digest(&to)? != entry.sha256 {
                self.pass_over(BackupFailed::Damaged(path))?;
            }
            self.progress.add(size);
        }
        Ok(())
    }

    /// Tells its size; none if it cannot be read and was passed over.
    fn one(&mut self, from: &Path, to: &Path) -> Result<Option<u64>> {
        match fs::copy(from, to) {
            Err(error) if !from.is_file() || !is_readable(from) => {
                remove(to)?;
                self.pass_over(BackupFailed::Unreadable(from.to_owned(), error))?;
                Ok(None)
            }
            copied => of(to, copied).map(Some),
        }
    }

    fn pass_over(&mut self, error: BackupFailed) -> Result<()> {
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
