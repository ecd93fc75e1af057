//! Folders and files of this machine. Each is opened with `openat`, relative to its parent folder: neither a name nor a
//! symbolic link leads out of a tree, even while other processes move entries in it.
//!
//! By `rustix` and not by `cap-std`, which lacks renames without replacement, locks and `syncfs`: `rustix` would be needed
//! beside it.

mod digest;
mod temporary;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rowdrive::api::shown::is_hidden;
use rowdrive::schema::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

pub use digest::{Hasher, file_digest, read_chunk};
pub use temporary::{TemporaryFile, is_temporary_name, remove_stale_temporary};

/// A folder that is open.
#[derive(Debug)]
pub struct OpenFolder(OwnedFd);

/// What a directory entry is, as `fstatat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsEntry {
    File(FileStamp),
    Folder,
    /// Its type in words, as `a socket`.
    Other(&'static str),
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsKind {
    File,
    Folder,
    /// Its type in words, as `a socket`.
    Other(&'static str),
}

impl FsEntry {
    fn from_stat(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File(FileStamp::from_stat(stat)),
            FileType::Directory => Self::Folder,
            other => Self::Other(type_in_words(other)),
        }
    }

    fn kind(self) -> FsKind {
        match self {
            Self::File(_) => FsKind::File,
            Self::Folder => FsKind::Folder,
            Self::Other(what) => FsKind::Other(what),
        }
    }
}

/// Size and modification time: they distinguish two versions of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl FileStamp {
    fn from_stat(stat: &Stat) -> Self {
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
        Self { size: u64::try_from(stat.st_size).unwrap_or_default(), seconds: stat.st_mtime, nanoseconds }
    }

    /// In milliseconds, as the drive stores it. Rounds down, also before 1970.
    pub fn modified(&self) -> Timestamp {
        Timestamp::from_ms(self.seconds.saturating_mul(1000).saturating_add(self.nanoseconds.div_euclid(1_000_000)))
    }
}

impl OpenFolder {
    /// Opens a folder by a path that the user named; symbolic links in that path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a folder in this one; follows no symbolic link.
    pub fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// The parent folder; none if this is the root.
    pub fn parent(&self) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match openat(&self.0, "..", flags | OFlags::RDONLY, Mode::empty()) {
            // This user may search the folder but not list it: lookups of single names still work.
            Err(Errno::ACCESS) => openat(&self.0, "..", flags | OFlags::PATH, Mode::empty()),
            opened => opened,
        };
        let parent = opened?;
        // In the root, `..` is the root itself.
        let (here, there) = (fstat(&self.0)?, fstat(&parent)?);
        let is_root = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        Ok((!is_root).then_some(Self(parent)))
    }

    /// Creates a folder in this one.
    pub fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?)
    }

    /// The entry of this name, if there is one; a symbolic link is not followed.
    pub fn lookup(&self, name: &OsStr) -> io::Result<Option<FsEntry>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FsEntry::from_stat(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The type of an entry. `listed` is the type from [`entries`](Self::entries): if that is unknown, this reads it
    /// from the file system.
    pub fn kind(&self, name: &OsStr, listed: FileType) -> io::Result<Option<FsKind>> {
        match listed {
            FileType::RegularFile => Ok(Some(FsKind::File)),
            FileType::Directory => Ok(Some(FsKind::Folder)),
            FileType::Unknown => Ok(self.lookup(name)?.map(FsEntry::kind)),
            other => Ok(Some(FsKind::Other(type_in_words(other)))),
        }
    }

    /// All names, unordered, each with its type; `Unknown` if the file system does not list types.
    pub fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<(OsString, FileType)>> + use<>> {
        let entries = Dir::read_from(&self.0)?;
        Ok(entries.filter_map(|entry| match entry {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
            Ok(entry) => Some(Ok((OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(), entry.file_type()))),
            Err(error) => Some(Err(error.into())),
        }))
    }

    /// Opens a file in this folder; follows no symbolic link. `NONBLOCK`: a named pipe that has replaced the file does
    /// not block the open.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Syncs the whole file system that this folder is on.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// The stamp of an open file; an error if it is no regular file.
pub fn file_stamp(file: &File) -> io::Result<FileStamp> {
    match FsEntry::from_stat(&fstat(file)?) {
        FsEntry::File(stamp) => Ok(stamp),
        FsEntry::Folder => Err(io::Error::other("it is a folder now")),
        FsEntry::Other(what) => Err(io::Error::other(format!("it is {what} now"))),
    }
}

fn type_in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "neither file nor folder",
    }
}

/// A printable path: escapes invalid UTF-8, control characters, characters that break lines, and those that hide text or
/// change its direction. What joins letters or pictures to one stays as it is.
pub fn printable(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || is_hidden(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Runs a blocking job on tokio's thread pool for blocking work.
pub async fn run_blocking<T: Send + 'static, E: From<io::Error> + Send + 'static>(
    job: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    tokio::task::spawn_blocking(job).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_name_is_one_line_in_its_order_and_hides_nothing() {
        for (name, printed) in [
            ("a\nb\u{1b}[2J\u{85}", "a\\nb\\u{1b}[2J\\u{85}"),
            ("a\u{2028}b\u{2029}c", "a\\u{2028}b\\u{2029}c"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\u{61c}\u{200e}\u{2066}\u{2069}", "a\\u{61c}\\u{200e}\\u{2066}\\u{2069}"),
            (
                "a\u{200b}\u{ad}\u{feff}\u{3164}\u{e0041}\u{fff9}",
                "a\\u{200b}\\u{ad}\\u{feff}\\u{3164}\\u{e0041}\\u{fff9}",
            ),
        ] {
            assert_eq!(printable(Path::new(name)), printed);
        }
        // A family, a coloured heart, a Persian word, and letters with marks.
        for name in
            ["\u{1f468}\u{200d}\u{1f469}", "\u{2764}\u{fe0f}", "\u{645}\u{6cc}\u{200c}", "e\u{301} \u{df}\u{3000}"]
        {
            assert_eq!(printable(Path::new(name)), name);
        }
        assert_eq!(printable(Path::new(OsStr::from_bytes(b"a\xff"))), "a\\xff");
    }
}
