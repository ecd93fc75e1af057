//! Refusals that reach their client.
//!
//! A request may be answered before its body is read. Closing the socket while the client still sends makes
//! its system throw the answer away (RFC 9112 section 9.6), so the rest is read and dropped for a while, unless
//! the client waits for `100 Continue` and was not told to go on.

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

use super::edge::pace::Waiter;

/// For how long the rest of a body is read.
const LINGER: Duration = Duration::from_secs(10);

/// `received` counts the bytes that come.
pub fn keep_reading(request: Request, received: &Counter) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let sending = !request.headers().contains_key(EXPECT);
    let waiter = request.extensions().get::<Waiter>().cloned();
    request.map(|body| Body::new(Lingering { body, sending, received: received.clone(), waiter }))
}

struct Lingering {
    body: Body,
    /// The client sends without being told to, or has been told to.
    sending: bool,
    /// Bytes that came.
    received: Counter,
    /// The service, by its connection.
    waiter: Option<Waiter>,
}

impl http_body::Body for Lingering {
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

impl Drop for Lingering {
    fn drop(&mut self) {
        // IMPORTANT: from here on the request may be carried out, whether or not its body goes on.
        if let Some(waiter) = &self.waiter {
            waiter.leave();
        }
        let (true, false, Ok(runtime)) = (self.sending, self.body.is_end_stream(), Handle::try_current()) else {
            return;
        };
        let mut rest = std::mem::take(&mut self.body);
        runtime.spawn(tokio::time::timeout(LINGER, async move { while let Some(Ok(_)) = rest.frame().await {} }));
    }
}
