//! Reads the body of an upload, or the content of a copy, into content that no row names yet.

use std::pin::pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::time::timeout;

use super::Committer;
use super::reserved::Reserved;
use crate::budget::WAIT;
use crate::content::{ContentError, StagedContent, Upload};
use crate::drive::error::{DriveError, PutError, Result};
use crate::schema::file::Digest;

/// Reads a body to its end. No row names the staged content yet. A content file is durable now; content of up to 256 KiB
/// is in memory, and the commit writes it. After an error nothing is left. The whole length is reserved of the user's quota.
pub async fn stage<E>(
    committer: &Committer,
    upload: Upload,
    (length, body): (u64, impl Stream<Item = std::result::Result<Bytes, E>>),
    reserved: &mut Reserved,
) -> std::result::Result<StagedContent, PutError<E>> {
    let upload = read_body(committer, upload, (Some(length), body), reserved).await?;
    Ok(finish(committer, upload, &[]).await?)
}

/// Ends an upload: its content is durable then, unless it is in memory. The content has to have all these digests.
pub(super) async fn finish(committer: &Committer, upload: Upload, digests: &[Digest]) -> Result<StagedContent> {
    let finished = upload.finish().await;
    if let Err(error) = &finished {
        free_deleted_space_if_full(committer, error).await;
    }
    let staged = finished?;
    if digests.iter().any(|digest| *digest != staged.digest) {
        return Err(DriveError::DigestMismatch(staged.digest));
    }
    Ok(staged)
}

/// Reads a body to its end. What it has written may not be durable before [`finish`].
pub(super) async fn read_body<E>(
    committer: &Committer,
    upload: Upload,
    (length, body): (Option<u64>, impl Stream<Item = std::result::Result<Bytes, E>>),
    reserved: &mut Reserved,
) -> std::result::Result<Upload, PutError<E>> {
    let read = read_pieces(upload, length, body, reserved).await;
    if let Err(PutError::Drive(DriveError::Content(error))) = &read {
        free_deleted_space_if_full(committer, error).await;
    }
    read
}

/// If the disk has no space for content, the store begins to free the space of deleted cells, those of small files. This
/// upload fails, and a later one may fit.
async fn free_deleted_space_if_full(committer: &Committer, error: &ContentError) {
    if let ContentError::Full(_) = error {
        committer.namespace.tables.free_deleted_space().await;
    }
}

async fn read_pieces<E>(
    mut upload: Upload,
    length: Option<u64>,
    body: impl Stream<Item = std::result::Result<Bytes, E>>,
    reserved: &mut Reserved,
) -> std::result::Result<Upload, PutError<E>> {
    if upload.is_crowded() {
        return Err(DriveError::NoMemory.into());
    }
    timeout(WAIT, upload.reserve(length)).await.map_err(|_| DriveError::NoMemory)??;
    let mut body = pin!(body);
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(PutError::Body)?;
        reserved.grow(piece.len()).await?;
        timeout(WAIT, upload.grow(piece.len())).await.map_err(|_| DriveError::NoMemory)?;
        upload.write(piece).await?;
    }
    Ok(upload)
}
