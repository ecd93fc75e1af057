//! Drains the unread rest of a request's body, so that an early response reaches its client.
//!
//! A request may be answered before its body is read. If the socket is closed while the client still sends, the
//! client's system discards the response (RFC 9112 section 9.6). So the rest is read and dropped for a while. A client
//! that waits for `100 Continue`, and has not got it, sends no body: then there is nothing to drain. In HTTP/2 the
//! server could stop the stream of a body alone (RFC 9113 section 8.1), but then common clients discard the response
//! too: curl 7.88 does.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::EXPECT;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use prometheus_client::metrics::counter::Counter;
use tokio::runtime::Handle;

use super::body_timeout::BodyWaiter;

/// How long the rest of a body is read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Drains the body when the handler drops it. `received` counts its bytes.
pub fn drain_on_drop(request: Request, received: &Counter) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let sending = !request.headers().contains_key(EXPECT);
    let waiter = request.extensions().get::<BodyWaiter>().cloned();
    request.map(|body| Body::new(DrainedBody { body, sending, received: received.clone(), waiter }))
}

/// Reads and drops the rest of a body for a while.
pub fn drain(mut rest: Body) {
    let (false, Ok(runtime)) = (rest.is_end_stream(), Handle::try_current()) else { return };
    runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, async move { while let Some(Ok(_)) = rest.frame().await {} }));
}

struct DrainedBody {
    body: Body,
    /// The client sends: it did not wait for `100 Continue`, or got it.
    sending: bool,
    /// Bytes of all bodies.
    received: Counter,
    /// The handler that waits for the body.
    waiter: Option<BodyWaiter>,
}

impl http_body::Body for DrainedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.sending = true;
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.received.inc_by(frame.data_ref().map_or(0, Bytes::len) as u64);
        }
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.sending = false;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        // IMPORTANT: from here on the handler may execute the request, so a stalled body must not evict its connection.
        if let Some(waiter) = &self.waiter {
            waiter.detach();
        }
        if self.sending {
            drain(std::mem::take(&mut self.body));
        }
    }
}
