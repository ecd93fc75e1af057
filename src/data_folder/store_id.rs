//! The id of a store, in the data folder, in `db/` and in `content/`.
//!
//! In the data folder and in `db/` it is a file, `store-id`; in `content/` it is the name of an empty folder,
//! `store-<id>`, since a folder is created in one step. That folder is called `making-<id>` until `db/` has the id and
//! all tables: so an interrupted first start differs from a store that has lost its tables.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use uuid::Uuid;

use super::error::{DataFolderError, Result};
use super::names::{CONTENT, DB, ID_FOLDER, NEW_ID_FOLDER, RESTORED_FROM, STORE_ID};
use super::{id_files, last_start};

/// Writes the same id to both parts before there are tables, durably; creates the parts if they are missing.
pub fn write_ids(data: &Path) -> Result<()> {
    try_mark_parts(data).map_err(|error| DataFolderError::Io(data.to_owned(), error))
}

/// Completes [`write_ids`] once all tables exist. From then on none of the three ids may be missing, and neither part
/// may be an older copy.
pub fn complete_ids(data: &Path) -> Result<()> {
    try_mark_complete(data).map_err(|error| DataFolderError::Io(data.to_owned(), error))?;
    if let Err(error) = last_start::write(&data.join(DB), &data.join(CONTENT)) {
        // A disk may be full. Both parts still have the start id of the start before.
        tracing::warn!(%error, folder = %data.display(), "the start id cannot be written: an older copy of a part will not be detected");
    }
    Ok(())
}

fn try_mark_parts(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join(DB), data.join(CONTENT));
    for dir in [&db, &content] {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // IMPORTANT: content first. A start refuses tables with an id beside content without one: the content may not be
    // mounted.
    let existing = read_content(&content, ID_FOLDER)?.or(read_content(&content, NEW_ID_FOLDER)?);
    let id = match existing {
        Some(id) => id,
        None => {
            let id = Uuid::new_v4().to_string();
            id_files::create(&content, NEW_ID_FOLDER, &id)?;
            id
        }
    };
    // The folder may still have the id of an earlier drive, which has no effect as long as `db/` has no id.
    if read_file(data)?.is_some_and(|old| old != id) {
        fs::remove_file(data.join(STORE_ID))?;
    }
    File::open(&content)?.sync_all()?;
    File::open(data)?.sync_all()?;
    id_files::write(&db, STORE_ID, &id)
}

fn try_mark_complete(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join(DB), data.join(CONTENT));
    let Some(id) = read_file(&db)? else { return Ok(()) };
    if read_content(&content, ID_FOLDER)?.is_none() {
        let (from, to) = (format!("{NEW_ID_FOLDER}{id}"), format!("{ID_FOLDER}{id}"));
        fs::rename(content.join(from), content.join(to))?;
        File::open(content)?.sync_all()?;
    }
    if read_file(data)?.is_none()
        && let Err(error) = id_files::write(data, STORE_ID, &id)
    {
        // A disk may be full, or a folder with only two mount points may not be writable.
        tracing::warn!(%error, folder = %data.display(), "the id of the store cannot be written to the folder: the next start tries again");
    }
    Ok(())
}

/// The id by which backups identify the drive. A restored folder has a new store id, so that its parts differ from
/// those of the original; for backups it is still the original drive, however often it was restored.
pub fn drive_id(data: &Path) -> io::Result<Option<String>> {
    let db = data.join(DB);
    let restored = id_files::read(&db.join(RESTORED_FROM))?;
    if restored.is_some() { Ok(restored) } else { read_file(&db) }
}

/// Writes the drive id to `db/` of a restored drive. The caller makes it durable.
pub fn write_drive_id(db: &Path, drive: &str) -> io::Result<()> {
    fs::write(db.join(RESTORED_FROM), format!("{drive}\n"))
}

/// The id of the data folder, or of `db/`.
pub fn read_file(dir: &Path) -> io::Result<Option<String>> {
    id_files::read(&dir.join(STORE_ID))
}

/// The id in the names of folders in `content/` with this prefix. Several are joined, and then equal no id.
pub fn read_content(content: &Path, prefix: &str) -> io::Result<Option<String>> {
    let ids = id_files::list(content, prefix)?;
    Ok(if ids.is_empty() { None } else { Some(ids.join(" and ")) })
}
