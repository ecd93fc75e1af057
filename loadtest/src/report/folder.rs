//! The folder of a report: one run writes it, and no report replaces another one.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::Value;

use super::files;
use super::model::Report;
use crate::progress::say;

/// A file that is not written whole yet. One that a killed run left is written anew.
const UNFINISHED: &str = ".loadtest-unfinished";

/// A folder, locked against other runs until it is dropped.
pub struct Folder {
    /// `/proc/self/fd/N`, so that files follow the folder if somebody moves it.
    open: PathBuf,
    /// Where the report that is there moves to, before the first file is written.
    aside: Option<PathBuf>,
    _lock: File,
}

impl Folder {
    /// Makes and locks a folder. Fails if another run has it, if nothing can be written there, or if it has a file which a
    /// report would replace and no report of this program.
    pub fn lock(dir: &Path) -> Result<Self> {
        let failed = || format!("cannot write a report into {}: name another folder with --out", dir.display());
        std::fs::create_dir_all(dir).with_context(failed)?;
        let lock = locked(dir)?;
        let open = Path::new("/proc/self/fd").join(lock.as_raw_fd().to_string());
        tempfile::tempfile_in(&open).with_context(failed)?;
        // Read now that no other run can change it.
        let aside = begun(&open)?.map(|begun| open.join(begun.to_string()));
        let is_free = aside.as_ref().is_none_or(|aside| !aside.join("report.json").exists());
        ensure!(is_free, "{} has another report of the same second: name another --out", dir.display());
        Ok(Self { open, aside, _lock: lock })
    }

    /// Where the folder is now.
    pub fn path(&self) -> PathBuf {
        self.open.read_link().unwrap_or_else(|_| self.open.clone())
    }

    /// Writes all files of a report. Each is written under another name and then renamed, so that a reader finds the old
    /// one or the new one, whole. Fails if the folder is gone or cannot be written; what was replaced until then stays.
    pub fn write(&mut self, report: &Report) -> Result<()> {
        let mut files = files(report)?;
        if let Some(aside) = &self.aside {
            set_aside(&self.open, aside).context("the report that is there cannot move")?;
            say(format_args!("the report of an earlier run is now in {}", aside.canonicalize()?.display()));
            self.aside = None;
        }
        // In a folder without one, `report.json` comes first, so that the others are known as this program's.
        let is_first = !self.open.join("report.json").exists();
        files.rotate_right(usize::from(is_first));
        for (name, content) in files {
            let Some(content) = content else { continue };
            replace(&self.open, &name, &content).with_context(|| {
                format!("cannot write {}: is there room, and may you?", self.path().join(name).display())
            })?;
        }
        Ok(())
    }
}

/// A folder, locked until the file is closed. Fails if another run has locked it.
pub fn locked(folder: &Path) -> Result<File> {
    let lock = File::open(folder)?;
    ensure!(lock.try_lock().is_ok(), "{} is in use by another run: name another --out", folder.display());
    Ok(lock)
}

/// When the report of a folder was begun; none if it has no file of a report. This program's `report.json` has `hot_spots`
/// and `meta.started`. Fails if a file has a name of the report's and is of others.
fn begun(dir: &Path) -> Result<Option<Timestamp>> {
    let json = std::fs::read(dir.join("report.json")).unwrap_or_default();
    let json: Value = serde_json::from_slice(&json).unwrap_or_default();
    if let (Some(_), Some(started)) = (json.get("hot_spots"), json.pointer("/meta/started").and_then(Value::as_str)) {
        return started.parse().map(Some).context("the report that is there has no time");
    }
    let mut files = files(&Report::default())?.into_iter().map(|(name, _)| dir.join(name));
    if let Some(file) = files.find(|file| file.symlink_metadata().is_ok()) {
        bail!("{} is there, and this program did not write it: name another folder with --out", file.display());
    }
    Ok(None)
}

/// Moves the files of a report to a folder in theirs, `report.json` last: a move that was cut off goes on with the next
/// one. Replaces nothing.
fn set_aside(dir: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for (name, _) in files(&Report::default())? {
        let moved = to.join(&name);
        ensure!(moved.symlink_metadata().is_err() || !dir.join(&name).exists(), "{} is there", moved.display());
        match std::fs::rename(dir.join(name), moved) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn replace(dir: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let unfinished = dir.join(UNFINISHED);
    let _ = std::fs::remove_file(&unfinished);
    let mut file = File::create_new(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(unfinished, dir.join(name))
}
