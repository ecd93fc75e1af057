//! One connection of HTTP/2, from its first byte to its last. Its requests run beside each other, each in a task of its
//! own: a *stream*.
//!
//! The HTTP library limits how much a client may send. It does not limit how long: here an idle connection is closed,
//! and a stream is reset whose client reads nothing of the response.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{SemaphorePermit, watch};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::body_timeout::{BodyCarrier, time_body};
use super::connection::{App, ConnectionContext, HEAD_FIELDS, Secure, is_stalled};
use super::connection_memory::ConnectionMemory;
use super::drain;
use super::final_response::TIMEOUT;
use super::http2_body::{PIECE, SentBody};
use super::http2_socket::Http2Socket;
use super::places::ConnectionPlaces;
use super::received_body::ReceivedBody;
use super::slow_client::{Timeouts, is_by_link};
use super::socket_state::SocketState;
use super::stream_task::{self, EndTasks, StreamTasks};
use super::streams::Streams;
use crate::api::header::REQUEST_ID;
use crate::api::problem::ProblemKind;
use crate::http::metrics::CloseReason;
use crate::http::response::problem::Problem;

/// Requests of a connection at a time.
pub const STREAMS: u32 = 64;
/// Bytes that a client may send of one body before its handler reads them.
const WINDOW: u32 = 64 << 10;
/// The same for all bodies of a connection: a body that is not read must not stop another one.
const CONNECTION_WINDOW: u32 = STREAMS * WINDOW;
/// Bytes of the head of a request, without compression (RFC 9113 section 6.5.2).
const HEADER_LIST: u32 = 24 << 10;
/// Bytes that the client of a request may make the server keep: its head, what is not read of its body, and trailers.
pub const STREAM_BYTES: usize = (2 * HEADER_LIST + WINDOW) as usize;
/// Bytes of a response that the library takes before the client has read them.
const SEND_BYTES: usize = 4 * PIECE;
/// Streams that a client has reset before the server took them. Beyond that the connection ends.
const RESETS: usize = 20;

/// Serves a connection to its end. Returns why the server closed it; none if the client closed it, if
/// the server stops, or after an error that is the client's.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    app: impl App,
    (context, places): (ConnectionContext<'_>, Arc<ConnectionPlaces>),
    mut ended: watch::Receiver<bool>,
) -> Option<CloseReason> {
    let ConnectionContext { slot, timeouts, responses, .. } = context;
    let socket = Arc::new(SocketState::default());
    let (head, streams) = (timeouts.limits.head, Streams::new(slot.clone(), places, socket.clone()));
    let frames = Arc::new(ConnectionMemory::new(timeouts.memory_of_others().clone()));
    let tasks = StreamTasks::new(streams.clone(), timeouts.clone());
    let _tasks_end = EndTasks(tasks.clone());
    let stream = TokioIo::new(Http2Socket::new(stream, socket.clone(), frames.clone()));
    let of_bodies = frames.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let request = request.map(|body| ReceivedBody::new(body, of_bodies.clone()));
        handle(request, app.clone(), timeouts.clone())
    });
    let mut connection = pin!(builder(tasks).serve_connection(stream, service));
    let mut evicted = pin!(slot.evicted());
    let mut next_check = pin!(sleep(head));
    let mut check_memory = ConnectionMemory::check_interval();
    // Why it accepts no more requests, and its place among the connections that end.
    let mut closing: Option<(CloseReason, Option<SemaphorePermit<'_>>)> = None;
    let (mut is_evicted, mut is_stopping) = (false, false);
    loop {
        tokio::select! {
            biased;
            () = &mut evicted, if !is_evicted => {
                is_evicted = true;
                let place = responses.try_place();
                // With requests under way it stalls, and would not end in order.
                if place.is_none() || streams.idle_since().is_none() {
                    return Some(CloseReason::MadeRoom);
                }
                closing = Some((CloseReason::MadeRoom, place));
            }
            done = &mut connection => {
                return closing.map(|(why, _)| why).or_else(|| done.err().and_then(|error| why(&error, &socket)));
            }
            // IMPORTANT: after the connection was polled. A response that was queued before is then in the socket, or
            // in the bytes that wait for it.
            why = poll_fn(|cx| {
                streams.settle(cx, !socket.is_unsent());
                frames.poll_end(cx, &mut check_memory, || streams.is_of_user())
            }) => {
                if why == CloseReason::MadeRoom {
                    return Some(why);
                }
                closing.get_or_insert((why, None));
            }
            _ = ended.wait_for(|ended| *ended), if !is_stopping => is_stopping = true,
            () = &mut next_check => {
                let is_closing = closing.is_some() || is_stopping;
                let patience = if is_closing { TIMEOUT } else { head };
                let idle = streams.idle_since().map_or(Duration::ZERO, |since| since.elapsed());
                if idle < patience {
                    next_check.as_mut().reset(Instant::now() + (patience - idle));
                    continue;
                }
                if is_closing {
                    // Its client does not answer.
                    return closing.map(|(why, _)| why);
                }
                closing = Some((CloseReason::Idle, None));
            }
        }
        connection.as_mut().graceful_shutdown();
        next_check.as_mut().reset(Instant::now() + TIMEOUT);
    }
}

fn builder(tasks: StreamTasks) -> http2::Builder<StreamTasks> {
    let mut http = http2::Builder::new(tasks);
    http.max_concurrent_streams(STREAMS).max_pending_accept_reset_streams(RESETS);
    http.initial_stream_window_size(WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    http.max_header_list_size(HEADER_LIST).max_send_buf_size(SEND_BYTES);
    // What is in it would keep the buffers that it was read into.
    http.header_table_size(0);
    http
}

fn why(error: &hyper::Error, socket: &SocketState) -> Option<CloseReason> {
    if socket.is_flooded() {
        return Some(CloseReason::Flood);
    }
    if is_stalled(error) {
        return Some(CloseReason::SlowReader);
    }
    tracing::debug!(%error, "a connection ended");
    None
}

async fn handle(
    mut request: Request<ReceivedBody>,
    mut app: impl App,
    timeouts: Timeouts,
) -> Result<Response<SentBody>, Infallible> {
    let stream = stream_task::current();
    let send = |response: Response| response.map(|body| SentBody::new(body, stream.clone()));
    let Some(running) = stream.as_ref().and_then(|stream| stream.running.clone()) else {
        if !request.headers().contains_key(EXPECT) {
            drain::drain(Body::new(request.into_body()));
        }
        return Ok(send(refused()));
    };
    request.body_mut().accept();
    // As the library does over HTTP/1.1.
    if request.headers().len() > HEAD_FIELDS {
        return Ok(send(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response()));
    }
    if let Some(stream) = stream.as_ref().filter(|_| is_by_link(request.uri().path())) {
        stream.set_by_link();
    }
    let mut request = time_body(request, timeouts, || BodyCarrier::Stream(running.clone()));
    request.extensions_mut().insert(Secure);
    request.extensions_mut().insert(running);
    let mut response = app.call(request).await?;
    // Nothing follows these, and the length would be that of another response (RFC 9110 section 8.6). Over HTTP/1.1 the
    // library removes it.
    if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    Ok(send(response))
}

/// The answer to a request that arrives after the connection was evicted, or that finds no place. Nothing is executed.
fn refused() -> Response {
    let problem = Problem::new(ProblemKind::Busy, "The server has too many connections or requests: try again.");
    let (id, mut response) = (Uuid::now_v7(), problem.clone().into_response());
    problem.render(&mut response, id);
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    tracing::debug!(%id, "a request of HTTP/2 was refused: there are too many requests or connections");
    response
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::Router;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::super::connection_limit::ConnectionLimit;
    use super::super::final_response::FinalResponses;
    use super::super::places::Places;
    use super::*;
    use crate::budget::Budget;
    use crate::http::metrics::ConnectionMetrics;
    use crate::http::options::Limits;

    /// `GET https://a/`, by the static table of HPACK (RFC 7541), as all that the client sends.
    const REQUEST: &[u8] =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x87\x84\x41\x01a";

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Serves the only connection of this limit to its end.
    fn start(
        stream: DuplexStream,
        app: Router,
        slots: &Arc<ConnectionLimit>,
        timeouts: Timeouts,
    ) -> JoinHandle<Option<CloseReason>> {
        let slot = Arc::new(slots.acquire(HERE).unwrap());
        tokio::spawn(async move {
            let (_ending, ended) = watch::channel(false);
            let responses = FinalResponses::new(1);
            let context = ConnectionContext { slot, timeouts, responses: &responses, is_secure: true };
            let places = Places::new(1, 1, &ConnectionMetrics::default()).for_connection(None);
            serve(BufStream::new(stream), app, (context, places), ended).await
        })
    }

    /// The memory is that of frames whose handler does not take them.
    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_others_wait_for_the_memory_of_its_frames() {
        let memory = Budget::new(8 << 20);
        let (mut client, server) = duplex(1 << 20);
        let app = Router::new().fallback(async |_body: Body| std::future::pending::<StatusCode>().await);
        let timeouts = Timeouts::new(Limits::default(), &memory, None);
        let serving = start(server, app, &ConnectionLimit::new(1, 1), timeouts);
        // The request has no END_STREAM: its body follows.
        let mut sent = REQUEST.to_vec();
        let flags = sent.len() - 11;
        assert_eq!(sent[flags - 1..=flags], [1, 5]);
        sent[flags] = 4;
        sent.extend([0, 0, 1, 0, 0, 0, 0, 0, 1, b'x'].repeat(600));
        client.write_all(&sent).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        assert!(!serving.is_finished());
        let others = memory.of_strangers();
        let _all = others.take(8 << 20).await;
        let waiting = tokio::spawn(async move { others.take(8 << 20).await });
        let why = timeout(Duration::from_secs(9), serving).await.unwrap().unwrap();
        assert_eq!(why, Some(CloseReason::MadeRoom));
        waiting.abort();
    }

    /// Its client may read the response only when it has sent the body, and would see nothing but a reset.
    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_request_without_a_place_is_drained() {
        let (mut client, server) = duplex(1 << 20);
        let app = Router::new().fallback(async || std::future::pending::<StatusCode>().await);
        let serving = start(server, app, &ConnectionLimit::new(1, 1), Timeouts::for_tests());
        let (preface, request) = REQUEST.split_at(REQUEST.len() - 15);
        // Without END_STREAM: a body follows. The first one needs no place, the second one has the only one.
        let head = |stream| [&[0, 0, 6, 1, 4, 0, 0, 0, stream][..], &request[9..]].concat();
        client.write_all(&[preface, &head(1), &head(3), &head(5)].concat()).await.unwrap();
        let mut sent = Vec::new();
        let is_reset = |sent: &[u8]| sent.windows(9).any(|bytes| bytes == [0, 0, 4, 3, 0, 0, 0, 0, 5]);
        let mut buffer = [0; 4096];
        while let Ok(read) = timeout(Duration::from_secs(5), client.read(&mut buffer)).await {
            sent.extend_from_slice(&buffer[..read.unwrap()]);
        }
        assert!(sent.windows(6).any(|bytes| bytes[0] == 1 && bytes[2..] == [0, 0, 0, 5]), "no response: {sent:?}");
        assert!(!is_reset(&sent), "{sent:?}");
        let read = timeout(Duration::from_secs(15), client.read(&mut buffer)).await.expect("it ends");
        assert!(is_reset(&buffer[..read.unwrap()]));
        serving.abort();
    }

    /// The library has written the whole response, but what is below it has not: as TLS may.
    #[tokio::test(start_paused = true)]
    async fn a_connection_with_unsent_bytes_is_neither_idle_nor_evicted() {
        let slots = ConnectionLimit::new(1, 1);
        // The server's settings fit, and not the response too.
        let (mut client, server) = duplex(64);
        let app = Router::new().fallback(|| async { StatusCode::NO_CONTENT });
        let serving = start(server, app, &slots, Timeouts::for_tests());
        client.write_all(REQUEST).await.unwrap();
        sleep(Limits::default().head * 100).await;
        assert!(!serving.is_finished() && slots.acquire(HERE).is_none());
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        let settings = all[9..].chunks(6).take(usize::from(all[2]) / 6);
        assert!(all[3] == 4 && settings.into_iter().any(|setting| setting == [0, 1, 0, 0, 0, 0]), "no table: {all:?}");
        // A frame HEADERS with END_STREAM and END_HEADERS on the stream.
        assert!(all.windows(6).any(|bytes| bytes == [1, 5, 0, 0, 0, 1]), "{all:?}");
        assert_eq!(serving.await.unwrap(), Some(CloseReason::Idle));
    }
}
