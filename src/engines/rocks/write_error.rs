//! Why a group of plans could not be written, and what that means for each of its plans.

use crate::table::StoreError;

/// A failed write of a group; each variant has the cause in words.
#[derive(Clone, Debug)]
pub(super) enum WriteError {
    /// RocksDB was asked to write it. `full`: whether the disk was full, and no sync has failed. Then the outcome is known
    /// once the store is ready again.
    Sent {
        cause: String,
        full: bool,
    },
    /// It was not sent, since the disk is full, since writes are stopped, or for another reason.
    Full(String),
    Stopped(String),
    Failed(String),
}

impl WriteError {
    /// The error of a group that is not sent.
    pub fn not_sent(error: StoreError) -> Self {
        match error {
            StoreError::Full(cause) => Self::Full(cause),
            StoreError::Stopped(cause) => Self::Stopped(cause),
            other => Self::Failed(other.to_string()),
        }
    }

    /// The error of a plan that was accepted into the group.
    pub fn of_accepted(&self) -> StoreError {
        match self {
            Self::Sent { cause, full } => StoreError::Unknown { cause: cause.clone(), full: *full },
            Self::Full(_) | Self::Stopped(_) | Self::Failed(_) => self.of_declined(),
        }
    }

    /// The error of a plan of which nothing was in the group.
    pub fn of_declined(&self) -> StoreError {
        match self {
            Self::Sent { cause, full: true } | Self::Full(cause) => StoreError::Full(cause.clone()),
            Self::Sent { cause, full: false } | Self::Failed(cause) => StoreError::Failed(cause.clone()),
            Self::Stopped(cause) => StoreError::Stopped(cause.clone()),
        }
    }
}
