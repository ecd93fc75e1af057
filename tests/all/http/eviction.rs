//! Connections that are closed in favour of others: no answer is corrupted.

use std::time::Duration;

use futures_util::future::join_all;
use rowdrive::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::access::world::{PASSWORD, basic, new_user};
use super::socket::{LiveServer, live_with, read_until};
use super::test_app::bytes;

async fn one_connection() -> LiveServer {
    live_with(Limits { connections: 1, ..Limits::default() }).await
}

/// A client with small socket buffers.
async fn narrow(live: &LiveServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(live.address).await.unwrap()
}

/// Everything that arrives until the server closes the connection, or sends nothing for this long.
async fn all(socket: &mut TcpStream, silence: Duration) -> Vec<u8> {
    let (mut got, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(Ok(read @ 1..)) = timeout(silence, socket.read(&mut buffer)).await {
        got.extend_from_slice(&buffer[..read]);
    }
    got
}

/// At each size, a part of the answer may be in the buffers of the HTTP library when another connection arrives.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_response_is_not_corrupted_by_an_eviction() {
    let spoilt = |size: usize| async move {
        let live = one_connection().await;
        let content = bytes(size);
        live.app.put("/v1/fs/f", content.clone()).await.is(201);
        let mut reader = narrow(&live).await;
        reader.write_all(b"GET /v1/fs/f HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        sleep(Duration::from_millis(500)).await;
        let mut other = live.connect().await;
        // Whether the request is served or refused depends on how much of the answer the socket buffers accepted.
        assert!(read_until_answered(&mut other).await.starts_with("HTTP/1.1 "));
        let got = all(&mut reader, Duration::from_secs(1)).await;
        let body = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let body = &got[body..(body + size).min(got.len())];
        (body != &content[..body.len()]).then_some(size)
    };
    let found = join_all((400_000..4_000_000).step_by(200_000).map(spoilt)).await;
    let found: Vec<usize> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "wrong bytes in answers of {found:?} bytes");
}

/// The answers have sizes at which the last piece fills the HTTP library's buffer, and other sizes.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_finished_response_can_be_evicted() {
    let kept_out = |size: usize| async move {
        let head = Duration::from_secs(3600);
        let live = live_with(Limits { connections: 1, head, ..Limits::default() }).await;
        live.app.put("/v1/fs/f", bytes(size)).await.is(201);
        let mut idle = live.connect().await;
        idle.write_all(b"GET /v1/fs/f HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let got = all(&mut idle, Duration::from_secs(1)).await;
        assert!(got.ends_with(&bytes(size)));
        // The client may have the last byte before the server knows that it was sent.
        for _ in 0..50 {
            if read_until_answered(&mut live.connect().await).await.starts_with("HTTP/1.1 200 ") {
                return None;
            }
            sleep(Duration::from_millis(100)).await;
        }
        Some(size)
    };
    let found = join_all([100, 300 << 10, 512 << 10, 1 << 20, 3 << 20, 10_000_000].map(kept_out)).await;
    let found: Vec<usize> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "no connection is accepted after answers of {found:?} bytes");
}

/// One upload has sent nothing of its body, one sends a byte now and then, and one has sent much.
#[tokio::test]
async fn uploads_without_progress_block_nobody_and_store_nothing() {
    let live = live_with(Limits { connections: 3, ..Limits::default() }).await;
    let mut uploads = Vec::new();
    for n in 0..3 {
        let mut socket = live.connect().await;
        let head = format!("PUT /v1/fs/{n} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        uploads.push(socket);
    }
    uploads[2].write_all(&bytes(600_000)).await.unwrap();
    let mut guests = Vec::new();
    for _ in 0..40 {
        let mut guest = live.connect().await;
        if read_until_answered(&mut guest).await.starts_with("HTTP/1.1 200 ") {
            // The new connection is accepted and active: the next one evicts an upload too.
            let head = b"PUT /v1/fs/g HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n";
            guest.write_all(head).await.unwrap();
            guests.push(guest);
        }
        if guests.len() == 3 {
            break;
        }
        let _gone = uploads[1].write_all(b"x").await;
        sleep(Duration::from_millis(400)).await;
    }
    assert_eq!(guests.len(), 3, "some upload is not evicted");
    for upload in &mut uploads {
        let response = all(upload, Duration::from_secs(1)).await;
        assert!(response.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&response));
    }
    drop(uploads);
    assert!(live.app.names("/v1/fs/").await.is_empty());
    assert!(live.app.content_files(0).await.is_empty());
    // An upload that continues in time is not closed.
    guests[2].write_all(b"hello").await.unwrap();
    assert!(read_until(&mut guests[2], "\r\n\r\n").await.starts_with("HTTP/1.1 201 "));
}

/// Whoever sends no body for a request that needs no user, as a login, has a connection only while nobody else wants one.
#[tokio::test]
async fn bodies_of_strangers_keep_no_user_out() {
    let live = live_with(Limits { connections: 3, ..Limits::default() }).await;
    live.app.auth.make_first_user(new_user("eve")).await.unwrap();
    let credential = basic("eve", PASSWORD);
    let mut upload = live.connect().await;
    let head = |credential: &str| {
        format!("PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nAuthorization: {credential}\r\nContent-Length: 5\r\n\r\n")
    };
    upload.write_all(head(&credential).as_bytes()).await.unwrap();
    let mut strangers = Vec::new();
    let login =
        b"POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n";
    for n in 0..6 {
        let mut stranger = live.connect().await;
        stranger.write_all(login).await.unwrap();
        strangers.push(stranger);
        sleep(Duration::from_millis(200)).await;
        if n >= 2 {
            assert!(all(&mut strangers[n - 2], Duration::from_secs(2)).await.starts_with(b"HTTP/1.1 503 "), "{n}");
        }
    }
    assert!(read_until_answered(&mut live.connect().await).await.starts_with("HTTP/1.1 200 "));
    upload.write_all(b"hello").await.unwrap();
    assert!(read_until(&mut upload, "\r\n\r\n").await.starts_with("HTTP/1.1 201 "));
}

async fn read_until_answered(socket: &mut TcpStream) -> String {
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    read_until(socket, "\r\n\r\n").await
}
