//! The limit that the requests of all HTTP/2 connections share.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use rowdrive::drive::Settings;
use rowdrive::http::Options;
use serde_json::Value;
use tokio::time::sleep;

use super::super::access::world::World;
use super::super::test_app::TestApp;
use super::http2::{Answer, Client, answer, connect, connect_as_user, connect_with, request};
use super::secure_server::{LONG, SecureServer, serve_app};

/// Requests of users beside the one of each connection that needs no place, and as many of others: each has 112 KiB of a
/// quarter of the memory.
const PLACES: usize = 8;

fn is_busy(answer: &Answer) -> bool {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    answer.status == 503
        && problem["type"] == "/problems/busy"
        && answer.headers["content-type"] == "application/problem+json"
        && answer.headers["retry-after"] == "1"
        && problem["instance"] == answer.headers["x-request-id"].to_str().unwrap()
}

/// Fills all places by the first connection, asks for more by both, then ends the uploads. Returns whether each had a place,
/// and nothing beyond. Else a place of before was not free yet: it is a moment after its answer. `pass`: another one each time.
async fn fill(first: &mut Client, second: &mut Client, pass: usize) -> bool {
    let mut uploads = Vec::new();
    for n in 0..=PLACES {
        uploads.push(first.begin(request("PUT", &format!("/v1/fs/d/{n}"), &[]), false).await);
    }
    // The server takes the requests of a connection in their order.
    let beyond = first.ask("PUT", &format!("/v1/fs/refused{pass}"), &[], b"x").await;
    uploads.push(second.begin(request("PUT", "/v1/fs/d/own", &[]), false).await);
    let beyond_too = second.get("/healthz").await;
    let are_stored = store(uploads).await;
    are_stored && is_busy(&beyond) && is_busy(&beyond_too)
}

/// Ends uploads. Returns whether all are stored.
async fn store(uploads: Vec<(ResponseFuture, SendStream<Bytes>)>) -> bool {
    let mut are_stored = true;
    for (response, mut stream) in uploads {
        // A refused one takes no more.
        let _refused = stream.send_data(Bytes::from_static(b"hello"), true);
        are_stored &= matches!(answer(response).await.unwrap().status, 200 | 201);
    }
    are_stored
}

async fn app_with_few_places() -> TestApp {
    let settings = Settings { memory: 4 * 2 * PLACES * (112 << 10), ..Settings::default() };
    TestApp::with_settings(Options::default(), settings).await
}

/// A login whose body does not come: anybody may begin one.
async fn begin_login(client: &mut Client) -> (ResponseFuture, SendStream<Bytes>) {
    client.begin(request("POST", "/v1/session", &[("content-type", "application/json")]), false).await
}

/// Their client may read nothing for a minute if nobody else wants their places.
#[tokio::test]
async fn responses_that_are_not_read_lose_their_places_to_others() {
    let server = serve_app(app_with_few_places().await, Options::default()).await;
    let (mut unread, mut other) = (connect_with(&server, 0).await, connect(&server).await);
    let mut held = Vec::new();
    for _ in 0..=PLACES {
        let (response, _) = unread.begin(request("GET", "/healthz", &[]), true).await;
        held.push(response.await.unwrap());
    }
    // A request that runs alone on its connection needs no place.
    let _first = begin_login(&mut other).await;
    let begun = Instant::now();
    assert!(is_busy(&other.get("/healthz").await));
    while is_busy(&other.get("/healthz").await) {
        assert!(begun.elapsed() < LONG, "others find no place");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn requests_of_all_connections_of_http_2_share_a_limit_and_others_are_answered_503() {
    let server = serve_app(app_with_few_places().await, Options::default()).await;
    let (mut first, mut second) = (connect_as_user(&server, 65_535).await, connect_as_user(&server, 65_535).await);
    let begun = Instant::now();
    let mut whole = Vec::new();
    for pass in 0.. {
        // The request of a connection that runs alone needs no place.
        if fill(&mut first, &mut second, pass).await {
            whole.push(pass);
        }
        if whole.len() == 2 {
            break;
        }
        assert!(begun.elapsed() < LONG, "places are not free again");
        sleep(Duration::from_millis(20)).await;
    }
    let names = server.app.names("/v1/fs/").await;
    assert!(whole.iter().all(|pass| !names.contains(&format!("refused{pass}"))), "{names:?}");
}

/// Neither a link nor a wrong password makes a user, nor does a right one where none is needed.
#[tokio::test]
async fn strangers_leave_the_places_of_http_2_to_users() {
    let world = World::of(app_with_few_places().await).await;
    let [token, wrong] = ["token of a user", "wrong password"].map(|caller| world.callers[caller].clone());
    let share = format!("/s/{}/", world.share);
    let server = serve_app(world.app, Options::default()).await;
    let own = [(token.0, token.1.as_str())];
    for (target, headers, status) in [
        (share.as_str(), &[][..], 200),
        ("/v1/fs/", &[(wrong.0, wrong.1.as_str())][..], 401),
        ("/healthz", &own[..], 200),
    ] {
        let begun = Instant::now();
        loop {
            let mut stranger = connect(&server).await;
            assert_eq!(stranger.ask("GET", target, headers, b"").await.status, status, "{target}");
            if do_users_have_places(&server, stranger, &own).await {
                break;
            }
            assert!(begun.elapsed() < LONG, "users find no places beside {target}");
        }
    }
}

/// Whether users have all their places while this stranger holds as many as he gets: on a slow machine they may be cut.
async fn do_users_have_places(server: &SecureServer, mut stranger: Client, headers: &[(&str, &str)]) -> bool {
    let mut held = Vec::new();
    while !is_busy(&stranger.get("/healthz").await) {
        held.push(begin_login(&mut stranger).await);
    }
    let (mut user, begun) = (connect(server).await, Instant::now());
    assert_eq!(user.ask("GET", "/v1/fs/d/", headers, b"").await.status, 200);
    while !upload_to_all_places(&mut user, headers).await {
        assert!(begun.elapsed() < LONG, "users find no places");
        sleep(Duration::from_millis(20)).await;
    }
    let mut had_all = true;
    for (response, mut stream) in held {
        let _cut = stream.send_data(Bytes::from_static(b"{"), true);
        had_all &= answer(response).await.is_ok_and(|answer| answer.status == 400 || is_busy(&answer));
    }
    had_all
}

/// Whether there was a place for each of as many uploads as there are places, and none for one more.
async fn upload_to_all_places(user: &mut Client, headers: &[(&str, &str)]) -> bool {
    let mut uploads = Vec::new();
    for n in 0..=PLACES {
        uploads.push(user.begin(request("PUT", &format!("/v1/fs/d/{n}"), headers), false).await);
    }
    let beyond = user.ask("GET", "/v1/fs/d/", headers, b"").await;
    store(uploads).await && is_busy(&beyond)
}
