//! Copies the checkpoint of the store into a backup, file by file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::backup_folder::{CompleteBackup, ManifestFile};
use super::copier::{FileCopier, create_folder, digest};
use super::repair_tables::{link_or_copy, sound_ones};
use super::{Progress, Result, with_path};

/// Copies the files of a checkpoint; returns their sizes and digests for the manifest, and how many tables could only
/// be read in an earlier backup. `last` is the one of `complete` whose files are linked.
pub fn copy(
    from: &Path,
    (complete, last): (&[CompleteBackup], Option<&CompleteBackup>),
    copier: &mut FileCopier,
    progress: &mut Progress,
) -> Result<(BTreeMap<String, ManifestFile>, usize)> {
    let db = copier.to.join("db");
    // An interrupted run may have left files of an older checkpoint.
    if db.exists() {
        with_path(&db, fs::remove_dir_all(&db))?;
    }
    create_folder(&db)?;
    let (mut entries, mut damaged) = (BTreeMap::new(), 0);
    for file in with_path(from, fs::read_dir(from))? {
        let file = with_path(from, file)?;
        let (path, name) = (file.path(), file.file_name().to_string_lossy().into_owned());
        let size = with_path(&path, file.metadata())?.len();
        let earlier = last.and_then(|last| Some((last.path.join("db").join(&name), last.manifest.db.get(&name)?)));
        // The same inode has the same bytes. After a restore RocksDB may use a file number again: digests distinguish
        // such files.
        let same = earlier.as_ref().filter(|(earlier, _)| is_same_file(earlier, &path));
        let digested = match same {
            Some((_, entry)) => Ok(entry.sha256.clone()),
            None => digest(&path),
        };
        let below = Path::new("db").join(&name);
        let table = matches!(path.extension().and_then(|e| e.to_str()), Some("sst" | "blob"));
        let sha256 = match digested {
            Ok(sha256) => sha256,
            Err(error) => {
                let sound = if table { sound_ones(complete, &name).next() } else { None };
                let Some((path, entry)) = sound else { return Err(error) };
                progress.print(&format!("{error}: {} is sound and was used", path.display()));
                link_or_copy(&path, &copier.to.join(&below))?;
                entries.insert(name, entry);
                damaged += 1;
                continue;
            }
        };
        if table {
            let earlier = earlier.filter(|(_, entry)| entry.sha256 == sha256 && entry.size == size);
            let earlier = earlier.map(|(path, _)| path).filter(|earlier| {
                // A damaged file is not linked.
                let is_sound = is_same_file(earlier, &path) || digest(earlier).is_ok_and(|found| found == sha256);
                if !is_sound {
                    copier.differing.push(earlier.clone());
                }
                is_sound
            });
            copier.copy_immutable(earlier.as_deref(), &[path], &below, size)?;
        } else {
            copier.copy_mutable(&path, &below)?;
        }
        progress.add(size);
        entries.insert(name, ManifestFile { size, sha256 });
    }
    copier.finish()?;
    Ok((entries, damaged))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
