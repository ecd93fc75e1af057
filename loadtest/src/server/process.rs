//! The measured server in its own process: a drive behind the product's own edge, and beside it the least that a server
//! can do: handlers that answer from memory, and the loops over the same store without HTTP.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::{Path as Segment, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use prometheus_client::registry::Registry;
use rowdrive::drive::Drive;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::http::{Options, Service};
use rowdrive::migrate;
use rowdrive::table::Tables;
use tokio::net::TcpListener;

use super::loops::{self, Asked, Speed};

/// Bytes of a piece of a stream.
const PIECE: usize = 256 << 10;

/// A server on a folder; it ends when this is dropped.
pub struct Server {
    child: Child,
    /// As `127.0.0.1:40000`.
    address: String,
}

impl Server {
    /// Waits until it answers.
    pub fn start(data: &Path, memory: usize) -> Result<Self> {
        // This very program, even if a build has put another in its place meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg("server").arg("--data").arg(data).arg("--memory").arg(memory.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no server")?;
        let mut address = String::new();
        let out = child.stdout.take().context("the server has no output")?;
        BufReader::new(out).read_line(&mut address)?;
        if address.is_empty() {
            anyhow::bail!("the server did not start: {}", child.wait()?);
        }
        Ok(Self { child, address: address.trim().to_owned() })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server stops at the end of its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Serves a folder on a free port of this machine, which is printed, until its input ends. `memory`: bytes of the store.
pub async fn serve(data: &Path, memory: usize) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    #[expect(clippy::async_yields_async, reason = "what is in flight is cut when the input has ended")]
    let shutdown = async move {
        // The drive is open when this is polled.
        let _ = writeln!(std::io::stdout(), "{address}");
        let _ = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await;
        std::future::ready(())
    };
    listen(listener, data, memory, shutdown).await
}

/// Serves until `shutdown` ends.
pub async fn listen<F>(
    listener: TcpListener,
    data: &Path,
    memory: usize,
    shutdown: impl Future<Output = F> + Send,
) -> Result<()>
where
    F: Future<Output = ()> + Send,
{
    let rocks = Arc::new(Rocks::open(&data.join("db"), RocksOptions { memory })?);
    let tables = Tables::new(rocks.clone());
    migrate::up(&tables).await?;
    let drive = Drive::open(tables, &data.join("content")).await?;
    let bytes: Vec<u8> = (0..PIECE).map(|i| ((i * 2_654_435_761) >> 7) as u8).collect();
    let bare = Bare { drive: drive.clone(), rocks: rocks.clone(), data: data.into(), bytes: bytes.into() };
    let mut registry = Registry::default();
    rocks.register(&mut registry);
    drive.register(&mut registry);
    let routes = Router::new()
        .route("/limits/bytes/{count}", get(bytes_of))
        .route("/limits/discard", put(discard))
        .route("/limits/commits", get(commits))
        .route("/limits/loop", post(run))
        .with_state(bare);
    Service::new(drive.clone(), Options::default(), registry).merge(routes).serve(listener, shutdown).await?;
    drive.close().await;
    rocks.close().await;
    Ok(())
}

/// What the bare handlers have.
#[derive(Clone)]
struct Bare {
    drive: Drive,
    rocks: Arc<Rocks>,
    data: Arc<Path>,
    bytes: Bytes,
}

/// So many bytes of memory, streamed if they are many.
async fn bytes_of(State(bare): State<Bare>, Segment(count): Segment<usize>) -> Body {
    match count {
        0..=PIECE => bare.bytes.slice(..count).into(),
        _ => Body::from_stream(pieces(bare.bytes, count as u64)),
    }
}

/// So many bytes, piece by piece.
pub fn pieces(piece: Bytes, count: u64) -> impl Stream<Item = std::io::Result<Bytes>> {
    let size = piece.len() as u64;
    let left = (0..count.div_ceil(size.max(1))).map(move |n| (count - n * size).min(size));
    stream::iter(left.map(move |length| Ok(piece.slice(..length as usize))))
}

async fn discard(body: Body) -> Result<StatusCode, StatusCode> {
    body.into_data_stream().try_for_each(async |_| Ok(())).await.map_err(|_| StatusCode::BAD_REQUEST)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Plans that the commit thread has evaluated, and its syncs.
async fn commits(State(bare): State<Bare>) -> Json<[u64; 2]> {
    let all = bare.rocks.commit_stats();
    Json([all.plans, all.syncs])
}

async fn run(State(bare): State<Bare>, Json(asked): Json<Asked>) -> Result<Json<Speed>, (StatusCode, String)> {
    let done = loops::run(&bare.drive, &bare.data, asked).await.with_context(|| format!("the loop {asked:?}"));
    done.map(Json).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")))
}
