//! What frames of HTTP/2 keep beside their content: the buffers that they were read into, and the table of header fields.

use std::time::Duration;

use futures_util::future::join_all;
use rowdrive::budget::Permit;
use rowdrive::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use super::http2::{answer, connect, request};
use super::http2_frames::{DATA, END_STREAM_AND_HEADERS, GOAWAY, HEADERS, SETTINGS, frame, head, opening, put_head};
use super::secure_server::{HTTP2, LONG, SecureServer, serve_with};

/// A kind of frames that means nothing (RFC 9113 section 5.5).
const UNKNOWN: u8 = 0x77;

/// A client that writes frames, and reads those of the server.
struct RawClient {
    stream: TlsStream<TcpStream>,
    unread: Vec<u8>,
}

impl RawClient {
    async fn new(server: &SecureServer) -> Self {
        let mut client = Self { stream: server.connect(HTTP2).await, unread: Vec::new() };
        client.send(&opening()).await;
        client.until(|kind, flags, _| kind == SETTINGS && flags == 0).await;
        client.send(&frame(SETTINGS, 1, 0, &[])).await;
        client
    }

    async fn send(&mut self, frames: &[u8]) {
        timeout(LONG, self.stream.write_all(frames)).await.expect("the server reads").unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Reads frames up to one for which this is true of its kind, flags and stream. False if a GOAWAY came first.
    async fn until(&mut self, is_wanted: impl Fn(u8, u8, u32) -> bool) -> bool {
        loop {
            while let Some(&[a, b, c, kind, flags, d, e, f, g]) = self.unread.first_chunk() {
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                if self.unread.len() < 9 + length {
                    break;
                }
                self.unread.drain(..9 + length);
                if is_wanted(kind, flags, u32::from_be_bytes([d, e, f, g])) {
                    return true;
                }
                if kind == GOAWAY {
                    return false;
                }
            }
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the server ends the connection");
            self.unread.extend_from_slice(&buffer[..read]);
        }
    }

    /// Whether the head of a response on this stream comes in time.
    async fn is_answered(&mut self, stream: u32, within: Duration) -> bool {
        timeout(within, self.until(|kind, _, id| kind == HEADERS && id == stream)).await.unwrap_or(false)
    }
}

/// Takes all memory for requests.
fn take_all(server: &SecureServer) -> Vec<Permit> {
    let memory = server.app.drive.memory();
    // Large buffers have another part of it than small ones.
    [1 << 20, 68 << 10, 4096].into_iter().flat_map(|bytes| std::iter::from_fn(move || memory.try_take(bytes))).collect()
}

/// The content of each of these frames is a byte, and each keeps a buffer of 8 KiB if others come between them.
#[tokio::test]
async fn frames_that_keep_buffers_wait_for_memory() {
    let server = serve_with(Limits::default()).await;
    let short = frame(DATA, 0, 1, b"x");
    let between = frame(UNKNOWN, 0, 0, &[0; 8100]);
    let beside = frame(HEADERS, END_STREAM_AND_HEADERS, 3, &head());
    for (frames, is_read) in [(short.repeat(40), true), ([between, short].concat().repeat(40), false)] {
        let all = take_all(&server);
        let mut client = RawClient::new(&server).await;
        client.send(&[frame(HEADERS, 4, 1, &put_head()), frames, beside.clone()].concat()).await;
        assert_eq!(client.is_answered(3, Duration::from_secs(2)).await, is_read);
        drop(all);
        assert!(is_read || client.is_answered(3, LONG).await);
        client.send(&frame(DATA, 1, 1, b"end")).await;
        assert!(client.is_answered(1, LONG).await);
        assert_eq!(connect(&server).await.get("/v1/fs/x").await.body, [&[b'x'; 40][..], b"end"].concat());
    }
}

/// Each head puts a field into the table, and keeps a buffer. After the client has emptied its table, none does.
#[tokio::test]
async fn a_table_of_header_fields_without_memory_ends_its_connection_in_order() {
    let server = serve_with(Limits::default()).await;
    let all = take_all(&server);
    let between = frame(UNKNOWN, 0, 0, &[0; 8100]);
    for begin in [&[][..], &[0x20]] {
        let mut client = RawClient::new(&server).await;
        let mut answered = 0;
        for n in 0..100 {
            let head = [if n == 0 { begin } else { &[] }, &head()].concat();
            let stream = 2 * n + 1;
            client.send(&[&between[..], &frame(HEADERS, END_STREAM_AND_HEADERS, stream, &head)].concat()).await;
            let is_going_on = client.until(|kind, _, id| kind == HEADERS && id == stream).await;
            if !is_going_on {
                // The answer to what it has taken comes after the first GOAWAY.
                assert!(client.is_answered(stream, LONG).await);
                break;
            }
            answered += 1;
        }
        assert_eq!(answered == 100, !begin.is_empty(), "{answered}");
        server.counted("full-table", 1).await;
    }
    drop(all);
}

/// A long frame is read into a buffer of its own, or into one with others.
#[tokio::test]
async fn bodies_in_frames_of_any_size_are_stored_beside_each_other() {
    let server = serve_with(Limits::default()).await;
    for size in [1_000, 8_000, 12_000, 16_384] {
        let mut client = connect(&server).await;
        let mut responses = Vec::new();
        for n in 0..6 {
            let (response, mut stream) = client.begin(request("PUT", &format!("/v1/fs/{size}-{n}"), &[]), false).await;
            for _ in 0..200 {
                stream.send_data(vec![n; size].into(), false).unwrap();
            }
            stream.send_data("".into(), true).unwrap();
            responses.push(answer(response));
        }
        for (n, stored) in join_all(responses).await.into_iter().enumerate() {
            assert_eq!(stored.unwrap().status, 201, "{size}");
            let body = client.get(&format!("/v1/fs/{size}-{n}")).await.body;
            assert!(body.len() == size * 200 && body.iter().all(|byte| usize::from(*byte) == n), "{size}: {n}");
        }
    }
}

/// Bodies whose handlers wait for memory do not keep the socket from being read for one whose handler has some.
#[tokio::test]
async fn bodies_that_wait_for_memory_hold_up_no_other() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    let (stored, mut first) = client.begin(request("PUT", "/v1/fs/first", &[]), false).await;
    first.send_data(vec![1; 300_000].into(), false).unwrap();
    // It has its own memory by then.
    sleep(Duration::from_secs(1)).await;
    let all = take_all(&server);
    let mut waiting = Vec::new();
    for n in 0..8 {
        let (response, mut body) = client.begin(request("PUT", &format!("/v1/fs/{n}"), &[]), false).await;
        for _ in 0..80 {
            body.send_data(vec![n; 4_100].into(), false).unwrap();
        }
        body.send_data("".into(), true).unwrap();
        waiting.push(answer(response));
    }
    sleep(Duration::from_secs(1)).await;
    first.send_data(vec![1; 500_000].into(), true).unwrap();
    // Sooner than the others give up.
    let stored = timeout(Duration::from_secs(6), answer(stored)).await.expect("its body is read");
    assert_eq!(stored.unwrap().status, 201);
    drop(all);
    for stored in join_all(waiting).await {
        assert_eq!(stored.unwrap().status, 201);
    }
}

/// Refused bodies leave frames in buffers that an upload has frames in too, before and after they are refused.
#[tokio::test]
async fn an_upload_beside_refused_ones_goes_on_without_memory() {
    let server = serve_with(Limits::default()).await;
    let mut client = RawClient::new(&server).await;
    // It empties its table.
    let first = frame(HEADERS, 4, 1, &[&[0x20][..], &put_head()].concat());
    client.send(&[first, frame(DATA, 0, 1, &[0; 100])].concat()).await;
    // It has its own memory by then.
    sleep(Duration::from_secs(1)).await;
    let all = take_all(&server);
    // More fields than a request may have: its body is not read.
    let head = [&put_head()[..], &[0, 1, b'x', 1, b'y'].repeat(110)].concat();
    for n in 1..300 {
        let stream = 2 * n + 1;
        let bodies = [frame(DATA, 0, stream, &[0; 900]), frame(DATA, 0, 1, &[0; 100])].concat().repeat(9);
        client.send(&[frame(HEADERS, 4, stream, &head), bodies.clone()].concat()).await;
        assert!(client.is_answered(stream, LONG).await, "{n}");
        client.send(&bodies).await;
        if n % 2 == 0 {
            client.send(&frame(DATA, 1, stream, b"end")).await;
        }
    }
    client.send(&frame(DATA, 1, 1, b"end")).await;
    drop(all);
    assert!(client.is_answered(1, LONG).await);
    assert_eq!(connect(&server).await.get("/v1/fs/x").await.body.len(), 100 + 299 * 2 * 9 * 100 + 3);
}
