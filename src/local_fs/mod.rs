//! Folders and files of this machine, always reached from the folder that holds them: no name and no symbolic link
//! leads out of a tree, even if somebody moves things about meanwhile.

mod digest;
mod drive_folder;
mod temporary;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rowdrive::schema::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};

pub use digest::{Hasher, digest, piece};
pub use drive_folder::Part;
pub use temporary::{Temporary, is_temporary, remove_left_over};

/// A folder that is open.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    File(Version),
    Folder,
    /// What it is called.
    Other(&'static str),
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// What it is called.
    Other(&'static str),
}

impl Found {
    fn kind(self) -> Kind {
        match self {
            Self::File(_) => Kind::File,
            Self::Folder => Kind::Folder,
            Self::Other(what) => Kind::Other(what),
        }
    }
}

/// What tells one version of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Version {
    fn of(stat: &Stat) -> Self {
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
        Self { size: u64::try_from(stat.st_size).unwrap_or_default(), seconds: stat.st_mtime, nanoseconds }
    }

    /// In milliseconds, as the drive has it: finer is floored, before 1970 too.
    pub fn modified(&self) -> Timestamp {
        Timestamp::from_ms(self.seconds.saturating_mul(1000).saturating_add(self.nanoseconds.div_euclid(1_000_000)))
    }
}

impl Folder {
    /// Opens a folder that somebody has named: links on the way are meant.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a folder in this one, not through a link.
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes a folder in this one.
    pub fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?)
    }

    /// What stands under a name, if anything does.
    pub fn find(&self, name: &OsStr) -> io::Result<Option<Found>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(found(&stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What a name leads to, asked of the file system only where it has not told it with the name. The version of
    /// a file is not told by that.
    pub fn kind(&self, name: &OsStr, told: FileType) -> io::Result<Option<Kind>> {
        match told {
            FileType::RegularFile => Ok(Some(Kind::File)),
            FileType::Directory => Ok(Some(Kind::Folder)),
            FileType::Unknown => Ok(self.find(name)?.map(Found::kind)),
            other => Ok(Some(Kind::Other(called(other)))),
        }
    }

    /// All names, in no order, each with what it leads to as far as the file system tells that with the name.
    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<(OsString, FileType)>> + use<>> {
        let entries = Dir::read_from(&self.0)?;
        Ok(entries.filter_map(|entry| match entry {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
            Ok(entry) => Some(Ok((OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(), entry.file_type()))),
            Err(error) => Some(Err(error.into())),
        }))
    }

    /// Opens a file in this folder, not through a link. A pipe that took its place meanwhile does not hold us up.
    pub fn file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Makes everything that was written below this folder, and beside it on the same disk, durable.
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// The version of a file that is open; an error if it is none.
pub fn version(file: &File) -> io::Result<Version> {
    match found(&fstat(file)?) {
        Found::File(version) => Ok(version),
        Found::Folder => Err(io::Error::other("it is a folder now")),
        Found::Other(what) => Err(io::Error::other(format!("it is {what} now"))),
    }
}

fn found(stat: &Stat) -> Found {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Found::File(Version::of(stat)),
        FileType::Directory => Found::Folder,
        other => Found::Other(called(other)),
    }
}

fn called(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "neither file nor folder",
    }
}

/// A path for people: what is not UTF-8, and what would move the cursor or turn the text about, is escaped.
pub fn shown(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if c.is_control() || turns {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Runs what blocks where it may.
pub async fn blocking<T: Send + 'static, E: From<io::Error> + Send + 'static>(
    job: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    tokio::task::spawn_blocking(job).await.map_err(io::Error::other)?
}
