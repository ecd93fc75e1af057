//! Clients that are too slow: no byte of a body or of an answer for a while, or too few of them in all. While others
//! wait for memory, that while is short: what a client that has stalled holds is for them. The longer they wait, the
//! more a body must have brought: the slowest ones go first, and no more of them than it takes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::budget::Budget;
use crate::http::Limits;

/// Bytes a second that a body must bring on average, and a client take of an answer, once it has had
/// [`Limits::body_grace`](crate::http::Limits).
pub const RATE: u64 = 1024;
/// How long a client may stall while others wait for memory.
const SHORT: Duration = Duration::from_secs(5);
/// How many times the rate doubles at most while others wait for memory: to 64 KiB a second, which an honest client
/// far away may send.
const DOUBLED: u64 = 6;
/// How often it is looked whether they do.
const LOOK: Duration = Duration::from_secs(1);

/// How slow a client may be.
#[derive(Clone)]
pub struct Patience {
    pub limits: Limits,
    pub memory: Budget,
}

/// Runs while a client stalls.
pub struct Stall {
    since: Instant,
    look: Pin<Box<Sleep>>,
    idle: Duration,
}

impl Stall {
    /// `idle`: how long it may last.
    pub fn begin(idle: Duration) -> Self {
        Self { since: Instant::now(), look: Box::pin(tokio::time::sleep(idle.min(LOOK))), idle }
    }

    pub fn lasted(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ready when it has lasted too long.
    pub fn poll_end(&mut self, cx: &mut Context<'_>, memory: &Budget) -> Poll<()> {
        loop {
            ready!(self.look.as_mut().poll(cx));
            let idle = if memory.is_short() { self.idle.min(SHORT) } else { self.idle };
            if self.lasted() >= idle {
                return Poll::Ready(());
            }
            let next = self.idle.saturating_sub(self.lasted()).clamp(Duration::from_millis(1), LOOK);
            self.look.as_mut().reset(Instant::now() + next);
        }
    }
}

/// Why a body ended: its client sends too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client sends too slowly")]
pub struct Slow;

/// A body whose client must keep sending.
pub struct Paced {
    body: Body,
    patience: Patience,
    /// When it was first asked for: what a client waits for before that is not its fault.
    begun: Option<Instant>,
    received: u64,
    stall: Option<Stall>,
    /// How long its client was waited for, before this stall.
    awaited: Duration,
}

impl Paced {
    pub fn new(body: Body, patience: Patience) -> Self {
        Self { body, patience, begun: None, received: 0, stall: None, awaited: Duration::ZERO }
    }

    /// Whether too little has come for the time that it took.
    fn is_slow(&self, begun: Instant) -> bool {
        let took = begun.elapsed();
        took >= self.patience.limits.body_grace && self.received < took.as_secs() * RATE
    }

    /// Whether it goes for the sake of others. The rate that is asked of it doubles with every second for which
    /// somebody has been waiting for memory. What the server itself is late does not count.
    fn is_in_the_way(&self) -> bool {
        let waited = self.patience.memory.waited().as_secs().min(DOUBLED);
        let awaited = self.awaited + self.stall.as_ref().map_or(Duration::ZERO, Stall::lasted);
        waited > 0 && awaited >= SHORT && self.received < awaited.as_secs().saturating_mul(RATE << waited)
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
                let stalled = self.stall.take().map_or(Duration::ZERO, |stall| stall.lasted());
                self.awaited += stalled;
                if self.is_slow(begun) || self.is_in_the_way() {
                    Poll::Ready(Some(Err(axum::Error::new(Slow))))
                } else {
                    Poll::Ready(Some(Ok(frame)))
                }
            }
            Poll::Ready(other) => Poll::Ready(other),
            // Comes here again every second, as long as it stalls.
            Poll::Pending if self.is_in_the_way() => Poll::Ready(Some(Err(axum::Error::new(Slow)))),
            Poll::Pending => {
                let Self { patience, stall, .. } = &mut *self;
                let stall = stall.get_or_insert_with(|| Stall::begin(patience.limits.body_idle));
                stall.poll_end(cx, &patience.memory).map(|()| Some(Err(axum::Error::new(Slow))))
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
