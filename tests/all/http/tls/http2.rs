//! Requests over HTTP/2, and limits of clients. `alike.rs` compares the answers with those over HTTP/1.1.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Request, Version};
use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use rowdrive::http::Limits;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::super::test_app::bytes;
use super::secure_server::{HTTP2, LONG, SecureServer, serve_with};

pub struct Client {
    send: SendRequest<Bytes>,
    /// The connection, until it ends.
    pub connection: JoinHandle<Result<(), h2::Error>>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

pub async fn connect(server: &SecureServer) -> Client {
    connect_with(server, 65_535).await
}

/// A connection that has the places of users: on a drive without users by any request that is not for everybody.
pub async fn connect_as_user(server: &SecureServer, window: u32) -> Client {
    let mut client = connect_with(server, window).await;
    assert_eq!(client.get("/v1/fs/?limit=1").await.status, 200);
    client
}

/// `window`: bytes of a response before the client has read some.
pub async fn connect_with(server: &SecureServer, window: u32) -> Client {
    // One response that is not read must not use up the window of all.
    let mut http = h2::client::Builder::new();
    http.initial_connection_window_size(8 << 20).initial_window_size(window);
    let (send, connection) = http.handshake(server.connect(HTTP2).await).await.unwrap();
    Client { send, connection: tokio::spawn(connection) }
}

pub fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request<()> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let request = Request::builder().version(Version::HTTP_2).method(method).uri(format!("https://localhost{target}"));
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
}

pub async fn answer(response: ResponseFuture) -> Result<Answer, h2::Error> {
    let (parts, mut stream) = timeout(LONG, response).await.expect("the server answers")?.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = timeout(LONG, stream.data()).await.expect("the server goes on") {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        body.extend_from_slice(&piece);
    }
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
}

impl Client {
    /// Sends the head of a request.
    pub async fn begin(&mut self, request: Request<()>, ends: bool) -> (ResponseFuture, SendStream<Bytes>) {
        poll_fn(|cx| self.send.poll_ready(cx)).await.unwrap();
        self.send.send_request(request, ends).unwrap()
    }

    pub async fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let (response, mut stream) = self.begin(request(method, target, headers), body.is_empty()).await;
        if !body.is_empty() {
            stream.send_data(Bytes::copy_from_slice(body), true).unwrap();
        }
        answer(response).await.unwrap()
    }

    pub async fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"").await
    }

    /// Waits until the server ends the connection.
    pub async fn ended(&mut self) -> Result<(), h2::Error> {
        timeout(LONG, &mut self.connection).await.expect("the server ends the connection").unwrap()
    }
}

#[tokio::test]
async fn a_client_of_http_2_is_told_the_limits() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.send.current_max_send_streams(), 64);
    let (_response, mut stream) = client.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    stream.reserve_capacity(10 << 20);
    assert_eq!(poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap(), 64 << 10);
    assert!(!client.send.is_extended_connect_protocol_enabled());
    let many: Vec<_> = (0..100).map(|n| format!("x-{n}")).collect();
    let fields = |number: usize| many.iter().take(number).map(|name| (name.as_str(), "y")).collect::<Vec<_>>();
    assert_eq!(client.ask("GET", "/healthz", &fields(99), b"").await.status, 200);
    assert_eq!(
        client.ask("GET", "/healthz", &[fields(99), vec![("a", "b"), ("c", "d")]].concat(), b"").await.status,
        431
    );
    let large = "y".repeat(70_000);
    assert_eq!(client.ask("GET", "/healthz", &[("x", &large)], b"").await.status, 431);
    assert_eq!(client.ask("GET", &format!("/v1/fs/{}", "a".repeat(17_000)), &[], b"").await.status, 414);
}

#[tokio::test]
async fn names_and_origins_are_checked_over_http_2() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    assert_eq!(client.ask("GET", "/healthz", &[("host", "localhost")], b"").await.status, 200);
    assert_eq!(client.ask("GET", "/healthz", &[("host", "127.0.0.1")], b"").await.status, 400);
    let foreign = Request::builder().uri("https://evil.example/healthz").version(Version::HTTP_2).body(()).unwrap();
    let (response, _) = client.begin(foreign, true).await;
    assert_eq!(answer(response).await.unwrap().status, 421);
    assert_eq!(client.ask("PUT", "/v1/fs/f", &[("origin", "http://localhost")], b"x").await.status, 403);
    assert_eq!(client.ask("PUT", "/v1/fs/f", &[("origin", "https://localhost")], b"x").await.status, 201);
}

#[tokio::test]
async fn files_of_some_mib_arrive_whole_over_http_2() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    let content = bytes(7_000_000);
    assert_eq!(client.ask("PUT", "/v1/fs/large", &[], &content).await.status, 201);
    let got = client.get("/v1/fs/large").await;
    assert!(got.status == 200 && got.body == content && got.headers["content-length"] == "7000000");
    assert!(got.headers.contains_key("repr-digest"));
    // Beside each other, more than may run at a time.
    let mut waiting = Vec::new();
    for n in 0..100 {
        let (response, mut stream) = client.begin(request("PUT", &format!("/v1/fs/d/{n:03}"), &[]), false).await;
        stream.send_data(bytes(300_000 + n).into(), true).unwrap();
        waiting.push(tokio::spawn(answer(response)));
    }
    assert!(join_all(waiting).await.into_iter().all(|done| done.unwrap().unwrap().status == 201));
    let mut waiting = Vec::new();
    for n in 0..100 {
        let (response, _) = client.begin(request("GET", &format!("/v1/fs/d/{n:03}"), &[]), true).await;
        waiting.push(tokio::spawn(answer(response)));
    }
    for (n, done) in join_all(waiting).await.into_iter().enumerate() {
        assert!(done.unwrap().unwrap().body == bytes(300_000 + n), "{n}");
    }
}

#[tokio::test]
async fn a_refusal_arrives_before_the_end_of_an_upload_and_its_connection_goes_on() {
    let server = serve_with(Limits::default()).await;
    server.app.put("/v1/fs/f", "x").await.is(201);
    let mut client = connect(&server).await;
    for more in [vec![], vec![("expect", "100-continue")]] {
        let headers = [vec![("if-none-match", "*"), ("content-length", "20000000")], more].concat();
        let (response, mut stream) = client.begin(request("PUT", "/v1/fs/f", &headers), false).await;
        if headers.len() == 2 {
            stream.send_data(bytes(10_000_000).into(), false).unwrap();
        }
        assert_eq!(answer(response).await.unwrap().status, 412);
        let mut stopped = pin!(poll_fn(|cx| stream.poll_reset(cx)));
        if headers.len() == 2 {
            // What is under way is read for a while: curl 7.88 knows of no response before the end of its body.
            assert!(timeout(Duration::from_secs(1), &mut stopped).await.is_err(), "it was stopped at once");
        }
        assert_eq!(timeout(LONG, stopped).await.expect("no more is wanted").unwrap(), Reason::NO_ERROR);
    }
    assert_eq!(client.get("/v1/fs/f").await.body, b"x");
    // A body that is cut stores nothing.
    let (response, mut stream) = client.begin(request("PUT", "/v1/fs/cut", &[("content-length", "9")]), false).await;
    stream.send_data("abc".into(), false).unwrap();
    stream.send_reset(Reason::CANCEL);
    assert!(answer(response).await.is_err());
    let (response, mut stream) = client.begin(request("PUT", "/v1/fs/cut", &[("content-length", "9")]), false).await;
    stream.send_data("abc".into(), true).unwrap();
    assert!(answer(response).await.map_or(true, |answer| answer.status == 400));
    assert_eq!(server.app.names("/v1/fs/").await, ["f"]);
}

#[tokio::test]
async fn slow_clients_of_http_2_lose_their_stream_alone() {
    let ms = Duration::from_millis;
    let limits = Limits { body_idle: ms(300), write_idle: ms(500), ..Limits::default() };
    let server = serve_with(limits).await;
    server.app.put("/v1/fs/large", bytes(3_000_000)).await.is(201);
    let mut client = connect(&server).await;
    let (response, mut stream) = client.begin(request("PUT", "/v1/fs/slow", &[]), false).await;
    stream.send_data("x".into(), false).unwrap();
    assert_eq!(answer(response).await.unwrap().status, 408);
    assert_eq!(server.app.names("/v1/fs/").await, ["large"]);
    let (response, _) = client.begin(request("GET", "/v1/fs/large", &[]), true).await;
    let mut unread = timeout(LONG, response).await.unwrap().unwrap().into_body();
    // Others of the same connection go on.
    for _ in 0..20 {
        assert_eq!(client.get("/healthz").await.status, 200);
        sleep(ms(100)).await;
    }
    let (mut received, mut error) = (0, None);
    while error.is_none() {
        match timeout(LONG, unread.data()).await.unwrap().expect("the stream is cut") {
            Ok(piece) => received += piece.len(),
            Err(reset) => error = reset.reason(),
        }
    }
    assert!(received < 3_000_000 && error == Some(Reason::CANCEL), "{received} {error:?}");
    assert_eq!(client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_slow_but_steady_reader_of_http_2_is_not_cut() {
    let idle = Duration::from_secs(1);
    let server = serve_with(Limits { write_idle: idle, body_grace: idle, ..Limits::default() }).await;
    let content = bytes(1_000_000);
    server.app.put("/v1/fs/large", content.clone()).await.is(201);
    let mut client = connect(&server).await;
    let (response, _) = client.begin(request("GET", "/v1/fs/large", &[]), true).await;
    let mut stream = timeout(LONG, response).await.unwrap().unwrap().into_body();
    let mut body = Vec::new();
    while let Some(piece) = timeout(LONG, stream.data()).await.unwrap() {
        let piece = piece.expect("the server continues");
        body.extend_from_slice(&piece);
        sleep(Duration::from_millis(50)).await;
        stream.flow_control().release_capacity(piece.len()).unwrap();
    }
    assert!(body == content);
}

#[tokio::test]
async fn an_idle_connection_of_http_2_is_closed_and_a_busy_one_is_not() {
    let limits = Limits { head: Duration::from_millis(300), ..Limits::default() };
    let server = serve_with(limits).await;
    let mut idle = connect(&server).await;
    let mut busy = connect(&server).await;
    let (response, mut stream) = busy.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    for _ in 0..20 {
        stream.send_data("x".into(), false).unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    idle.ended().await.unwrap();
    stream.send_data("x".into(), true).unwrap();
    assert_eq!(answer(response).await.unwrap().status, 201);
    busy.ended().await.unwrap();
    server.counted("idle", 2).await;
}

#[tokio::test]
async fn a_new_connection_evicts_an_idle_one_of_http_2_and_none_that_works() {
    let server = serve_with(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = connect(&server).await;
    assert_eq!(first.get("/healthz").await.status, 200);
    let mut second = connect(&server).await;
    assert_eq!(second.get("/healthz").await.status, 200);
    first.ended().await.unwrap();
    let (response, mut stream) = second.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    stream.send_data("hel".into(), false).unwrap();
    sleep(Duration::from_millis(200)).await;
    assert!(server.connect_by(HTTP2, rustls::ALL_VERSIONS).await.is_err(), "there is no place");
    stream.send_data("lo".into(), true).unwrap();
    assert_eq!(answer(response).await.unwrap().status, 201);
    assert_eq!(second.get("/v1/fs/f").await.body, b"hello");
    // A body that stalls makes room, and stores nothing.
    let (stalled, mut stream) = second.begin(request("PUT", "/v1/fs/g", &[]), false).await;
    stream.send_data("x".into(), false).unwrap();
    sleep(Duration::from_secs(7)).await;
    assert_eq!(connect(&server).await.get("/healthz").await.status, 200);
    assert!(answer(stalled).await.is_err());
    assert_eq!(server.app.names("/v1/fs/").await, ["f"]);
}

#[tokio::test]
async fn shutdown_finishes_requests_of_http_2() {
    let server = serve_with(Limits::default()).await;
    let (mut idle, mut busy) = (connect(&server).await, connect(&server).await);
    assert_eq!(idle.get("/healthz").await.status, 200);
    let (response, mut stream) = busy.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    stream.send_data("hello".into(), false).unwrap();
    sleep(Duration::from_millis(200)).await;
    server.stop.send(()).unwrap();
    idle.ended().await.unwrap();
    assert!(!server.serving.is_finished());
    stream.send_data("world".into(), true).unwrap();
    assert_eq!(answer(response).await.unwrap().status, 201);
    busy.ended().await.unwrap();
    timeout(LONG, server.serving).await.unwrap().unwrap().unwrap();
    assert_eq!(server.app.get("/v1/fs/f").await.text(), "helloworld");
}
