//! The memory of requests, and what of it strangers have: a part for all of them, and of that a part for each address.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rowdrive::budget::{Budget, Permit};
use rowdrive::client_net::ClientNet;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::ADMIN;
use super::shares::{make, put, read, with_files};
use crate::http::access::world::{PASSWORD, basic};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const LONG: Duration = Duration::from_secs(60);
/// More addresses than have a part of their own in the part of strangers.
const ADDRESSES: usize = 8;

/// Method, target, headers and body of a request, and the status of its answer.
type Ask<'a> = (&'static str, String, Vec<(&'static str, &'static str)>, &'a str, u16);

/// Addresses of this machine, which need no TLS.
fn address(number: usize) -> IpAddr {
    [127, 0, 1, u8::try_from(number % ADDRESSES).unwrap()].into()
}

/// Takes all permits of this size.
fn take_all(memory: &Budget, bytes: usize) -> Vec<Permit> {
    std::iter::from_fn(|| memory.try_take(bytes)).collect()
}

fn free(memory: &Budget, bytes: usize) -> usize {
    take_all(memory, bytes).len()
}

/// The metric of the bytes that are taken.
fn used(memory: &Budget) -> String {
    let (mut registry, mut text) = (Registry::default(), String::new());
    memory.register(&mut registry);
    encode(&mut text, &registry).unwrap();
    text.lines().find(|line| line.starts_with("rowdrive_buffers_used_bytes ")).unwrap().to_owned()
}

/// Waits until a stranger waits, of whatever address.
async fn strangers_wait(memory: &Budget) {
    let begun = Instant::now();
    while !memory.of_strangers().is_short() {
        assert!(begun.elapsed() < LONG, "nobody waits");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn uploads_by_links_leave_three_quarters_of_the_memory_to_others() {
    let api = Arc::new(with_files().await);
    let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "upload", "bytes": 1 << 30})).await;
    let target = format!("{url}fs/f");
    let memory = api.app.drive.memory();
    let (large, small) = (free(memory, MIB), free(memory, 64 * KIB));
    let mut strangers = Vec::new();
    // Some have sent so much that they are large, then some are small; without a length, and with one.
    for (sent, length) in [(300 * KIB, None), (300 * KIB, Some("1048576")), (1, None), (10, Some("262144"))] {
        for number in 0..100 {
            let (api, target) = (api.clone(), target.clone());
            let first = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![7; sent]))]);
            let body = Body::from_stream(first.chain(stream::pending()));
            strangers.push(tokio::spawn(async move {
                let headers: Vec<_> = length.map(|length| ("content-length", length)).into_iter().collect();
                api.app.begin_from(address(number), "PUT", &target, &headers, body).await
            }));
        }
        sleep(Duration::from_millis(300)).await;
    }
    strangers_wait(memory).await;
    sleep(Duration::from_millis(300)).await;
    assert!(!memory.is_short(), "nobody else waits");
    // A quarter of 256 MiB, in large buffers or in small ones.
    assert!(free(memory, MIB) + 64 >= large, "{large}, then {}", free(memory, MIB));
    assert!(free(memory, 64 * KIB) + 256 >= small, "{small}, then {}", free(memory, 64 * KIB));
    assert!(free(memory, MIB) < large - 40, "some are large");
    put(&api, "/v1/fs/home/tom/mine", &"x".repeat(2 * MIB)).await;
    strangers.iter().for_each(|stranger| stranger.abort());
    for stranger in strangers {
        let _ended = stranger.await;
    }
    // What has begun small is stored, however large it becomes; nothing is held then.
    let pieces = stream::iter((0..30).map(|_| Ok::<_, Infallible>(Bytes::from(vec![7; 100_000]))));
    api.app.send("PUT", &format!("{url}fs/large"), &[], Body::from_stream(pieces)).await.is(201);
    assert_eq!((free(memory, MIB), free(memory, 64 * KIB)), (large, small));
}

/// Answers that nobody reads, each with a piece of a large file.
#[tokio::test]
async fn downloads_by_links_leave_three_quarters_of_the_memory_to_others() {
    let api = Arc::new(with_files().await);
    put(&api, "/v1/fs/home/tom/a/film", &"x".repeat(8 * MIB)).await;
    let (url, _) = read(&api, "/home/tom/a").await;
    let memory = api.app.drive.memory();
    let all = free(memory, MIB);
    let strangers: Vec<_> = (0..400)
        .map(|number| {
            let (api, film) = (api.clone(), format!("{url}fs/film"));
            tokio::spawn(async move { api.app.begin_from(address(number), "GET", &film, &[], Body::empty()).await })
        })
        .collect();
    strangers_wait(memory).await;
    assert!(!memory.is_short() && free(memory, MIB) + 64 >= all && free(memory, MIB) < all, "of {all}");
    strangers.iter().for_each(|stranger| stranger.abort());
    for stranger in strangers {
        drop(stranger.await);
    }
    let begun = Instant::now();
    while free(memory, MIB) < all {
        assert!(begun.elapsed() < LONG, "{} of {all}", free(memory, MIB));
        sleep(Duration::from_millis(10)).await;
    }
}

/// Answers that may be long, and are not read.
#[tokio::test]
async fn what_nobody_reads_is_of_the_memory_of_requests() {
    let api = with_files().await;
    let (url, _) = read(&api, "/home/tom/a").await;
    let (tom, eve) = (basic("tom", PASSWORD), basic(ADMIN, PASSWORD));
    let memory = api.app.drive.memory();
    let before = used(memory);
    let nobody = String::new();
    for (who, target) in [(&nobody, url.clone()), (&nobody, format!("{url}fs/")), (&eve, "/v1/users".to_owned())]
        .into_iter()
        .chain(["session", "sessions", "shares", "tokens", "grants"].map(|list| (&tom, format!("/v1/{list}"))))
    {
        let headers = [("authorization", who.as_str())];
        let headers: &[_] = if who.is_empty() { &[] } else { &headers };
        let unread = api.app.begin("GET", &target, headers, "").await;
        assert_eq!(unread.status(), 200, "{target}");
        assert_ne!(used(memory), before, "{target}");
        drop(unread);
        assert_eq!(used(memory), before, "{target}");
    }
}

/// While an address has all that it may have, all that strangers ask for waits there, and nothing else does.
#[tokio::test]
async fn all_that_strangers_send_and_get_is_of_the_part_of_their_address() {
    let api = with_files().await;
    put(&api, "/v1/fs/home/tom/a/film", &"x".repeat(MIB)).await;
    let (url, _) = read(&api, "/home/tom/a").await;
    let (to_add, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "upload", "bytes": 1 << 30})).await;
    let (locked, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "read", "password": PASSWORD})).await;
    let login = json!({"user": "tom", "password": PASSWORD}).to_string();
    let (origin, form) = (("origin", "http://localhost:8080"), ("content-type", "application/x-www-form-urlencoded"));
    let multipart = ("content-type", "multipart/form-data; boundary=limit");
    let file = "--limit\r\nContent-Disposition: form-data; name=\"files\"; filename=\"f\"\r\n\r\nx\r\n--limit--\r\n";
    let password = format!("password={PASSWORD}");
    let named = format!("user=tom&{password}");
    let tom = basic("tom", PASSWORD);
    let asks: Vec<Ask<'_>> = vec![
        ("GET", url.clone(), vec![], "", 200),
        ("GET", format!("{url}fs/"), vec![], "", 200),
        ("GET", format!("{url}fs/?limit=10000"), vec![], "", 200),
        ("GET", format!("{url}fs/"), vec![("accept", "application/x-ndjson")], "", 200),
        ("GET", format!("{url}fs/b/"), vec![("accept", "text/plain")], "", 200),
        ("GET", format!("{url}fs/f"), vec![], "", 200),
        ("GET", format!("{url}fs/film"), vec![], "", 200),
        ("PUT", format!("{to_add}fs/new"), vec![], "x", 201),
        ("POST", to_add.clone(), vec![origin, multipart], file, 201),
    ];
    let logins: Vec<Ask<'_>> = vec![
        ("POST", format!("{locked}login"), vec![origin, form], &password, 303),
        ("POST", "/login".to_owned(), vec![origin, form], &named, 303),
        ("POST", "/v1/session".to_owned(), vec![("content-type", "application/json")], &login, 204),
    ];
    let memory = api.app.drive.memory();
    let of_address = memory.of_stranger(ClientNet::new(address(0)));
    let taken = [64 * KIB, 4 * KIB, 257 * KIB, 512 * KIB].map(|bytes| take_all(&of_address, bytes));
    for (method, target, headers, body, status) in &asks {
        let answer = async |number| {
            api.app.begin_from(address(number), method, target, headers, (*body).to_owned()).await.status().as_u16()
        };
        let here = timeout(Duration::from_millis(300), answer(0)).await;
        assert!(here.is_err(), "{method} {target} {headers:?}: {here:?}");
        assert_eq!(answer(1).await, *status, "{method} {target} {headers:?} from another address");
    }
    // Logins need none.
    for (method, target, headers, body, status) in &logins {
        let answer = api.app.begin_from(address(0), method, target, headers, (*body).to_owned()).await;
        assert_eq!(answer.status(), *status, "{method} {target} {headers:?}");
    }
    let by_tom = [("authorization", tom.as_str())];
    for target in ["/v1/fs/home/tom/a/", "/v1/fs/home/tom/a/film", "/v1/files"] {
        assert_eq!(api.app.begin_from(address(0), "GET", target, &by_tom, "").await.status(), 200, "{target}");
    }
    drop(taken);
    for (method, target, headers, body, status) in &asks {
        let answer = api.app.begin_from(address(0), method, target, headers, (*body).to_owned()).await;
        assert_eq!(answer.status(), *status, "{method} {target} {headers:?}");
    }
}
