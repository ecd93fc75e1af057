//! Files that are brought into a backup: linked where they can be, else copied.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Result, of};

/// Copies that share one sync, before they get their names.
const FILES: usize = 1_000;
const BYTES: u64 = 256 << 20;

/// Brings files into the folder of an unfinished backup.
pub struct Bring {
    pub to: PathBuf,
    /// Copied under a temporary name, and not synced.
    copied: HashSet<PathBuf>,
    copied_bytes: u64,
    /// Files and bytes.
    new: (u64, u64),
}

/// The ending of a temporary name.
const TEMPORARY: &str = "new";

impl Bring {
    pub fn new(to: &Path) -> Self {
        Self { to: to.to_owned(), copied: HashSet::new(), copied_bytes: 0, new: (0, 0) }
    }

    /// Brings one file that never changes, to `name` below the backup: that of an earlier backup if it is given and
    /// there, else the first of `from` that is. None may be there.
    pub fn one(&mut self, earlier: Option<&Path>, from: &[PathBuf], name: &Path, size: u64) -> Result<()> {
        let to = self.to.join(name);
        // A file bears its name only once it is whole and durable.
        if is_there(&to, size)? || self.copied.contains(&temporary(&to)) {
            return Ok(());
        }
        if let Some(earlier) = earlier
            && is_there(earlier, size)?
            // Where links are not known, it is copied once more.
            && fs::hard_link(earlier, &to).is_ok()
        {
            return Ok(());
        }
        for from in from {
            match self.link_or_copy(from, &to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                brought => {
                    of(from, brought)?;
                    self.new = (self.new.0 + 1, self.new.1 + size);
                    if self.copied.len() >= FILES || self.copied_bytes >= BYTES {
                        self.finish()?;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn link_or_copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            // On another file system, or one that knows no links.
            Err(_) => {}
        }
        let temporary = temporary(to);
        self.copied_bytes += fs::copy(from, &temporary)?;
        self.copied.insert(temporary);
        Ok(())
    }

    /// Brings one file that may change later: always copied.
    pub fn copy(&mut self, from: &Path, name: &Path) -> Result<()> {
        let to = self.to.join(name);
        of(from, fs::copy(from, &to)).map(drop)
    }

    /// Makes what was copied durable, and gives it its names.
    pub fn finish(&mut self) -> Result<()> {
        if self.copied.is_empty() {
            return Ok(());
        }
        sync_all(&self.to)?;
        for temporary in self.copied.drain() {
            let name = temporary.with_extension("");
            of(&name, fs::rename(&temporary, &name))?;
        }
        self.copied_bytes = 0;
        Ok(())
    }

    pub fn in_words(&self) -> String {
        let (files, bytes) = self.new;
        format!("{files} files ({bytes} bytes) were new")
    }
}

fn temporary(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".");
    name.push(TEMPORARY);
    name.into()
}

/// Whether a file of this size is there.
fn is_there(path: &Path, size: u64) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_file() && found.len() == size),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => of(path, Err(error)),
    }
}

/// Makes a folder that only this user can look into; one that is there is fine.
pub fn make(path: &Path) -> Result<()> {
    of(path, DirBuilder::new().recursive(true).mode(0o700).create(path))
}

/// Makes all that was written to the file system of this folder durable.
pub fn sync_all(path: &Path) -> Result<()> {
    of(path, File::open(path).and_then(|folder| Ok(rustix::fs::syncfs(folder)?)))
}
