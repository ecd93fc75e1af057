//! The limit that the requests of all HTTP/2 connections share.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rowdrive::drive::Settings;
use rowdrive::http::Options;
use serde_json::Value;
use tokio::time::sleep;

use super::super::test_app::TestApp;
use super::http2::{Answer, Client, answer, connect, connect_with, request};
use super::secure_server::{LONG, SecureServer, serve_app};

/// Requests beyond the first one of each connection: each has 88 KiB of a quarter of the memory.
const PLACES: usize = 8;

fn is_busy(answer: &Answer) -> bool {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    answer.status == 503
        && problem["type"] == "/problems/busy"
        && answer.headers["content-type"] == "application/problem+json"
        && answer.headers["retry-after"] == "1"
        && problem["instance"] == answer.headers["x-request-id"].to_str().unwrap()
}

/// Fills all places by the first connection, asks for more by both, then ends the uploads. Returns their statuses, and the
/// answers to what was beyond.
async fn fill(first: &mut Client, second: &mut Client) -> (Vec<u16>, [Answer; 2]) {
    let mut uploads = Vec::new();
    for n in 0..=PLACES {
        uploads.push(first.begin(request("PUT", &format!("/v1/fs/d/{n}"), &[]), false).await);
    }
    // The server takes the requests of a connection in their order.
    let beyond = first.ask("PUT", "/v1/fs/refused", &[], b"x").await;
    uploads.push(second.begin(request("PUT", "/v1/fs/d/own", &[]), false).await);
    let beyond_too = second.get("/healthz").await;
    let mut statuses = Vec::new();
    for (response, mut stream) in uploads {
        // A refused one takes no more.
        let _refused = stream.send_data(Bytes::from_static(b"hello"), true);
        statuses.push(answer(response).await.unwrap().status);
    }
    (statuses, [beyond, beyond_too])
}

async fn serve_few_places() -> SecureServer {
    let settings = Settings { memory: 4 * PLACES * (88 << 10), ..Settings::default() };
    serve_app(TestApp::with_settings(Options::default(), settings).await, Options::default()).await
}

/// Their client may read nothing for a minute if nobody else wants their places.
#[tokio::test]
async fn responses_that_are_not_read_lose_their_places_to_others() {
    let server = serve_few_places().await;
    let (mut unread, mut other) = (connect_with(&server, 0).await, connect(&server).await);
    let mut held = Vec::new();
    for _ in 0..=PLACES {
        let (response, _) = unread.begin(request("GET", "/healthz", &[]), true).await;
        held.push(response.await.unwrap());
    }
    // The first request of a connection needs no place.
    let _first = other.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    let begun = Instant::now();
    assert!(is_busy(&other.get("/healthz").await));
    while is_busy(&other.get("/healthz").await) {
        assert!(begun.elapsed() < LONG, "others find no place");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn requests_of_all_connections_of_http_2_share_a_limit_and_others_are_answered_503() {
    let server = serve_few_places().await;
    let (mut first, mut second) = (connect(&server).await, connect(&server).await);
    // The first request of a connection needs no place.
    let (statuses, beyond) = fill(&mut first, &mut second).await;
    assert_eq!(statuses, [201; PLACES + 2]);
    assert!(beyond.iter().all(is_busy), "{beyond:?}");
    assert_eq!(server.app.names("/v1/fs/").await, ["d/"]);
    // A place is free again a moment after the answer.
    let begun = Instant::now();
    while fill(&mut first, &mut second).await.0 != [200; PLACES + 2] {
        assert!(begun.elapsed() < LONG, "the places are not free again");
        sleep(Duration::from_millis(20)).await;
    }
}
