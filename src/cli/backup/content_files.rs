//! Copies the content files that are named by rows of the copied store.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rowdrive::schema::{FileId, file, file_row};
use rowdrive::table::{RowQuery, StoreError, Tables};
use uuid::Uuid;

use super::content_path::{CONTENT, folder_of, id_in_name, path_of};
use super::copier::{FileCopier, Suspicion, create_folder};
use super::sample::Sample;
use super::{BackupFailed, Progress, Result, with_path};

/// Copies content files from a data folder into an unfinished backup.
pub struct ContentCopy<'a> {
    pub data: &'a Path,
    /// The last complete backup.
    pub last: Option<&'a Path>,
    pub copier: &'a mut FileCopier,
    pub progress: &'a mut Progress,
}

/// Rows of one query.
const ROWS: usize = 500;
/// The folder of staged uploads.
const NEW: &str = "new";

impl ContentCopy<'_> {
    /// Copies all content files that are not staged, before the source makes its checkpoint.
    pub fn copy_all(&mut self) -> Result<()> {
        create_folder(&self.copier.to.join(CONTENT).join(NEW))?;
        for folder in content_folders(&self.data.join(CONTENT))? {
            create_folder(&self.copier.to.join(CONTENT).join(&folder))?;
            for id in self.list(&folder) {
                self.copy(id)?;
            }
        }
        self.copier.finish()
    }

    /// Copies the missing content files that rows name, and removes copies that no row names. Meanwhile the source
    /// removes no content file. Returns a sample of the files.
    pub async fn copy_named(&mut self, tables: &Tables) -> Result<Sample> {
        let mut sample = Sample::default();
        // IMPORTANT: list staged files first. A file that is promoted meanwhile is then in at least one of the two
        // lists.
        let mut staged: BTreeMap<String, Vec<FileId>> = BTreeMap::new();
        for id in self.list(NEW) {
            staged.entry(folder_of(id)).or_default().push(id);
        }
        let mut all: Vec<String> = content_folders(&self.data.join(CONTENT))?;
        all.extend(content_folders(&self.copier.to.join(CONTENT))?);
        all.extend(staged.keys().cloned());
        all.sort_unstable();
        all.dedup();
        for folder in all {
            let here = self.copier.to.join(CONTENT).join(&folder);
            create_folder(&here)?;
            let mut found = staged.remove(&folder).unwrap_or_default();
            found.extend(self.list(&folder));
            found.sort_unstable_by_key(|id| id.0);
            found.dedup();
            let mut wanted = HashSet::new();
            for some in found.chunks(ROWS) {
                for id in large_files(tables, some).await? {
                    self.copy(id)?;
                    wanted.insert(id.0);
                    sample.add(id);
                }
            }
            self.copier.finish()?;
            remove_others(&here, &wanted)?;
        }
        // Files in `content/` itself are small.
        let content = self.data.join(CONTENT);
        for entry in with_path(&content, fs::read_dir(&content))? {
            let entry = with_path(&content, entry)?;
            if with_path(&content, entry.file_type())?.is_file() {
                self.copier.copy_mutable(&entry.path(), &Path::new(CONTENT).join(entry.file_name()))?;
            }
        }
        Ok(sample)
    }

    /// The ids in a folder of the drive's content. A folder that cannot be listed is recorded, and the backup
    /// continues: `copy_named` looks up its files by name.
    fn list(&mut self, folder: &str) -> Vec<FileId> {
        let name = Path::new(CONTENT).join(folder);
        ids(&self.data.join(&name)).unwrap_or_else(|error| {
            self.copier.unlisted.insert(name, error);
            Vec::new()
        })
    }

    fn copy(&mut self, id: FileId) -> Result<()> {
        let name = path_of(id);
        let staged = self.data.join(CONTENT).join(NEW).join(id.to_string());
        // It may be promoted between two attempts; it is never staged again.
        let from = [self.data.join(&name), staged, self.data.join(&name)];
        let size = match first_size(&from) {
            Ok(Some(size)) => size,
            // No row names it any more, or the check will report it as missing.
            Ok(None) => return Ok(()),
            Err(error) => {
                self.copier.suspicions.insert(name, Suspicion::Unreadable(error));
                return Ok(());
            }
        };
        let earlier = self.last.map(|last| last.join(&name));
        self.copier.copy_immutable(earlier.as_deref(), &from, &name, size)?;
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

/// The ids of which the row names a content file or cannot be read.
async fn large_files(tables: &Tables, ids: &[FileId]) -> Result<Vec<FileId>> {
    let queries: Vec<_> = ids.iter().map(|id| (id.key(), RowQuery::cells(file_row::location_columns()))).collect();
    let rows = match tables.get_many(file::TABLE, &queries).await {
        // Rows that cannot be read may name any of the files.
        Err(StoreError::Damaged(_)) => return Ok(ids.to_vec()),
        rows => rows.map_err(BackupFailed::Copy)?,
    };
    let named = ids.iter().zip(rows).filter(|(_, row)| file_row::may_name_content(row));
    Ok(named.map(|(id, _)| *id).collect())
}

/// Removes all other files: content that was deleted before the checkpoint or stored after it, and partial copies.
fn remove_others(folder: &Path, wanted: &HashSet<Uuid>) -> Result<()> {
    for entry in with_path(folder, fs::read_dir(folder))? {
        let path = with_path(folder, entry)?.path();
        if !path.file_name().and_then(id_in_name).is_some_and(|id| wanted.contains(&id.0)) {
            with_path(&path, fs::remove_file(&path))?;
        }
    }
    Ok(())
}

/// The folders of content files that are not staged.
fn content_folders(content: &Path) -> Result<Vec<String>> {
    let is_shard = |name: &str| name.len() == 2 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    Ok(names(content)?.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| is_shard(name)).collect())
}

fn ids(folder: &Path) -> Result<Vec<FileId>> {
    Ok(names(folder)?.iter().filter_map(|name| id_in_name(name)).collect())
}

/// All names in a folder; none if there is no such folder.
fn names(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    match fs::read_dir(folder) {
        Ok(entries) => with_path(folder, entries.map(|entry| Ok(entry?.file_name())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => with_path(folder, Err(error)),
    }
}
