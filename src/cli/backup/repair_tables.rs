//! Tables of the copied store that have rotted on the drive: what an earlier backup has of the same name takes their
//! place, if the store can be read with it.
//!
//! RocksDB knows each table by an id that its `MANIFEST` has too: one of another life of the store does not open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::generations::{Entry, Generation};
use super::{OpenCopy, Progress, Result, digest, of, remove};

/// The store of an unfinished backup, which is read once before it is relied on.
pub struct CopiedStore<'a> {
    /// What it was brought from.
    from: &'a Path,
    /// The unfinished backup.
    to: &'a Path,
    complete: &'a [Generation],
    pub entries: BTreeMap<String, Entry>,
    /// Of each table that is damaged, those of earlier backups that were not tried yet.
    others: BTreeMap<String, Vec<(PathBuf, Entry)>>,
    /// Those that were taken from an earlier backup, and what the drive's own is.
    taken: BTreeMap<String, (PathBuf, Entry)>,
}

impl<'a> CopiedStore<'a> {
    pub fn new(from: &'a Path, to: &'a Path, complete: &'a [Generation], entries: BTreeMap<String, Entry>) -> Self {
        Self { from, to, complete, entries, others: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// Opens it, and reads all of its tables. Names what is damaged on the drive, and tells how much that is.
    ///
    /// Errors: it cannot be opened, whatever earlier backups have.
    pub async fn open(&mut self, memory: usize, progress: &mut Progress) -> Result<(OpenCopy, usize)> {
        progress.stage("the tables");
        loop {
            let opened = OpenCopy::open(self.to, memory).await;
            let damage = match &opened {
                Ok(copy) => copy.damage().await?,
                Err(error) => vec![error.to_string()],
            };
            let changed = self.take_others(&damage)? || (opened.is_err() && self.put_back()?);
            match opened {
                Ok(copy) if changed => copy.close().await,
                Err(_) if changed => {}
                opened => {
                    let copy = opened?;
                    self.tell(&damage, progress);
                    return Ok((copy, self.taken.len() + damage.len()));
                }
            }
        }
    }

    /// The tables that are named in what could not be read.
    fn named(&self, damage: &[String]) -> Vec<String> {
        let is_named = |name: &str| name.ends_with(".sst") && damage.iter().any(|text| text.contains(name));
        self.entries.keys().filter(|name| is_named(name)).cloned().collect()
    }

    /// Puts the next ones in the place of those that are damaged, or at last the drive's own. False if nothing is left
    /// to be tried.
    fn take_others(&mut self, damage: &[String]) -> Result<bool> {
        let mut changed = false;
        for name in self.named(damage) {
            let mut others = self.others.remove(&name).unwrap_or_else(|| self.sound_others(&name));
            let next = others.pop();
            self.others.insert(name.clone(), others);
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

    /// Takes all of the drive's own again, since it is not known which of the others does not belong there.
    fn put_back(&mut self) -> Result<bool> {
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

    /// Of other bytes than the drive's own, the newest last.
    fn sound_others(&self, name: &str) -> Vec<(PathBuf, Entry)> {
        let mut known: BTreeSet<_> = self.entries.get(name).map(|entry| entry.sha256.clone()).into_iter().collect();
        let mut found: Vec<_> =
            sound_ones(self.complete, name).filter(|(_, entry)| known.insert(entry.sha256.clone())).collect();
        found.reverse();
        found
    }

    /// What stays as it is gets its digest anew: the file may be the very same as the one of an earlier backup.
    fn tell(&mut self, damage: &[String], progress: &Progress) {
        for (name, (path, _)) in &self.taken {
            progress.print(&format!("db/{name} is damaged on the drive: {} is sound and was taken", path.display()));
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

/// The files of `db` that earlier backups have under this name, each as it was written; the newest first.
pub fn sound_ones(complete: &[Generation], name: &str) -> impl Iterator<Item = (PathBuf, Entry)> {
    complete.iter().rev().filter_map(move |one| {
        let (path, entry) = (one.path.join("db").join(name), one.manifest.db.get(name)?);
        digest(&path).is_ok_and(|found| found == entry.sha256).then(|| (path, entry.clone()))
    })
}

/// Brings a file to a name that is free.
pub fn link_or_copy(from: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => of(from, fs::copy(from, to).map(drop)),
        linked => of(from, linked),
    }
}
