//! Why an operation did not happen. Named by what the caller can do.

use crate::content::ContentError;
use crate::schema::{PathError, ValueError};
pub use crate::table::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("there is nothing at this path")]
    NotFound,
    #[error("a parent directory is missing")]
    ParentMissing,
    #[error("a file stands where a parent directory should be")]
    ParentIsFile,
    #[error("there is a directory at this path")]
    IsDirectory,
    #[error("there is a file at this path")]
    IsFile,
    #[error("something stands at the target already")]
    Exists,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("the root is always there")]
    Root,
    #[error("the target lies inside the source")]
    IntoItself,
    #[error("a precondition does not hold")]
    Precondition,
    #[error("something in the directory would have too long or too deep a path there")]
    Outgrown,
    #[error(transparent)]
    Path(#[from] PathError),
    /// Others changed the same rows, too often; nothing happened.
    #[error("others are changing the same files: try again")]
    Contended,
    /// Others had all of it, for too long.
    #[error("there is no memory for this now: try again")]
    NoMemory,
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("the drive is shutting down")]
    Closing,
}

pub type Result<T> = std::result::Result<T, DriveError>;
