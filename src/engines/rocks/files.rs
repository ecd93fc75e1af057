//! The files of the folder: those that RocksDB names by a number, and small files of this engine, which are replaced
//! atomically.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The files `NUMBER.extension`, in the order of their numbers, which is that of their creation.
pub(super) fn numbered(dir: &Path, extension: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    let files = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
        files => files?,
    };
    for file in files {
        let path = file?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if let Some(number) = number
            && path.extension().is_some_and(|e| e == extension)
        {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The total size of these files.
pub(super) fn bytes(dir: &Path, extension: &str) -> io::Result<u64> {
    numbered(dir, extension)?.iter().map(|(_, file)| Ok(file.metadata()?.len())).sum()
}

/// Whether there are SST or WAL files, and no `CURRENT`, which RocksDB writes before the first of them. RocksDB would
/// create an empty database there, and delete the SST files as obsolete.
pub(super) fn lacks_current(dir: &Path) -> io::Result<bool> {
    let is_new = numbered(dir, "sst")?.is_empty() && numbered(dir, "log")?.is_empty();
    Ok(!is_new && !dir.join("CURRENT").exists())
}

/// Creates or replaces a file atomically: after a crash it has its old content or the new one.
pub(super) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    // IMPORTANT: sync the content, then rename, then sync the folder: otherwise a crash can leave the name without the
    // content, or later writes without the name.
    fs::rename(new, dir.join(name))?;
    File::open(dir)?.sync_all()
}
