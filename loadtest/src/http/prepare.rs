//! Uploads the tree that requests go to, and removes everything again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request, StatusCode};
use indicatif::HumanBytes;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::base::{Base, refusal};
use super::client::Connection;
use super::mixes::{AS_LOADTEST, CREATOR};
use super::shape::{ROOT, Shape};
use super::{Progress, stopping};

/// Uploads at a time.
const AT_A_TIME: usize = 16;

/// How long the answer to an upload may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server refuses an upload whose name is taken before it has read the body, and closes the connection then if
/// much of it is on its way: the answer may be lost. Larger ones are asked for first.
const ASKED_FIRST: u32 = 64 << 10;

const MODIFIED: HeaderName = HeaderName::from_static("x-oc-mtime");

/// What was done so that a tree is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    pub uploaded: usize,
    /// Files that an earlier run had left.
    pub already: usize,
    /// It was ended early: the tree is not whole.
    pub interrupted: bool,
}

/// Uploads the files of `shape` that are not there yet. It touches nothing that is.
///
/// # Errors
///
/// If the server's `/loadtest` is somebody else's, or it refuses an upload.
pub async fn prepare(base: &Base, shape: &Arc<Shape>, progress: &Progress) -> anyhow::Result<Prepared> {
    claim(base).await?;
    let bar = &progress.bar;
    bar.set_length(shape.files.len() as u64);
    bar.set_position(0);
    bar.set_message(format!("uploading the tree, {}", HumanBytes(shape.bytes())));
    let (next, uploaded, already) = (Arc::new(AtomicUsize::new(0)), counter(), counter());
    let mut workers = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (base, shape, bar) = (base.clone(), Arc::clone(shape), bar.clone());
        let (next, uploaded, already) = (next.clone(), uploaded.clone(), already.clone());
        workers.spawn(async move {
            let mut connection = Connection::new(base.address);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= shape.files.len() {
                    return anyhow::Ok(());
                }
                let new = store(&mut connection, &base, &shape, at).await?;
                if new { &uploaded } else { &already }.fetch_add(1, Ordering::Relaxed);
                bar.inc(1);
            }
        });
    }
    let all = async {
        while let Some(done) = workers.join_next().await {
            done??;
        }
        anyhow::Ok(())
    };
    let interrupted = tokio::select! {
        done = all => done.map(|()| false)?,
        () = stopping(progress.stop.clone()) => true,
    };
    Ok(Prepared { uploaded: uploaded.load(Ordering::Relaxed), already: already.load(Ordering::Relaxed), interrupted })
}

fn counter() -> Arc<AtomicUsize> {
    Arc::default()
}

/// Removes everything that load tests have stored; false if there is nothing.
///
/// # Errors
///
/// If the server's `/loadtest` is somebody else's, or it refuses.
pub async fn clean_up(base: &Base) -> anyhow::Result<bool> {
    let mut connection = Connection::new(base.address);
    let stat = base.request(Method::GET, format!("/v1/stat{ROOT}"), Bytes::new());
    let (status, text) = connection.ask(stat).await.with_context(|| format!("asking {base} for {ROOT}"))?;
    match status {
        StatusCode::NOT_FOUND => return Ok(false),
        StatusCode::OK => own(base, &text)?,
        _ => bail!("{base} does not tell of {ROOT}: {}", refusal(status, &text)),
    }
    let delete = base.request(Method::DELETE, format!("/v1/fs{ROOT}/?recursive=true"), Bytes::new());
    let (status, text) = connection.ask(delete).await.with_context(|| format!("deleting {ROOT} on {base}"))?;
    ensure!(status == StatusCode::NO_CONTENT, "{base} does not delete {ROOT}: {}", refusal(status, &text));
    Ok(true)
}

/// Makes the folder that holds everything, or finds it.
async fn claim(base: &Base) -> anyhow::Result<()> {
    let mut put = base.request(Method::PUT, format!("/v1/fs{ROOT}/"), Bytes::new());
    put.headers_mut().insert(AUTHORIZATION, AS_LOADTEST);
    let (status, text) = Connection::new(base.address).ask(put).await.with_context(|| format!("asking {base}"))?;
    ensure!(status.is_success(), "{base} does not make {ROOT}: {}", refusal(status, &text));
    own(base, &text)
}

#[derive(Deserialize)]
struct Entry {
    creator: String,
}

/// Whether the folder was made by a load test.
fn own(base: &Base, entry: &str) -> anyhow::Result<()> {
    let Entry { creator } = serde_json::from_str(entry).with_context(|| format!("{base} answers with no entry"))?;
    ensure!(
        creator == CREATOR,
        "{ROOT} on {base} was not made by a load test, but by {creator}: rename it, or use an empty drive"
    );
    Ok(())
}

/// Whether the file is stored now; it was there if not.
async fn store(connection: &mut Connection, base: &Base, shape: &Shape, at: usize) -> anyhow::Result<bool> {
    let Some(file) = shape.files.get(at) else { return Ok(false) };
    let path = shape.path(at);
    let target = format!("/v1/fs{path}");
    if file.size > ASKED_FIRST {
        let head = base.request(Method::HEAD, target.clone(), Bytes::new());
        if ask(connection, head, &path).await?.0 == StatusCode::OK {
            return Ok(false);
        }
    }
    let mut put = base.request(Method::PUT, target, shape.content(at as u64, file.size));
    let headers = put.headers_mut();
    headers.insert(AUTHORIZATION, AS_LOADTEST);
    headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    headers.insert(MODIFIED, HeaderValue::from(file.modified));
    let (status, text) = ask(connection, put, &path).await?;
    match status {
        StatusCode::CREATED => Ok(true),
        StatusCode::PRECONDITION_FAILED => Ok(false),
        _ => bail!("{base} refuses the upload of {path}: {}", refusal(status, &text)),
    }
}

async fn ask(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
    path: &str,
) -> anyhow::Result<(StatusCode, String)> {
    let answer = tokio::time::timeout(PATIENCE, connection.ask(request)).await;
    let answer = answer.with_context(|| format!("no answer within {} s to {path}", PATIENCE.as_secs()))?;
    answer.with_context(|| format!("uploading {path}: is the server still there?"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use tokio::sync::watch;

    use super::*;
    use crate::http::test_server::{TestServer, answer, rowdrive};

    fn progress() -> Progress {
        Progress::new(watch::channel(false).1)
    }

    /// Keeps the names of files, and refuses them the second time.
    async fn keeper() -> TestServer {
        let names = Arc::new(Mutex::new(BTreeSet::new()));
        TestServer::start(move |method, target| {
            let names = names.clone();
            async move {
                if let Some(known) = rowdrive(&method, &target) {
                    return known;
                }
                let mut names = names.lock().unwrap();
                match method {
                    Method::HEAD => answer(if names.contains(&target) { 200 } else { 404 }, ""),
                    _ if names.insert(target) => answer(201, "{}"),
                    _ => answer(412, ""),
                }
            }
        })
        .await
    }

    #[tokio::test]
    async fn a_tree_is_uploaded_once() {
        let server = keeper().await;
        let base = Base::at(server.address);
        let shape = Arc::new(Shape::new(1, 300).unwrap());
        let first = prepare(&base, &shape, &progress()).await.unwrap();
        assert_eq!(first, Prepared { uploaded: 300, already: 0, interrupted: false });
        let second = prepare(&base, &shape, &progress()).await.unwrap();
        assert_eq!(second, Prepared { uploaded: 0, already: 300, interrupted: false });
    }

    #[tokio::test]
    async fn a_full_disk_ends_it_before_anything_is_measured() {
        let full = r#"{"type":"/problems/disk-full","status":507,"detail":"The disk is full."}"#;
        let server = TestServer::start(move |method, target| async move {
            rowdrive(&method, &target).unwrap_or_else(|| answer(507, full))
        })
        .await;
        let shape = Arc::new(Shape::new(1, 100).unwrap());
        let error = prepare(&Base::at(server.address), &shape, &progress()).await.unwrap_err().to_string();
        assert!(
            error.contains("refuses the upload of /loadtest/tree-1-100/") && error.ends_with("507: The disk is full.")
        );
    }

    #[tokio::test]
    async fn a_folder_of_somebody_else_is_left_alone() {
        let deleted = Arc::new(AtomicUsize::new(0));
        let counting = deleted.clone();
        let server = TestServer::start(move |method, _| {
            let deleted = counting.clone();
            async move {
                if method == Method::DELETE {
                    deleted.fetch_add(1, Ordering::Relaxed);
                    return answer(204, "");
                }
                answer(200, r#"{"path":"/loadtest","kind":"directory","creator":"tom"}"#)
            }
        })
        .await;
        let base = Base::at(server.address);
        let shape = Arc::new(Shape::new(1, 100).unwrap());
        for error in [prepare(&base, &shape, &progress()).await.unwrap_err(), clean_up(&base).await.unwrap_err()] {
            assert!(error.to_string().contains("was not made by a load test, but by tom"), "{error:#}");
        }
        assert_eq!(deleted.load(Ordering::Relaxed), 0);
    }
}
