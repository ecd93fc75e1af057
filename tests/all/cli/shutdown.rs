//! How a signal stops the server: it finishes the requests in flight and keeps acknowledged writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{import, tree};
use crate::server::{Server, terminate};

/// Much longer than a shutdown may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a client knows of a path: the last answer, and the requests since then that got no answer.
#[derive(Default)]
struct Written {
    acknowledged: BTreeMap<usize, Option<Vec<u8>>>,
    open: BTreeMap<usize, Option<Vec<u8>>>,
}

fn content(seed: usize, len: usize) -> Vec<u8> {
    tree::bytes(len, seed as u32)
}

/// Writes and deletes the client's own paths, one after the other, until the server has ended.
async fn write(url: String, seed: u64, ending: Arc<AtomicBool>) -> Written {
    let (client, mut rng, mut written) = (Client::new(), StdRng::seed_from_u64(seed), Written::default());
    loop {
        let path = rng.random_range(0..8);
        let large = rng.random_bool(0.2);
        let len = if large { rng.random_range(262_145..600_000) } else { rng.random_range(0..5_000) };
        let body = rng.random_bool(0.8).then(|| content(rng.random_range(0..1_000_000), len));
        let request = match &body {
            Some(body) => client.put(format!("{url}{seed}/{path}")).body(body.clone()),
            None => client.delete(format!("{url}{seed}/{path}")),
        };
        match request.send().await {
            Ok(answer) if answer.status().is_success() || answer.status() == StatusCode::NOT_FOUND => {
                written.acknowledged.insert(path, body);
            }
            // The server refused the request, and did not execute it.
            Ok(answer) if ending.load(SeqCst) && answer.status() == StatusCode::SERVICE_UNAVAILABLE => return written,
            Ok(answer) => panic!("{}", answer.status()),
            Err(error) => {
                assert!(ending.load(SeqCst), "{error}");
                written.open.insert(path, body);
                return written;
            }
        }
    }
}

/// An upload with its head and half of its body sent.
async fn half_sent(address: &str, path: &str, body: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&body[..body.len() / 2]).await.unwrap();
    socket
}

/// Waits until the server accepts no more connections.
async fn refuses(address: &str) {
    while TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn get(server: &Server, path: &str) -> Option<Vec<u8>> {
    let answer = reqwest::get(server.url(path)).await.unwrap();
    match answer.status() {
        StatusCode::OK => Some(answer.bytes().await.unwrap().to_vec()),
        status => {
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
            None
        }
    }
}

/// Stops a server under load, and starts it again.
async fn drain(server: Server, round: u64, rng: &mut StdRng) -> Server {
    let ending = Arc::new(AtomicBool::new(false));
    let url = server.url(&format!("/v1/fs/{round}/"));
    let writers: Vec<_> = (0..4).map(|n| tokio::spawn(write(url.clone(), n, ending.clone()))).collect();
    // One small file, and one with a content file.
    let bodies = [content(1, 1_000), content(2, 1_000_000)];
    let mut halves = Vec::new();
    for (n, body) in bodies.iter().enumerate() {
        halves.push(half_sent(&server.address, &format!("/v1/fs/{round}/half {n}").replace(' ', "%20"), body).await);
    }
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..150))).await;
    // A request is in flight once its head was sent: every writer has had an answer since then, or is about to get one.
    ending.store(true, SeqCst);
    let (address, data) = (server.address.clone(), server.data.clone());
    terminate(server.id());
    refuses(&address).await;
    for (mut socket, body) in halves.into_iter().zip(&bodies) {
        socket.write_all(&body[body.len() / 2..]).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    let ended = tokio::task::spawn_blocking(move || server.wait());
    assert_eq!(tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap(), Some(0));

    let server = Server::start_on(&data, &[]);
    for (n, body) in bodies.iter().enumerate() {
        assert!(get(&server, &format!("/v1/fs/{round}/half%20{n}")).await.as_ref() == Some(body));
    }
    for (n, writer) in writers.into_iter().enumerate() {
        let written = writer.await.unwrap();
        for (path, expected) in &written.acknowledged {
            let found = get(&server, &format!("/v1/fs/{round}/{n}/{path}")).await;
            let open = written.open.get(path);
            assert!(found == *expected || open == Some(&found), "{round}/{n}/{path}: an acknowledged write is lost");
        }
    }
    server
}

async fn drains(rounds: u64) {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let scratch = tempfile::tempdir().unwrap();
    let mut server = Server::start_on(&scratch.path().join("data"), &[]);
    for round in 0..rounds {
        server = drain(server, round, &mut rng).await;
    }
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_finishes_requests_and_keeps_acknowledged_writes() {
    drains(10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the long form: run it before a release"]
async fn sigterm_finishes_requests_and_keeps_acknowledged_writes_200_times() {
    drains(200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_requests_in_flight_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::start_on(&scratch.path().join("data"), &[]);
    let stored = Client::new().put(server.url("/v1/fs/kept")).body("kept").send().await.unwrap();
    assert_eq!(stored.status(), StatusCode::CREATED);
    let body = content(1, 1_000_000);
    let mut waiting = half_sent(&server.address, "/v1/fs/half", &body).await;
    let (address, data) = (server.address.clone(), server.data.clone());
    terminate(server.id());
    refuses(&address).await;
    terminate(server.id());
    let ended = tokio::task::spawn_blocking(move || server.wait());
    assert_eq!(tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap(), Some(0));
    let mut answer = Vec::new();
    let _ = waiting.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "it was never whole");
    let server = Server::start_on(&data, &[]);
    assert_eq!(get(&server, "/v1/fs/kept").await.as_deref(), Some(&b"kept"[..]));
    assert_eq!(get(&server, "/v1/fs/half").await, None);
}

/// From now on every sync of a running process takes so many seconds.
struct SlowDisk(Child);

impl SlowDisk {
    async fn below(server: &Server, seconds: u32) -> Self {
        let inject = format!("inject=fdatasync:delay_enter={seconds}000000");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject, "-p"]);
        let child = strace.arg(server.id().to_string()).stderr(Stdio::null()).spawn().unwrap();
        let traced = |pid| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        while traced(server.id()).contains("TracerPid:\t0\n") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self(child)
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stops a server on a slow disk during the clean-up after a delete, which takes more than twenty syncs.
async fn end_amid_clean_up(signals: usize) {
    let scratch = tempfile::tempdir().unwrap();
    let (from, data) = (scratch.path().join("from"), scratch.path().join("data"));
    tree::many(&from, 2_500);
    let server = Server::start_on(&data, &[]);
    import(&server.address, &from, "/many").is_done();
    let slow = SlowDisk::below(&server, 5).await;
    let deleted = Client::new().delete(server.url("/v1/fs/many/?recursive=true")).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let address = server.address.clone();
    for _ in 0..signals {
        terminate(server.id());
        refuses(&address).await;
    }
    let ended = tokio::task::spawn_blocking(move || server.wait());
    assert_eq!(tokio::time::timeout(PATIENCE / 2, ended).await.expect("it ends").unwrap(), Some(0));
    drop(slow);
    check_after_clean_up(&data).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_write_that_hangs() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &[]);
    let slow = SlowDisk::below(&server, 600).await;
    let put = tokio::spawn(Client::new().put(server.url("/v1/fs/hung")).body("hung").send());
    // Long enough for it to be in the sync; nothing here fails if it is not.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let address = server.address.clone();
    for _ in 0..2 {
        terminate(server.id());
        refuses(&address).await;
    }
    server.first_thread_ends().await;
    drop(slow);
    assert_eq!(tokio::task::spawn_blocking(move || server.wait()).await.unwrap(), Some(0));
    assert!(put.await.unwrap().is_err(), "it was never durable");
    let server = Server::start_on(&data, &[]);
    let stored = get(&server, "/v1/fs/hung").await;
    assert!(stored.is_none_or(|content| content == b"hung"));
}

/// Asserts that the next start completes the clean-up.
async fn check_after_clean_up(data: &Path) {
    let server = Server::start_on(data, &[]);
    assert_eq!(reqwest::get(server.url("/v1/fs/many/")).await.unwrap().status(), StatusCode::NOT_FOUND);
    let finishing = r#"rowdrive_drive_operations{stage="finishing"} 0"#;
    while !reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap().contains(finishing) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.terminate(), Some(0));
    let check = Command::new(env!("CARGO_BIN_EXE_rowdrive")).args(["check", "--data"]).arg(data).output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{check:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_clean_up_does_not_delay_shutdown() {
    end_amid_clean_up(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_takes_effect_while_the_store_closes() {
    end_amid_clean_up(2).await;
}
