//! Opens a data folder: as a whole, or what is left of a damaged one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rowdrive::drive::{Drive, Settings};
use rowdrive::engines::rocks::{Folder, Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::{Result, ServeError};
use crate::cli::backup;
use crate::cli::store_id::{self, Sides};

/// The copy that a degraded start makes if it must; in `db/` if that is on another file system.
const COPY: &str = "degraded";

/// How long a folder is waited for that another process has: a backup of a stopped drive, or a check, ends. SIGTERM ends
/// the wait, since nothing else is done about it yet.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Opened {
    pub rocks: Arc<Rocks>,
    pub drive: Drive,
}

/// The shares of the memory: a quarter for the buffers of requests, a little for what queries keep, and the rest for
/// the engine.
fn shares(memory: usize) -> (Settings, RocksOptions) {
    let settings = Settings { memory: memory / 4, paths: memory / 32, ..Settings::default() };
    let options = RocksOptions { memory: memory - settings.memory - settings.paths };
    (Settings { reserve: options.reserve(), ..settings }, options)
}

/// For reading and writing, brought up to date.
pub async fn whole(data: &Path, memory: usize) -> Result<Opened> {
    let (settings, options) = shares(memory);
    let apart = |error| ServeError::Apart(data.to_owned(), error);
    let folder = take(data)?;
    // IMPORTANT: not before the folder is this process's own: another one that starts would give it another id.
    let sides = store_id::compare(data).map_err(apart)?;
    if sides == Sides::New {
        // Whoever mistyped the folder, or forgot to mount it, should read this.
        tracing::warn!(folder = %data.display(), "there is no drive here: a new, empty one is made");
        store_id::begin(data).map_err(apart)?;
    }
    free(data);
    let rocks = Rocks::open_in(folder, options);
    let rocks = Arc::new(rocks.map_err(|e| ServeError::Store(data.to_owned(), e))?);
    let tables = Tables::new(rocks.clone());
    migrate::up(&tables).await.map_err(|e| ServeError::Migrate(data.to_owned(), e))?;
    // Before anything in `content/` is touched.
    if sides == Sides::Unmarked {
        store_id::belong_together(data, &tables).await.map_err(apart)?;
        store_id::begin(data).map_err(apart)?;
    }
    store_id::finish(data).map_err(apart)?;
    let drive = Drive::open_with(tables, &data.join("content"), settings).await;
    let drive = drive.map_err(|e| ServeError::Drive(data.to_owned(), e))?;
    Ok(Opened { rocks, drive })
}

/// Takes the folder of the tables; makes it if there is none, but nothing in a mount point where a part is missed.
fn take(data: &Path) -> Result<Folder> {
    let (db, failed) = (data.join("db"), |error| ServeError::Store(data.to_owned(), error));
    if let Some(folder) = Folder::take_as_it_is(&db, PATIENCE).map_err(failed)? {
        return Ok(folder);
    }
    let apart = |error| ServeError::Apart(data.to_owned(), error);
    if store_id::compare(data).map_err(apart)? == Sides::New {
        store_id::check_free(data).map_err(apart)?;
    }
    Folder::take(&db, PATIENCE).map_err(failed)
}

/// Removes the copies of the store that a backup or a degraded start has left that was killed: they hold links to
/// tables, and so the room that a start on a full disk lacks. The folder is this process's own.
fn free(data: &Path) {
    if let Err(error) = backup::remove_checkpoints(data) {
        tracing::warn!(%error, "the checkpoint of a backup could not be removed");
    }
    for copy in [data.join(COPY), data.join("db").join(COPY)] {
        if let Err(error) = backup::remove(&copy) {
            tracing::warn!(%error, "the copy of a degraded start could not be removed");
        }
    }
}

/// For reading only. No file in `db/` or `content/` is changed.
pub async fn degraded(data: &Path, memory: usize) -> Result<Opened> {
    let (settings, options) = shares(memory);
    let db = data.join("db");
    if !db.is_dir() {
        return Err(ServeError::NoStore(data.to_owned()));
    }
    let opened = Rocks::open_degraded(&db, &data.join(COPY), options);
    let (rocks, damage) = opened.map_err(|e| ServeError::Store(data.to_owned(), e))?;
    if let Err(error) = store_id::compare(data) {
        tracing::error!(%error, "content and tables are served as far as they go together");
    }
    match damage {
        Some(damage) => tracing::error!(damage, "serving what is left of a damaged folder, for reading only"),
        None => tracing::warn!("serving for reading only, although nothing is found to be wrong with the tables"),
    }
    let rocks = Arc::new(rocks);
    let tables = Tables::new(rocks.clone());
    migrate::open_degraded(&tables).await.map_err(|e| ServeError::Migrate(data.to_owned(), e))?;
    let drive = Drive::open_as_it_is(tables, &data.join("content"), settings);
    Ok(Opened { rocks, drive: drive.map_err(|e| ServeError::Drive(data.to_owned(), e))? })
}
