//! A local folder that gets what a directory of the drive holds, and whose names are still free.
//!
//! A folder may take two names for one: `a` and `A`, or two spellings of one accent. So a file may replace only what
//! stood under its own name before this run came to the folder. Under any other name it must be new there, or it could
//! replace what this very run has brought.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rowdrive::schema::path::nfc;

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
    /// Blocks: all names are listed.
    pub fn open(folder: Folder) -> io::Result<Self> {
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

fn composed(name: OsString) -> OsString {
    match name.to_str().map(|name| nfc(name).into_owned()) {
        Some(composed) => composed.into(),
        None => name,
    }
}
