//! Bodies that are too large to hold: sent and received piece by piece.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use reqwest::Body;
use reqwest::header::CONTENT_LENGTH;

use super::child::Server;

const PIECE: u64 = 256 << 10;

/// Sends so many bytes; bytes a second until they are acknowledged.
pub async fn send(server: &Server, target: &str, bytes: u64) -> Result<f64> {
    let piece = Bytes::from(vec![7; PIECE as usize]);
    let pieces = (0..bytes.div_ceil(PIECE)).map(move |n| {
        let left = bytes - n * PIECE;
        Ok::<_, std::convert::Infallible>(piece.slice(..left.min(PIECE) as usize))
    });
    let start = Instant::now();
    let body = Body::wrap_stream(stream::iter(pieces));
    let answer = server.client().put(server.url(target)).header(CONTENT_LENGTH, bytes).body(body).send().await?;
    ensure!(answer.status().is_success(), "{target}: {}", answer.status());
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// Receives a body of so many bytes; bytes a second.
pub async fn receive(server: &Server, target: &str, bytes: u64) -> Result<f64> {
    let start = Instant::now();
    let answer = server.client().get(server.url(target)).send().await?.error_for_status()?;
    let mut pieces = answer.bytes_stream();
    let mut received = 0;
    while let Some(piece) = pieces.next().await {
        received += piece.with_context(|| format!("{target} broke off"))?.len() as u64;
    }
    ensure!(received == bytes, "{target}: {received} of {bytes} bytes came");
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}
