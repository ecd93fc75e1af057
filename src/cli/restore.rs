//! `rowdrive restore`: a data folder out of a backup.
//!
//! Everything is copied, never linked, so that the drive and the backup do not share a byte. `db/` gets its name last:
//! without it the folder is no drive, and a mark beside it keeps a server from making an empty one.

mod folder;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::backup::{BackupFailed, Manifest, OpenCopy, Progress, Result, digest, find, keep_time, make, of, verify};
use super::{Ended, size};
use folder::Folder;
pub use folder::MARK;

/// Make a data folder out of a backup; every byte of it is compared with its digest.
///
/// The folder must be empty or missing. One whose restoring was broken off is begun anew by the same command. Exit code
/// 1 if the backup was made of a damaged drive: what is wrong is named, and the rest is there.
#[derive(Args)]
pub struct Restore {
    /// The folder with the backups, of which the last is taken, or one of them.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    /// The data folder to make.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
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
        let (from, manifest) = find(&self.from)?;
        named_inside(&from, &manifest)?;
        let folder = Folder::take(&self.data, &from)?;
        let data = folder.path.clone();
        let mut progress = Progress::new();
        progress.stage("content files");
        copy(&from.join("content"), &data.join("content"), &mut progress)?;
        progress.stage("the store");
        store(&from.join("db"), &folder.store(), &manifest, &mut progress)?;
        folder.name_store()?;

        let copy = OpenCopy::open(&data, memory).await?;
        let summary = verify(&copy, &data, true, &mut progress).await?;
        copy.close().await;
        let is_right = summary.is_right();
        if !is_right && !manifest.damaged {
            return Err(BackupFailed::Damaged(from));
        }
        folder.whole()?;
        progress.clear();
        let mut out = io::stdout();
        let (files, bytes) = (summary.files, summary.bytes);
        writeln!(out, "{}: {files} files, {bytes} bytes, from {}", data.display(), from.display())?;
        out.flush()?;
        Ok(if is_right { Ended::Done } else { Ended::WithFailures })
    }
}

fn copy(from: &Path, to: &Path, progress: &mut Progress) -> Result<()> {
    make(to)?;
    for entry in of(from, fs::read_dir(from))? {
        let entry = of(from, entry)?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if of(&path, entry.file_type())?.is_dir() {
            copy(&path, &to, progress)?;
        } else {
            progress.add(of(&path, fs::copy(&path, &to))?);
            // By this the next backup knows it as the one it has.
            let _ = keep_time(&path, &to);
        }
    }
    Ok(())
}

/// Errors: a name that leads out of `db`, or to a folder below it. No backup writes one.
fn named_inside(from: &Path, manifest: &Manifest) -> Result<()> {
    match manifest.db.keys().find(|name| Path::new(name).file_name() != Some(OsStr::new(name.as_str()))) {
        Some(name) => Err(BackupFailed::Name(from.to_owned(), name.clone())),
        None => Ok(()),
    }
}

/// Only what the manifest names, and each only as it is named there.
fn store(from: &Path, to: &Path, manifest: &Manifest, progress: &mut Progress) -> Result<()> {
    for (name, entry) in &manifest.db {
        let (path, to) = (from.join(name), to.join(name));
        let size = of(&path, fs::copy(&path, &to))?;
        if size != entry.size || digest(&to)? != entry.sha256 {
            return Err(BackupFailed::Damaged(path));
        }
        progress.add(size);
    }
    Ok(())
}
