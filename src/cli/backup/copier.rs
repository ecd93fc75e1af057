//! Copies files into a backup: as hard links where possible.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowdrive::sha256::Sha256;

use super::{BackupFailed, Result, with_path};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// The most copies, and bytes of copies, that are synced together before they get their final names.
const FILES: usize = 1_000;
const BYTES: u64 = 256 << 20;

/// Copies files into the folder of an unfinished backup.
#[derive(Default)]
pub struct FileCopier {
    pub to: PathBuf,
    /// Temporary names of copies that are not synced yet.
    copied: HashSet<PathBuf>,
    copied_bytes: u64,
    /// The number of files, and their bytes, that are not in an earlier backup.
    new: (u64, u64),
    /// Whether some copies are hard links to files of the drive.
    pub linked: bool,
    /// Tables of an earlier backup that differ from the drive's.
    pub differing: Vec<PathBuf>,
    /// Content files, by path, that must be compared with the digests in their rows.
    pub suspicions: BTreeMap<PathBuf, Suspicion>,
    /// Folders of content, by path, that cannot be listed on the drive.
    pub unlisted: BTreeMap<PathBuf, BackupFailed>,
}

/// Why a content file must be compared with the digest in its row.
pub enum Suspicion {
    /// The file of an earlier backup, at this path, has other bytes.
    Differs(PathBuf),
    /// The file on the drive cannot be read.
    Unreadable(io::Error),
}

/// The ending of a temporary name.
const TEMPORARY: &str = "new";

impl FileCopier {
    pub fn new(to: &Path) -> Self {
        Self { to: to.to_owned(), ..Self::default() }
    }

    /// Copies one file that never changes to the path `name` in the backup: from `earlier` if that is the same file,
    /// else from the first of `from` that exists; from none if none does. A file that cannot be read is noted and left
    /// out.
    pub fn copy_immutable(&mut self, earlier: Option<&Path>, from: &[PathBuf], name: &Path, size: u64) -> Result<()> {
        let to = self.to.join(name);
        // A file has its final name only once it is complete and durable: the copy of an earlier run is reused.
        if self.copied.contains(&temporary(&to)) || is_as(&to, from, size) {
            return Ok(());
        }
        super::remove(&to)?;
        if let Some(earlier) = earlier
            && self.is_same(earlier, from, name, size)
            // A file system without hard links: copy it below.
            && fs::hard_link(earlier, &to).is_ok()
        {
            return Ok(());
        }
        for from in from {
            match self.link_or_copy(from, &to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // If the source can be read, writing failed: an error of the backup.
                Err(error) if !is_readable(from) => {
                    super::remove(&temporary(&to))?;
                    self.suspicions.insert(name.to_owned(), Suspicion::Unreadable(error));
                    return Ok(());
                }
                brought => {
                    with_path(&to, brought)?;
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
            self.suspicions.insert(name.to_owned(), Suspicion::Differs(earlier.to_owned()));
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
            // On another file system, or on one without hard links.
            Err(_) => {}
        }
        let temporary = temporary(to);
        self.copied_bytes += fs::copy(from, &temporary)?;
        // The next backup compares times. If the file system does not store them, it compares the bytes.
        let _ = keep_time(from, &temporary);
        self.copied.insert(temporary);
        Ok(())
    }

    /// Copies one file that may change later: never a link.
    pub fn copy_mutable(&mut self, from: &Path, name: &Path) -> Result<()> {
        let to = self.to.join(name);
        with_path(from, fs::copy(from, &to)).map(drop)
    }

    /// Syncs the copies, then renames them to their final names.
    pub fn finish(&mut self) -> Result<()> {
        if self.copied.is_empty() {
            return Ok(());
        }
        sync_file_system(&self.to)?;
        for temporary in self.copied.drain() {
            let name = temporary.with_extension("");
            with_path(&name, fs::rename(&temporary, &name))?;
        }
        self.copied_bytes = 0;
        Ok(())
    }

    /// The summary for the user.
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

/// Whether `path` is the same file as the first of `from`. Compares bytes if the times differ: a mistaken change may
/// have kept the size.
fn is_as(path: &Path, from: &[PathBuf], size: u64) -> bool {
    if !is_there(path, size) {
        return false;
    }
    let Some(from) = from.iter().find(|from| from.is_file()) else { return true };
    match has_same_time(path, from) {
        Ok(true) => return true,
        // The file was just removed from the drive: no row will name it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        // The times differ or are not known: compare the bytes.
        Ok(false) | Err(_) => {}
    }
    // A file that cannot be read counts as different.
    let is_same = matches!((digest(path), digest(from)), (Ok(one), Ok(other)) if one == other);
    if is_same {
        let _ = keep_time(from, path);
    }
    is_same
}

/// Whether every byte can be read; true if the file is gone.
pub fn is_readable(path: &Path) -> bool {
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    read.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |_| true)
}

/// Whether the times are equal, with the precision of the file system: 2 s on some.
fn has_same_time(path: &Path, from: &Path) -> io::Result<bool> {
    let (one, other) = (fs::metadata(path)?.modified()?, fs::metadata(from)?.modified()?);
    let apart = one.duration_since(other).unwrap_or_else(|error| error.duration());
    let nanos = one.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    Ok(apart < Duration::from_nanos(100) || (nanos % 10_000_000 == 0 && apart <= Duration::from_secs(2)))
}

/// Sets the modification time of `to` to that of `from`.
pub fn keep_time(from: &Path, to: &Path) -> io::Result<()> {
    let modified = fs::metadata(from)?.modified()?;
    File::options().write(true).open(to)?.set_modified(modified)
}

/// Whether a file of this size exists. One whose metadata cannot be read counts as missing and is copied again.
fn is_there(path: &Path, size: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == size)
}

/// Creates a folder that only this user can read, unless it exists.
pub fn create_folder(path: &Path) -> Result<()> {
    with_path(path, DirBuilder::new().recursive(true).mode(0o700).create(path))
}

/// Syncs the whole file system that this folder is on.
pub fn sync_file_system(path: &Path) -> Result<()> {
    with_path(path, File::open(path).and_then(|folder| Ok(rustix::fs::syncfs(folder)?)))
}

/// SHA-256 in hexadecimal digits.
pub fn digest(path: &Path) -> Result<String> {
    let read = || -> io::Result<String> {
        let (mut file, mut sha, mut piece) = (File::open(path)?, Sha256::new(), vec![0; PIECE]);
        loop {
            match file.read(&mut piece)? {
                0 => break,
                len => sha.update(piece.get(..len).unwrap_or_default()),
            }
        }
        Ok(sha.done().iter().map(|byte| format!("{byte:02x}")).collect())
    };
    with_path(path, read())
}
