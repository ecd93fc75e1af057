//! One connection of HTTP/1.1, from its first byte to its last, and what it shares with those of
//! [HTTP/2](super::http2).

use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Version};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower_service::Service;

use super::body_timeout::{BodyCarrier, time_body};
use super::connection_limit::ConnectionSlot;
use super::final_response::FinalResponses;
use super::framed_stream::{FramedStream, SharedFraming};
use super::framing::{HEAD_BYTES, RequestFraming};
use super::slow_client::{Timeouts, is_by_link};
use crate::api::problem::ProblemKind;
use crate::http::metrics::CloseReason;

/// Bytes of the buffers of a connection: a head at its limit fits.
const BUFFER_BYTES: usize = 2 * HEAD_BYTES;
/// The most fields of the head of a request. For HTTP/1.1 this is the library's own bound, for which it has memory at hand:
/// it would allocate and fill memory for each request if it was given a number. [`http2`](super::http2) counts them.
pub const HEAD_FIELDS: usize = 100;

/// What answers requests.
pub trait App:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<A> App for A where
    A: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// What a connection has beside its bytes.
pub struct ConnectionContext<'a> {
    pub slot: Arc<ConnectionSlot>,
    pub timeouts: Timeouts,
    pub responses: &'a FinalResponses,
    /// Whether it is a connection by TLS.
    pub is_secure: bool,
}

/// Marks a request of a connection by TLS.
#[derive(Clone, Copy, Debug)]
pub struct Secure;

/// Serves a connection to its end. Returns why the server closed it; none if the client closed it, or if it ended
/// in order.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    app: impl App,
    context: ConnectionContext<'_>,
    mut ended: watch::Receiver<bool>,
) -> Option<CloseReason> {
    let ConnectionContext { slot, timeouts, responses, is_secure, .. } = context;
    let framing = SharedFraming::default();
    let stream = FramedStream::new(stream, framing.clone(), slot.clone());
    let limits = timeouts.limits;
    let (heads, slot_of_requests) = (framing.clone(), slot.clone());
    let service = service_fn(move |request| {
        let framed = heads.lock().next_request();
        let (app, guard, timeouts) = (app.clone(), RequestGuard::start(slot_of_requests.clone()), timeouts.clone());
        async move {
            match guard {
                Some(guard) => handle((request, framed, is_secure), app, timeouts, guard).await,
                // Evicted: the connection is about to be dropped. Its client gets a 503, and the request is not
                // executed.
                None => pending().await,
            }
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_header_size(HEAD_BYTES);
    // An upper bound for the library's buffers, in either direction.
    http.max_buf_size(BUFFER_BYTES);
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    let done = {
        let mut ending = false;
        let mut evicted = pin!(slot.evicted());
        loop {
            tokio::select! {
                biased;
                () = &mut evicted => break None,
                done = &mut connection => break Some(done),
                _ = ended.wait_for(|ended| *ended), if !ending => {
                    ending = true;
                    Pin::new(&mut connection).graceful_shutdown();
                }
            }
        }
    };
    let framed = connection.into_parts().io.into_inner();
    // IMPORTANT: a final response may only follow a whole response, never replace the rest of one.
    let may_respond = !framed.is_unsent() && !slot.is_responding();
    match done {
        Some(Ok(())) => None,
        Some(Err(error)) if error.is_timeout() && may_respond && framing.lock().is_in_head() => {
            responses
                .send(framed.stream, ProblemKind::SlowClient, "The request's head took too long: send it at once.")
                .await;
            Some(CloseReason::SlowHead)
        }
        Some(Err(error)) if error.is_timeout() => Some(CloseReason::Idle),
        Some(Err(error)) if is_stalled(&error) => Some(CloseReason::SlowReader),
        Some(Err(error)) => {
            tracing::debug!(%error, "a connection ended");
            None
        }
        None if framed.is_unsent() => Some(CloseReason::SlowReader),
        None if !may_respond => Some(CloseReason::MadeRoom),
        None => {
            responses
                .send(framed.stream, ProblemKind::Busy, "Too many connections are open: close some, or try again.")
                .await;
            Some(CloseReason::MadeRoom)
        }
    }
}

/// Whether the client read nothing of a response for too long.
pub fn is_stalled(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

async fn handle(
    (request, framed, is_secure): (Request<Incoming>, RequestFraming, bool),
    mut app: impl App,
    timeouts: Timeouts,
    guard: RequestGuard,
) -> Result<Response, Infallible> {
    guard.0.set_by_link(is_by_link(request.uri().path()));
    let mut request = time_body(request, timeouts, || BodyCarrier::Connection(guard.0.clone()));
    if is_secure {
        request.extensions_mut().insert(Secure);
    }
    if framed == RequestFraming::Ambiguous {
        request.extensions_mut().insert(AmbiguousFraming);
    }
    let is_old = request.version() < Version::HTTP_11;
    let mut response = app.call(request).await?;
    let is_close_delimited = !response.body().is_end_stream() && response.body().size_hint().exact().is_none();
    if is_old && is_close_delimited {
        guard.0.set_close_delimited();
    }
    guard.0.handler_done();
    if framed != RequestFraming::Plain {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Body::new(SentBody { body, _guard: guard })))
}

/// Marks a request with both `Content-Length` and `Transfer-Encoding`.
#[derive(Clone, Copy, Debug)]
pub struct AmbiguousFraming;

/// A request is under way on the connection until this is dropped and the response is flushed.
struct RequestGuard(Arc<ConnectionSlot>);

impl RequestGuard {
    /// None if the connection is evicted.
    fn start(slot: Arc<ConnectionSlot>) -> Option<Self> {
        slot.start_request().then(|| Self(slot))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.body_taken();
    }
}

/// The body of a response. It keeps the guard until the HTTP library has taken all of the body.
struct SentBody {
    body: Body,
    _guard: RequestGuard,
}

impl http_body::Body for SentBody {
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use futures_util::{StreamExt, stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;

    use super::super::connection_limit::ConnectionLimit;
    use super::super::write_timeout::ClientSocket;
    use super::*;

    async fn serve_socket(
        stream: TcpStream,
        app: Router,
        slot: ConnectionSlot,
        ended: watch::Receiver<bool>,
    ) -> Option<CloseReason> {
        let timeouts = Timeouts::for_tests();
        let (slot, responses) = (Arc::new(slot), FinalResponses::new(1));
        let socket = ClientSocket::new(stream, slot.clone(), timeouts.clone());
        let context = ConnectionContext { slot, timeouts, responses: &responses, is_secure: false };
        serve(socket, app, context, ended).await
    }

    /// In HTTP/1.0 a response of unknown length ends with its connection.
    #[tokio::test]
    async fn an_interrupted_response_to_an_old_client_does_not_look_complete() {
        const BYTES: usize = 3_000_000;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_ending, ended) = watch::channel(false);
        for end in ["it is whole", "its body fails", "the server ends"] {
            let go_on = Arc::new(Notify::new());
            let failing = go_on.clone();
            let app = Router::new().fallback(move || async move {
                let first = stream::once(async { Ok(Bytes::from(vec![b'x'; BYTES])) });
                let rest = stream::once(async move {
                    match end {
                        "it is whole" => Ok(Bytes::from_static(b"end")),
                        "its body fails" => {
                            failing.notified().await;
                            Err(io::Error::other(end))
                        }
                        _ => pending().await,
                    }
                });
                Body::from_stream(first.chain(rest))
            });
            let slot = ConnectionLimit::new(1, 1).acquire(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n").await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let serving = tokio::spawn(serve_socket(stream, app, slot, ended.clone()));
            let mut buffer = vec![0; BYTES];
            client.read_exact(&mut buffer).await.unwrap();
            assert!(buffer.starts_with(b"HTTP/1.0 200 ") || buffer.starts_with(b"HTTP/1.1 200 "));
            if end == "it is whole" {
                // The server has sent it all long before the client has read it.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            } else {
                go_on.notify_one();
            }
            if end == "the server ends" {
                serving.abort();
            }
            let mut rest = Vec::new();
            let read = client.read_to_end(&mut rest).await;
            assert_eq!(read.is_ok() && rest.ends_with(b"end"), end == "it is whole", "{end}: {read:?}");
            assert_eq!(read.is_err(), end != "it is whole", "{end}: {read:?}");
        }
    }

    /// The request is in the socket's buffer when the connection is evicted.
    #[tokio::test]
    async fn a_request_of_an_evicted_connection_is_not_executed() {
        let called = Arc::new(AtomicUsize::new(0));
        let count = called.clone();
        let app = Router::new().fallback(move || async move {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_ending, ended) = watch::channel(false);
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for evicted in [true; 20].into_iter().chain([false]) {
            let slots = ConnectionLimit::new(1, 1);
            let slot = slots.acquire(here).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(b"PUT /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            let _other = evicted.then(|| slots.acquire(here).unwrap());
            let serving = tokio::spawn(serve_socket(stream, app.clone(), slot, ended.clone()));
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            drop(client);
            let status = if evicted { "HTTP/1.1 503 " } else { "HTTP/1.1 200 " };
            assert!(answer.starts_with(status), "{answer}");
            assert_eq!(called.load(Ordering::Relaxed), usize::from(!evicted));
            assert_eq!(serving.await.unwrap(), evicted.then_some(CloseReason::MadeRoom));
        }
    }
}
