//! Memory is bounded whatever clients do: many clients that stall in both directions, and active clients among them.
//! `ROWDRIVE_STALLED` sets the number of stalled clients in each direction, for longer runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::test_app::bytes;
use crate::faults::number;
use crate::server::Server;

const LONG: Duration = Duration::from_secs(90);
const MIB: u64 = 1 << 20;
/// Stalled clients in each direction by default. Their sockets need file descriptors here and in the server.
const STALLED: usize = 250;
/// The value of `--memory`, in MiB.
const MEMORY: u64 = 32;
/// The limit of the process: `--memory`, and its fixed overhead.
const BOUND: u64 = (MEMORY + 80) * MIB;
/// In addition, if clients make the store write and compact all the time.
const STORE: u64 = 96 * MIB;
/// In addition for each connection.
const EACH: u64 = 24 * 1024;
/// The least number of file descriptors: other tests in this process need some too.
const HANDLES: usize = 16_000;

/// The resident memory of the process in bytes.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A client with small socket buffers.
async fn narrow(server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(server.address.parse().unwrap()).await.unwrap()
}

/// Repeats the request until the answer is not 503.
async fn patient(ask: impl AsyncFn() -> reqwest::Response) -> reqwest::Response {
    let begun = Instant::now();
    loop {
        let answer = ask().await;
        if answer.status() != 503 {
            return answer;
        }
        assert!(answer.headers().contains_key("retry-after"));
        assert!(begun.elapsed() < LONG, "an honest client is not served");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn honest(client: &Client, server: &Server, content: &[u8], round: usize) {
    let small = patient(async || client.get(server.url("/v1/fs/small")).send().await.unwrap()).await;
    assert_eq!(small.bytes().await.unwrap(), "small");
    let put = async || {
        let body = content.to_vec();
        client.put(server.url(&format!("/v1/fs/round/{round}"))).body(body).send().await.unwrap()
    };
    assert_eq!(patient(put).await.status(), 201);
    let got = patient(async || client.get(server.url(&format!("/v1/fs/round/{round}"))).send().await.unwrap()).await;
    assert!(got.bytes().await.unwrap() == content);
    let page = patient(async || client.get(server.url("/v1/files?limit=1000")).send().await.unwrap()).await;
    assert_eq!(page.status(), 200);
}

/// A server process with file descriptors for all clients: `prlimit` raises the limit for it and for this process.
fn serve(data: &std::path::Path, stalled: usize, memory: u64) -> Server {
    // A third of the descriptors is for the store; of the rest, each connection needs two.
    let files = (8 * stalled).max(HANDLES).to_string();
    let raised = std::process::Command::new("prlimit")
        .args([&format!("--pid={}", std::process::id()), &format!("--nofile={files}:{files}")])
        .status();
    assert!(raised.is_ok_and(|done| done.success()), "prlimit (util-linux) raises the limit of open files to {files}");
    Server::start_on(
        data,
        &[
            "--memory",
            &format!("{memory}MiB"),
            "--connections",
            &(2 * stalled + 100).to_string(),
            "--connections-per-address",
            &(2 * stalled + 100).to_string(),
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_with_many_stalled_clients() {
    let clients = number("ROWDRIVE_STALLED").map_or(STALLED, |number| number as usize);
    // Each connection needs 64 KiB of it, and some are of those that are not stalled.
    let memory = MEMORY.max((2 * clients as u64 + 12).div_ceil(16));
    let bound = BOUND + (memory - MEMORY) * MIB + 2 * clients as u64 * EACH;
    let scratch = tempfile::tempdir().unwrap();
    let server = serve(&scratch.path().join("data"), clients, memory);
    let client = Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let content = bytes(3_000_000);
    for (name, body) in [("large", bytes(30_000_000)), ("small", b"small".to_vec())] {
        let put = client.put(server.url(&format!("/v1/fs/{name}"))).body(body).send().await.unwrap();
        assert_eq!(put.status(), 201);
    }
    let mut stalled = Vec::new();
    let mut most = 0;
    for n in 0..clients {
        let mut reader = narrow(&server).await;
        reader.write_all(b"GET /v1/fs/large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut writer = TcpStream::connect(&server.address).await.unwrap();
        let head = format!("PUT /v1/fs/stalled/{n} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
        writer.write_all(head.as_bytes()).await.unwrap();
        // As many bytes as the socket buffers take at once.
        let _some = writer.try_write(&content[..200_000]);
        stalled.extend([reader, writer]);
        most = most.max(resident(&server));
    }
    for round in 0..3 {
        honest(&client, &server, &content, round).await;
        most = most.max(resident(&server));
    }
    assert!(most < bound, "{} MiB of {} MiB", most / MIB, bound / MIB);
    println!("at most {} MiB of {} MiB with {clients} clients in each direction", most / MIB, bound / MIB);
    // The clients have disconnected, and all their memory is free again.
    drop(stalled);
    let begun = Instant::now();
    loop {
        let metrics_text = client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let of = |name: &str| {
            metrics_text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap()
        };
        if of("rowdrive_buffers_used_bytes ") == 0 && of("rowdrive_buffers_waiting ") == 0 {
            assert!(of("rowdrive_buffers_waited_total ") > 0, "no copy had to wait");
            break;
        }
        assert!(begun.elapsed() < LONG, "{metrics_text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    honest(&client, &server, &content, 3).await;
}

/// The peak memory of the process since `begin`.
struct MemoryPeak(tokio::task::JoinHandle<()>, Arc<AtomicU64>);

impl MemoryPeak {
    fn begin(server: &Arc<Server>) -> Self {
        let (server, most) = (server.clone(), Arc::new(AtomicU64::new(0)));
        let seen = most.clone();
        let watching = async move {
            loop {
                seen.fetch_max(resident(&server), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        Self(tokio::spawn(watching), most)
    }

    fn end(self) -> u64 {
        self.0.abort();
        self.1.load(Ordering::Relaxed)
    }
}

/// Half of the requests copy a folder with more files than fit in memory, the other half a single file of it.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_with_many_copies_and_all_are_answered() {
    const COPIES: usize = 200;
    const FILES: usize = 32;
    let scratch = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::start_on(&scratch.path().join("data"), &["--memory", &format!("{MEMORY}MiB")]));
    let client = Client::new();
    for n in 0..FILES {
        let put = async || client.put(server.url(&format!("/v1/fs/from/{n}"))).body(bytes(256 << 10)).send().await;
        assert_eq!(patient(async || put().await.unwrap()).await.status(), 201);
    }
    let copy = async |from: String, to: String| {
        let asked = serde_json::json!({ "from": from, "to": to });
        client.post(server.url("/v1/copy")).json(&asked).send().await.unwrap()
    };
    let watch = MemoryPeak::begin(&server);
    let all = (0..COPIES).map(|n| {
        let from = if n % 2 == 0 { "/from".to_owned() } else { format!("/from/{}", n % FILES) };
        let answer = copy(from, format!("/to{n}"));
        async move { timeout(LONG, answer).await.expect("every copy is answered") }
    });
    let answers = futures_util::future::join_all(all).await;
    let most = watch.end();
    for answer in &answers {
        let refused = answer.status() == 503 && answer.headers().contains_key("retry-after");
        assert!(answer.status() == 201 || refused, "{answer:?}");
    }
    let made = answers.iter().filter(|answer| answer.status() == 201).count();
    let bound = BOUND + STORE + COPIES as u64 * EACH;
    println!("at most {} MiB of {} MiB, {made} of {COPIES} copies made", most / MIB, bound / MIB);
    assert!(most < bound, "{} MiB of {} MiB", most / MIB, bound / MIB);
    assert!(made > 0);
    // All permits were released: another request gets its full share.
    let whole = copy("/from".to_owned(), "/whole".to_owned()).await;
    assert_eq!(whole.status(), 201);
    let whole: serde_json::Value = whole.json().await.unwrap();
    assert_eq!(whole["copied"]["files"], FILES);
    let metrics_text = client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics_text.contains("\nrowdrive_buffers_used_bytes 0\n"), "{metrics_text}");
}

/// They are slow, but faster than the minimum rate of a body.
#[tokio::test(flavor = "multi_thread")]
async fn slow_uploads_release_their_memory_to_waiting_ones() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::start_on(&scratch.path().join("data"), &["--memory", "32MiB"]);
    let client = Client::new();
    let content = bytes(1 << 20);
    let put = client.put(server.url("/v1/fs/small")).body("small").send().await.unwrap();
    assert_eq!(put.status(), 201);
    let mut slow = Vec::new();
    for n in 0..20 {
        let mut upload = TcpStream::connect(&server.address).await.unwrap();
        let head = format!("PUT /v1/fs/slow/{n} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n");
        upload.write_all(head.as_bytes()).await.unwrap();
        slow.push(tokio::spawn(async move {
            while upload.write_all(&[7; 2000]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for round in 0..3 {
        honest(&client, &server, &content, round).await;
    }
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}
