//! Opens a data folder: for writing, or what is left of a damaged one for reading.

use std::fs::{DirBuilder, canonicalize};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rowdrive::auth::Auth;
use rowdrive::drive::{Drive, Settings};
use rowdrive::engines::rocks::{FolderLock, Rocks, RocksOptions};
use rowdrive::http::{FirstUserSecret, remove_first_user_secret};
use rowdrive::migrate;
use rowdrive::schema::{self, Timestamp};
use rowdrive::table::Tables;

use super::{Result, ServeError};
use crate::cli::backup;
use crate::data_folder::names::FIRST_USER_SECRET;
use crate::data_folder::{self, FolderState};

/// The folder of the copy that a degraded start may make; inside `db/` if that is a file system of its own.
const COPY: &str = "degraded";

/// How long a server waits for another process that has locked the folder, such as a check or a backup of a stopped drive.
/// SIGTERM ends the wait, since no handler is installed yet.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a command waits for it: a server would not end.
const COMMAND_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Memory for a command that changes a few rows: a quarter of it hashes one password.
const COMMAND_MEMORY: usize = 256 << 20;

pub struct Opened {
    pub rocks: Arc<Rocks>,
    pub drive: Drive,
    pub auth: Auth,
    /// None if there are users.
    pub first_user: Option<FirstUserSecret>,
}

/// Divides the memory: a quarter for the buffers of requests, a little for the path cache and for the keys of folders, and
/// the rest for the engine. A sixteenth of a gigabyte has the paths of 300,000 directories: a page of a period needs those
/// of all its files.
fn shares(memory: usize) -> (Settings, RocksOptions) {
    let (path_cache, folder_keys) = (memory / 16, memory / 32);
    let settings = Settings { memory: memory / 4, path_cache, folder_keys, ..Settings::default() };
    let memory = memory - settings.memory - path_cache - folder_keys;
    let options = RocksOptions { memory, kept: &schema::READ_OFTEN };
    (settings, options)
}

/// Opens a data folder for reading and writing, and applies pending migrations.
pub async fn whole(data: &Path, memory: usize) -> Result<Opened> {
    open(data, memory, LOCK_TIMEOUT).await
}

/// Opens a data folder that no server serves, for a command; makes it if it is missing.
pub async fn stopped(data: &Path) -> Result<Opened> {
    let data = folder(data)?;
    data_folder::check_restored(&data).map_err(|error| ServeError::DataFolder(data.clone(), error))?;
    if backup::is_backup(&data) {
        return Err(ServeError::Backup(data));
    }
    open(&data, COMMAND_MEMORY, COMMAND_LOCK_TIMEOUT).await
}

/// The data folder, created for this user alone if it is missing. An existing one keeps its mode.
pub fn folder(data: &Path) -> Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.and_then(|()| canonicalize(data)).map_err(|e| ServeError::Folder(data.to_owned(), e))
}

/// Waits for the changes in progress, then closes the store.
pub async fn close(drive: Drive, rocks: Arc<Rocks>) {
    drive.close().await;
    rocks.close().await;
    drop(drive);
    // Dropping the last reference closes the database, which blocks.
    if let Err(error) = tokio::task::spawn_blocking(move || drop(rocks)).await {
        tracing::error!(%error, "the store was not closed");
    }
}

async fn open(data: &Path, memory: usize, lock_timeout: Duration) -> Result<Opened> {
    let (settings, options) = shares(memory);
    let folder_error = |error| ServeError::DataFolder(data.to_owned(), error);
    let folder = take(data, lock_timeout)?;
    // IMPORTANT: lock the folder, then compare: otherwise another start at the same time could write another id.
    let state = data_folder::compare(data).map_err(folder_error)?;
    if state == FolderState::New {
        // The user may have mistyped the folder, or forgotten to mount it.
        tracing::warn!(folder = %data.display(), "there is no drive here: a new, empty one is made");
        data_folder::write_ids(data).map_err(folder_error)?;
    }
    remove_copies(data);
    let rocks = Rocks::open_locked(folder, options);
    let rocks = Arc::new(rocks.map_err(|e| ServeError::Store(data.to_owned(), e))?);
    let tables = Tables::new(rocks.clone());
    migrate::up(&tables).await.map_err(|e| ServeError::Migrate(data.to_owned(), e))?;
    // Check before anything in `content/` changes.
    if state == FolderState::Unidentified {
        data_folder::check_content(data, &tables).await.map_err(folder_error)?;
        data_folder::write_ids(data).map_err(folder_error)?;
    }
    data_folder::complete_ids(data).map_err(folder_error)?;
    let drive = Drive::open_with(tables.clone(), &data.join("content"), settings).await;
    let drive = drive.map_err(|e| ServeError::Drive(data.to_owned(), e))?;
    let auth = open_auth(tables, &drive).await;
    let first_user = first_user_secret(&data.join(FIRST_USER_SECRET), &auth).await;
    Ok(Opened { rocks, drive, auth, first_user })
}

/// The users of the drive, with the memory for their passwords.
async fn open_auth(tables: Tables, drive: &Drive) -> Auth {
    let auth = Auth::new(tables, Timestamp::now).with_memory(drive.memory().clone());
    auth.take_password_memory().await;
    auth
}

/// The secret that makes the first user. With users: removes sessions, tokens and shares that have expired.
async fn first_user_secret(file: &Path, auth: &Auth) -> Option<FirstUserSecret> {
    let made = match auth.has_users().await {
        Ok(true) => {
            if let Err(error) = remove_first_user_secret(file) {
                tracing::warn!(file = %file.display(), %error, "the secret of the first user is left over; it has no effect");
            }
            match auth.remove_expired_secrets().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "sessions, tokens and shares that had expired are removed"),
                Err(error) => {
                    tracing::warn!(%error, "sessions, tokens and shares that have expired are not removed; they have no effect")
                }
            }
            return None;
        }
        Ok(false) => FirstUserSecret::make(file),
        Err(error) => Err(io::Error::other(error)),
    };
    match made {
        Ok(secret) => {
            tracing::info!(
                file = %file.display(),
                "there are no users: the first one is made by `rowdrive user add NAME --data DIR` while the server is \
                 stopped, or with the secret in this file"
            );
            Some(secret)
        }
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "no user can be made over HTTP: the secret for it cannot be written");
            Some(FirstUserSecret::unknown())
        }
    }
}

/// Locks the folder of the tables; creates it if there is none, but not where a part seems not to be mounted.
fn take(data: &Path, timeout: Duration) -> Result<FolderLock> {
    let (db, failed) = (data.join("db"), |error| ServeError::Store(data.to_owned(), error));
    if let Some(folder) = FolderLock::lock_existing(&db, timeout).map_err(failed)? {
        return Ok(folder);
    }
    let folder_error = |error| ServeError::DataFolder(data.to_owned(), error);
    if data_folder::compare(data).map_err(folder_error)? == FolderState::New {
        data_folder::check_vacant(data).map_err(folder_error)?;
    }
    FolderLock::lock(&db, timeout).map_err(failed)
}

/// Removes copies of the store that a killed backup or degraded start has left. Their links to tables use space that a
/// start on a full disk needs. The caller has the lock.
fn remove_copies(data: &Path) {
    if let Err(error) = backup::remove_checkpoints(data) {
        tracing::warn!(%error, "the checkpoint of a backup could not be removed");
    }
    for copy in [data.join(COPY), data.join("db").join(COPY)] {
        if let Err(error) = backup::remove(&copy) {
            tracing::warn!(%error, "the copy of a degraded start could not be removed");
        }
    }
}

/// Opens what can be read, for reading only. Changes no file in `db/` or `content/`.
pub async fn degraded(data: &Path, memory: usize) -> Result<Opened> {
    let (settings, options) = shares(memory);
    let db = data.join("db");
    if !db.is_dir() {
        return Err(ServeError::NoStore(data.to_owned()));
    }
    let opened = Rocks::open_degraded(&db, &data.join(COPY), options);
    let (rocks, damage) = opened.map_err(|e| ServeError::Store(data.to_owned(), e))?;
    if let Err(error) = data_folder::compare(data) {
        tracing::error!(%error, "content and tables are served as far as they go together");
    }
    match damage {
        Some(damage) => tracing::error!(damage, "serving what is left of a damaged folder, for reading only"),
        None => tracing::warn!("serving for reading only, although nothing is found to be wrong with the tables"),
    }
    let rocks = Arc::new(rocks);
    let tables = Tables::new(rocks.clone());
    migrate::open_degraded(&tables).await.map_err(|e| ServeError::Migrate(data.to_owned(), e))?;
    let drive = Drive::open_read_only(tables.clone(), &data.join("content"), settings);
    let drive = drive.map_err(|e| ServeError::Drive(data.to_owned(), e))?;
    let auth = open_auth(tables, &drive).await;
    // Nothing is changed in the folder, so no user is made.
    Ok(Opened { rocks, drive, auth, first_user: Some(FirstUserSecret::unknown()) })
}
