//! What is seen on the socket only: when lines are sent, and clients that are slow, leave, or do not read.

use std::time::Duration;

use rowdrive::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::super::socket::{LiveServer, live_with, read_until};
use super::tar_of::{file, folder, tar};
use super::{lines, statuses};
use crate::server::Server;

const LONG: Duration = Duration::from_secs(60);

fn head(length: usize, more: &str) -> String {
    format!("PUT /v1/fs/d/?unpack=tar HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}\r\n")
}

/// Everything until the server closes the connection.
async fn rest(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _reset = timeout(LONG, socket.read_to_end(&mut all)).await.expect("the server closes");
    String::from_utf8_lossy(&all).into_owned()
}

/// The content of a body in chunks; none of a chunk that is cut.
fn unchunked(answer: &str) -> String {
    let (_, mut body) = answer.split_once("\r\n\r\n").unwrap();
    let mut content = String::new();
    while let Some((size, after)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("no chunk: {body}"));
        let Some(chunk) = after.get(..size) else { break };
        content.push_str(chunk);
        body = after.get(size + 2..).unwrap_or_default();
    }
    content
}

async fn live() -> LiveServer {
    live_with(Limits::default()).await
}

#[tokio::test]
async fn each_line_is_sent_while_the_body_still_comes() {
    let live = live().await;
    let parts = [file("a", b"1"), [folder("e"), file("e/b", b"2")].concat(), tar(&[file("c", b"3")])];
    let length = parts.iter().map(Vec::len).sum();
    let mut socket = live.connect().await;
    socket.write_all(head(length, "Expect: 100-continue\r\n").as_bytes()).await.unwrap();
    assert!(read_until(&mut socket, "\r\n\r\n").await.starts_with("HTTP/1.1 100 "));
    socket.write_all(&parts[0]).await.unwrap();
    let first = read_until(&mut socket, "/d/a\",\"status\":201}").await;
    assert!(first.starts_with("HTTP/1.1 200 ") && first.contains("application/x-ndjson"), "{first}");
    assert_eq!(live.app.get("/v1/fs/d/a").await.text(), "1");
    socket.write_all(&parts[1]).await.unwrap();
    assert!(read_until(&mut socket, "/d/e/b\",\"status\":201}").await.contains("/d/e\","));
    socket.write_all(&parts[2]).await.unwrap();
    let end = read_until(&mut socket, "0\r\n\r\n").await;
    assert!(end.contains("{\"done\":true,\"count\":4,\"failed\":0}"), "{end}");
    // The connection serves the next request.
    socket.write_all(b"GET /v1/fs/d/c HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(read_until(&mut socket, "\r\n\r\n3").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_all_before_it_reads_gets_all_lines() {
    let live = live().await;
    // Much more than the socket buffers of either side hold in lines.
    let body = tar(&(0..60_000).map(|n| file(&format!("{:060}", n), b"")).collect::<Vec<_>>());
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut socket = socket.connect(live.address).await.unwrap();
    socket.write_all(head(body.len(), "Connection: close\r\n").as_bytes()).await.unwrap();
    timeout(LONG, socket.write_all(&body)).await.expect("the server reads on").unwrap();
    let answer = rest(&mut socket).await;
    let (lines, last) = lines(&unchunked(&answer));
    assert_eq!((lines.len(), last["done"].as_bool(), last["failed"].as_u64()), (60_000, Some(true), Some(0)));
}

/// Each holds memory while it waits for more: so few of them must not be able to take all of it.
#[tokio::test(flavor = "multi_thread")]
async fn many_tars_at_once_leave_memory_to_other_requests() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::start_on(&scratch.path().join("data"), &["--memory", "32MiB"]);
    let member = file("a", &[7; 11_000]);
    let mut tars = Vec::new();
    for _ in 0..40 {
        let mut socket = TcpStream::connect(&server.address).await.unwrap();
        socket.write_all(head(1 << 30, "").as_bytes()).await.unwrap();
        socket.write_all(&member).await.unwrap();
        tars.push(socket);
    }
    let client = reqwest::Client::new();
    for n in 0..20 {
        let put = client.put(server.url(&format!("/v1/fs/small/{n}"))).body("x").send().await.unwrap();
        assert_eq!(put.status(), 201, "{n}");
    }
    // With so little memory there is a place for one of them.
    let answer = read_until(tars.last_mut().unwrap(), "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    drop(tars);
    // Places are free again.
    let tar = tar(&[file("b", b"1"), file("c", b"2")]);
    let unpacked = client.put(server.url("/v1/fs/d/?unpack=tar")).body(tar).send().await.unwrap();
    let (_, last) = lines(&unpacked.text().await.unwrap());
    assert_eq!((last["done"].as_bool(), last["failed"].as_u64()), (Some(true), Some(0)));
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_disconnected() {
    let limits = Limits { write_idle: Duration::from_secs(1), ..Limits::default() };
    let live = live_with(limits).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut socket = socket.connect(live.address).await.unwrap();
    socket.write_all(head(1 << 40, "").as_bytes()).await.unwrap();
    // Refused members are cheap, and their lines are long.
    let members = file(&"../".repeat(30), b"").repeat(200);
    let mut sent = 0;
    let broken = timeout(LONG, async {
        while socket.write_all(&members).await.is_ok() {
            sent += members.len();
        }
    });
    broken.await.expect("the server disconnects");
    // A bound of what it took: 8 MiB of lines of 150 bytes or more, and the buffers of the sockets.
    assert!(sent < 200 << 20, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_reported_is_stored_if_the_client_leaves_and_nothing_half() {
    let live = live().await;
    for politely in [true, false] {
        let folder = format!("left{politely}");
        let content = |n: usize| vec![n as u8; if n.is_multiple_of(50) { 300_000 } else { n }];
        let body = tar(&(0..1_000).map(|n| file(&format!("{folder}/{n}"), &content(n))).collect::<Vec<_>>());
        let mut socket = live.connect().await;
        socket.write_all(head(body.len(), "").as_bytes()).await.unwrap();
        // The middle of a member.
        socket.write_all(&body[..body.len() / 2 + 700]).await.unwrap();
        let mut answer = read_until(&mut socket, &format!("/d/{folder}/150\",")).await;
        if politely {
            socket.shutdown().await.unwrap();
            answer += &rest(&mut socket).await;
        }
        drop(socket);
        let reported: Vec<usize> =
            (0..1_000).filter(|n| answer.contains(&format!("/d/{folder}/{n}\",\"status\":201}}"))).collect();
        assert!(reported.len() > 50, "{answer}");
        // What is under way may end.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let names = live.app.names(&format!("/v1/fs/d/{folder}/")).await;
        assert!(names.len() < 1_000 && reported.iter().all(|n| names.contains(&n.to_string())), "{}", names.len());
        for name in &names {
            let got = live.app.get(&format!("/v1/fs/d/{folder}/{name}")).await.is(200);
            assert!(got.body == content(name.parse().unwrap()), "{name}");
        }
        let large = names.iter().filter(|name| name.parse::<usize>().unwrap().is_multiple_of(50)).count();
        let before = if politely {
            0
        } else {
            live.app
                .names("/v1/fs/d/lefttrue/")
                .await
                .iter()
                .filter(|name| name.parse::<usize>().unwrap().is_multiple_of(50))
                .count()
        };
        assert_eq!(live.app.content_files(large + before).await.len(), large + before);
    }
}

#[tokio::test]
async fn a_body_that_stalls_ends_with_a_line_that_says_so() {
    let live = live_with(Limits { body_idle: Duration::from_millis(300), ..Limits::default() }).await;
    let mut socket = live.connect().await;
    let body = tar(&[file("a", b"1"), file("b", &[b'x'; 5_000])]);
    socket.write_all(head(body.len(), "").as_bytes()).await.unwrap();
    socket.write_all(&body[..3_000]).await.unwrap();
    let answer = read_until(&mut socket, "0\r\n\r\n").await;
    let (lines, last) = lines(&unchunked(&answer));
    assert_eq!(statuses(&lines), [("/d/a".to_owned(), 201)]);
    assert_eq!((last["done"].as_bool(), last["type"].as_str()), (Some(false), Some("/problems/slow-client")), "{last}");
    assert_eq!(live.app.names("/v1/fs/d/").await, ["a"]);
}

/// A body of chunks is cut by an orderly close: what it has is not the whole.
#[tokio::test]
async fn a_body_in_chunks_that_is_cut_ends_with_a_line_or_none() {
    let live = live().await;
    let part = file("a", b"1");
    let mut socket = live.connect().await;
    socket
        .write_all(b"PUT /v1/fs/d/?unpack=tar HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    socket.write_all(&[format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat()).await.unwrap();
    read_until(&mut socket, "/d/a\",\"status\":201}").await;
    socket.shutdown().await.unwrap();
    let end = rest(&mut socket).await;
    assert!(!end.contains("\"done\":true"), "{end}");
}

#[tokio::test]
async fn a_stalled_tar_makes_room_and_its_answer_is_not_corrupted() {
    let live = live_with(Limits { connections: 1, ..Limits::default() }).await;
    let mut stalled = live.connect().await;
    let body = tar(&[file("a", b"1"), file("b", &[b'x'; 5_000])]);
    stalled.write_all(head(body.len(), "").as_bytes()).await.unwrap();
    stalled.write_all(&body[..3_000]).await.unwrap();
    let first = read_until(&mut stalled, "/d/a\",\"status\":201}").await;
    // At once there is no room: the tar may still come.
    let refused = live.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    tokio::time::sleep(Duration::from_secs(7)).await;
    let served = live.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(served.starts_with("HTTP/1.1 200 "), "{served}");
    let all = first + &rest(&mut stalled).await;
    assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
    assert!(!all.contains("\"done\"") && !all.ends_with("0\r\n\r\n"), "{all}");
    assert_eq!(live.app.names("/v1/fs/d/").await, ["a"]);
}

#[tokio::test]
async fn over_http_1_0_a_tar_needs_its_length() {
    let live = live().await;
    let body = tar(&[file("a", b"1")]);
    let request = |length: &str| {
        [format!("PUT /v1/fs/d/?unpack=tar HTTP/1.0\r\nHost: localhost\r\n{length}\r\n").as_bytes(), &body].concat()
    };
    assert!(live.raw(&request("")).await.contains(" 411 "));
    let answer = live.raw(&request(&format!("Content-Length: {}\r\n", body.len()))).await;
    assert!(answer.contains(" 200 ") && answer.ends_with("{\"done\":true,\"count\":1,\"failed\":0}\n"), "{answer}");
}
