//! Short answers whose clients have a small window: the library takes the whole answer before the client has read it.

use std::time::{Duration, Instant};

use h2::Reason;
use rowdrive::drive::Settings;
use rowdrive::http::{Limits, Options};
use tokio::time::{sleep, timeout};

use super::super::test_app::{TestApp, bytes};
use super::http2::{Answer, Client, answer, connect_as_user, connect_with, request};
use super::secure_server::{LONG, SecureServer, serve_app};

/// Requests beside the one of each connection that needs no place, as in `shared_limit.rs`: of users.
const PLACES: usize = 8;
const ANSWER: usize = 1500;

async fn serve(write_idle: Duration) -> SecureServer {
    let settings = Settings { memory: 4 * 2 * PLACES * (112 << 10), ..Settings::default() };
    let options = Options { limits: Limits { write_idle, ..Limits::default() }, ..Options::default() };
    let server = serve_app(TestApp::with_settings(Options::default(), settings).await, options).await;
    server.app.put("/v1/fs/short", bytes(ANSWER)).await.is(201);
    server
}

/// The answer to a request that needs a place, since its client has another one under way.
async fn ask_beside(client: &mut Client) -> Answer {
    let (response, mut stream) = client.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    let beside = client.get("/healthz").await;
    stream.send_data("x".into(), true).unwrap();
    assert!(matches!(answer(response).await.unwrap().status, 200 | 201));
    beside
}

#[tokio::test]
async fn answers_that_are_not_read_are_reset_and_give_their_places_back() {
    let server = serve(Duration::from_secs(2)).await;
    let mut client = connect_as_user(&server, 1).await;
    // This request is under way all the time, so that the connection stays.
    let (own, mut open) = client.begin(request("PUT", "/v1/fs/own", &[]), false).await;
    let mut unread = Vec::new();
    for _ in 0..PLACES {
        let (response, _) = client.begin(request("GET", "/v1/fs/short", &[]), true).await;
        unread.push(timeout(LONG, response).await.unwrap().unwrap().into_body());
    }
    let mut other = connect_as_user(&server, 65_535).await;
    assert_eq!(ask_beside(&mut other).await.status, 503, "all places are taken");
    let begun = Instant::now();
    while ask_beside(&mut other).await.status != 200 {
        assert!(begun.elapsed() < LONG, "the places are not free again");
        sleep(Duration::from_millis(100)).await;
    }
    for mut body in unread {
        let (mut received, mut error) = (0, None);
        while error.is_none() {
            match timeout(LONG, body.data()).await.unwrap().expect("the stream is cut") {
                Ok(piece) => received += piece.len(),
                Err(reset) => error = reset.reason(),
            }
        }
        assert!(received < ANSWER && error == Some(Reason::CANCEL), "{received} {error:?}");
    }
    // The other streams of the connection go on.
    assert_eq!(client.get("/healthz").await.status, 200);
    open.send_data("hello".into(), true).unwrap();
    assert_eq!(answer(own).await.unwrap().status, 201);
    assert_eq!(server.app.get("/v1/fs/own").await.text(), "hello");
}

/// The whole answer is one piece, and takes its client longer than it may read nothing.
#[tokio::test]
async fn a_short_answer_that_is_read_slowly_is_not_reset() {
    let idle = Duration::from_secs(1);
    let server = serve(idle).await;
    let mut client = connect_with(&server, 10).await;
    let (response, _) = client.begin(request("GET", "/v1/fs/short", &[]), true).await;
    let mut stream = timeout(LONG, response).await.unwrap().unwrap().into_body();
    let (begun, mut body) = (Instant::now(), Vec::new());
    while let Some(piece) = timeout(LONG, stream.data()).await.unwrap() {
        let piece = piece.expect("the server continues");
        body.extend_from_slice(&piece);
        sleep(Duration::from_millis(20)).await;
        stream.flow_control().release_capacity(piece.len()).unwrap();
    }
    assert!(body == bytes(ANSWER) && begun.elapsed() > 2 * idle);
}
