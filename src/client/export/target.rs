//! A local folder that receives a directory of the drive, and which of its names this run may replace.
//!
//! A file system may treat two names as one: `a` and `A`, or two spellings of one accent. So a download may replace
//! only a file that had the same name before this run. Any other name must be new: otherwise a download could replace
//! another file of the same run.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rowdrive::schema::path::nfc;

use super::ExportError;
use crate::data_folder::part;
use crate::local_fs::{OpenFolder, is_temporary_name, remove_stale_temporary};

/// Whether an entry of the drive may replace a local file of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The name existed before this run.
    Replace,
    /// The name is new. If a file exists now, the file system treats its name as the same, or another process made it.
    New,
}

pub struct TargetFolder {
    pub folder: Arc<OpenFolder>,
    /// Names from before this run that no entry has claimed yet, in NFC as on the drive.
    before: Mutex<HashSet<OsString>>,
}

impl TargetFolder {
    /// Opens the folder of the command line, and creates it and its parents if they are missing. Blocks.
    pub fn make(path: &Path) -> Result<Self, ExportError> {
        Self::open(made(path, path)?).map_err(|error| ExportError::Local(path.to_owned(), error))
    }

    /// Lists all names, which blocks.
    ///
    /// Errors: the folder is a part of a drive. IMPORTANT: an export changes files only through a target, so always
    /// after this check.
    pub fn open(folder: OpenFolder) -> io::Result<Self> {
        if let Some(part) = part::identify(&folder)? {
            let why = format!(
                "it is {part}, which no export changes (if nobody needs it any more, as an old copy, move it away)"
            );
            return Err(io::Error::other(why));
        }
        let before = folder.entries()?.map(|name| Ok(composed(name?.0))).collect::<io::Result<_>>()?;
        Ok(Self { folder: Arc::new(folder), before: Mutex::new(before) })
    }

    /// Claims a name. Call it once for each name.
    pub fn claim(&self, name: &OsStr) -> Claim {
        let existed = self.before.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        if existed { Claim::Replace } else { Claim::New }
    }

    /// Whether the folder has this name now, to the letter. Lists all names, which blocks.
    pub fn lists(&self, name: &OsStr) -> io::Result<bool> {
        for found in self.folder.entries()? {
            if composed(found?.0) == name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes temporary files of interrupted exports. Claim all names of the drive first: a file of the drive may have
    /// the name of a temporary file. Blocks.
    pub fn remove_left_overs(&self) {
        let left = std::mem::take(&mut *self.before.lock().unwrap_or_else(PoisonError::into_inner));
        for name in left.iter().filter(|name| is_temporary_name(name)) {
            remove_stale_temporary(&self.folder, name);
        }
    }
}

/// Opens the folder at `path`, which is `top` or one of its parents, and creates it if it is missing. Parents come
/// first, each checked, so that nothing is created in a folder of a drive, whatever links and `..` the path has.
fn made(path: &Path, top: &Path) -> Result<OpenFolder, ExportError> {
    let failed = |error| ExportError::Local(top.to_owned(), error);
    let opened = match OpenFolder::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = match path.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                Some(_) if path != Path::new(".") => Path::new("."),
                _ => return Err(failed(error)),
            };
            let above = made(above, top)?;
            // A path that ends with `..` has no name: it exists as soon as its parent does.
            if let Some(name) = path.file_name()
                && let Err(error) = above.create_folder(name)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(failed(error));
            }
            OpenFolder::open(path)
        }
        opened => opened,
    };
    let folder = opened.map_err(failed)?;
    match part::enclosing(&folder).map_err(failed)? {
        Some(part) => Err(ExportError::OfDrive(top.to_owned(), part)),
        None => Ok(folder),
    }
}

fn composed(name: OsString) -> OsString {
    match name.to_str().map(|name| nfc(name).into_owned()) {
        Some(composed) => composed.into(),
        None => name,
    }
}
