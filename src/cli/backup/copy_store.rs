//! The copied store of a backup, file by file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::bring::{Bring, make};
use super::generations::{Entry, Generation};
use super::tables::{link_or_copy, sound_ones};
use super::{Progress, Result, of};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Brings the files of a store that nobody changes meanwhile; gives what each is. `last`: one of `complete`, of which
/// files are linked. Any of them may have a table that cannot be read on the drive: that is named, and counted.
pub fn bring(
    from: &Path,
    (complete, last): (&[Generation], Option<&Generation>),
    bring: &mut Bring,
    progress: &mut Progress,
) -> Result<(BTreeMap<String, Entry>, usize)> {
    let db = bring.to.join("db");
    // What a run that was broken off has left of an older instant.
    if db.exists() {
        of(&db, fs::remove_dir_all(&db))?;
    }
    make(&db)?;
    let (mut entries, mut damaged) = (BTreeMap::new(), 0);
    for file in of(from, fs::read_dir(from))? {
        let file = of(from, file)?;
        let (path, name) = (file.path(), file.file_name().to_string_lossy().into_owned());
        let size = of(&path, file.metadata())?.len();
        let earlier = last.and_then(|last| Some((last.path.join("db").join(&name), last.manifest.db.get(&name)?)));
        // The same file of the disk has the same bytes. A number that was given twice, by two lives of a store that was
        // restored, is told by the digest.
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
                progress.print(&format!("{error}: {} is sound and was taken", path.display()));
                link_or_copy(&path, &bring.to.join(&below))?;
                entries.insert(name, entry);
                damaged += 1;
                continue;
            }
        };
        if table {
            let earlier = earlier.filter(|(_, entry)| entry.sha256 == sha256 && entry.size == size);
            let earlier = earlier.map(|(path, _)| path).filter(|earlier| {
                // It is linked only as it was written.
                let is_sound = is_same_file(earlier, &path) || digest(earlier).is_ok_and(|found| found == sha256);
                if !is_sound {
                    bring.differing.push(earlier.clone());
                }
                is_sound
            });
            bring.one(earlier.as_deref(), &[path], &below, size)?;
        } else {
            bring.copy(&path, &below)?;
        }
        progress.add(size);
        entries.insert(name, Entry { size, sha256 });
    }
    bring.finish()?;
    Ok((entries, damaged))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// SHA-256 in hexadecimal digits.
pub fn digest(path: &Path) -> Result<String> {
    let read = || -> io::Result<String> {
        let (mut file, mut sha, mut piece) = (File::open(path)?, Sha256::new(), vec![0; PIECE]);
        loop {
            match file.read(&mut piece)? {
                0 => break,
                len => sha.update(piece.get(..len).unwrap_or_default()),
            }
        }
        Ok(sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    };
    of(path, read())
}
