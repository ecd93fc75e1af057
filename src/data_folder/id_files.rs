//! Ids in a data folder: small files with an id, and empty folders whose names end with one.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The id in a file; none if there is no such file.
pub fn read(file: &Path) -> io::Result<Option<String>> {
    // Damaged bytes are kept as far as they can be shown: such an id equals no other.
    match fs::read(file) {
        Ok(id) => Ok(Some(String::from_utf8_lossy(&id).trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file with this id, durably and atomically: writes a new file, and replaces the old one by it.
pub fn write(dir: &Path, name: &str, id: &str) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(new, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// The ids of all folders in `dir` whose names have this prefix, sorted.
pub fn list(dir: &Path, prefix: &str) -> io::Result<Vec<String>> {
    Ok(names(dir)?.iter().filter_map(|name| Some(name.strip_prefix(prefix)?.to_owned())).collect())
}

/// Creates the folder whose name is the prefix and the id. The caller syncs `dir`.
pub fn create(dir: &Path, prefix: &str, id: &str) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir.join(format!("{prefix}{id}")))
}

/// All names in a folder that are UTF-8, sorted; none if there is no such folder.
pub fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
