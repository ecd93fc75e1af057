//! Why content could not be read or written. Each variant is named by what the caller can do.

use std::io;

use crate::schema::{FileId, ValueError};

/// Why content could not be read or written.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The file was overwritten or removed meanwhile: read its entry again.
    #[error("the content of file {0} is gone")]
    Gone(FileId),
    /// The content file is not as it was written; `what` names its path and what is wrong with it.
    #[error("the content of file {id} is damaged: {what}")]
    Damaged { id: FileId, what: String },
    /// The cell of inline content is damaged, or of a newer version.
    #[error(transparent)]
    Cell(#[from] ValueError),
    /// The disk is full, or a quota is used up; nothing of the upload is left.
    #[error("the disk is full: {0}")]
    Full(#[source] io::Error),
    #[error("content could not be read or written: {0}")]
    Io(#[source] io::Error),
    /// A sync failed, or the folder is open for reading only: nothing more is written until a restart.
    #[error("content takes no more writes until a restart: {0}")]
    Stopped(String),
    /// Larger than [`LARGEST`](super::LARGEST), or than the file system allows for one file.
    #[error("the file is larger than this drive can hold")]
    TooLarge,
}

impl From<io::Error> for ContentError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(error),
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_full_disk_and_an_exhausted_quota_are_full() {
        let converted = |e: Errno| ContentError::from(io::Error::from(e));
        assert!(matches!(converted(Errno::NOSPC), ContentError::Full(_)));
        assert!(matches!(converted(Errno::DQUOT), ContentError::Full(_)));
        assert!(matches!(converted(Errno::FBIG), ContentError::TooLarge));
        assert!(matches!(converted(Errno::IO), ContentError::Io(_)));
    }
}
