//! The state of a data folder: what is in it, and whether its parts belong together. `db/` and `content/` may be on
//! disks of their own: a part that is not mounted must not be treated as an empty one.

use std::io;
use std::path::Path;

use rowdrive::schema::{FileId, file, file_row};
use rowdrive::table::{RowKey, RowQuery, RowRange, ScanQuery, Tables};
use uuid::Uuid;

use super::error::{DataFolderError, Result};
use super::names::{CONTENT, CURRENT, DB, FIRST_USER_SECRET, ID_FOLDER, NEW_ID_FOLDER, RESTORING, STORE_ID, TABLES};
use super::{id_files, last_start, part, store_id};

/// What may be in a data folder before its first start: parts of an interrupted one, mount points, and what a file
/// system, a restore or a server has left. Nothing that a start removes: somebody else may use such a name.
const EXPECTED: &[&str] =
    &[DB, CONTENT, STORE_ID, "store-id.new", "lost", "lost+found", "backup.sock", FIRST_USER_SECRET];
/// Content files, and rows, that [`check_content`] reads.
const SAMPLE: usize = 100;
const SAMPLED_ROWS: usize = 10_000;

/// The state of a data folder that may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderState {
    /// `db/` and `content/` have the same id.
    Identified,
    /// It is empty, or has only what an interrupted first start has left.
    New,
    /// The tables have no id: an older version wrote them, or somebody copied them out of a backup by hand.
    Unidentified,
}

/// Compares the ids of the parts, and changes nothing.
///
/// Errors: a part is missing, or belongs to another store, or is an older copy.
pub fn compare(data: &Path) -> Result<FolderState> {
    let (db, content) = (data.join(DB), data.join(CONTENT));
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| DataFolderError::Io(path, error)
    };
    let has_tables = |dir: &Path| dir.join(TABLES).exists() || dir.join(CURRENT).exists();
    // Stricter than `part::identify`: one file is enough, since the caller says that this is a data folder. A data
    // folder has a file `store-id`, a content folder a folder `store-<id>`.
    let id = store_id::read_content(data, ID_FOLDER).map_err(io(data))?;
    if has_tables(data) || id.is_some_and(|id| data.join(format!("{ID_FOLDER}{id}")).is_dir()) {
        return Err(DataFolderError::Part(data.to_owned()));
    }
    check_restored(data)?;
    let tables = has_tables(&db);
    let of_data = store_id::read_file(data).map_err(io(data))?;
    let of_db = store_id::read_file(&db).map_err(io(&db))?;
    let of_content = store_id::read_content(&content, ID_FOLDER).map_err(io(&content))?;
    let new_id = store_id::read_content(&content, NEW_ID_FOLDER).map_err(io(&content))?;
    let has_files = || sample(&content).map(|sample| !sample.is_empty()).map_err(io(&content));
    match (of_db, of_content) {
        (Some(id), Some(other)) if id != other => Err(DataFolderError::Different(db, content, id, other)),
        (Some(id), Some(_)) if of_data.as_ref().is_some_and(|of_data| *of_data != id) => {
            Err(DataFolderError::Moved(data.to_owned(), of_data.unwrap_or_default(), id))
        }
        // An older version wrote both ids before it made tables.
        (Some(_), Some(_)) if !tables && of_data.is_none() && !has_files()? => Ok(FolderState::New),
        (Some(_), Some(_)) if !tables => Err(DataFolderError::TablesMissing(content, db)),
        (Some(_), Some(_)) if !last_start::is_same(&db, &content).map_err(io(data))? => {
            Err(DataFolderError::Stale(db, content))
        }
        (Some(_), Some(_)) => Ok(FolderState::Identified),
        // An interrupted first start.
        (Some(id), None) if of_data.is_none() && new_id == Some(id.clone()) => Ok(FolderState::New),
        (Some(_), None) => Err(DataFolderError::ContentMissing(content, db)),
        (None, _) if tables => Ok(FolderState::Unidentified),
        (None, Some(_)) => Err(DataFolderError::TablesMissing(content, db)),
        (None, None) if has_files()? => Err(DataFolderError::TablesMissing(content, db)),
        (None, None) => match of_data {
            Some(id) => Err(DataFolderError::BothMissing(data.to_owned(), id)),
            None => Ok(FolderState::New),
        },
    }
}

/// Checks that the folder is not incomplete.
///
/// Errors: a restore into the folder was interrupted, or is running.
pub fn check_restored(data: &Path) -> Result<()> {
    if data.join(RESTORING).exists() { Err(DataFolderError::Restoring(data.to_owned())) } else { Ok(()) }
}

/// Checks that a new drive may be created in this folder.
///
/// Errors: other things are in it, or it is inside another drive or a backup. The user probably meant another folder.
pub fn check_vacant(data: &Path) -> Result<()> {
    if let Some(parent) = data.parent() {
        let part = part::enclosing_path(parent).map_err(|error| DataFolderError::Io(parent.to_owned(), error))?;
        if let Some(part) = part {
            return Err(DataFolderError::Within(data.to_owned(), part));
        }
    }
    let names = id_files::names(data).map_err(|error| DataFolderError::Io(data.to_owned(), error))?;
    let is_foreign = |name: &String| !name.starts_with('.') && !EXPECTED.contains(&name.as_str());
    if names.iter().any(is_foreign) { Err(DataFolderError::Occupied(data.to_owned())) } else { Ok(()) }
}

/// Checks by a sample that the tables and the content of a folder [without ids](FolderState::Unidentified) belong
/// together: some of the content files must be in the tables.
///
/// Only the first rows of the tables are read. A store whose large files are all in later rows counts as one without
/// large files: it passes with any content, unless that content has the id of a store.
pub async fn check_content(data: &Path, tables: &Tables) -> Result<()> {
    let (db, content) = (data.join(DB), data.join(CONTENT));
    let mismatch = || DataFolderError::Unrelated(content.clone(), db.clone());
    let io = |error| DataFolderError::Io(content.clone(), error);
    let files = sample(&content).map_err(io)?;
    let has_id = store_id::read_content(&content, ID_FOLDER).map_err(io)?.is_some();
    if files.is_empty() && !has_id {
        return if names_large_file(tables).await? { Err(mismatch()) } else { Ok(()) };
    }
    let cell = RowQuery::cells(file_row::location_columns());
    let queries: Vec<_> = files.iter().map(|id| (RowKey::copy_from_slice(id.0.as_bytes()), cell.clone())).collect();
    let rows = tables.get_many(file::TABLE, &queries).await?;
    let known = rows.iter().any(|row| !row.is_empty());
    // Without any known file the content may consist of uploads that were not committed.
    if known || (!has_id && !names_large_file(tables).await?) { Ok(()) } else { Err(mismatch()) }
}

/// Whether one of the first rows names a content file, or may name one.
async fn names_large_file(tables: &Tables) -> Result<bool> {
    let row_query = RowQuery::cells(file_row::location_columns());
    let query =
        ScanQuery { table: file::TABLE, range: RowRange::all(), row_query, limit: SAMPLED_ROWS, reverse: false };
    Ok(tables.scan(&query).await?.iter().any(|(_, row)| file_row::may_name_content(row)))
}

/// Ids of some content files.
fn sample(content: &Path) -> io::Result<Vec<FileId>> {
    let mut found = Vec::new();
    for folder in id_files::names(content)? {
        // Content files are in folders of two digits; `new` has the staged ones.
        if folder.len() > 3 {
            continue;
        }
        let names = id_files::names(&content.join(folder))?;
        let ids = names.into_iter().filter_map(|name| Uuid::parse_str(&name).ok().map(FileId));
        found.extend(ids.take(SAMPLE));
        if found.len() >= SAMPLE {
            break;
        }
    }
    Ok(found)
}
