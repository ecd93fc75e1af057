//! Strangers who read too slowly what a link leads to, while other strangers wait for memory.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rowdrive::client_net::ClientNet;
use rowdrive::drive::Settings;
use rowdrive::http::Options;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::access::world::{PASSWORD, basic};
use super::super::test_app::{TestApp, bytes};
use super::http2_frames::request_with_large_windows;
use super::secure_server::{HTTP1, HTTP2, LONG, SecureServer, serve_app};

const MIB: usize = 1 << 20;
/// Where requests come from.
const HERE: &str = "127.0.0.1";
/// More than have a buffer each in the memory of strangers.
const READERS: usize = 12;

/// A server with little memory, and two links: to a folder with a large file, and to another one.
async fn serve_links(options: Options) -> (SecureServer, [String; 2]) {
    let settings = Settings { memory: 64 * MIB, ..Settings::default() };
    let app = TestApp::with_settings(options.clone(), settings).await;
    let server = serve_app(app, options).await;
    let eve = basic("eve", PASSWORD);
    let headers = [("authorization", eve.as_str()), ("content-type", "application/json")];
    let user = json!({"name": "eve", "password": PASSWORD}).to_string();
    server.app.send("POST", "/v1/users", &headers[1..], user).await.is(201);
    server.app.send("PUT", "/v1/fs/a/large", &headers[..1], bytes(30 * MIB)).await.is(201);
    server.app.send("PUT", "/v1/fs/b/f", &headers[..1], bytes(MIB)).await.is(201);
    let link = async |path: &str| {
        let share = json!({"path": path, "mode": "read"}).to_string();
        let made = server.app.send("POST", "/v1/shares", &headers, share).await.is(201).json();
        made["url"].as_str().unwrap().to_owned()
    };
    let links = [link("/a").await, link("/b").await];
    (server, links)
}

/// Waits until strangers wait for memory, and then until one of another link has his file. Who is not hurried for them
/// keeps his for a minute.
async fn others_get_memory(server: &SecureServer, url: &str, from: &str, headers: &[(&str, &str)]) {
    let of = |address: &str| server.app.drive.memory().of_stranger(ClientNet::new(address.parse().unwrap()));
    let (memory, of_another) = (of(from), of("127.0.0.2"));
    // Until the sockets of the readers are full.
    sleep(Duration::from_secs(3)).await;
    let begun = Instant::now();
    while !memory.is_short() {
        assert!(begun.elapsed() < LONG, "nobody waits");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(of_another.try_take(MIB / 2).is_some() && !of_another.is_short(), "another address waits for nobody");
    while server.app.send("GET", &format!("{url}fs/f"), headers, "").await.status != 200 {
        assert!(begun.elapsed() < 2 * LONG, "others get no memory");
    }
}

/// Their windows are large, so that the library hands all to the socket: to reset their streams does not help.
#[tokio::test]
async fn who_reads_nothing_of_a_socket_of_http_2_is_cut() {
    let (server, [url, other]) = serve_links(Options::default()).await;
    let request = request_with_large_windows(&format!("{url}fs/large"));
    let readers = (0..READERS).map(|_| async {
        let mut stream = server.connect_small(HTTP2).await;
        stream.write_all(&request).await.unwrap();
        stream
    });
    let unread = join_all(readers).await;
    others_get_memory(&server, &other, HERE, &[]).await;
    drop(unread);
}

#[tokio::test]
async fn who_reads_a_little_each_second_is_cut() {
    reads_a_little(Options::default(), HERE, &[]).await;
}

/// The proxy has one address, and its clients have others: their memory is theirs.
#[tokio::test]
async fn who_reads_a_little_each_second_through_a_proxy_is_cut() {
    let options = Options { proxies: vec!["127.0.0.1/32".parse().unwrap()], ..Options::default() };
    let headers = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")];
    reads_a_little(options, headers[0].1, &headers).await;
}

async fn reads_a_little(options: Options, from: &str, headers: &[(&str, &str)]) {
    let (server, [url, other]) = serve_links(options).await;
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let mut stream = server.connect_small(HTTP1).await;
        let request = format!("GET {url}fs/large HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        readers.spawn(async move {
            let (mut socket, mut piece) = (stream.into_inner().0, [0; 1_200]);
            while let Ok(Ok(1..)) = timeout(LONG, socket.read(&mut piece)).await {
                sleep(Duration::from_secs(1)).await;
            }
        });
    }
    others_get_memory(&server, &other, from, headers).await;
}
