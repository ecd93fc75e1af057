//! The id of a store, on both of its sides and above them: `db/` and `content/` may lie on disks of their own, and one
//! that is not mounted must not be taken for an empty one.
//!
//! In the data folder and in `db/` it is a file, `store-id`; in `content/` it is the name of an empty folder,
//! `store-<id>`, which is made in one step. That is `making-<id>` until `db/` bears the id and holds all tables, so that
//! a first start that was broken off is told from a store whose tables are not there any more.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rowdrive::schema::file::{self, Location};
use rowdrive::schema::{CF, FileId, ValueError};
use rowdrive::table::{Ask, Column, RowKey, RowRange, ScanAsk, StoreError, Tables};
use uuid::Uuid;

use super::last_start;
use super::local::{Folder, Part};

const FILE: &str = "store-id";
/// In `db/`: the id of the drive that it was restored from.
const RESTORED: &str = "restored-from";
const FOLDER: &str = "store-";
/// In a data folder that a restore fills.
pub const RESTORING: &str = "restoring";
const MAKING: &str = "making-";
/// What may lie in a data folder before its first start: parts of one that was broken off, mount points, and what a file
/// system, a restore or a server has left.
const OWN: &[&str] =
    &["db", "content", FILE, "store-id.new", "lost", "lost+found", "degraded", "checkpoint", "backup.sock"];
/// Content files, or rows, that are looked at to tell whether two sides without an id belong together.
const SAMPLE: usize = 100;
const SAMPLED_ROWS: usize = 10_000;

/// Why a folder is not opened.
#[derive(Debug, thiserror::Error)]
pub enum Apart {
    #[error("{0} lies in {1}: name a folder outside of it")]
    Within(PathBuf, Part),
    #[error("{0} is not whole: a restore into it has not come to its end; run it again")]
    Restoring(PathBuf),
    #[error("{0} is not empty, and holds no drive: name a folder of its own for the drive")]
    Occupied(PathBuf),
    #[error("{0} is a part of a data folder: give the folder that holds it")]
    Part(PathBuf),
    #[error(
        "{0} is not the content of this store: it bears no id, and {1} does. Is it not mounted, or was it lost? Mount \
         or restore it, then start again. `rowdrive serve --degraded` serves what lies in the tables"
    )]
    ContentMissing(PathBuf, PathBuf),
    #[error(
        "{0} is the content of a store, and there are no tables in {1}. Is it not mounted, or was it lost? Mount or restore it, then \
         start again"
    )]
    TablesMissing(PathBuf, PathBuf),
    #[error(
        "{0} is the folder of store {1}, and nothing of it is in db/ or content/. Are they not mounted, or were they lost? \
         Mount or restore them, then start again; for an empty drive in their place remove {0}/store-id first"
    )]
    BothMissing(PathBuf, String),
    #[error("{0} is of store {2}, and {1} of store {3}: mount or restore the two that belong together")]
    Different(PathBuf, PathBuf, String, String),
    #[error(
        "{0} is the folder of store {1}, and db/ and content/ are of store {2}: mount those that belong here, or, if these \
         are meant, remove {0}/store-id"
    )]
    Moved(PathBuf, String, String),
    #[error(
        "{0} does not hold the files that the tables in {1} name. Is it not mounted, or was it lost? Mount or restore \
         it, then start again. `rowdrive serve --degraded` serves what lies in the tables"
    )]
    Strange(PathBuf, PathBuf),
    #[error(
        "{0} and {1} are not of the same last start: one of them is an older copy, as what lies below a mount point. \
         Mount the newer one, then start again. If both are meant, remove {0}/last-start and {1}/start-*"
    )]
    Stale(PathBuf, PathBuf),
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    #[error("the tables cannot be read: {0}")]
    Store(#[from] StoreError),
    #[error("the tables cannot be read: {0}")]
    Value(#[from] ValueError),
}

type Result<T> = std::result::Result<T, Apart>;

/// What two sides that may belong together lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    Same,
    /// There is nothing in them yet.
    New,
    /// The tables bear no id: they are of a time before there were ids, or were copied out of a backup by hand.
    Unmarked,
}

/// Compares the sides, and changes nothing.
pub fn compare(data: &Path) -> Result<Sides> {
    let (db, content) = (data.join("db"), data.join("content"));
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| Apart::Io(path, error)
    };
    let holds_tables = |dir: &Path| dir.join("tables.json").exists() || dir.join("CURRENT").exists();
    // A data folder has a file `store-id`, which is named as the folder of a content folder is.
    let id = of_content(data, FOLDER).map_err(io(data))?;
    if holds_tables(data) || id.is_some_and(|id| data.join(format!("{FOLDER}{id}")).is_dir()) {
        return Err(Apart::Part(data.to_owned()));
    }
    if data.join(RESTORING).exists() {
        return Err(Apart::Restoring(data.to_owned()));
    }
    let tables = holds_tables(&db);
    let of_data = of_file(data).map_err(io(data))?;
    let of_db = of_file(&db).map_err(io(&db))?;
    let of_content = of_content(&content, FOLDER).map_err(io(&content))?;
    let making = self::of_content(&content, MAKING).map_err(io(&content))?;
    let files = || sample(&content).map(|sample| !sample.is_empty()).map_err(io(&content));
    match (of_db, of_content) {
        (Some(id), Some(other)) if id != other => Err(Apart::Different(db, content, id, other)),
        (Some(id), Some(_)) if of_data.as_ref().is_some_and(|of_data| *of_data != id) => {
            Err(Apart::Moved(data.to_owned(), of_data.unwrap_or_default(), id))
        }
        // An older version marked both sides before it made tables.
        (Some(_), Some(_)) if !tables && of_data.is_none() && !files()? => Ok(Sides::New),
        (Some(_), Some(_)) if !tables => Err(Apart::TablesMissing(content, db)),
        (Some(_), Some(_)) if !last_start::is_the_same(&db, &content).map_err(io(data))? => {
            Err(Apart::Stale(db, content))
        }
        (Some(_), Some(_)) => Ok(Sides::Same),
        // A first start was broken off.
        (Some(id), None) if of_data.is_none() && making == Some(id.clone()) => Ok(Sides::New),
        (Some(_), None) => Err(Apart::ContentMissing(content, db)),
        (None, _) if tables => Ok(Sides::Unmarked),
        (None, Some(_)) => Err(Apart::TablesMissing(content, db)),
        (None, None) if files()? => Err(Apart::TablesMissing(content, db)),
        (None, None) => match of_data {
            Some(id) => Err(Apart::BothMissing(data.to_owned(), id)),
            None => Ok(Sides::New),
        },
    }
}

/// Errors: there are things in the folder that are not of a drive, or it lies in another drive or in a backup: whoever
/// named it meant another one.
pub fn check_free(data: &Path) -> Result<()> {
    if let Some(above) = data.parent() {
        let part = Folder::open(above).and_then(|folder| folder.within_drive());
        if let Some(part) = part.map_err(|error| Apart::Io(above.to_owned(), error))? {
            return Err(Apart::Within(data.to_owned(), part));
        }
    }
    let names = names(data).map_err(|error| Apart::Io(data.to_owned(), error))?;
    let is_strange = |name: &String| !name.starts_with('.') && !OWN.contains(&name.as_str());
    if names.iter().any(is_strange) { Err(Apart::Occupied(data.to_owned())) } else { Ok(()) }
}

/// Gives both sides their id before there are tables, durably; makes the sides if they are missing.
pub fn begin(data: &Path) -> Result<()> {
    mark_sides(data).map_err(|error| Apart::Io(data.to_owned(), error))
}

/// Ends what [`begin`] has begun, once all tables are there: from then on none of the three may be missing, nor may
/// one of the two be an older copy.
pub fn finish(data: &Path) -> Result<()> {
    mark_made(data).map_err(|error| Apart::Io(data.to_owned(), error))?;
    if let Err(error) = last_start::mark(&data.join("db"), &data.join("content")) {
        // A disk may be full. Both parts keep the marks that go together.
        tracing::warn!(%error, folder = %data.display(), "the start is not noted: an older copy of a part is not told");
    }
    Ok(())
}

fn mark_sides(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join("db"), data.join("content"));
    for dir in [&db, &content] {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // IMPORTANT: content first: tables with an id, and content without one, are refused.
    let marked = of_content(&content, FOLDER)?.or(of_content(&content, MAKING)?);
    let id = match marked {
        Some(id) => id,
        None => {
            let id = Uuid::new_v4().to_string();
            DirBuilder::new().mode(0o700).create(content.join(format!("{MAKING}{id}")))?;
            id
        }
    };
    // The folder may have the id of what lay here before: as long as `db/` has none, that is nobody's.
    if of_file(data)?.is_some_and(|old| old != id) {
        fs::remove_file(data.join(FILE))?;
    }
    File::open(&content)?.sync_all()?;
    File::open(data)?.sync_all()?;
    write(&db, FILE, &id)
}

fn mark_made(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join("db"), data.join("content"));
    let Some(id) = of_file(&db)? else { return Ok(()) };
    if of_content(&content, FOLDER)?.is_none() {
        fs::rename(content.join(format!("{MAKING}{id}")), content.join(format!("{FOLDER}{id}")))?;
        File::open(content)?.sync_all()?;
    }
    if of_file(data)?.is_none()
        && let Err(error) = write(data, FILE, &id)
    {
        // A disk may be full, and a folder of two mount points need not be writable.
        tracing::warn!(%error, folder = %data.display(), "the folder bears no id: it is tried again at the next start");
    }
    Ok(())
}

/// Which drive it is to its backups. A restored one has an id of its own, so that its parts are told from those of the
/// one that it was made from; it is that drive still, however often it was restored.
pub fn drive(data: &Path) -> io::Result<Option<String>> {
    let db = data.join("db");
    let restored = id_in(&db.join(RESTORED))?;
    if restored.is_some() { Ok(restored) } else { of_file(&db) }
}

/// Notes in the store of a restored folder which drive it is. Whoever calls makes it durable.
pub fn restored(db: &Path, drive: &str) -> io::Result<()> {
    fs::write(db.join(RESTORED), format!("{drive}\n"))
}

/// Durably, and at once.
pub(super) fn write(dir: &Path, name: &str, id: &str) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(new, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Holds two sides without an id against each other: content that the tables do not know, or the other way round, is
/// not of this store.
///
/// Of the tables the first rows alone are looked at: a store whose large files all come later is taken to have none,
/// and passes whatever its content is, unless that bears the id of a store: then one of its files must be known.
pub async fn belong_together(data: &Path, tables: &Tables) -> Result<()> {
    let (db, content) = (data.join("db"), data.join("content"));
    let strange = || Apart::Strange(content.clone(), db.clone());
    let files = sample(&content).map_err(|error| Apart::Io(content.clone(), error))?;
    let foreign = of_content(&content, FOLDER).map_err(|error| Apart::Io(content.clone(), error))?.is_some();
    if files.is_empty() && !foreign {
        return if names_large(tables).await? { Err(strange()) } else { Ok(()) };
    }
    let cell = Ask::cells(vec![Column::new(CF, file::CONTENT)]);
    let asks: Vec<_> = files.iter().map(|id| (RowKey::copy_from_slice(id.0.as_bytes()), cell.clone())).collect();
    let rows = tables.get_many(file::TABLE, &asks).await?;
    let known = rows.iter().any(|row| row.get(CF, file::CONTENT).is_some());
    // Uploads that were not committed are unknown too.
    if known || (!foreign && !names_large(tables).await?) { Ok(()) } else { Err(strange()) }
}

/// Whether a row, of the first ones, names a content file.
async fn names_large(tables: &Tables) -> Result<bool> {
    let ask = Ask::cells(vec![Column::new(CF, file::CONTENT)]);
    let ask = ScanAsk { table: file::TABLE, range: RowRange::all(), ask, limit: SAMPLED_ROWS, reverse: false };
    for (_, row) in tables.scan(&ask).await? {
        if let Some(value) = row.get(CF, file::CONTENT)
            && Location::decode(value)? == Location::Large
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn of_file(dir: &Path) -> io::Result<Option<String>> {
    id_in(&dir.join(FILE))
}

pub(super) fn id_in(file: &Path) -> io::Result<Option<String>> {
    // One that has rotted is shown as it reads: it differs from the others.
    match fs::read(file) {
        Ok(id) => Ok(Some(String::from_utf8_lossy(&id).trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All ids that it bears in such names: of several none is right.
pub(super) fn of_content(content: &Path, prefix: &str) -> io::Result<Option<String>> {
    let mut ids = names(content)?.into_iter().filter_map(|name| Some(name.strip_prefix(prefix)?.to_owned()));
    let mut ids: Vec<_> = ids.by_ref().collect();
    ids.sort();
    Ok(if ids.is_empty() { None } else { Some(ids.join(" and ")) })
}

/// Some of the content files.
fn sample(content: &Path) -> io::Result<Vec<FileId>> {
    let mut found = Vec::new();
    for folder in names(content)? {
        if folder.len() > 3 {
            continue;
        }
        let ids = names(&content.join(folder))?.into_iter().filter_map(|name| Uuid::parse_str(&name).ok().map(FileId));
        found.extend(ids.take(SAMPLE));
        if found.len() >= SAMPLE {
            break;
        }
    }
    Ok(found)
}

pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
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
