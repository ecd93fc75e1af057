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
    /// Of the value of a content cell.
    pub fn inline(mut cell: Bytes) -> Result<Self, ContentError> {
        let what = "content cell";
        match cell.split_to(cell.len().min(1)).first() {
            Some(&DATA_VERSION) => Ok(Self::Inline(cell)),
            Some(&found) if found > DATA_VERSION => Err(ValueError::Newer { what, found, known: DATA_VERSION }.into()),
            _ => Err(ValueError::Damaged { what }.into()),
        }
    }

    /// Bytes.
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

    /// Bytes `[from, to)` as far as there are any, in chunks of up to 512 KiB, or one if it is inline.
    ///
    /// Every byte was checked before it is given. The stream ends after its first error, which comes when the
    /// good bytes before it were given; whoever sends them on has to break off the answer and log it. It holds
    /// the chunk given last and three more read ahead: about 2 MiB. Nothing is read before it is polled.
    pub fn stream(self, from: u64, to: u64) -> impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static {
        self.stream_within(Budget::unlimited(), from, to)
    }

    /// As [`stream`](Self::stream), with the memory of this budget: it reads ahead only as far as there is some, and
    /// waits if there is none at all. What is inline is in memory already.
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
