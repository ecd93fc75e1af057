//! Files that are brought into a backup: linked where they can be, else copied.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{BackupFailed, Result, digest, of};

/// Copies that share one sync, before they get their names.
const FILES: usize = 1_000;
const BYTES: u64 = 256 << 20;

/// Brings files into the folder of an unfinished backup.
#[derive(Default)]
pub struct Bring {
    pub to: PathBuf,
    /// Copied under a temporary name, and not synced.
    copied: HashSet<PathBuf>,
    copied_bytes: u64,
    /// Files and bytes.
    new: (u64, u64),
    /// Whether some are the very files of the drive.
    pub linked: bool,
    /// Tables of an earlier backup that are no longer as the drive has them.
    pub differing: Vec<PathBuf>,
    /// Content files, by name, of which the drive's own is not known to be the right one.
    pub doubts: BTreeMap<PathBuf, Doubt>,
    /// Folders of content, by name, that cannot be listed on the drive.
    pub unlisted: BTreeMap<PathBuf, BackupFailed>,
}

/// Why a content file has to be held to its row.
pub enum Doubt {
    /// This one of an earlier backup has other bytes.
    Differs(PathBuf),
    /// The drive's own cannot be read.
    Unreadable(io::Error),
}

/// The ending of a temporary name.
const TEMPORARY: &str = "new";

impl Bring {
    pub fn new(to: &Path) -> Self {
        Self { to: to.to_owned(), ..Self::default() }
    }

    /// Brings one file that never changes, to `name` below the backup: that of an earlier backup if it is given and
    /// there, else the first of `from` that is. None may be there. One that cannot be read is noted, and left out.
    pub fn one(&mut self, earlier: Option<&Path>, from: &[PathBuf], name: &Path, size: u64) -> Result<()> {
        let to = self.to.join(name);
        // A file bears its name only once it is whole and durable.
        if self.copied.contains(&temporary(&to)) || is_as(&to, from, size) {
            return Ok(());
        }
        super::remove(&to)?;
        if let Some(earlier) = earlier
            && self.is_same(earlier, from, name, size)
            // Where links are not known, it is copied once more.
            && fs::hard_link(earlier, &to).is_ok()
        {
            return Ok(());
        }
        for from in from {
            match self.link_or_copy(from, &to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // What can be read was not written: the fault is the backup's.
                Err(error) if !is_readable(from) => {
                    super::remove(&temporary(&to))?;
                    self.doubts.insert(name.to_owned(), Doubt::Unreadable(error));
                    return Ok(());
                }
                brought => {
                    of(&to, brought)?;
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

    fn is_same(&mut self, earlier: &Path, from: &[PathBuf], name: &Path, size: u64) -> bool {
        let is_same = is_as(earlier, from, size);
        if !is_same && is_there(earlier, size) {
            self.doubts.insert(name.to_owned(), Doubt::Differs(earlier.to_owned()));
        }
        is_same
    }

    fn link_or_copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Ok(()) => {
                self.linked = true;
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            // On another file system, or one that knows no links.
            Err(_) => {}
        }
        let temporary = temporary(to);
        self.copied_bytes += fs::copy(from, &temporary)?;
        // By this the next backup knows it. A file system that keeps no times has it read again.
        let _ = keep_time(from, &temporary);
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

/// Whether the same file is there. One of another time is read: whoever changed it by mistake kept its size, perhaps.
fn is_as(path: &Path, from: &[PathBuf], size: u64) -> bool {
    if !is_there(path, size) {
        return false;
    }
    let Some(from) = from.iter().find(|from| from.is_file()) else { return true };
    match has_time(path, from) {
        Ok(true) => return true,
        // It was just removed from the drive: the rows will not name it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        // What cannot be looked at is read, and that tells.
        Ok(false) | Err(_) => {}
    }
    // What cannot be read is not the same.
    let is_same = matches!((digest(path), digest(from)), (Ok(one), Ok(other)) if one == other);
    if is_same {
        let _ = keep_time(from, path);
    }
    is_same
}

/// Whether all of it can be read, or it is gone.
pub fn is_readable(path: &Path) -> bool {
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    read.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |_| true)
}

/// As exactly as file systems keep times: some to 2 s.
fn has_time(path: &Path, from: &Path) -> io::Result<bool> {
    let (one, other) = (fs::metadata(path)?.modified()?, fs::metadata(from)?.modified()?);
    let apart = one.duration_since(other).unwrap_or_else(|error| error.duration());
    let nanos = one.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    Ok(apart < Duration::from_nanos(100) || (nanos % 10_000_000 == 0 && apart <= Duration::from_secs(2)))
}

/// Gives a file the time of another.
pub fn keep_time(from: &Path, to: &Path) -> io::Result<()> {
    let modified = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(modified)
}

/// Whether a file of this size is there. One that cannot be looked at is not: it is brought anew.
fn is_there(path: &Path, size: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == size)
}

/// Makes a folder that only this user can look into; one that is there is fine.
pub fn make(path: &Path) -> Result<()> {
    of(path, DirBuilder::new().recursive(true).mode(0o700).create(path))
}

/// Makes all that was written to the file system of this folder durable.
pub fn sync_all(path: &Path) -> Result<()> {
    of(path, File::open(path).and_then(|folder| Ok(rustix::fs::syncfs(folder)?)))
}
