//! The same request over HTTP/1.1 and over HTTP/2: the same answer.

use std::collections::BTreeMap;

use rowdrive::http::Limits;
use uuid::Uuid;

use super::super::test_app::bytes;
use super::http2::{Client, connect};
use super::secure_server::{SecureServer, serve_with};

/// An answer, without what differs each time.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

impl Seen {
    /// Every answer has an id of its own, and a problem has it in its body too.
    fn new<'a>(status: u16, fields: impl Iterator<Item = (&'a str, &'a str)>, body: &[u8]) -> Self {
        let mut fields: BTreeMap<_, _> = fields.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let id = fields.remove("x-request-id").unwrap();
        assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 7, "{id}");
        assert!(fields.remove("date").is_some());
        fields.remove("connection");
        let mut body = body.to_owned();
        if fields.get("content-type").is_some_and(|of| of == "application/problem+json") && !body.is_empty() {
            let text = String::from_utf8(body).unwrap();
            assert!(text.contains(&id), "{text}");
            body = text.replace(&id, "").into_bytes();
        }
        Self { status, fields, body }
    }
}

async fn over_http1(server: &SecureServer, (method, target, headers): Asked<'_>, body: &str) -> Seen {
    let host = if headers.iter().any(|(name, _)| *name == "host") { "" } else { "Host: localhost\r\n" };
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{method} {target} HTTP/1.1\r\n{host}{length}{fields}Connection: close\r\n\r\n");
    let answer = server.raw(&(head + body)).await;
    let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Seen::new(status, head.lines().skip(1).filter_map(|line| line.split_once(": ")), body.as_bytes())
}

async fn over_http2(client: &mut Client, (method, target, headers): Asked<'_>, body: &str) -> Seen {
    let answer = client.ask(method, target, headers, body.as_bytes()).await;
    let fields = answer.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    Seen::new(answer.status, fields, &answer.body)
}

#[tokio::test]
async fn answers_are_the_same_over_http_1_1_and_http_2() {
    let server = serve_with(Limits::default()).await;
    server.app.put("/v1/fs/d/f", "0123456789").await.is(201);
    server.app.put("/v1/fs/d/large", bytes(1_000_000)).await.is(201);
    let etag = server.app.get("/v1/fs/d/f").await.header("etag").unwrap().to_owned();
    let mut client = connect(&server).await;
    for (method, target, headers, status) in [
        ("GET", "/v1/fs/d/f", vec![], 200),
        ("HEAD", "/v1/fs/d/f", vec![], 200),
        ("HEAD", "/v1/fs/d/large", vec![], 200),
        ("GET", "/v1/fs/d/f", vec![("range", "bytes=2-4")], 206),
        ("GET", "/v1/fs/d/f", vec![("range", "bytes=20-")], 416),
        ("GET", "/v1/fs/d/f", vec![("if-none-match", etag.as_str())], 304),
        ("HEAD", "/v1/fs/d/f", vec![("if-none-match", etag.as_str())], 304),
        ("GET", "/v1/fs/d/f", vec![("if-match", "\"other\"")], 412),
        ("GET", "/v1/fs/d", vec![], 308),
        ("GET", "/v1/fs/d/", vec![], 200),
        ("HEAD", "/v1/fs/d/", vec![], 200),
        ("GET", "/v1/stat/d/f", vec![], 200),
        ("HEAD", "/v1/stat/d/f", vec![], 200),
        ("GET", "/v1/fs/nothing", vec![], 404),
        ("HEAD", "/v1/fs/nothing", vec![], 404),
        ("GET", "/nothing", vec![], 404),
        ("POST", "/v1/fs/d/f", vec![], 405),
        ("PUT", "/v1/fs/d/f", vec![("if-none-match", "*")], 412),
        ("OPTIONS", "/v1/fs/d/f", vec![], 405),
        ("GET", "/v1/fs/d/f", vec![("host", "evil.example")], 421),
        // The id is the server's own.
        ("GET", "/v1/fs/d/f", vec![("x-request-id", "mine")], 200),
        ("HEAD", "/v1/fs/nothing", vec![("x-request-id", "01a21266-84ac-77a7-8673-c8b4ab57e56f")], 404),
    ] {
        let asked: Asked<'_> = (method, target, &headers);
        let second = over_http2(&mut client, asked, "").await;
        assert_eq!((second.status, &second), (status, &over_http1(&server, asked, "").await), "{asked:?}");
        assert!(method != "HEAD" || second.body.is_empty(), "{asked:?}");
    }
    let deleted = client.ask("DELETE", "/v1/fs/d/large", &[], b"").await;
    assert!(deleted.status == 204 && !deleted.headers.contains_key("content-length"), "{deleted:?}");
}

/// A client that expects `100 Continue` and sends its body all the same.
#[tokio::test]
async fn expectations_are_alike_over_http_1_1_and_http_2() {
    let server = serve_with(Limits::default()).await;
    server.app.put("/v1/fs/d/f", "x").await.is(201);
    let mut client = connect(&server).await;
    for (target, headers, status) in [
        ("/v1/fs/new", vec![("expect", "100-continue")], 201),
        ("/v1/fs/new", vec![("expect", "something-else")], 201),
        ("/v1/fs/d/f", vec![("expect", "100-continue"), ("if-none-match", "*")], 412),
        ("/v1/fs/new", vec![("expect", "100-continue"), ("content-encoding", "gzip")], 415),
        ("/v1/fs/d", vec![("expect", "100-continue")], 409),
    ] {
        let asked: Asked<'_> = ("PUT", target, &headers);
        let second = over_http2(&mut client, asked, "hello").await;
        let _removed = server.app.delete("/v1/fs/new").await;
        let first = over_http1(&server, asked, "hello").await;
        let _removed = server.app.delete("/v1/fs/new").await;
        assert_eq!((first.status, second.status), (status, status), "{asked:?}");
        if status == 201 {
            // They are two files, with ids and times of their own.
            assert!(second.fields.keys().eq(first.fields.keys()), "{asked:?}: {second:?} {first:?}");
        } else {
            assert_eq!(second, first, "{asked:?}");
        }
    }
}

/// More than one frame of HTTP/2 has: the rest of the head comes in frames CONTINUATION.
#[tokio::test]
async fn a_head_beyond_the_limit_of_its_version_is_answered_431() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    // No letter that HTTP/2 would write in less than a byte.
    for (size, first, second) in [(20_000, 200, 200), (30_000, 200, 431), (70_000, 431, 431)] {
        let value = "X".repeat(size);
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {value}\r\n\r\n");
        let answer = server.raw(&head).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {first} ")), "{size}: {answer}");
        assert_eq!(client.ask("GET", "/healthz", &[("x", &value)], b"").await.status, second, "{size}");
        // The connection goes on.
        assert_eq!(client.get("/healthz").await.status, 200, "{size}");
    }
}
