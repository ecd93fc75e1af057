//! `closed`: how long the logs and the `MANIFEST` were when the store was closed in order.
//!
//! One that lost its end looks like one that a crash has torn. After an orderly end no crash is to blame, so one
//! that is shorter than it was then, or gone, is damage. The file is removed once RocksDB has opened the folder, and
//! fits no other `CURRENT` than the one it was written beside: every start puts a new one.
//!
//! A log that a crash or a full disk has torn may outlive the next start, if there is no room for tables of what it
//! holds: which ones were torn is noted too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{files, logs};
use crate::table::StoreError;
use crate::table::store::Result;

const NAME: &str = "closed";

#[derive(Serialize, Deserialize)]
struct Closed {
    /// What `CURRENT` said: every start writes another one, also that of a program that does not know this file.
    current: String,
    /// Bytes of the logs by name.
    logs: BTreeMap<String, u64>,
    /// Bytes of the `MANIFEST` that `current` names; older versions have not noted them.
    manifest: Option<u64>,
    /// The names of those that were torn.
    #[serde(default)]
    torn: BTreeSet<String>,
}

/// The note, if it is of this very state of the folder.
fn read(dir: &Path) -> Option<Closed> {
    let closed: Closed = serde_json::from_slice(&fs::read(dir.join(NAME)).ok()?).ok()?;
    (fs::read_to_string(dir.join("CURRENT")).ok().as_ref() == Some(&closed.current)).then_some(closed)
}

/// Whether the `MANIFEST` is known to have another length than when the store was closed.
pub(super) fn is_manifest_another(dir: &Path) -> bool {
    let Some((was, path)) = read(dir).and_then(|closed| closed.manifest).zip(logs::current(dir)) else { return false };
    path.metadata().map_or(true, |now| now.len() != was)
}

/// Compares the logs and the `MANIFEST` with what they were when the store was closed; tells, if it was, which were
/// torn, or may have been.
pub(super) fn verify(dir: &Path) -> Result<Option<BTreeSet<String>>> {
    let Some(mut closed) = read(dir) else { return Ok(None) };
    let mut now = lengths(dir).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.display())))?;
    if let Some(path) = logs::current(dir) {
        match (closed.manifest, path.metadata()) {
            (None, _) => drop(closed.torn.insert(logs::name(&path))),
            (Some(was), there) => {
                now.extend(there.ok().map(|there| (logs::name(&path), there.len())));
                closed.logs.insert(logs::name(&path), was);
            }
        }
    }
    for (name, was) in &closed.logs {
        let found = now.get(name).copied();
        if found != Some(*was) {
            let found = found.map_or("it is missing".to_owned(), |found| format!("it has {found} bytes"));
            let path = dir.join(name);
            return Err(StoreError::Damaged(format!("{}: {found}, and had {was} when closed", path.display())));
        }
    }
    Ok(Some(closed.torn))
}

/// Called once the folder is open for writing.
pub(super) fn forget(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    File::open(dir)?.sync_all()
}

fn lengths(dir: &Path) -> io::Result<BTreeMap<String, u64>> {
    let named = |path: PathBuf| Ok((logs::name(&path), path.metadata()?.len()));
    logs::list(dir)?.into_iter().map(named).collect()
}

/// Notes, when dropped, that the folder was closed: after the database, and before the folder is let go.
pub(super) struct Note {
    dir: PathBuf,
    /// False if a write has failed.
    pub in_order: bool,
}

impl Note {
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), in_order: true }
    }

    fn write(&self) -> io::Result<()> {
        let current = fs::read_to_string(self.dir.join("CURRENT"))?;
        let manifest = logs::current(&self.dir).map(|path| path.metadata()).transpose()?;
        let (logs, manifest) = (lengths(&self.dir)?, manifest.map(|manifest| manifest.len()));
        let closed = Closed { current, logs, manifest, torn: logs::torn(&self.dir)? };
        files::replace(&self.dir, NAME, &serde_json::to_vec(&closed)?)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // Without it the next start takes the store for one that was not closed.
        if self.in_order
            && let Err(error) = self.write()
        {
            tracing::warn!(%error, "it is not noted that the store was closed");
        }
    }
}
