//! Bodies and responses of HTTP/2 that are cut, or that wait for their client.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, SendStream};
use rowdrive::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::super::test_app::bytes;
use super::super::unpack::tar_of::file;
use super::http2::{Client, connect, connect_with, request};
use super::secure_server::{HTTP2, LONG, SecureServer, serve_with};

/// How long a frame may take to the server, and what it causes.
const A_WHILE: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// RST_STREAM with the code NO_ERROR: the HTTP library reports it as an end of the body.
    NoError,
    Connection,
}

impl Cut {
    fn cut(self, client: &Client, stream: &mut SendStream<Bytes>) {
        match self {
            Self::NoError => stream.send_reset(Reason::NO_ERROR),
            Self::Connection => client.connection.abort(),
        }
    }
}

/// Sends a body without its end.
async fn send_cut(server: &SecureServer, (method, target): (&str, &str), body: Vec<u8>, cut: Cut) {
    let mut client = connect(server).await;
    let headers: &[_] = if method == "POST" { &[("content-type", "application/json")] } else { &[] };
    let (response, mut stream) = client.begin(request(method, target, headers), false).await;
    stream.send_data(body.into(), false).unwrap();
    sleep(A_WHILE).await;
    cut.cut(&client, &mut stream);
    drop(response);
    server.settled().await;
}

#[tokio::test]
async fn a_body_of_http_2_that_is_cut_changes_nothing() {
    let server = serve_with(Limits::default()).await;
    server.app.put("/v1/fs/old", "before").await.is(201);
    for cut in [Cut::NoError, Cut::Connection] {
        for size in [5, 60_000, 700_000] {
            send_cut(&server, ("PUT", "/v1/fs/new"), bytes(size), cut).await;
            send_cut(&server, ("PUT", "/v1/fs/old"), bytes(size), cut).await;
        }
        let body = r#"{"from": "/old", "to": "/moved"}"#;
        send_cut(&server, ("POST", "/v1/move"), body.into(), cut).await;
        assert_eq!(server.app.names("/v1/fs/").await, ["old"], "{cut:?}");
        assert_eq!(server.app.get("/v1/fs/old").await.text(), "before", "{cut:?}");
    }
    // The same requests, whole.
    let mut client = connect(&server).await;
    let headers = [("content-type", "application/json")];
    let moved = client.ask("POST", "/v1/move", &headers, br#"{"from": "/old", "to": "/moved"}"#).await;
    assert!(moved.status < 300, "{moved:?}");
}

/// What is told is stored; the member that is cut is not, be it stored in a row or in a content file.
#[tokio::test]
async fn a_tar_over_http_2_that_is_cut_has_stored_what_it_told_and_nothing_half() {
    let server = serve_with(Limits::default()).await;
    let (small, large) = (bytes(1_000), bytes(300_000));
    let mut tars = 0;
    for cut in [Cut::NoError, Cut::Connection] {
        for size in [5_000, 700_000] {
            let folder = format!("/v1/fs/{cut:?}-{size}/");
            let last = file("cut", &bytes(size));
            let body = [file("small", &small), file("large", &large), last[..last.len() - 1024].to_vec()].concat();
            let mut client = connect(&server).await;
            let asked = request("PUT", &format!("{folder}?unpack=tar"), &[]);
            let (response, mut stream) = client.begin(asked, false).await;
            stream.send_data(body.into(), false).unwrap();
            let mut answer = timeout(LONG, response).await.unwrap().unwrap().into_body();
            let mut told = String::new();
            while told.matches("\"status\":201}\n").count() < 2 {
                let piece = timeout(LONG, answer.data()).await.expect("a line for each file").unwrap().unwrap();
                told.push_str(std::str::from_utf8(&piece).unwrap());
            }
            assert!(told.contains("/small\",") && told.contains("/large\",") && !told.contains("/cut\","), "{told}");
            sleep(A_WHILE).await;
            cut.cut(&client, &mut stream);
            drop(answer);
            server.settled().await;
            tars += 1;
            assert_eq!(server.app.names(&folder).await, ["large", "small"], "{folder}");
            for (name, content) in [("small", &small), ("large", &large)] {
                assert!(server.app.get(&format!("{folder}{name}")).await.body == content, "{folder}{name}");
            }
            // One for the large file, and none for a part of the other one.
            assert_eq!(server.app.content_files(tars).await.len(), tars, "{folder}");
        }
    }
}

/// The library has all of the response: a part of it waits until the client has read more.
#[tokio::test]
async fn the_end_of_a_response_waits_for_its_client_also_when_the_server_stops() {
    let server = serve_with(Limits { head: A_WHILE, connections: 1, ..Limits::default() }).await;
    let content = bytes(30_000);
    server.app.put("/v1/fs/f", content.clone()).await.is(201);
    // Smaller than the response, which the library takes in pieces of 16 KiB.
    let mut client = connect_with(&server, 20_000).await;
    let (response, _) = client.begin(request("GET", "/v1/fs/f", &[]), true).await;
    let mut body = timeout(LONG, response).await.unwrap().unwrap().into_body();
    sleep(A_WHILE * 4).await;
    assert!(server.connect_by(HTTP2, rustls::ALL_VERSIONS).await.is_err(), "it must not be evicted");
    server.stop.send(()).unwrap();
    // Longer than a connection without a request may take to close.
    sleep(Duration::from_secs(7)).await;
    let mut all = Vec::new();
    while let Some(piece) = timeout(LONG, body.data()).await.unwrap() {
        let piece = piece.expect("the response goes on");
        all.extend_from_slice(&piece);
        body.flow_control().release_capacity(piece.len()).unwrap();
    }
    assert!(all == content);
    timeout(LONG, server.serving).await.unwrap().unwrap().unwrap();
}

/// The order of a shutdown waits for an answer to PING; this client sends none.
#[tokio::test]
async fn a_client_that_answers_no_ping_does_not_stop_a_shutdown() {
    let server = serve_with(Limits::default()).await;
    let mut stream = server.connect(HTTP2).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    sleep(A_WHILE).await;
    server.stop.send(()).unwrap();
    let _cut = timeout(LONG, stream.read_to_end(&mut Vec::new())).await.expect("the server closes");
    timeout(LONG, server.serving).await.unwrap().unwrap().unwrap();
}

/// A body that is not read does not stop the others of its connection.
#[tokio::test]
async fn the_windows_of_all_bodies_fit_into_that_of_their_connection() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    let mut uploads = Vec::new();
    for n in 0..60 {
        let (response, mut stream) = client.begin(request("PUT", &format!("/v1/fs/{n}"), &[]), false).await;
        stream.reserve_capacity(64 << 10);
        let capacity = timeout(LONG, poll_fn(|cx| stream.poll_capacity(cx))).await.expect("the window has space");
        assert_eq!(capacity.unwrap().unwrap(), 64 << 10, "{n}");
        uploads.push((response, stream));
    }
}
