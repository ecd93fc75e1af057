//! Behaviour that is visible only in the bytes on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use prometheus_client::registry::Registry;
use rowdrive::http::{Limits, Options, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::test_app::{TestApp, bytes};

const LONG: Duration = Duration::from_secs(20);

/// A test app on a real socket.
pub struct LiveServer {
    pub app: TestApp,
    pub address: SocketAddr,
    pub stop: oneshot::Sender<()>,
    pub serving: JoinHandle<std::io::Result<()>>,
}

async fn live() -> LiveServer {
    live_with(Limits::default()).await
}

pub async fn live_with(limits: Limits) -> LiveServer {
    let app = TestApp::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let options = Options { max_body: Some(50_000_000), limits, ..Options::default() };
    let service = Service::new(app.drive.clone(), app.auth.clone(), options, Registry::default());
    #[expect(clippy::async_yields_async, reason = "no caller asks twice")]
    let serving = tokio::spawn(service.serve(listener, async move {
        let _ = stopped.await;
        std::future::pending()
    }));
    LiveServer { app, address, stop, serving }
}

impl LiveServer {
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes, and reads until the server closes the connection.
    pub async fn raw(&self, request: &[u8]) -> String {
        let mut socket = self.connect().await;
        socket.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        timeout(LONG, socket.read_to_end(&mut answer)).await.unwrap().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Everything that arrives until `end`, or until the server closes the connection.
pub async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if text.contains(end) {
            return text;
        }
        match timeout(LONG, socket.read(&mut buffer)).await.unwrap() {
            Ok(0) | Err(_) => return text,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
        }
    }
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it_or_a_refusal_before_it_sends() {
    let live = live().await;
    live.app.files(&["/v1/fs/f", "/v1/fs/d/f"]).await;
    for (target, headers, status) in [
        ("/v1/fs/f", "If-None-Match: *\r\n", 412),
        ("/v1/fs/x", "If-Match: *\r\n", 412),
        ("/v1/fs/x", "Repr-Digest: sha-256=no\r\n", 400),
        ("/v1/fs/x", "Content-Range: bytes 0-4/5\r\n", 400),
        ("/v1/fs/x", "X-OC-Mtime: soon\r\n", 400),
        ("/v1/fs/x", "Authorization: Basic ?\r\n", 400),
        ("/v1/fs/x", "Origin: http://evil.example\r\n", 403),
        ("/v1/fs/%2F", "", 400),
        ("/v1/fs/x?y=1", "", 400),
        ("/v1/fs/d", "", 409),
        ("/v1/fs/f/x", "", 409),
        ("/v1/fs/no/x?parents=false", "", 409),
        ("/v1/fs/x/", "", 400),
        ("/v1/fs/x?parents=1&parents=1", "", 400),
        ("/v1/fs/x", "Content-Encoding: gzip\r\n", 415),
    ] {
        let head = format!(
            "PUT {target} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n{headers}\r\n"
        );
        let answer = live.raw(head.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {headers}: {answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
    let head = "PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n";
    assert!(live.raw(head.as_bytes()).await.starts_with("HTTP/1.1 413 "));

    let head =
        "PUT /v1/fs/x/ HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(live.raw(head.as_bytes()).await.starts_with("HTTP/1.1 400 "));
    let head = "POST /v1/move HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    assert!(live.raw(head.as_bytes()).await.starts_with("HTTP/1.1 415 "));

    let mut socket = live.connect().await;
    let head = "PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut socket, "\r\n\r\n").await.starts_with("HTTP/1.1 100 "));
    socket.write_all(b"hello").await.unwrap();
    assert!(read_until(&mut socket, "\r\n\r\n").await.starts_with("HTTP/1.1 201 "));
    assert_eq!(live.app.get("/v1/fs/x").await.text(), "hello");
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_keeps_sending() {
    let live = live().await;
    live.app.files(&["/v1/fs/f"]).await;
    let body = bytes(20_000_000);
    for headers in
        ["If-None-Match: *\r\nContent-Length: 20000000\r\n", "Repr-Digest: x\r\nContent-Length: 20000000\r\n"]
    {
        let mut socket = live.connect().await;
        let head = format!("PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        // The client sends everything before it reads the answer.
        timeout(LONG, socket.write_all(&body)).await.unwrap().unwrap();
        let answer = read_until(&mut socket, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(live.app.get("/v1/fs/f").await.text(), "x");
}

#[tokio::test]
async fn an_upload_whose_client_disconnects_stores_nothing() {
    let live = live().await;
    for (head, body) in [
        ("PUT /v1/fs/p/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", bytes(400_000)),
        ("PUT /v1/fs/p/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\n", b"hello".to_vec()),
        (
            "PUT /v1/fs/p/f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"5\r\nhello\r\n".to_vec(),
        ),
        (
            "PUT /v1/fs/p/f HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"5\r\nhello\r\n0\r\n".to_vec(),
        ),
    ] {
        for politely in [true, false] {
            let mut socket = live.connect().await;
            socket.write_all(head.as_bytes()).await.unwrap();
            socket.write_all(&body).await.unwrap();
            if politely {
                socket.shutdown().await.unwrap();
                let answer = read_until(&mut socket, "\r\n\r\n").await;
                assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
            }
        }
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(live.app.names("/v1/fs/").await.is_empty());
    assert_eq!(live.app.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn malformed_requests_get_an_error_status() {
    let live = live().await;
    for (request, status) in [
        ("GET /v1/fs/ HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        ("GET /v1/fs/ HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        ("GET /v1/fs/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        ("GET http://evil.example/v1/fs/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 421),
        ("GET http://localhost/v1/fs/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        ("GET /v1/fs/%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        ("GET /v1/fs/照 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        ("PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        (
            "PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            "PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            400,
        ),
        ("PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        ("PUT /v1/fs/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        ("GET /v1/fs/\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /v1/fs/ HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400),
        ("HEAD /v1/fs/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
    ] {
        let answer = live.raw(request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    assert!(live.app.names("/v1/fs/").await.is_empty());
}

/// Content in an unknown transfer coding must not be stored as it is.
#[tokio::test]
async fn a_transfer_coding_other_than_chunked_is_refused_and_stores_nothing() {
    let live = live().await;
    let put = |codings: &str, more: &str| {
        format!("PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\n{codings}\r\n{more}\r\n5\r\nhello\r\n0\r\n\r\n")
    };
    for codings in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: x-foo,chunked",
        "Transfer-Encoding: x-foo\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
    ] {
        for more in ["", "Expect: 100-continue\r\n"] {
            let answer = live.raw(put(codings, more).as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 501 "), "{codings}: {answer}");
            assert!(
                answer.contains("/problems/transfer-coding") && answer.matches("HTTP/1.1 ").count() == 1,
                "{answer}"
            );
        }
    }
    // Only a last coding of `chunked` delimits the body.
    for codings in ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked, gzip"] {
        assert!(live.raw(put(codings, "").as_bytes()).await.starts_with("HTTP/1.1 400 "), "{codings}");
    }
    assert!(live.app.names("/v1/fs/").await.is_empty());
    assert!(live.raw(put("Transfer-Encoding: \t Chunked ", "").as_bytes()).await.starts_with("HTTP/1.1 201 "));
    assert_eq!(live.app.get("/v1/fs/f").await.text(), "hello");
}

/// In HTTP/1.0 only `Content-Length` delimits a body: without it the upload would be stored as an empty file.
#[tokio::test]
async fn an_upload_over_http_1_0_without_a_length_is_refused_and_replaces_nothing() {
    let live = live().await;
    live.app.put("/v1/fs/f", "precious").await.is(201);
    let send = async |head: &str, body: &str| {
        let answer = live.raw(format!("{head}\r\nHost: localhost\r\n\r\n{body}").as_bytes()).await;
        let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        (status, answer)
    };
    // The following bytes are no request, even if the client wants to keep the connection.
    for more in ["", "\r\nConnection: keep-alive"] {
        for body in ["", "hello", "DELETE /v1/fs/f HTTP/1.0\r\nHost: localhost\r\n\r\n"] {
            let (status, answer) = send(&format!("PUT /v1/fs/f HTTP/1.0{more}"), body).await;
            assert_eq!((status.as_str(), answer.matches("HTTP/1.").count()), ("411", 1), "{answer}");
            assert!(answer.contains("application/problem+json"), "{answer}");
            assert!(answer.contains("/problems/length-required"), "{answer}");
        }
    }
    assert_eq!(live.app.get("/v1/fs/f").await.text(), "precious");
    // A directory needs no body, and in HTTP/1.1 a request without a length has an empty body.
    assert_eq!(send("PUT /v1/fs/d/ HTTP/1.0", "").await.0, "201");
    assert_eq!(send("PUT /v1/fs/f HTTP/1.0\r\nContent-Length: 5", "hello").await.0, "200");
    assert_eq!(live.app.get("/v1/fs/f").await.text(), "hello");
    assert_eq!(send("PUT /v1/fs/f HTTP/1.0\r\nContent-Length: 0", "").await.0, "200");
    assert_eq!(send("PUT /v1/fs/g HTTP/1.1\r\nConnection: close", "").await.0, "201");
    assert_eq!(live.app.names("/v1/fs/").await, ["d/", "f", "g"]);
}

/// Without a length: that of the file would be another one.
#[tokio::test]
async fn an_answer_without_content_over_http_1_0_arrives_whole() {
    let live = live().await;
    live.app.put("/v1/fs/f", "hello").await.is(201);
    for method in ["GET", "HEAD"] {
        let request = format!("{method} /v1/fs/f HTTP/1.0\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n");
        let answer = live.raw(request.as_bytes()).await;
        assert!(answer.split(' ').nth(1) == Some("304") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(!answer.to_lowercase().contains("content-length"), "{answer}");
    }
}

#[tokio::test]
async fn request_targets_may_be_long_and_not_utf8() {
    let live = live().await;
    let long = format!("GET /v1/fs/{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "a".repeat(17_000));
    assert!(live.raw(long.as_bytes()).await.starts_with("HTTP/1.1 414 "));
    let head = live.raw(b"HEAD /v1/fs/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 404 ") && head.ends_with("\r\n\r\n"), "{head}");
    let latin = [b"GET /v1/fs/\xe9 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec()].concat();
    assert!(live.raw(&latin).await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn a_broken_download_is_visible_to_the_client() {
    let live = live().await;
    let client = reqwest::Client::new();
    let content = bytes(30_000_000);
    let put = client.put(live.url("/v1/fs/big")).body(content.clone()).send().await.unwrap();
    assert_eq!(put.status(), 201);
    let got = client.get(live.url("/v1/fs/big")).send().await.unwrap().bytes().await.unwrap();
    assert!(got == content);
    let file = live.app.content_files(1).await.pop().unwrap();
    let mut stored = std::fs::read(&file).unwrap();
    stored[29_000_000] ^= 1;
    std::fs::write(&file, stored).unwrap();
    let response = client.get(live.url("/v1/fs/big")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.content_length()), (200, Some(30_000_000)));
    let mut pieces = response.bytes_stream();
    let (mut received, mut broken) = (0, false);
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => {
                assert!(piece == content[received..received + piece.len()]);
                received += piece.len();
            }
            Err(_) => broken = true,
        }
    }
    assert!(broken && received <= 29_000_000, "{received}");
}

#[tokio::test]
async fn a_connection_serves_several_requests_in_order() {
    let live = live().await;
    let mut socket = live.connect().await;
    for (request, status) in [
        ("PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 201),
        ("GET /v1/fs/f HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET /v1/fs/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("PUT /v1/fs/%00 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("DELETE /v1/fs/f HTTP/1.1\r\nHost: localhost\r\n\r\n", 204),
    ] {
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = read_until(&mut socket, "\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        let length = answer.to_lowercase();
        let length: usize =
            length.split("content-length: ").nth(1).map_or(0, |l| l.split('\r').next().unwrap().parse().unwrap());
        while answer.len() < answer.find("\r\n\r\n").unwrap() + 4 + length {
            let mut buffer = [0; 4096];
            let read = timeout(LONG, socket.read(&mut buffer)).await.unwrap().unwrap();
            answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
    }
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight() {
    let live = live().await;
    let mut upload = live.connect().await;
    upload.write_all(b"PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhello").await.unwrap();
    let mut idle = live.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(read_until(&mut idle, "ok").await.starts_with("HTTP/1.1 200 "));
    tokio::time::sleep(Duration::from_millis(100)).await;
    live.stop.send(()).unwrap();
    // Idle connections are closed, and no new one is accepted.
    assert_eq!(timeout(LONG, idle.read(&mut [0; 16])).await.unwrap().unwrap(), 0);
    for _ in 0..100 {
        if TcpStream::connect(live.address).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(TcpStream::connect(live.address).await.is_err());
    assert!(!live.serving.is_finished());
    upload.write_all(b"world").await.unwrap();
    assert!(read_until(&mut upload, "\r\n\r\n").await.starts_with("HTTP/1.1 201 "));
    timeout(LONG, live.serving).await.unwrap().unwrap().unwrap();
    assert_eq!(live.app.get("/v1/fs/f").await.text(), "helloworld");
}
