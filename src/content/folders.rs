//! Where content files lie. Everything here blocks.
//!
//! `<dir>/new/<uuid>` holds what was uploaded and is not settled yet, `<dir>/<xx>/<uuid>` the rest, where `xx`
//! are the first two digits of the id. No name that a user chose ever reaches the file system.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::schema::FileId;

#[derive(Debug)]
pub struct Folders {
    dir: PathBuf,
}

impl Folders {
    /// Makes what is missing of `dir` and `dir/new`. The parent of `dir` must be there.
    pub fn make(dir: &Path) -> io::Result<Self> {
        let folders = Self { dir: std::path::absolute(dir)? };
        make_one(&folders.dir)?;
        make_one(&folders.new_dir())?;
        // Always: who made them before may have lost power before he came to this.
        sync(&folders.dir)?;
        sync(folders.dir.parent().unwrap_or(&folders.dir))?;
        Ok(folders)
    }

    pub fn new_dir(&self) -> PathBuf {
        self.dir.join("new")
    }

    pub fn staged(&self, id: FileId) -> PathBuf {
        self.dir.join("new").join(id.to_string())
    }

    pub fn settled_dir(&self, id: FileId) -> PathBuf {
        let [first, ..] = *id.0.as_bytes();
        self.dir.join(format!("{first:02x}"))
    }

    pub fn settled(&self, id: FileId) -> PathBuf {
        self.settled_dir(id).join(id.to_string())
    }

    /// The ids of the files in `new/`. What bears another name is none of ours: it is logged and left.
    pub fn list_new(&self) -> io::Result<Vec<FileId>> {
        let mut found = Vec::new();
        for file in fs::read_dir(self.new_dir())? {
            let file = file?;
            let name = file.file_name();
            let id = name.to_str().and_then(|name| Uuid::parse_str(name).ok()).map(FileId);
            match id {
                // Other spellings of a UUID are not the names that uploads have.
                Some(id) if name == *id.to_string() && file.file_type()?.is_file() => found.push(id),
                _ => tracing::warn!(path = %file.path().display(), "not a content file: left where it is"),
            }
        }
        Ok(found)
    }

    /// The first bytes of ids for which there are folders, in order.
    pub fn list_folders(&self) -> io::Result<Vec<u8>> {
        let names = fs::read_dir(&self.dir)?.map(|folder| Ok(folder?.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        let first = |name: &str| u8::from_str_radix(name, 16).ok().filter(|first| *name == *format!("{first:02x}"));
        let mut found: Vec<u8> = names.iter().filter_map(|name| first(name.to_str()?)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The ids of the settled files whose ids start with this byte, and the paths of what bears another name.
    pub fn list_settled(&self, first: u8) -> io::Result<(Vec<FileId>, Vec<PathBuf>)> {
        let (mut found, mut foreign) = (Vec::new(), Vec::new());
        for file in fs::read_dir(self.dir.join(format!("{first:02x}")))? {
            let path = file?.path();
            let id = path.file_name().and_then(|name| Uuid::parse_str(name.to_str()?).ok()).map(FileId);
            match id.filter(|id| self.settled(*id) == path) {
                Some(id) => found.push(id),
                None => foreign.push(path),
            }
        }
        Ok((found, foreign))
    }

    /// Nothing here is synced: a file that is in `new/` after a crash is settled again. A file that is not in
    /// `new/` was settled already.
    pub fn settle(&self, id: FileId) -> io::Result<()> {
        let (from, to) = (self.staged(id), self.settled(id));
        if missing_is_fine(fs::rename(&from, &to))? || !from.exists() {
            return Ok(());
        }
        make_one(&self.settled_dir(id))?; // the first file whose id starts so
        missing_is_fine(fs::rename(from, to)).map(drop)
    }

    /// Removes the files and syncs every folder where one was, or may have been.
    pub fn remove(&self, ids: &[FileId]) -> io::Result<()> {
        let mut touched = BTreeSet::new();
        for &id in ids {
            if missing_is_fine(fs::remove_file(self.staged(id)))? {
                touched.insert(self.new_dir());
            } else if missing_is_fine(fs::remove_file(self.settled(id)))? {
                touched.insert(self.settled_dir(id));
            } else {
                missing_is_fine(fs::remove_file(self.staged(id)))?;
                // It may have been removed by one who did not live to sync the folder.
                touched.extend([self.new_dir(), self.settled_dir(id)]);
            }
        }
        touched.iter().try_for_each(|dir| missing_is_fine(sync(dir)).map(drop))
    }

    /// Opens the file where it is, also while it is being settled; `None` if it is nowhere.
    pub fn open(&self, id: FileId) -> io::Result<Option<(File, PathBuf)>> {
        for path in [self.settled(id), self.staged(id), self.settled(id)] {
            match File::open(&path) {
                Ok(file) => return Ok(Some((file, path))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => (),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Makes the file in `new/`.
    pub fn create(&self, id: FileId) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.staged(id))
    }
}

/// Makes names in this folder, and removals from it, durable.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn make_one(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    }
}

/// Whether it was there.
fn missing_is_fine(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
