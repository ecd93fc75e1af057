//! The id of a store, on both of its sides: `db/` and `content/` may lie on disks of their own, and one that is not
//! mounted must not be taken for an empty one.
//!
//! In `db/` it is a file, `store-id`, in `content/` the name of an empty folder, `store-<id>`: that is made in one step.
//! It is `making-<id>` until `db/` bears the id too, so that a first start that was broken off is told from a store
//! whose `db/` is not there.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rowdrive::schema::file::{self, Location};
use rowdrive::schema::{CF, FileId, ValueError};
use rowdrive::table::{Ask, Column, RowKey, RowRange, ScanAsk, StoreError, Tables};
use uuid::Uuid;

const FILE: &str = "store-id";
const FOLDER: &str = "store-";
const MAKING: &str = "making-";
/// Content files, or rows, that are looked at to tell whether two sides without an id belong together.
const SAMPLE: usize = 100;
const SAMPLED_ROWS: usize = 10_000;

/// Why a folder is not opened.
#[derive(Debug, thiserror::Error)]
pub enum Apart {
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
    #[error("{0} is of store {2}, and {1} of store {3}: mount or restore the two that belong together")]
    Different(PathBuf, PathBuf, String, String),
    #[error(
        "{0} does not hold the files that the tables in {1} name. Is it not mounted, or was it lost? Mount or restore \
         it, then start again. `rowdrive serve --degraded` serves what lies in the tables"
    )]
    Strange(PathBuf, PathBuf),
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
    /// They are of a time before there were ids.
    Unmarked,
}

/// Compares the sides, and changes nothing.
pub fn compare(data: &Path) -> Result<Sides> {
    let (db, content) = (data.join("db"), data.join("content"));
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| Apart::Io(path, error)
    };
    let tables = db.join("tables.json").exists() || db.join("CURRENT").exists();
    let of_db = of_db(&db).map_err(io(&db))?;
    let of_content = of_content(&content, FOLDER).map_err(io(&content))?;
    let making = self::of_content(&content, MAKING).map_err(io(&content))?;
    let files = || sample(&content).map(|sample| !sample.is_empty()).map_err(io(&content));
    match (of_db, of_content) {
        (Some(id), Some(other)) if id == other => Ok(Sides::Same),
        (Some(id), Some(other)) => Err(Apart::Different(db, content, id, other)),
        // Broken off between the two marks.
        (Some(id), None) if making == Some(id.clone()) => Ok(Sides::New),
        (Some(_), None) => Err(Apart::ContentMissing(content, db)),
        (None, _) if tables => Ok(Sides::Unmarked),
        (None, Some(_)) => Err(Apart::TablesMissing(content, db)),
        (None, None) if files()? => Err(Apart::TablesMissing(content, db)),
        (None, None) => Ok(Sides::New),
    }
}

/// Gives both sides their id, durably; makes them if they are missing.
pub fn mark(data: &Path) -> Result<()> {
    write(data).map_err(|error| Apart::Io(data.to_owned(), error))
}

fn write(data: &Path) -> io::Result<()> {
    let (db, content) = (data.join("db"), data.join("content"));
    for dir in [&db, &content] {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // IMPORTANT: content first, and its last name last: tables with an id, and content without one, are refused, and
    // so is content with an id beside no tables.
    let (marked, making) = (of_content(&content, FOLDER)?, of_content(&content, MAKING)?);
    let id = match marked.clone().or(making) {
        Some(id) => id,
        None => {
            let id = Uuid::new_v4().to_string();
            DirBuilder::new().mode(0o700).create(content.join(format!("{MAKING}{id}")))?;
            id
        }
    };
    File::open(&content)?.sync_all()?;
    File::open(data)?.sync_all()?;
    let new = db.join(format!("{FILE}.new"));
    let mut file = File::create(&new)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(new, db.join(FILE))?;
    File::open(db)?.sync_all()?;
    if marked.is_none() {
        fs::rename(content.join(format!("{MAKING}{id}")), content.join(format!("{FOLDER}{id}")))?;
        File::open(content)?.sync_all()?;
    }
    Ok(())
}

/// Holds two sides without an id against each other: content that the tables do not know, or the other way round, is
/// not of this store.
///
/// Of the tables the first rows alone are looked at: a store whose large files all come later is taken to have none,
/// and passes whatever its content is.
pub async fn belong_together(data: &Path, tables: &Tables) -> Result<()> {
    let (db, content) = (data.join("db"), data.join("content"));
    let strange = || Apart::Strange(content.clone(), db.clone());
    let files = sample(&content).map_err(|error| Apart::Io(content.clone(), error))?;
    if files.is_empty() {
        return if names_large(tables).await? { Err(strange()) } else { Ok(()) };
    }
    let cell = Ask::cells(vec![Column::new(CF, file::CONTENT)]);
    let asks: Vec<_> = files.iter().map(|id| (RowKey::copy_from_slice(id.0.as_bytes()), cell.clone())).collect();
    let rows = tables.get_many(file::TABLE, &asks).await?;
    let known = rows.iter().any(|row| row.get(CF, file::CONTENT).is_some());
    // Uploads that were not committed are unknown too.
    if known || !names_large(tables).await? { Ok(()) } else { Err(strange()) }
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

fn of_db(db: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(db.join(FILE)) {
        Ok(id) => Ok(Some(id.trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All ids that it bears in such names: of several none is right.
fn of_content(content: &Path, prefix: &str) -> io::Result<Option<String>> {
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

fn names(dir: &Path) -> io::Result<Vec<String>> {
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
