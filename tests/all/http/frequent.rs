//! The routes that the server calls without the router of axum.

use std::collections::BTreeSet;

use axum::http::HeaderValue;
use rowdrive::http::Limits;
use serde_json::json;

use super::access::world::{PASSWORD, basic};
use super::socket::{LiveServer, live_with};

/// Status, headers and body of an answer, without what differs each time, or belongs to the connection.
fn comparable(status: u16, headers: impl Iterator<Item = (String, String)>, body: &str) -> String {
    let own = ["date", "connection", "x-request-id", "transfer-encoding"];
    let headers: BTreeSet<_> = headers.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    let (before, id) = body.split_once("\"instance\":\"").unwrap_or((body, ""));
    format!("{status} {headers:?} {before} {}", id.split_once('"').unwrap_or_default().1)
}

/// Sends a request with this header to the server and to the router. Returns the status of their answer, and whether it
/// has this text.
async fn both(
    live: &LiveServer,
    (method, target): (&str, &str),
    (name, value): (&str, &str),
    text: &str,
) -> (u16, bool) {
    let expected = live.app.send(method, target, &[(name, value)], "").await;
    let host = if name == "host" { "" } else { "Host: localhost:8080\r\n" };
    let request = format!("{method} {target} HTTP/1.1\r\n{host}{name}: {value}\r\nConnection: close\r\n\r\n");
    let answer = live.raw(request.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let found = lines.map(|line| line.split_once(": ").unwrap());
    let found = comparable(status, found.map(|(name, value)| (name.to_owned(), value.to_owned())), body);
    let as_text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let wanted = expected.headers.iter().map(|(name, value)| (name.to_string(), as_text(value)));
    let wanted = comparable(expected.status, wanted, std::str::from_utf8(&expected.body).unwrap());
    assert_eq!(found, wanted, "{method} {target} {name}: {value}");
    (status, answer.contains(text))
}

#[tokio::test]
async fn frequent_routes_answer_as_the_router_does() {
    let live = live_with(Limits::default()).await;
    live.app.files(&["/v1/fs/d/f", "/v1/fs/d/e/f"]).await;
    let below =
        ["d/f", "d", "d/", "d/f/", "", "no", "no/", "d/f?x=1", "d/f?download=1", "/", "%zz", "d%2Ff", "d/?limit=1"];
    let headers = [
        ("accept", "*/*"),
        ("range", "bytes=0-0"),
        ("if-none-match", "*"),
        ("if-match", "\"x\""),
        ("host", "evil.example"),
        ("authorization", "Basic ?"),
    ];
    let of_period = ["", "?limit=1", "?under=/d/e", "?under=/no", "?from=x", "?x=1", "/", "?order=asc&clock=added"];
    let targets = ["stat", "fs"].into_iter().flat_map(|root| below.map(|path| format!("/v1/{root}/{path}")));
    let targets: Vec<_> = targets.chain(of_period.map(|query| format!("/v1/files{query}"))).collect();
    let mut statuses = BTreeSet::new();
    for (method, target) in ["GET", "HEAD", "POST"].into_iter().flat_map(|m| targets.iter().map(move |t| (m, t))) {
        for header in headers {
            statuses.insert(both(&live, (method, target), header, "").await.0);
        }
    }
    assert_eq!(statuses, BTreeSet::from([200, 206, 304, 308, 400, 404, 405, 412, 421]));
}

/// Each sees what he may read, and a stranger nothing.
#[tokio::test]
async fn frequent_routes_answer_each_user_as_the_router_does() {
    let live = live_with(Limits::default()).await;
    live.app.files(&["/v1/fs/d/f"]).await;
    let eve = basic("eve", PASSWORD);
    for (by, name) in [("", "eve"), (eve.as_str(), "tom")] {
        let headers = [("content-type", "application/json"), ("authorization", by)];
        let headers = if by.is_empty() { &headers[..1] } else { &headers[..] };
        let user = json!({"name": name, "password": PASSWORD}).to_string();
        live.app.send("POST", "/v1/users", headers, user).await.is(201);
    }
    let (tom, wrong) = (basic("tom", PASSWORD), basic("tom", "wrong horse"));
    // The target, a text that only a user who may read gets, and the status for another user.
    let targets = [
        ("/v1/files", "\"path\":\"/d/f\"", 200),
        ("/v1/stat/d/f", "\"path\":\"/d/f\"", 404),
        ("/v1/fs/d/f", "etag: ", 404),
    ];
    for (target, text, denied) in targets {
        for (by, status, sees) in [(&eve, 200, true), (&tom, denied, false), (&wrong, 401, false)] {
            let answer = both(&live, ("GET", target), ("authorization", by), text).await;
            assert_eq!(answer, (status, sees), "{target}");
            both(&live, ("HEAD", target), ("authorization", by), "").await;
        }
        assert_eq!(both(&live, ("GET", target), ("accept", "*/*"), text).await, (401, false));
    }
}
