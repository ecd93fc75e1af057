//! Clients that take more than their share of the server's time and memory.

use std::process::Command;
use std::time::{Duration, Instant};

use rowdrive::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::socket::{LiveServer, live_with, read_until};
use super::test_app::bytes;
use crate::server::{Server, terminate};

const LONG: Duration = Duration::from_secs(20);
const GET: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn short() -> Limits {
    let ms = Duration::from_millis;
    Limits {
        connections: 100,
        connections_of_address: 100,
        head: ms(300),
        body_idle: ms(300),
        body_grace: ms(500),
        write_idle: ms(500),
    }
}

/// Reads until the server closes the connection.
async fn rest(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _reset = timeout(LONG, socket.read_to_end(&mut all)).await.expect("the server closes");
    String::from_utf8_lossy(&all).into_owned()
}

/// Sends a byte now and then until the server answers. Returns the answer.
async fn drip(mut socket: TcpStream, byte: u8, pause: Duration) -> String {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if socket.write_all(&[byte]).await.is_err() {
            break;
        }
        let mut answer = [0; 1024];
        if let Ok(read) = timeout(pause, socket.read(&mut answer)).await {
            let said = String::from_utf8_lossy(&answer[..read.unwrap_or(0)]).into_owned();
            return said + &rest(&mut socket).await;
        }
    }
    panic!("the server waits on");
}

/// Waits until the metrics show this many closed connections for this reason.
async fn counted(live: &LiveServer, why: &str, many: usize) {
    let wanted = format!("rowdrive_http_connections_closed_total{{why=\"{why}\"}} {many}\n");
    let begun = Instant::now();
    loop {
        let response = live.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        if response.contains(&wanted) {
            return;
        }
        assert!(begun.elapsed() < LONG, "{wanted} in {response}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_slow_head_is_refused_and_an_idle_connection_closed() {
    let live = live_with(short()).await;
    let mut socket = live.connect().await;
    socket.write_all(b"GET /healthz HTTP/1.1\r\nX: ").await.unwrap();
    let answer = drip(socket, b'x', Duration::from_millis(50)).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("/problems/slow-client"), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    // An idle client gets no answer, before its first request and after one.
    let mut socket = live.connect().await;
    assert_eq!(rest(&mut socket).await, "");
    let mut socket = live.connect().await;
    socket.write_all(GET.as_bytes()).await.unwrap();
    assert!(read_until(&mut socket, "ok").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(rest(&mut socket).await, "");
    counted(&live, "slow-head", 1).await;
    counted(&live, "idle", 2).await;
}

#[tokio::test]
async fn a_slow_body_is_refused_and_stores_nothing() {
    let live = live_with(short()).await;
    for (length, pause) in [
        // Nothing arrives for a while.
        ("Content-Length: 1000", Duration::from_secs(10)),
        ("Transfer-Encoding: chunked", Duration::from_secs(10)),
        // Single bytes always arrive in time, but too slowly.
        ("Content-Length: 1000", Duration::from_millis(50)),
    ] {
        for target in ["/v1/fs/f", "/v1/fs/d/"] {
            let mut socket = live.connect().await;
            let head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n");
            socket.write_all(head.as_bytes()).await.unwrap();
            let answer = drip(socket, b'1', pause).await;
            let refused = if target.ends_with('/') && length.starts_with('C') { "400" } else { "408" };
            assert!(answer.starts_with(&format!("HTTP/1.1 {refused} ")), "{length}, {target}: {answer}");
        }
    }
    assert!(live.app.names("/v1/fs/").await.is_empty());
    assert!(live.app.content_files(0).await.is_empty());
}

/// The socket buffers take megabytes at once and ask for more only when a third of them is free. So a client that reads
/// a little all the time must not be taken for one that reads nothing.
#[tokio::test]
async fn a_slow_but_steady_reader_is_not_disconnected() {
    let idle = Duration::from_secs(3);
    let live = live_with(Limits { write_idle: idle, body_grace: idle, ..Limits::default() }).await;
    let content = bytes(12_000_000);
    live.app.put("/v1/fs/large", content.clone()).await.is(201);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(128 << 10).unwrap();
    let mut socket = socket.connect(live.address).await.unwrap();
    let request = b"GET /v1/fs/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut answer = vec![0; 100 * (16 << 10)];
    for piece in answer.chunks_mut(16 << 10) {
        timeout(LONG, socket.read_exact(piece)).await.unwrap().expect("the server continues");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    timeout(LONG, socket.read_to_end(&mut answer)).await.unwrap().expect("the server continues");
    assert!(answer.ends_with(&content), "{} bytes", answer.len());
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let live = live_with(short()).await;
    live.app.put("/v1/fs/large", bytes(30_000_000)).await.is(201);
    let mut socket = live.connect().await;
    socket.write_all(b"GET /v1/fs/large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut all = Vec::new();
    let _reset = timeout(LONG, socket.read_to_end(&mut all)).await.unwrap();
    assert!(!all.is_empty() && all.len() < 30_000_000, "{} bytes", all.len());
    counted(&live, "slow-reader", 1).await;
}

async fn is_answered(live: &LiveServer) -> bool {
    let mut socket = live.connect().await;
    socket.write_all(GET.as_bytes()).await.unwrap();
    read_until(&mut socket, "ok").await.starts_with("HTTP/1.1 200 ")
}

#[tokio::test]
async fn slow_clients_do_not_block_others() {
    let live = live_with(Limits { connections: 50, ..Limits::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..120 {
        let mut socket = live.connect().await;
        socket.write_all(b"GET /healthz").await.unwrap();
        slow.push(socket);
    }
    for _ in 0..20 {
        assert!(is_answered(&live).await);
    }
    // The connections that waited longest were closed, with an answer.
    let response = rest(&mut slow[0]).await;
    assert!(response.starts_with("HTTP/1.1 503 ") && response.to_lowercase().contains("retry-after"), "{response}");
    // The newest connection is still served.
    let last = slow.last_mut().unwrap();
    last.write_all(b" HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(read_until(last, "ok").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn an_address_at_its_limit_evicts_one_of_its_own_connections() {
    let live = live_with(Limits { connections_of_address: 3, ..Limits::default() }).await;
    let mut first = live.connect().await;
    first.write_all(b"GET /healthz").await.unwrap();
    let _others = [live.connect().await, live.connect().await];
    assert!(is_answered(&live).await);
    let response = rest(&mut first).await;
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
}

#[tokio::test]
async fn active_connections_are_not_closed_for_others() {
    let live = live_with(Limits { connections: 3, ..Limits::default() }).await;
    let mut uploads = Vec::new();
    for n in 0..3 {
        let mut socket = live.connect().await;
        let head =
            format!("PUT /v1/fs/{n} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        assert!(read_until(&mut socket, "\r\n\r\n").await.starts_with("HTTP/1.1 100 "));
        uploads.push(socket);
    }
    let mut refused = live.connect().await;
    assert!(rest(&mut refused).await.starts_with("HTTP/1.1 503 "));
    for socket in &mut uploads {
        socket.write_all(b"hello").await.unwrap();
        assert!(read_until(socket, "\r\n\r\n").await.starts_with("HTTP/1.1 201 "));
    }
    // Idle connections are closed for new ones.
    assert!(is_answered(&live).await);
}

#[tokio::test]
async fn request_heads_are_limited_in_size() {
    let live = live_with(Limits::default()).await;
    let with =
        |headers: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    let many = |number: usize| (0..number).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    for (headers, status) in [
        (many(98), 200),
        (many(99), 431),
        (format!("X: {}\r\n", "y".repeat(40_000)), 200),
        (format!("X: {}\r\n", "y".repeat(70_000)), 431),
    ] {
        let answer = live.raw(with(&headers).as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{} bytes: {answer}", headers.len());
    }
}

/// After a chunked body the connection is closed: no following bytes can be mistaken for a request.
#[tokio::test]
async fn a_chunked_request_is_the_last_of_its_connection() {
    let live = live_with(Limits::default()).await;
    let smuggled = format!(
        "PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{GET}"
    );
    let answer = live.raw(smuggled.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 ") && answer.matches("HTTP/1.1 ").count() == 1, "{answer}");
    assert_eq!(live.app.get("/v1/fs/f").await.text(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_drain() {
    let server = Server::start();
    let mut upload = TcpStream::connect(&server.address).await.unwrap();
    let head = "PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n";
    upload.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut upload, "\r\n\r\n").await.starts_with("HTTP/1.1 100 "));
    upload.write_all(b"hello").await.unwrap();
    terminate(server.id());
    // The server has handled the first signal: it accepts no new connection.
    while TcpStream::connect(&server.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(tokio::task::spawn_blocking(|| server.terminate()).await.unwrap(), Some(0));
}

/// More clients connect than the process has file descriptors.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed_when_file_descriptors_run_out() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 128 && exec "$@""#, "sh", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--data"]);
    command.arg(&data).args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    let server = Server::wait_for(command, &data);
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(&server.address).await.unwrap());
    }
    for _ in 0..5 {
        let mut socket = TcpStream::connect(&server.address).await.unwrap();
        socket.write_all(GET.as_bytes()).await.unwrap();
        let response = timeout(LONG, read_until(&mut socket, "ok")).await.expect("an honest client is served");
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
}
