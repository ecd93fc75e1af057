//! Replaces damaged SST files of the copied store by files of the same name in an earlier backup, if the store can be
//! read with them. To users they are called tables.
//!
//! RocksDB's `MANIFEST` has the unique id of each SST file, so RocksDB opens no file of the same name from another
//! store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::backup_folder::{CompleteBackup, ManifestFile};
use super::{OpenCopy, Progress, Result, digest, remove, with_path};

/// The store of an unfinished backup, of which every row is read once.
pub struct CopiedStore<'a> {
    /// The checkpoint.
    from: &'a Path,
    /// The unfinished backup.
    to: &'a Path,
    complete: &'a [CompleteBackup],
    pub entries: BTreeMap<String, ManifestFile>,
    /// For each damaged table, the tables of earlier backups that were not tried yet.
    candidates: BTreeMap<String, Vec<(PathBuf, ManifestFile)>>,
    /// For each replaced table, the path of its replacement, and the entry of the drive's table.
    taken: BTreeMap<String, (PathBuf, ManifestFile)>,
}

impl<'a> CopiedStore<'a> {
    pub fn new(
        from: &'a Path,
        to: &'a Path,
        complete: &'a [CompleteBackup],
        entries: BTreeMap<String, ManifestFile>,
    ) -> Self {
        Self { from, to, complete, entries, candidates: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// Opens the store and reads all of its tables. Prints the damage of the drive, and returns the number of damaged
    /// tables.
    ///
    /// Errors: the store cannot be opened, not even with tables of earlier backups.
    pub async fn open(&mut self, memory: usize, progress: &mut Progress) -> Result<(OpenCopy, usize)> {
        progress.stage("the tables");
        loop {
            let opened = OpenCopy::open(self.to, memory).await;
            let damage = match &opened {
                Ok(copy) => copy.damage().await?,
                Err(error) => vec![error.to_string()],
            };
            let changed = self.try_candidates(&damage)? || (opened.is_err() && self.restore_own()?);
            match opened {
                Ok(copy) if changed => copy.close().await,
                Err(_) if changed => {}
                opened => {
                    let copy = opened?;
                    self.report(&damage, progress);
                    return Ok((copy, self.taken.len() + damage.len()));
                }
            }
        }
    }

    /// The tables whose names are in these error messages.
    fn named(&self, damage: &[String]) -> Vec<String> {
        let is_named = |name: &str| name.ends_with(".sst") && damage.iter().any(|text| text.contains(name));
        self.entries.keys().filter(|name| is_named(name)).cloned().collect()
    }

    /// Replaces each damaged table by the next candidate, or after the last one by the drive's table again. False if no
    /// candidate is left.
    fn try_candidates(&mut self, damage: &[String]) -> Result<bool> {
        let mut changed = false;
        for name in self.named(damage) {
            let mut candidates = self.candidates.remove(&name).unwrap_or_else(|| self.sound_candidates(&name));
            let next = candidates.pop();
            self.candidates.insert(name.clone(), candidates);
            if let Some((path, entry)) = next {
                self.put(&name, &path)?;
                let replaced = self.entries.insert(name.clone(), entry);
                let own = self.taken.remove(&name).map(|(_, own)| own).or(replaced);
                self.taken.extend(own.map(|own| (name, (path, own))));
                changed = true;
            } else if let Some((_, own)) = self.taken.remove(&name) {
                self.put(&name, &self.from.join(&name))?;
                self.entries.insert(name, own);
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Puts all tables of the drive back, since it is unknown which replacement RocksDB refuses.
    fn restore_own(&mut self) -> Result<bool> {
        let taken = std::mem::take(&mut self.taken);
        let changed = !taken.is_empty();
        for (name, (_, own)) in taken {
            self.put(&name, &self.from.join(&name))?;
            self.entries.insert(name, own);
        }
        Ok(changed)
    }

    fn put(&self, name: &str, from: &Path) -> Result<()> {
        let to = self.to.join("db").join(name);
        remove(&to)?;
        link_or_copy(from, &to)
    }

    /// Sound tables of earlier backups that differ from that of the drive, the newest last.
    fn sound_candidates(&self, name: &str) -> Vec<(PathBuf, ManifestFile)> {
        let mut known: BTreeSet<_> = self.entries.get(name).map(|entry| entry.sha256.clone()).into_iter().collect();
        let mut found: Vec<_> =
            sound_ones(self.complete, name).filter(|(_, entry)| known.insert(entry.sha256.clone())).collect();
        found.reverse();
        found
    }

    /// Prints the damage. A damaged table that remains gets the digest of its present bytes in the manifest.
    fn report(&mut self, damage: &[String], progress: &Progress) {
        for (name, (path, _)) in &self.taken {
            progress.print(&format!("db/{name} is damaged on the drive: {} is sound and was used", path.display()));
        }
        for text in damage {
            progress.print(&format!("damaged on the drive, and no earlier backup has a sound one: {text}"));
        }
        for name in self.named(damage) {
            if let (Ok(sha256), Some(entry)) = (digest(&self.to.join("db").join(&name)), self.entries.get_mut(&name)) {
                entry.sha256 = sha256;
            }
        }
    }
}

/// The undamaged files of this name in `db` of earlier backups, the newest first.
pub fn sound_ones(complete: &[CompleteBackup], name: &str) -> impl Iterator<Item = (PathBuf, ManifestFile)> {
    complete.iter().rev().filter_map(move |one| {
        let (path, entry) = (one.path.join("db").join(name), one.manifest.db.get(name)?);
        digest(&path).is_ok_and(|found| found == entry.sha256).then(|| (path, entry.clone()))
    })
}

/// Links or copies a file to a path that does not exist.
pub fn link_or_copy(from: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => with_path(from, fs::copy(from, to).map(drop)),
        linked => with_path(from, linked),
    }
}
