//! Content that is sent only as long as its requester may read it.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::Instant;

use super::error::{DriveError, Result};
use super::namespace::Namespace;
use super::namespace::dir_chain::chains_of;
use super::rights::{Rights, Sight};
use super::settings::{ASK_AGAIN, TRIES};
use crate::auth::Requester;
use crate::budget::Budget;
use crate::content::Body;
use crate::schema::{DirId, DrivePath};

/// The content of one version of a file, and who reads it.
pub struct WatchedContent {
    body: Body,
    watch: Watch,
}

struct Watch {
    ns: Namespace,
    requester: Requester,
    path: DrivePath,
    /// The directory of the file; none for one for whom no right is read.
    dir: Option<DirId>,
}

impl WatchedContent {
    /// `sight`: what the requester has seen at the path.
    pub fn new(ns: &Namespace, requester: &Requester, path: &DrivePath, (sight, body): (&Sight, Body)) -> Self {
        let watch = Watch { ns: ns.clone(), requester: requester.counted(), path: path.clone(), dir: sight.dir() };
        Self { body, watch }
    }

    /// As [`Body::stream`]. After some seconds the requester's right is read again before the next piece.
    ///
    /// Errors: also [`DriveError::Unauthorized`] and
    /// [`DriveError::NotFound`], once he may not read it any more.
    pub fn stream(self, from: u64, to: u64) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        self.stream_within(Budget::unlimited(), from, to)
    }

    /// As [`stream`](Self::stream), with memory of this budget.
    pub fn stream_within(
        self,
        memory: Budget,
        from: u64,
        to: u64,
    ) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        let Self { body, watch } = self;
        let pieces = Box::pin(body.stream_within(memory, from, to));
        stream::try_unfold((pieces, watch, Instant::now()), |(mut pieces, watch, mut asked)| async move {
            if asked.elapsed() >= ASK_AGAIN {
                watch.ask().await?;
                asked = Instant::now();
            }
            let piece = pieces.next().await.transpose()?;
            Ok(piece.map(|piece| (piece, (pieces, watch, asked))))
        })
    }
}

impl Watch {
    /// Whether the requester may still read in the directory, wherever it is by now.
    async fn ask(&self) -> Result<()> {
        let rights = Rights::read(&self.ns, &self.requester).await?;
        let Some(dir) = self.dir else { return Ok(()) };
        for _ in 0..TRIES {
            let epoch = self.ns.live_dirs.now();
            let found = match chains_of(&self.ns, &[dir], DirId::ROOT).await?.first() {
                Some(chain) => rights.read_in(chain).await,
                // It was removed, and no right hangs on it any more: those at its path decide.
                None => rights.read_file(&self.path).await,
            };
            match found {
                // A directory has moved meanwhile: he may read it where it is now.
                Err(DriveError::NotFound) if !self.ns.live_dirs.unchanged_since(epoch) => {}
                found => return found.map(|_read_only| ()),
            }
        }
        Err(DriveError::Contended)
    }
}
