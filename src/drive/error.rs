//! Why an operation did not happen. Each variant is named by what the caller can do.

use std::convert::Infallible;

use crate::auth::AuthError;
use crate::content::ContentError;
use crate::schema::file::Digest;
use crate::schema::{PathError, ValueError};
use crate::table::StoreError;

/// Why an operation of the drive did not happen, or is not known to have happened.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("there is nothing at this path")]
    NotFound,
    /// The requester sees what is there, or where it would be, and may not do this.
    #[error("you have no right to this")]
    Forbidden,
    /// The credential of the requester is not valid, or not any more.
    #[error("log in first")]
    Unauthorized,
    #[error("a parent directory is missing")]
    ParentMissing,
    #[error("a parent in the path is a file")]
    ParentIsFile,
    #[error("there is a directory at this path")]
    IsDirectory,
    #[error("there is a file at this path")]
    IsFile,
    #[error("the target exists already")]
    Exists,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("the root is always there")]
    Root,
    #[error("the target lies inside the source")]
    IntoItself,
    #[error("a precondition does not hold")]
    Precondition,
    /// The SHA-256 that the content has, and not the one that was expected; nothing happened.
    #[error("the content has another SHA-256 than expected")]
    DigestMismatch(Digest),
    #[error("a path below the target would be too long or too deep")]
    Outgrown,
    #[error(transparent)]
    Path(#[from] PathError),
    /// Other requests changed the same rows too often; nothing happened.
    #[error("others are changing the same files: try again")]
    Contended,
    /// A change of users did not happen.
    #[error(transparent)]
    Account(AuthError),
    /// Other requests had all of the memory for too long.
    #[error("there is no memory for this now: try again")]
    NoMemory,
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The usage of the requester would pass his quota; nothing happened.
    #[error("your quota would be passed")]
    Quota,
    /// Too many writes are waiting; nothing happened. Try again later.
    #[error("too many writes are waiting")]
    Busy,
    /// The disk has no space for rows; nothing happened.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The change may have happened, or may yet happen. `full`: the disk was full.
    #[error("the outcome of a write is not known: {cause}")]
    Unknown { cause: String, full: bool },
    /// The store was opened for reading only; nothing happened.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The drive takes no change until a restart; nothing happened.
    #[error("a write failed earlier; restart: {0}")]
    Stopped(String),
    /// Stored data cannot be read back.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The store cannot work, or a call broke its rules; its text.
    #[error("the store failed: {0}")]
    Failed(String),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("the drive is shutting down")]
    Closing,
}

/// The result of an operation of the drive.
pub type Result<T> = std::result::Result<T, DriveError>;

/// Why [`UserDrive::put`](super::UserDrive::put) stored nothing, or is not known to have stored it.
#[derive(Debug, thiserror::Error)]
pub enum PutError<E> {
    /// An error of the drive.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The error of the stream with which the body ended. Nothing is stored.
    #[error("the body could not be read to its end")]
    Body(#[source] E),
}

impl<E> From<ContentError> for PutError<E> {
    fn from(error: ContentError) -> Self {
        Self::Drive(error.into())
    }
}

impl From<PutError<Infallible>> for DriveError {
    fn from(error: PutError<Infallible>) -> Self {
        match error {
            PutError::Drive(error) => error,
            PutError::Body(never) => match never {},
        }
    }
}

impl From<AuthError> for DriveError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unauthorized => Self::Unauthorized,
            AuthError::Forbidden => Self::Forbidden,
            AuthError::Contended => Self::Contended,
            AuthError::Store(error) => error.into(),
            AuthError::Value(error) => error.into(),
            error => Self::Account(error),
        }
    }
}

impl From<StoreError> for DriveError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Busy,
            StoreError::Full(cause) => Self::Full(cause),
            StoreError::Unknown { cause, full } => Self::Unknown { cause, full },
            StoreError::ReadOnly => Self::ReadOnly,
            StoreError::Stopped(cause) => Self::Stopped(cause),
            StoreError::Damaged(what) | StoreError::BadCounter(what) => Self::Damaged(what),
            StoreError::Failed(cause) => Self::Failed(cause),
            StoreError::RuleViolation(_) | StoreError::OtherSpec(..) | StoreError::TooWide { .. } => {
                Self::Failed(error.to_string())
            }
        }
    }
}
