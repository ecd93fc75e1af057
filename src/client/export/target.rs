//! A local folder that gets what a directory of the drive holds, and whose names are still free.
//!
//! A folder may take two names for one: `a` and `A`, or two spellings of one accent. So a file may replace only what
//! stood under its own name before this run came to the folder. Under any other name it must be new there, or it could
//! replace what this very run has brought.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rowdrive::schema::path::nfc;

use super::ExportFailed;
use crate::cli::local::{Folder, is_temporary, remove_left_over};

/// What an entry of the drive may do under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Something stood under the name before.
    Replace,
    /// Nothing did: what is met there now has another name, or another process has made it.
    New,
}

pub struct Target {
    pub folder: Arc<Folder>,
    /// The names that stood here before and that no entry has claimed, composed as the drive's names are.
    before: Mutex<HashSet<OsString>>,
}

impl Target {
    /// Opens the folder that somebody has named, made if it is missing, and those above it too. Blocks.
    pub fn make(path: &Path) -> Result<Self, ExportFailed> {
        Self::open(made(path, path)?).map_err(|error| ExportFailed::Local(path.to_owned(), error))
    }

    /// Blocks: all names are listed.
    ///
    /// Errors: it is of a drive. IMPORTANT: nothing is made, replaced or removed but through a target, so all of that
    /// comes after this look.
    pub fn open(folder: Folder) -> io::Result<Self> {
        if let Some(part) = folder.of_drive()? {
            let why = format!(
                "it is {part}, which no export changes (if nobody needs it any more, as an old copy, move it away)"
            );
            return Err(io::Error::other(why));
        }
        let before = folder.names()?.map(|name| Ok(composed(name?.0))).collect::<io::Result<_>>()?;
        Ok(Self { folder: Arc::new(folder), before: Mutex::new(before) })
    }

    /// To be asked once for each name.
    pub fn claim(&self, name: &OsStr) -> Claim {
        let stood_here = self.before.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        if stood_here { Claim::Replace } else { Claim::New }
    }

    /// Removes what killed exports have left. All names of the drive must be claimed: a file of the drive may be called
    /// as such a left-over is. Blocks.
    pub fn remove_left_overs(&self) {
        let left = std::mem::take(&mut *self.before.lock().unwrap_or_else(PoisonError::into_inner));
        for name in left.iter().filter(|name| is_temporary(name)) {
            remove_left_over(&self.folder, name);
        }
    }
}

/// Opens the folder at `path`, which is `top` or on the way to it, made if it is missing: one after the other from
/// above, so that nothing is made in a folder of a drive, whatever links and `..` are on the way.
fn made(path: &Path, top: &Path) -> Result<Folder, ExportFailed> {
    let failed = |error| ExportFailed::Local(top.to_owned(), error);
    let opened = match Folder::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = match path.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                Some(_) if path != Path::new(".") => Path::new("."),
                _ => return Err(failed(error)),
            };
            let above = made(above, top)?;
            // One that ends with `..` has no name, and is there as soon as the one that it leaves is.
            if let Some(name) = path.file_name()
                && let Err(error) = above.make(name)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(failed(error));
            }
            Folder::open(path)
        }
        opened => opened,
    };
    let folder = opened.map_err(failed)?;
    match folder.within_drive().map_err(failed)? {
        Some(part) => Err(ExportFailed::OfDrive(top.to_owned(), part)),
        None => Ok(folder),
    }
}

fn composed(name: OsString) -> OsString {
    match name.to_str().map(|name| nfc(name).into_owned()) {
        Some(composed) => composed.into(),
        None => name,
    }
}
