//! Bodies of uploads that are read only as long as what they bring may be stored.

use axum::body::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::api::problem::ProblemKind;
use crate::drive::settings::ASK_AGAIN;
use crate::drive::{Result as DriveResult, UserDrive};
use crate::http::response::problem::{Problem, Result};
use crate::schema::DrivePath;

/// The pieces of an upload, as long as its requester may store it. `ask` asks the drive. It is asked again after some
/// seconds, also while the client sends nothing.
///
/// The stream ends with [`ProblemKind::Unauthorized`], [`ProblemKind::Forbidden`] or [`ProblemKind::NotFound`] once the
/// requester may not. What else the drive says, such as that it is busy, the commit decides.
pub fn while_allowed<F>(
    pieces: impl Stream<Item = Result<Bytes>> + Send,
    ask: impl Fn() -> F + Send,
) -> impl Stream<Item = Result<Bytes>> + Send
where
    F: Future<Output = DriveResult<()>> + Send,
{
    let start = (Box::pin(pieces), ask, Instant::now());
    stream::try_unfold(start, |(mut pieces, ask, mut asked)| async move {
        loop {
            if asked.elapsed() >= ASK_AGAIN {
                refusal(ask().await)?;
                asked = Instant::now();
            }
            // The piece that comes after the time is not lost: it is waited for again.
            if let Ok(piece) = timeout_at(asked + ASK_AGAIN, pieces.next()).await {
                return Ok(piece.transpose()?.map(|piece| (piece, (pieces, ask, asked))));
            }
        }
    })
}

/// As [`while_allowed`], of what is stored below a directory.
pub fn while_writable_below<S: Stream<Item = Result<Bytes>> + Send>(
    pieces: S,
    drive: &UserDrive,
    path: &DrivePath,
) -> impl Stream<Item = Result<Bytes>> + Send + use<S> {
    let (drive, path) = (drive.clone(), path.clone());
    while_allowed(pieces, move || {
        let (drive, path) = (drive.clone(), path.clone());
        async move { drive.check_below(&path).await }
    })
}

fn refusal(asked: DriveResult<()>) -> Result<()> {
    let Some(problem) = asked.err().map(Problem::from) else { return Ok(()) };
    match problem.kind() {
        ProblemKind::Unauthorized | ProblemKind::Forbidden | ProblemKind::NotFound => Err(problem),
        _ => Ok(()),
    }
}
