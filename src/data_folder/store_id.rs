//! The id of a store, which marks the data folder, `db/` and `content/`.
//!
//! In the data folder and in `db/` it is a file, `store-id`; in `content/` it is the name of an empty folder,
//! `store-<id>`, since a folder is created in one step. That folder is called `making-<id>` until `db/` bears the id and
//! holds all tables: so an interrupted first start differs from a store whose tables are lost.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use uuid::Uuid;

use super::error::{DataFolderError, Result};
use super::names::{CONTENT, DB, ID_FOLDER, NEW_ID_FOLDER, RESTORED_FROM, STORE_ID};
use super::{last_start, marks};

/// Marks both parts with the same id before there are tables, durably; creates the parts if they are missing.
pub fn mark_parts(data: &Path) -> Result<()> {
    try_mark_parts(data).map_err(|error| DataFolderError::Io(data.to_owned(), error))
}

/// Completes [`mark_parts`] once all tables are there. From then on none of the three marks may be missing, and neither
/// part may be an older copy.
pub fn mark_complete(data: &Path) -> Result<()> {
    try_mark_complete(data).map_err(|error| DataFolderError::Io(data.to_owned(), error))?;
    if let Err(error) = last_start::mark(&data.join(DB), &data.join(CONTENT)) {
        // A disk may be full. Both parts still have the marks of the start before.
        tracing::warn!(%error, folder = %data.display(), "the start is not noted: an older copy of a part is not told");
    }
    Ok(())
}

fn try_mark_parts(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join(DB), data.join(CONTENT));
    for dir in [&db, &content] {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // IMPORTANT: content first. Tables with an id, beside content without one, are refused as a part not mounted.
    let marked = of_content(&content, ID_FOLDER)?.or(of_content(&content, NEW_ID_FOLDER)?);
    let id = match marked {
        Some(id) => id,
        None => {
            let id = Uuid::new_v4().to_string();
            marks::create(&content, NEW_ID_FOLDER, &id)?;
            id
        }
    };
    // The folder may still have the id of a drive that was here before. As long as `db/` has no id, it means nothing.
    if of_file(data)?.is_some_and(|old| old != id) {
        fs::remove_file(data.join(STORE_ID))?;
    }
    File::open(&content)?.sync_all()?;
    File::open(data)?.sync_all()?;
    marks::write(&db, STORE_ID, &id)
}

fn try_mark_complete(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join(DB), data.join(CONTENT));
    let Some(id) = of_file(&db)? else { return Ok(()) };
    if of_content(&content, ID_FOLDER)?.is_none() {
        let (from, to) = (format!("{NEW_ID_FOLDER}{id}"), format!("{ID_FOLDER}{id}"));
        fs::rename(content.join(from), content.join(to))?;
        File::open(content)?.sync_all()?;
    }
    if of_file(data)?.is_none()
        && let Err(error) = marks::write(data, STORE_ID, &id)
    {
        // A disk may be full, or a folder that only holds two mount points may not be writable.
        tracing::warn!(%error, folder = %data.display(), "the folder bears no id: it is tried again at the next start");
    }
    Ok(())
}

/// Which drive this is to its backups. A restored folder has a new store id, so that its parts differ from those of the
/// original; for backups it is still the original drive, however often it was restored.
pub fn drive_id(data: &Path) -> io::Result<Option<String>> {
    let db = data.join(DB);
    let restored = marks::read(&db.join(RESTORED_FROM))?;
    if restored.is_some() { Ok(restored) } else { of_file(&db) }
}

/// Notes in the tables' folder of a restored drive which drive it is. The caller makes it durable.
pub fn write_drive_id(db: &Path, drive: &str) -> io::Result<()> {
    fs::write(db.join(RESTORED_FROM), format!("{drive}\n"))
}

/// The id of the data folder, or of `db/`.
pub fn of_file(dir: &Path) -> io::Result<Option<String>> {
    marks::read(&dir.join(STORE_ID))
}

/// The id of `content/`, in names of this prefix. Several are joined: the result equals none of them.
pub fn of_content(content: &Path, prefix: &str) -> io::Result<Option<String>> {
    let ids = marks::list(content, prefix)?;
    Ok(if ids.is_empty() { None } else { Some(ids.join(" and ")) })
}
