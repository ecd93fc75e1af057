//! Frames that no honest client of HTTP/2 sends.

use std::time::Duration;

use futures_util::future::join_all;
use rowdrive::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::http2::{answer, connect, request};
use super::secure_server::{HTTP2, LONG, SecureServer, serve_with};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
pub const END_STREAM_AND_HEADERS: u8 = 5;
const ENHANCE_YOUR_CALM: u32 = 11;

pub fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// `GET https://localhost/`, by the static table of HPACK (RFC 7541).
pub fn head() -> Vec<u8> {
    [&[0x82, 0x87, 0x84, 0x41, 9][..], b"localhost"].concat()
}

/// The request for a path of a client that lets the server send gigabytes.
pub fn request_with_large_windows(path: &str) -> Vec<u8> {
    let (window, more) = (i32::MAX.to_be_bytes(), (i32::MAX - 65_535).to_be_bytes());
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4], &window[..]].concat());
    let head = [&[0x82, 0x87, 0x44, path.len() as u8], path.as_bytes(), &[0x41, 9], b"localhost"].concat();
    let request = frame(HEADERS, END_STREAM_AND_HEADERS, 1, &head);
    [PREFACE, &settings, &frame(WINDOW_UPDATE, 0, 0, &more), &request].concat()
}

/// The head of `PUT https://localhost/v1/fs/x`.
pub fn put_head() -> Vec<u8> {
    let path = b"/v1/fs/x";
    [&[0x42, 3][..], b"PUT", &[0x87, 0x44, path.len() as u8], path, &[0x41, 9], b"localhost"].concat()
}

/// The frame with this head, on the first stream.
pub fn first_request() -> Vec<u8> {
    frame(HEADERS, END_STREAM_AND_HEADERS, 1, &head())
}

/// What a client sends first.
pub fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Sends these frames, and reads until the server ends the connection. Returns the codes of its GOAWAY frames.
async fn codes(server: &SecureServer, frames: &[u8]) -> Vec<u32> {
    let mut stream = server.connect(HTTP2).await;
    // The server may have ended the connection before it has read all.
    let _cut = stream.write_all(&[&opening(), frames].concat()).await;
    let mut all = Vec::new();
    let _cut = timeout(LONG, stream.read_to_end(&mut all)).await.expect("the server ends the connection");
    let (mut codes, mut rest) = (Vec::new(), all.as_slice());
    while rest.len() >= 9 {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let (kind, content) = (rest[3], rest.get(9..9 + length).unwrap_or_default());
        if kind == GOAWAY {
            codes.push(u32::from_be_bytes(content[4..8].try_into().unwrap()));
        }
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    codes
}

#[tokio::test]
async fn floods_of_http_2_end_their_connection_alone() {
    let server = serve_with(Limits::default()).await;
    let mut honest = connect(&server).await;
    let resets: Vec<u8> = (0..2000)
        .flat_map(|n| {
            let stream = 2 * n + 1;
            [frame(HEADERS, END_STREAM_AND_HEADERS, stream, &head()), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])]
        })
        .flatten()
        .collect();
    // A head that never ends.
    let mut endless = frame(HEADERS, 1, 1, &head());
    for _ in 0..2000 {
        endless.extend(frame(CONTINUATION, 0, 1, &[0, 1, b'x', 1, b'y']));
    }
    // A head of many large frames, which has an end.
    let mut large = frame(HEADERS, 1, 1, &head());
    for n in 0..8 {
        // 16 fields of 1,000 bytes each.
        let field = [&[0, 1, b'x', 0x7f, 0xe9, 6][..], &[b'y'; 1000]].concat();
        large.extend(frame(CONTINUATION, if n == 7 { 4 } else { 0 }, 1, &field.repeat(16)));
    }
    for (what, frames) in [("resets", resets), ("an endless head", endless), ("a large head", large)] {
        let codes = codes(&server, &frames).await;
        assert!(codes.contains(&ENHANCE_YOUR_CALM), "{what}: {codes:?}");
        assert_eq!(honest.ask("GET", "/healthz", &[], b"").await.status, 200, "{what}");
    }
}

/// More requests than may run at a time: the further ones are refused, and not executed.
#[tokio::test]
async fn streams_beyond_their_limit_are_refused() {
    let server = serve_with(Limits { head: Duration::from_millis(500), ..Limits::default() }).await;
    let mut stream = server.connect(HTTP2).await;
    // Each waits for its body.
    let frames: Vec<u8> = (0..80).flat_map(|n| frame(HEADERS, 4, 2 * n + 1, &put_head())).collect();
    stream.write_all(&[opening(), frames].concat()).await.unwrap();
    let (mut refused, mut seen) = (0, Vec::new());
    while refused < 16 {
        let mut buffer = [0; 4096];
        let read = timeout(LONG, stream.read(&mut buffer)).await.expect("the server refuses").unwrap();
        assert!(read > 0, "{refused} were refused");
        seen.extend_from_slice(&buffer[..read]);
        // A frame RST_STREAM with the code REFUSED_STREAM.
        refused = seen.windows(13).filter(|f| f[..4] == [0, 0, 4, RST_STREAM] && f[9..] == [0, 0, 0, 7]).count();
    }
    assert_eq!(refused, 16);
}

#[tokio::test]
async fn a_connection_of_http_2_that_sends_half_a_head_is_closed_in_time() {
    let server = serve_with(Limits { head: Duration::from_millis(300), ..Limits::default() }).await;
    let half = frame(HEADERS, 1, 1, &head());
    let ping = frame(PING, 0, 0, &[0; 8]);
    let all = [half, ping, vec![0, 0], vec![]];
    join_all(all.iter().map(|frames| codes(&server, frames))).await;
    let mut silent = server.connect(HTTP2).await;
    let _cut = timeout(LONG, silent.read_to_end(&mut Vec::new())).await.expect("the server closes");
}

#[tokio::test]
async fn floods_of_pings_and_settings_end_their_connection_alone() {
    let server = serve_with(Limits::default()).await;
    let mut honest = connect(&server).await;
    for (many, flood) in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])].iter().enumerate() {
        codes(&server, &flood.repeat(5000)).await;
        server.counted("flood", many + 1).await;
        assert_eq!(honest.ask("GET", "/healthz", &[], b"").await.status, 200);
    }
}

/// A frame that waits for its handler costs the server some 220 bytes, however short it is: without memory for them it does
/// not read them.
#[tokio::test]
async fn tiny_frames_wait_for_memory_and_empty_ones_end_their_connection_alone() {
    let server = serve_with(Limits::default()).await;
    let (mut honest, mut tiny) = (connect(&server).await, connect(&server).await);
    let memory = server.app.drive.memory();
    let mut all = Vec::new();
    for bytes in [memory.bytes(), 4096] {
        while let Some(permit) = memory.try_take(bytes) {
            all.push(permit);
        }
    }
    let (response, mut stream) = honest.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    for _ in 0..600 {
        stream.send_data(vec![b'x'; 100].into(), false).unwrap();
    }
    let (stored, mut body) = tiny.begin(request("PUT", "/v1/fs/tiny", &[]), false).await;
    for _ in 0..5_000 {
        body.send_data("x".into(), false).unwrap();
    }
    body.send_data("end".into(), true).unwrap();
    // Later, so that it is sent after these frames. It cannot be answered: the server does not read that far.
    sleep(Duration::from_secs(1)).await;
    let (beside, _) = tiny.begin(request("GET", "/healthz", &[]), true).await;
    assert!(timeout(Duration::from_secs(2), beside).await.is_err());
    let empty = [frame(HEADERS, 4, 1, &put_head()), frame(DATA, 0, 1, b"").repeat(1_000)].concat();
    let codes = codes(&server, &empty).await;
    assert!(codes.contains(&ENHANCE_YOUR_CALM), "{codes:?}");
    assert_eq!(connect(&server).await.get("/healthz").await.status, 200, "another connection");
    drop(all);
    assert_eq!(answer(stored).await.unwrap().status, 201);
    assert_eq!(tiny.get("/v1/fs/tiny").await.body.len(), 5_003);
    stream.send_data("y".into(), true).unwrap();
    assert_eq!(answer(response).await.unwrap().status, 201);
    assert_eq!(honest.get("/v1/fs/f").await.body.len(), 60_001);
}

/// The server reads no faster than the handler takes them, and goes on with other requests.
#[tokio::test]
async fn a_file_of_many_tiny_frames_is_stored_as_it_was_sent() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    let (response, mut stream) = client.begin(request("PUT", "/v1/fs/f", &[]), false).await;
    let (_unread, _body) = client.begin(request("PUT", "/v1/fs/g", &[]), false).await;
    let content: Vec<u8> = (0..30_000_u32).map(|n| (n % 251) as u8).collect();
    for byte in &content {
        stream.send_data(vec![*byte].into(), false).unwrap();
    }
    stream.send_data("".into(), true).unwrap();
    assert_eq!(answer(response).await.unwrap().status, 201);
    assert!(client.get("/v1/fs/f").await.body == content);
}

/// Requests that are refused leave frames that no handler takes. They count no longer than their requests.
#[tokio::test]
async fn tiny_bodies_of_refused_requests_end_no_connection() {
    let server = serve_with(Limits::default()).await;
    let mut client = connect(&server).await;
    let (long, mut stream) = client.begin(request("PUT", "/v1/fs/long", &[]), false).await;
    let many = [("x", "y"); 110];
    for n in 0..2_000 {
        // Of some the server reads the body after the answer, of others it does not.
        let (headers, status) = if n % 2 == 0 { (&[("if-match", "\"none\"")][..], 412) } else { (&many[..], 431) };
        let (refused, mut body) = client.begin(request("PUT", &format!("/v1/fs/{n}"), headers), false).await;
        // By then the server may have reset it.
        let _reset = body.send_data("x".into(), n % 3 == 0);
        assert_eq!(answer(refused).await.unwrap().status, status, "{n}");
    }
    stream.send_data("end".into(), true).unwrap();
    assert_eq!(answer(long).await.unwrap().status, 201);
}

/// `CONNECT` with `:protocol` (RFC 8441).
#[tokio::test]
async fn extended_connect_is_refused() {
    let server = serve_with(Limits { head: Duration::from_millis(300), ..Limits::default() }).await;
    let mut stream = server.connect(HTTP2).await;
    let protocol = [&[0, 9][..], b":protocol", &[9], b"websocket"].concat();
    let head = [&[0x42, 7][..], b"CONNECT", &protocol, &[0x87, 0x84, 0x41, 9], b"localhost"].concat();
    stream.write_all(&[opening(), frame(HEADERS, 4, 1, &head)].concat()).await.unwrap();
    let mut all = Vec::new();
    let _cut = timeout(LONG, stream.read_to_end(&mut all)).await.expect("the server closes");
    // A frame RST_STREAM of this stream, with the code PROTOCOL_ERROR.
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 1]);
    assert!(all.windows(reset.len()).any(|bytes| bytes == reset), "{all:?}");
}
