//! Bodies that come too slowly: no byte for a while, or too few of them in all.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// Bytes a second that a body must bring on average, once it has had [`Limits::body_grace`](crate::http::Limits).
const RATE: u64 = 1024;

/// Why a body ended: its client sends too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client sends too slowly")]
pub struct Slow;

/// A body whose client must keep sending.
pub struct Paced {
    body: Body,
    idle: Duration,
    grace: Duration,
    /// When it was first asked for: what a client waits for before that is not its fault.
    begun: Option<Instant>,
    received: u64,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub fn new(body: Body, idle: Duration, grace: Duration) -> Self {
        Self { body, idle, grace, begun: None, received: 0, alarm: None }
    }

    /// Whether too little has come for the time that it took.
    fn is_slow(&self, begun: Instant) -> bool {
        let took = begun.elapsed();
        took >= self.grace && self.received < took.as_secs() * RATE
    }
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.received += frame.data_ref().map_or(0, Bytes::len) as u64;
                self.alarm = None;
                if self.is_slow(begun) {
                    Poll::Ready(Some(Err(axum::Error::new(Slow))))
                } else {
                    Poll::Ready(Some(Ok(frame)))
                }
            }
            Poll::Ready(other) => Poll::Ready(other),
            Poll::Pending => {
                let idle = self.idle;
                let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
                alarm.as_mut().poll(cx).map(|()| Some(Err(axum::Error::new(Slow))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
