//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower_service::Service;

use super::framing::{Framed, HEAD_BYTES};
use super::pace::Paced;
use super::slots::Slot;
use super::socket::{Socket, Watched};
use crate::http::Limits;
use crate::http::problem::{Kind, Problem};

/// How long a last word may take to get to the client.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Serves a connection to its end: its client leaves, is too slow, or has to make room. Why the server closed it;
/// none if it ended by itself.
pub async fn serve(
    stream: TcpStream,
    app: Router,
    slot: Slot,
    limits: Limits,
    mut ended: watch::Receiver<bool>,
) -> Option<&'static str> {
    let (framing, slot) = (Watched::default(), Arc::new(slot));
    let socket = Socket::new(stream, framing.clone(), limits.write_idle);
    let (watched, held) = (framing.clone(), slot.clone());
    let service = service_fn(move |request| {
        let framed = watched.lock().next();
        answer(request, framed, app.clone(), limits, AtWork::new(held.clone()))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_header_size(HEAD_BYTES).max_headers(100);
    let mut connection = http.serve_connection(TokioIo::new(socket), service);
    let done = {
        let mut ending = false;
        let mut evicted = pin!(slot.evicted());
        loop {
            tokio::select! {
                done = &mut connection => break Some(done),
                () = &mut evicted => break None,
                _ = ended.wait_for(|ended| *ended), if !ending => {
                    ending = true;
                    Pin::new(&mut connection).graceful_shutdown();
                }
            }
        }
    };
    let socket = connection.into_parts().io.into_inner();
    match done {
        Some(Ok(())) => None,
        Some(Err(error)) if error.is_timeout() && framing.lock().is_in_head() => {
            last_word(socket.stream, Kind::SlowClient, "The request's head took too long: send it at once.").await;
            Some("slow-head")
        }
        Some(Err(error)) if error.is_timeout() => Some("idle"),
        Some(Err(error)) if is_stalled(&error) => Some("slow-reader"),
        Some(Err(error)) => {
            tracing::debug!(%error, "a connection ended");
            None
        }
        None => {
            last_word(socket.stream, Kind::Busy, "Too many connections are open: close some, or try again.").await;
            Some("made-room")
        }
    }
}

/// Whether the client took nothing of an answer for too long.
fn is_stalled(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

/// There is no room for another connection.
pub async fn refuse(stream: TcpStream) {
    last_word(stream, Kind::Busy, "The server has as many connections as it can serve: try again.").await;
}

/// Says why, closes, and reads for a moment, so that the client's system does not throw the answer away
/// (RFC 9112 section 9.6).
async fn last_word(mut stream: TcpStream, kind: Kind, detail: &'static str) {
    let say = async {
        stream.write_all(&Problem::new(kind, detail).raw()).await?;
        stream.shutdown().await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(LAST_WORD, say).await {
        tracing::debug!(%error, "a client had left before it could be told why");
    }
}

async fn answer(
    request: Request<Incoming>,
    framed: Framed,
    mut app: Router,
    limits: Limits,
    at_work: AtWork,
) -> Result<Response, Infallible> {
    let mut request = request.map(|body| {
        let empty = body.is_end_stream();
        let paced = || Body::new(Paced::new(Body::new(body), limits.body_idle, limits.body_grace));
        if empty { Body::empty() } else { paced() }
    });
    if framed == Framed::Ambiguous {
        request.extensions_mut().insert(Ambiguous);
    }
    let mut response = app.call(request).await?;
    if framed != Framed::Plain {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Body::new(Sent { body, _at_work: at_work })))
}

/// A request of which two headers say where it ends.
#[derive(Clone, Copy, Debug)]
pub struct Ambiguous;

/// A request is at work on the connection, until this is dropped.
struct AtWork(Arc<Slot>);

impl AtWork {
    fn new(slot: Arc<Slot>) -> Self {
        slot.set_at_work(true);
        Self(slot)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.set_at_work(false);
    }
}

/// The body of an answer; the request is at work until it is sent.
struct Sent {
    body: Body,
    _at_work: AtWork,
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
