//! `closed`: the marker of a clean shutdown, with the sizes of the WAL files and the `MANIFEST`.
//!
//! A WAL file that lost its end looks like one that a crash has torn. After a clean shutdown there was no crash, so a
//! file that is shorter, or missing, is damaged. A start removes the marker once RocksDB has opened the folder. The
//! marker is valid only with the `CURRENT` it was written for: every start writes a new one.
//!
//! A WAL file that a crash or a full disk has torn may outlive the next start, if there is no space to flush its
//! data. So the marker also lists the torn files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{files, wal_check};
use crate::table::StoreError;
use crate::table::store::Result;

const NAME: &str = "closed";

#[derive(Serialize, Deserialize)]
struct Marker {
    /// The content of `CURRENT`. Every start changes it, even one of a version that does not write the marker.
    current: String,
    /// Bytes of the WAL files, by name.
    logs: BTreeMap<String, u64>,
    /// Bytes of the `MANIFEST` that `current` names; none in markers of older versions.
    manifest: Option<u64>,
    /// The names of the torn files.
    #[serde(default)]
    torn: BTreeSet<String>,
}

/// The marker, if it is valid for this state of the folder.
fn read(dir: &Path) -> Option<Marker> {
    let closed: Marker = serde_json::from_slice(&fs::read(dir.join(NAME)).ok()?).ok()?;
    (fs::read_to_string(dir.join("CURRENT")).ok().as_ref() == Some(&closed.current)).then_some(closed)
}

/// Whether the `MANIFEST` is known to have another size than at the clean shutdown.
pub(super) fn is_manifest_changed(dir: &Path) -> bool {
    let Some((was, path)) = read(dir).and_then(|closed| closed.manifest).zip(wal_check::current(dir)) else {
        return false;
    };
    path.metadata().map_or(true, |now| now.len() != was)
}

/// Compares the sizes of the WAL files and the `MANIFEST` with the marker. Returns the files that were torn, or may
/// have been; none without a marker.
pub(super) fn verify(dir: &Path) -> Result<Option<BTreeSet<String>>> {
    let Some(mut closed) = read(dir) else { return Ok(None) };
    let mut now = lengths(dir).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.display())))?;
    if let Some(path) = wal_check::current(dir) {
        match (closed.manifest, path.metadata()) {
            (None, _) => drop(closed.torn.insert(wal_check::name(&path))),
            (Some(was), there) => {
                now.extend(there.ok().map(|there| (wal_check::name(&path), there.len())));
                closed.logs.insert(wal_check::name(&path), was);
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

/// Removes the marker, durably: for a start that has opened the folder for writing.
pub(super) fn remove_marker(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    File::open(dir)?.sync_all()
}

fn lengths(dir: &Path) -> io::Result<BTreeMap<String, u64>> {
    let named = |path: PathBuf| Ok((wal_check::name(&path), path.metadata()?.len()));
    wal_check::list(dir)?.into_iter().map(named).collect()
}

/// Writes the marker when dropped: after the database is closed, and before the folder is released.
pub(super) struct MarkerOnDrop {
    dir: PathBuf,
    /// False if a write has failed, or the folder was moved: then there is no marker.
    pub is_clean: bool,
}

impl MarkerOnDrop {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), is_clean: true }
    }

    fn write(&self) -> io::Result<()> {
        let current = fs::read_to_string(self.dir.join("CURRENT"))?;
        let manifest = wal_check::current(&self.dir).map(|path| path.metadata()).transpose()?;
        let (logs, manifest) = (lengths(&self.dir)?, manifest.map(|manifest| manifest.len()));
        let closed = Marker { current, logs, manifest, torn: wal_check::torn(&self.dir)? };
        files::replace(&self.dir, NAME, &serde_json::to_vec(&closed)?)
    }
}

impl Drop for MarkerOnDrop {
    fn drop(&mut self) {
        // Without the marker the next start assumes a crash.
        if self.is_clean
            && let Err(error) = self.write()
        {
            tracing::warn!(%error, "the marker of the clean shutdown cannot be written");
        }
    }
}
