//! Requests by TLS over HTTP/1.1: limits, names, origins and headers.

use std::time::Duration;

use rowdrive::http::{Limits, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::super::test_app::{TestApp, bytes};
use super::secure_server::{HTTP1, LONG, rest, serve, serve_with};

#[tokio::test]
async fn time_limits_hold_by_tls() {
    let ms = Duration::from_millis;
    let limits = Limits { head: ms(300), body_idle: ms(300), write_idle: ms(500), ..Limits::default() };
    let server = serve_with(limits).await;
    for (sent, status) in [
        ("GET /healthz HTTP/1.1\r\nX: ", "HTTP/1.1 408 "),
        ("PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx", "HTTP/1.1 408 "),
        ("", ""),
    ] {
        let mut stream = server.connect(HTTP1).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(status) && answer.is_empty() == status.is_empty(), "{sent}: {answer}");
    }
    server.app.put("/v1/fs/large", bytes(30_000_000)).await.is(201);
    let mut stream = server.connect(HTTP1).await;
    stream.write_all(b"GET /v1/fs/large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut all = Vec::new();
    let _cut = timeout(LONG, stream.read_to_end(&mut all)).await.expect("the server closes");
    assert!(!all.is_empty() && all.len() < 30_000_000, "{} bytes", all.len());
    server.counted("slow-reader", 1).await;
    server.counted("slow-head", 1).await;
}

#[tokio::test]
async fn hsts_is_sent_by_tls_alone_and_only_if_asked_for() {
    for hsts in [false, true] {
        let server = serve(Options { hsts, ..Options::default() }).await;
        for (target, status) in [("/healthz", 200), ("/v1/fs/nothing", 404)] {
            let answer = server.get(target).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert_eq!(answer.contains("strict-transport-security: max-age=31536000\r\n"), hsts, "{answer}");
        }
    }
    let plain = TestApp::with(Options { hsts: true, ..Options::default() }).await;
    assert!(!plain.get("/healthz").await.headers.contains_key("strict-transport-security"));
}

#[tokio::test]
async fn by_tls_the_origin_of_a_write_is_https() {
    let server = serve_with(Limits::default()).await;
    let host = format!("localhost:{}", server.address.port());
    for (origin, status) in [
        (format!("https://{host}"), 201),
        (format!("http://{host}"), 403),
        ("https://localhost".to_owned(), 403),
        ("null".to_owned(), 403),
    ] {
        let answer = server
            .raw(&format!(
                "PUT /v1/fs/{status} HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 1\r\n\
                 Connection: close\r\n\r\nx"
            ))
            .await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {answer}");
    }
}
