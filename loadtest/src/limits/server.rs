//! The server that limits are measured on: a drive behind the product's own edge, and beside it what is as little as
//! can be: handlers that answer from memory, and loops over the same store without HTTP.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::{Path as Segment, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use prometheus_client::registry::Registry;
use rowdrive::drive::Drive;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::http::{self, Options};
use rowdrive::migrate;
use rowdrive::table::Tables;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::loops::{self, Loop};

/// Bytes of a piece of a stream.
const PIECE: usize = 256 << 10;

/// What the commit thread has done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Commits {
    pub plans: u64,
    pub syncs: u64,
}

/// How long a loop runs, and how many of it at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Asked {
    pub tasks: usize,
    pub ms: u64,
    /// Bytes that it reads or writes, for those that do.
    #[serde(default)]
    pub bytes: u64,
}

#[derive(Clone)]
struct Bare {
    drive: Drive,
    rocks: Arc<Rocks>,
    data: Arc<Path>,
    bytes: Bytes,
}

/// Serves what is in a folder, with so many bytes of memory for its store, on a free port of this machine, which is
/// printed, until its input ends.
pub async fn serve(data: &Path, memory: usize) -> Result<()> {
    let rocks = Arc::new(Rocks::open(&data.join("db"), RocksOptions { memory })?);
    let tables = Tables::new(rocks.clone());
    migrate::up(&tables).await?;
    let drive = Drive::open(tables, &data.join("content")).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    let bytes: Vec<u8> = (0..PIECE).map(|i| ((i * 2_654_435_761) >> 7) as u8).collect();
    let bare = Bare { drive: drive.clone(), rocks: rocks.clone(), data: data.into(), bytes: bytes.into() };
    let mut registry = Registry::default();
    rocks.register(&mut registry);
    drive.register(&mut registry);
    #[expect(clippy::async_yields_async, reason = "what is in flight is cut when the input has ended")]
    let shutdown = async {
        let _ = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await;
        std::future::ready(())
    };
    let service = http::Service::new(drive.clone(), Options::default(), registry).merge(routes(bare));
    service.serve(listener, shutdown).await?;
    drive.close().await;
    rocks.close().await;
    Ok(())
}

fn routes(bare: Bare) -> Router {
    Router::new()
        .route("/limits/bytes/{count}", get(bytes))
        .route("/limits/stream/{count}", get(streamed))
        .route("/limits/discard", put(discard))
        .route("/limits/commits", get(commits))
        .route("/limits/loop/{which}", post(run))
        .with_state(bare)
}

async fn bytes(State(bare): State<Bare>, Segment(count): Segment<usize>) -> Bytes {
    bare.bytes.slice(..count.min(bare.bytes.len()))
}

async fn streamed(State(bare): State<Bare>, Segment(count): Segment<u64>) -> Body {
    let pieces = (0..count.div_ceil(PIECE as u64)).map(move |n| {
        let left = count - n * PIECE as u64;
        Ok::<_, std::convert::Infallible>(bare.bytes.slice(..left.min(PIECE as u64) as usize))
    });
    Body::from_stream(stream::iter(pieces))
}

async fn discard(body: Body) -> Result<StatusCode, StatusCode> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        piece.map_err(|_| StatusCode::BAD_REQUEST)?;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn commits(State(bare): State<Bare>) -> Json<Commits> {
    let all = bare.rocks.commit_stats();
    Json(Commits { plans: all.plans, syncs: all.syncs })
}

async fn run(
    State(bare): State<Bare>,
    Segment(which): Segment<Loop>,
    Query(asked): Query<Asked>,
) -> Result<Json<loops::Speed>, (StatusCode, String)> {
    let told = |error: anyhow::Error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"));
    let done = loops::run(&bare.drive, &bare.data, which, asked).await;
    done.with_context(|| format!("the loop {which:?}")).map(Json).map_err(told)
}
