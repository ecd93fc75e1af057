//! The routes that the server calls without the router of axum.

use std::collections::BTreeSet;

use axum::http::HeaderValue;
use rowdrive::http::Limits;

use super::socket::live_with;

/// Status, headers and body of an answer, without what differs each time, or belongs to the connection.
fn comparable(status: u16, headers: impl Iterator<Item = (String, String)>, body: &str) -> String {
    let own = ["date", "connection", "x-request-id", "transfer-encoding"];
    let headers: BTreeSet<_> = headers.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    let (before, id) = body.split_once("\"instance\":\"").unwrap_or((body, ""));
    format!("{status} {headers:?} {before} {}", id.split_once('"').unwrap_or_default().1)
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
        for (name, value) in headers {
            let expected = live.app.send(method, target, &[(name, value)], "").await;
            let host = if name == "host" { "" } else { "Host: localhost:8080\r\n" };
            let request = format!("{method} {target} HTTP/1.1\r\n{host}{name}: {value}\r\nConnection: close\r\n\r\n");
            let answer = live.raw(request.as_bytes()).await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let mut lines = head.lines();
            let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            let found = lines.map(|line| line.split_once(": ").unwrap());
            let found = comparable(status, found.map(|(name, value)| (name.to_owned(), value.to_owned())), body);
            let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
            let wanted = expected.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
            let wanted = comparable(expected.status, wanted, std::str::from_utf8(&expected.body).unwrap());
            assert_eq!(found, wanted, "{method} {target} {name}: {value}");
            statuses.insert(status);
        }
    }
    assert_eq!(statuses, BTreeSet::from([200, 206, 304, 308, 400, 404, 405, 412, 421]));
}
