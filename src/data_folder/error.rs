//! Why a folder is not opened as a data folder.

use std::io;
use std::path::PathBuf;

use rowdrive::table::StoreError;

use super::part::DrivePart;

/// What is wrong with a folder, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum DataFolderError {
    #[error("{0} lies in {1}: name a folder outside of it")]
    Within(PathBuf, DrivePart),
    #[error("{0} is incomplete: a restore into it has not finished; run it again")]
    Restoring(PathBuf),
    #[error("{0} is not empty, and holds no drive: name a folder of its own for the drive")]
    Occupied(PathBuf),
    #[error("{0} is a part of a data folder: give the folder that holds it")]
    Part(PathBuf),
    #[error(
        "{0} is not the content of this store: it has no id, and {1} has one. Is it not mounted, or was it lost? Mount \
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
    Unrelated(PathBuf, PathBuf),
    #[error(
        "{0} and {1} are not of the same last start: one of them is an older copy, such as the folder below a mount point. \
         Mount the newer one, then start again. If both are meant, remove {0}/last-start and {1}/start-*"
    )]
    Stale(PathBuf, PathBuf),
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    #[error("the tables cannot be read: {0}")]
    Store(#[from] StoreError),
}

pub type Result<T> = std::result::Result<T, DataFolderError>;
