//! The folder of a report: one run writes it, and no report replaces another one.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::files;
use super::model::Report;

/// A folder, locked against other runs until it is dropped.
pub struct Folder {
    /// `/proc/self/fd/N`, so that files follow the folder if somebody moves it.
    open: PathBuf,
    /// The names of the files that this run has written. It replaces no others.
    written: BTreeSet<String>,
    _lock: File,
}

impl Folder {
    /// Makes and locks a folder. Fails if another run has it, if nothing can be written there, or if a file there has a name of
    /// the report's and cannot move: this program did not write it, or its place is taken.
    pub fn lock(dir: &Path) -> Result<Self> {
        let failed = || format!("cannot write a report into {}: name another folder with --out", dir.display());
        std::fs::create_dir_all(dir).with_context(failed)?;
        let lock = try_lock(dir)?;
        let open = Path::new("/proc/self/fd").join(lock.as_raw_fd().to_string());
        unfinished(&open, &[]).with_context(failed)?;
        earlier(&open).with_context(failed)?;
        Ok(Self { open, written: BTreeSet::new(), _lock: lock })
    }

    /// Where the folder is now.
    pub fn path(&self) -> PathBuf {
        self.open.read_link().unwrap_or_else(|_| self.open.clone())
    }

    /// Writes all files of a report, each whole or not at all. Returns where an earlier report has moved, once the first
    /// file was whole. Fails if the folder is gone or cannot be written; what was replaced until then stays.
    pub fn write(&mut self, report: &Report) -> Result<Option<PathBuf>> {
        let (mut files, mut moved) = (files(report)?, None);
        // The first time `report.json` comes first, so that the others are known as this program's.
        files.rotate_right(usize::from(self.written.is_empty()));
        for (name, content) in files {
            let Some(content) = content else { continue };
            let failed = || format!("cannot write {name} into {}: is there room, and may you?", self.path().display());
            let file = unfinished(&self.open, &content).with_context(failed)?;
            if self.written.is_empty() {
                moved = move_earlier(&self.open).with_context(failed)?;
            }
            let (to, is_own) = (self.open.join(&name), self.written.contains(&name));
            let put = if is_own { file.persist(to) } else { file.persist_noclobber(to) };
            put.map_err(|error| error.error).with_context(failed)?;
            self.written.insert(name);
        }
        Ok(moved)
    }
}

/// A folder, locked until the file is closed. Fails if another run has locked it.
pub fn try_lock(folder: &Path) -> Result<File> {
    let lock = File::open(folder)?;
    ensure!(lock.try_lock().is_ok(), "{} is in use by another run: name another folder", folder.display());
    Ok(lock)
}

/// The folder that the report in a folder moves to: its time; none if there is no file of a report. This program's
/// `report.json` has `hot_spots` and `meta.started`. Fails if a file of others has a name of the report's, here or there.
fn earlier(dir: &Path) -> Result<Option<String>> {
    let (is_there, json) = (|path: &Path| path.symlink_metadata().is_ok(), dir.join("report.json"));
    let json = if json.is_file() { std::fs::read(json)? } else { Vec::new() };
    let json: Value = serde_json::from_slice(&json).unwrap_or_default();
    let begun = json.get("hot_spots").and(json.pointer("/meta/started")).and_then(Value::as_str);
    let aside = begun.and_then(|begun| begun.parse::<Timestamp>().ok());
    let aside = aside.map(|begun| begun.strftime("%Y%m%dT%H%M%SZ").to_string());
    for (name, _) in files(&Report::default())?.iter().filter(|(name, _)| is_there(&dir.join(name))) {
        let Some(aside) = &aside else { anyhow::bail!("{name} is there, and this program did not write it") };
        ensure!(!is_there(&dir.join(aside).join(name)), "{name} of an earlier report cannot move, as {aside} has one");
    }
    Ok(aside)
}

/// Moves the files of an earlier report, `report.json` last: a move that was cut off goes on with the next one.
fn move_earlier(dir: &Path) -> Result<Option<PathBuf>> {
    let Some(to) = earlier(dir)?.map(|aside| dir.join(aside)) else { return Ok(None) };
    std::fs::create_dir_all(&to)?;
    for (name, _) in files(&Report::default())?.iter().filter(|(name, _)| dir.join(name).exists()) {
        std::fs::rename(dir.join(name), to.join(name))?;
    }
    Ok(Some(to.canonicalize()?))
}

/// A file that has no name of the report's yet; removed if it never gets one.
fn unfinished(dir: &Path, content: &[u8]) -> std::io::Result<NamedTempFile> {
    // Less what the user's mask takes away: temporary files are private otherwise.
    let mode = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".loadtest-").permissions(mode).tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file)
}
