//! The content of one version of a file, ready to be read.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};

use super::error::ContentError;
use super::reader::ContentFile;
use crate::budget::Budget;
use crate::schema::ValueError;
use crate::schema::file::DATA_VERSION;

/// The content of a file, opened for reading.
#[derive(Clone, Debug)]
pub enum Body {
    /// The content itself, without the version byte of its cell.
    Inline(Bytes),
    /// A content file.
    Large(ContentFile),
}

impl Body {
    /// Decodes the value of a content cell.
    pub fn inline(mut cell: Bytes) -> Result<Self, ContentError> {
        let what = "content cell";
        match cell.split_to(cell.len().min(1)).first() {
            Some(&DATA_VERSION) => Ok(Self::Inline(cell)),
            Some(&found) if found > DATA_VERSION => Err(ValueError::Newer { what, found, known: DATA_VERSION }.into()),
            _ => Err(ValueError::Damaged { what }.into()),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Large(file) => file.size(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Streams the bytes `[from, to)`, as far as they exist, in chunks of up to 512 KiB; inline content in one chunk.
    ///
    /// Every byte is checked before the stream yields it. The stream ends after its first error, which follows the good
    /// bytes before it; the caller has to abort the response and log the error. The stream has the last chunk and three
    /// more in memory: about 2 MiB. It reads nothing before it is polled.
    pub fn stream(self, from: u64, to: u64) -> impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static {
        self.stream_within(Budget::unlimited(), from, to)
    }

    /// As [`stream`](Self::stream), with memory of this budget. It reads ahead only as far as the budget allows, and waits
    /// if it cannot get even one buffer. Inline content is in memory already.
    pub fn stream_within(
        self,
        memory: Budget,
        from: u64,
        to: u64,
    ) -> impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static {
        match self {
            Self::Inline(mut bytes) => {
                let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(bytes.len());
                let (from, to) = (at(from), at(to));
                bytes.truncate(to);
                let chunk = bytes.split_off(from.min(to));
                stream::iter((!chunk.is_empty()).then_some(Ok(chunk))).left_stream()
            }
            Self::Large(file) => super::stream::range(file, memory, from, to).right_stream(),
        }
    }
}
