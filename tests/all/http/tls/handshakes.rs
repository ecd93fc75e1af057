//! Handshakes: what both sides agree on, and clients that do not finish one.

use std::time::Duration;

use rowdrive::http::Limits;
use rustls::crypto::aws_lc_rs;
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, ProtocolVersion};
use tokio::io::AsyncWriteExt;

use super::secure_server::{HTTP1, HTTP2, rest, serve_with};

/// The begin of a record of a handshake.
const HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

#[tokio::test]
async fn a_request_is_answered_by_tls_1_2_and_1_3() {
    let server = serve_with(Limits::default()).await;
    for (version, name) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut stream = server.connect_by(HTTP1, &[version]).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(name));
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\n\r\nok"), "{answer}");
    }
}

#[tokio::test]
async fn the_server_chooses_the_cipher_whatever_the_order_of_the_client_is() {
    let server = serve_with(Limits::default()).await;
    for version in [&TLS12, &TLS13] {
        let mut chosen = Vec::new();
        for is_reversed in [false, true] {
            let mut provider = aws_lc_rs::default_provider();
            if is_reversed {
                provider.cipher_suites.reverse();
            }
            let stream = server.connect_with(provider, HTTP1, &[version]).await.unwrap();
            chosen.push(stream.get_ref().1.negotiated_cipher_suite().unwrap().suite());
        }
        assert_eq!(chosen[0], chosen[1]);
    }
}

#[tokio::test]
async fn http_2_is_agreed_on_by_alpn_and_http_1_1_is_the_default() {
    let server = serve_with(Limits::default()).await;
    for (offered, agreed) in [
        (HTTP2, Some(b"h2".as_slice())),
        (&[b"http/1.1".as_slice(), b"h2"], Some(b"h2")),
        (HTTP1, Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = server.connect(offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed, "{offered:?}");
    }
    assert!(server.connect_by(&[b"spdy/3"], ALL_VERSIONS).await.is_err());
    let mut unnamed = server.connect(&[]).await;
    unnamed.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut unnamed).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn an_unfinished_handshake_is_closed_in_time() {
    let server = serve_with(Limits { head: Duration::from_millis(300), ..Limits::default() }).await;
    for sent in [b"".as_slice(), HALF] {
        let mut socket = server.connect_plain().await;
        socket.write_all(sent).await.unwrap();
        rest(&mut socket).await;
    }
    // A byte now and then prolongs nothing.
    let mut dripping = server.connect_plain().await;
    for byte in HALF.iter().cycle().take(1000) {
        if dripping.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.counted("slow-handshake", 3).await;
}

#[tokio::test]
async fn unfinished_handshakes_do_not_keep_others_out() {
    let server = serve_with(Limits { connections: 20, ..Limits::default() }).await;
    let mut unfinished = Vec::new();
    for _ in 0..60 {
        let mut socket = server.connect_plain().await;
        socket.write_all(HALF).await.unwrap();
        unfinished.push(socket);
    }
    for _ in 0..5 {
        assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    }
    // Those that waited longest were closed.
    rest(&mut unfinished[0]).await;
    // While all connections execute requests, a further one is closed, without bytes that are not of TLS.
    let server = serve_with(Limits { connections: 1, ..Limits::default() }).await;
    let mut upload = server.connect(HTTP1).await;
    let head = "PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    upload.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut upload, &mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 100");
    assert_eq!(rest(&mut server.connect_plain().await).await, "");
}

#[tokio::test]
async fn a_client_without_tls_is_told_to_use_https() {
    let server = serve_with(Limits::default()).await;
    let mut socket = server.connect_plain().await;
    socket.write_all(b"GET /v1/fs/ HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let answer = rest(&mut socket).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains("https://"), "{answer}");
    server.counted("no-tls", 1).await;
    // What is neither is closed.
    let mut socket = server.connect_plain().await;
    socket.write_all(&[22, 3, 1, 0, 4, 9, 9, 9, 9]).await.unwrap();
    assert!(!rest(&mut socket).await.contains("HTTP"));
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
}
