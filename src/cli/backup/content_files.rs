//! The content files of a backup: those that rows of the copied store name, each under its id.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rowdrive::schema::file::{self, Location};
use rowdrive::schema::{CF, FileId};
use rowdrive::table::{Ask, Column, StoreError, Tables};
use uuid::Uuid;

use super::bring::{Bring, Doubt, make};
use super::heal::Sample;
use super::{BackupFailed, Progress, Result, of};

/// Where content is, and where it goes.
pub struct Contents<'a> {
    pub data: &'a Path,
    /// The last complete backup.
    pub last: Option<&'a Path>,
    pub bring: &'a mut Bring,
    pub progress: &'a mut Progress,
}

/// Rows asked for at a time.
const ROWS: usize = 500;
const CONTENT: &str = "content";
/// Where uploads are staged.
const NEW: &str = "new";

impl Contents<'_> {
    /// Brings all that has its place by now, before the source is asked for anything.
    pub fn ahead(&mut self) -> Result<()> {
        make(&self.bring.to.join(CONTENT).join(NEW))?;
        for folder in folders(&self.data.join(CONTENT))? {
            make(&self.bring.to.join(CONTENT).join(&folder))?;
            for id in self.listed(&folder) {
                self.one(id)?;
            }
        }
        self.bring.finish()
    }

    /// Brings what is missing of the content that the rows name, and removes what they do not name. The source keeps
    /// every content file meanwhile. Gives some of them.
    pub async fn named(&mut self, tables: &Tables) -> Result<Sample> {
        let mut sample = Sample::default();
        // IMPORTANT: staged files first: one that gets its place meanwhile is then found in one list or the other.
        let mut staged: BTreeMap<String, Vec<FileId>> = BTreeMap::new();
        for id in self.listed(NEW) {
            staged.entry(folder_of(id)).or_default().push(id);
        }
        let mut all: Vec<String> = folders(&self.data.join(CONTENT))?;
        all.extend(folders(&self.bring.to.join(CONTENT))?);
        all.extend(staged.keys().cloned());
        all.sort_unstable();
        all.dedup();
        for folder in all {
            let here = self.bring.to.join(CONTENT).join(&folder);
            make(&here)?;
            let mut found = staged.remove(&folder).unwrap_or_default();
            found.extend(self.listed(&folder));
            found.sort_unstable_by_key(|id| id.0);
            found.dedup();
            let mut wanted = HashSet::new();
            for some in found.chunks(ROWS) {
                for id in large(tables, some).await? {
                    self.one(id)?;
                    wanted.insert(id.0);
                    sample.add(id);
                }
            }
            self.bring.finish()?;
            clear(&here, &wanted)?;
        }
        // Files beside the folders say whose content it is; they are small.
        let content = self.data.join(CONTENT);
        for entry in of(&content, fs::read_dir(&content))? {
            let entry = of(&content, entry)?;
            if of(&content, entry.file_type())?.is_file() {
                self.bring.copy(&entry.path(), &Path::new(CONTENT).join(entry.file_name()))?;
            }
        }
        Ok(sample)
    }

    /// The files in a folder of the drive's content. One that cannot be listed is noted, and keeps nothing else from
    /// the backup: what the rows name of it is looked for by name later.
    fn listed(&mut self, folder: &str) -> Vec<FileId> {
        let name = Path::new(CONTENT).join(folder);
        ids(&self.data.join(&name)).unwrap_or_else(|error| {
            self.bring.unlisted.insert(name, error);
            Vec::new()
        })
    }

    fn one(&mut self, id: FileId) -> Result<()> {
        let name = place(id);
        let staged = self.data.join(CONTENT).join(NEW).join(id.to_string());
        // It may get its place between two looks; it never goes back.
        let from = [self.data.join(&name), staged, self.data.join(&name)];
        let size = match first_size(&from) {
            Ok(Some(size)) => size,
            // Nobody names it any more, or the check will say that it is missing.
            Ok(None) => return Ok(()),
            Err(error) => {
                self.bring.doubts.insert(name, Doubt::Unreadable(error));
                return Ok(());
            }
        };
        let earlier = self.last.map(|last| last.join(&name));
        self.bring.one(earlier.as_deref(), &from, &name, size)?;
        self.progress.add(size);
        Ok(())
    }
}

fn first_size(paths: &[PathBuf]) -> io::Result<Option<u64>> {
    for path in paths {
        match fs::metadata(path) {
            Ok(found) => return Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Those of them whose rows say that their content is a file, or may say so.
async fn large(tables: &Tables, ids: &[FileId]) -> Result<Vec<FileId>> {
    let asks: Vec<_> = ids.iter().map(|id| (id.key(), Ask::cells(vec![Column::new(CF, file::CONTENT)]))).collect();
    let rows = match tables.get_many(file::TABLE, &asks).await {
        // Rows that cannot be read may name any of them.
        Err(StoreError::Damaged(_)) => return Ok(ids.to_vec()),
        rows => rows.map_err(BackupFailed::Copy)?,
    };
    let is_large = |value: &[u8]| Location::decode(value) == Ok(Location::Large);
    let named = ids.iter().zip(rows).filter(|(_, row)| row.get(CF, file::CONTENT).is_some_and(|v| is_large(v)));
    Ok(named.map(|(id, _)| *id).collect())
}

/// Removes all but these: content that was deleted before the instant, or stored after it, and half a copy.
fn clear(folder: &Path, wanted: &HashSet<Uuid>) -> Result<()> {
    for entry in of(folder, fs::read_dir(folder))? {
        let path = of(folder, entry)?.path();
        if !path.file_name().and_then(id).is_some_and(|id| wanted.contains(&id.0)) {
            of(&path, fs::remove_file(&path))?;
        }
    }
    Ok(())
}

/// Where a content file lies in a data folder.
pub fn place(id: FileId) -> PathBuf {
    Path::new(CONTENT).join(folder_of(id)).join(id.to_string())
}

fn folder_of(id: FileId) -> String {
    let [first, ..] = *id.0.as_bytes();
    format!("{first:02x}")
}

/// The folders of content files that have their place.
fn folders(content: &Path) -> Result<Vec<String>> {
    let is_one = |name: &str| name.len() == 2 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    Ok(names(content)?.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| is_one(name)).collect())
}

fn ids(folder: &Path) -> Result<Vec<FileId>> {
    Ok(names(folder)?.iter().filter_map(|name| id(name)).collect())
}

/// A folder that is not there has no names.
fn names(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    match fs::read_dir(folder) {
        Ok(entries) => of(folder, entries.map(|entry| Ok(entry?.file_name())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => of(folder, Err(error)),
    }
}

/// The id that is the name of a content file.
pub fn id(name: &OsStr) -> Option<FileId> {
    let id = Uuid::parse_str(name.to_str()?).ok().map(FileId)?;
    // Other spellings of an id are not the names of content files.
    (name == OsStr::new(&id.to_string())).then_some(id)
}
