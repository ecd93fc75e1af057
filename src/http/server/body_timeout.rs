//! Clients that are too slow: no byte of a body or of an answer for a while, or too few of them in all. While others
//! wait for memory, that while is short: what a client that has stalled holds is for them. The longer they wait, the
//! more a body must have brought: the slowest ones go first, and no more of them than it takes. When others find no
//! connection free, a body that has stalled, or has been too slow, loses its own.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::slots::Slot;
use crate::budget::Budget;
use crate::http::Limits;

/// Bytes a second that a body must bring on average, and a client take of an answer, once it has had
/// [`Limits::body_grace`](crate::http::Limits).
pub const RATE: u64 = 1024;
/// How long a client may stall while others wait for memory, or for a connection.
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
        while !ready!(self.poll_look(cx, memory)) {}
        Poll::Ready(())
    }

    /// Ready every second, and at the end: whether it has lasted too long. To be called until it is pending.
    pub fn poll_look(&mut self, cx: &mut Context<'_>, memory: &Budget) -> Poll<bool> {
        ready!(self.look.as_mut().poll(cx));
        let idle = if memory.is_short() { self.idle.min(SHORT) } else { self.idle };
        let next = self.idle.saturating_sub(self.lasted()).clamp(Duration::from_millis(1), LOOK);
        self.look.as_mut().reset(Instant::now() + next);
        Poll::Ready(self.lasted() >= idle)
    }
}

/// Who waits for a body: the service, on the connection that has this place.
#[derive(Clone)]
pub struct Waiter(Arc<Waits>);

struct Waits {
    slot: Arc<Slot>,
    /// What the place knows.
    starved: AtomicBool,
    gone: AtomicBool,
}

impl Waiter {
    pub fn new(slot: Arc<Slot>) -> Self {
        Self(Arc::new(Waits { slot, starved: AtomicBool::new(false), gone: AtomicBool::new(false) }))
    }

    /// Whether it waits in vain. False if the place was given to another meanwhile.
    fn set_starved(&self, starved: bool) -> bool {
        let Waits { slot, starved: before, gone } = &*self.0;
        let starved = starved && !gone.load(Ordering::Relaxed);
        // Most bodies never starve anybody: they need not lock.
        before.swap(starved, Ordering::Relaxed) == starved || slot.set_starved(starved)
    }

    /// The service waits no more, and may be carrying out the request. What is still read of the body is nobody's.
    pub fn leave(&self) {
        self.0.gone.store(true, Ordering::Relaxed);
        self.set_starved(false);
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
    waiter: Waiter,
    /// The place was given to another while the body was waited for: nothing more of it is passed on.
    evicted: bool,
}

impl Paced {
    pub fn new(body: Body, patience: Patience, waiter: Waiter) -> Self {
        let (awaited, evicted) = (Duration::ZERO, false);
        Self { body, patience, begun: None, received: 0, stall: None, awaited, waiter, evicted }
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
        waited > 0 && self.is_below(RATE << waited)
    }

    /// Whether its client was waited for long, and has brought less than so many bytes a second meanwhile.
    fn is_below(&self, rate: u64) -> bool {
        let awaited = self.awaited + self.stalls();
        awaited >= SHORT && self.received < awaited.as_secs().saturating_mul(rate)
    }

    /// How long it has brought nothing.
    fn stalls(&self) -> Duration {
        self.stall.as_ref().map_or(Duration::ZERO, Stall::lasted)
    }

    fn poll_paced(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
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
                let Self { patience, stall, .. } = self;
                let stall = stall.get_or_insert_with(|| Stall::begin(patience.limits.body_idle));
                stall.poll_end(cx, &patience.memory).map(|()| Some(Err(axum::Error::new(Slow))))
            }
        }
    }
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.evicted {
            return Poll::Pending;
        }
        let polled = self.poll_paced(cx);
        let starved = polled.is_pending() && (self.stalls() >= SHORT || self.is_below(RATE));
        // IMPORTANT: what is whole may be carried out, and what is carried out may not be evicted. Whichever is first
        // here keeps the other out; the connection of one that was evicted is about to be dropped.
        self.evicted = !self.waiter.set_starved(starved);
        if self.evicted { Poll::Pending } else { polled }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.waiter.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;
    use tokio::time::{advance, sleep, timeout};

    use super::super::slots::Slots;
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Client {
        send: mpsc::UnboundedSender<&'static [u8]>,
        slots: Arc<Slots>,
        slot: Arc<Slot>,
        waiter: Waiter,
        body: Paced,
    }

    /// A request is at work in the only place there is.
    fn client() -> Client {
        let slots = Slots::new(1, 1);
        let slot = Arc::new(slots.take(HERE).unwrap());
        assert!(slot.begin());
        let (send, pieces) = mpsc::unbounded_channel::<&[u8]>();
        let pieces = stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
        let body = Body::from_stream(pieces.map(Ok::<_, std::io::Error>));
        let patience = Patience { limits: Limits::default(), memory: Budget::unlimited() };
        let waiter = Waiter::new(slot.clone());
        Client { send, slots, slot, body: Paced::new(body, patience, waiter.clone()), waiter }
    }

    impl Client {
        /// Waits so long for a piece that does not come.
        async fn in_vain(&mut self, seconds: u64) {
            assert!(timeout(Duration::from_secs(seconds), self.body.frame()).await.is_err());
        }

        async fn piece(&mut self) {
            self.send.send(b"x").unwrap();
            assert!(self.body.frame().await.unwrap().is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_or_drips_makes_room_and_none_that_is_whole() {
        let mut stalled = client();
        stalled.in_vain(4).await;
        assert!(stalled.slots.take(HERE).is_none(), "not yet");
        stalled.piece().await;
        stalled.in_vain(4).await;
        stalled.piece().await;
        // Two pauses and two bytes: it drips.
        stalled.in_vain(2).await;
        assert!(stalled.slots.take(HERE).is_some());

        let mut whole = client();
        whole.in_vain(7).await;
        drop(std::mem::replace(&mut whole.send, mpsc::unbounded_channel().0));
        assert!(whole.body.frame().await.is_none());
        advance(Duration::from_secs(100)).await;
        assert!(whole.slots.take(HERE).is_none(), "it may be carried out by now");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_an_eviction_is_not_passed_on() {
        let mut late = client();
        late.in_vain(7).await;
        let _other = late.slots.take(HERE).unwrap();
        assert!(late.slot.evicted().now_or_never().is_some());
        late.send.send(b"x").unwrap();
        late.in_vain(1).await;
        drop(std::mem::replace(&mut late.send, mpsc::unbounded_channel().0));
        late.in_vain(1).await;
    }

    /// A delete may have a body too, which is read for the sake of its client.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_waits_for_starves_nobody() {
        let mut left = client();
        left.in_vain(7).await;
        left.waiter.leave();
        assert!(left.slots.take(HERE).is_none());
        left.in_vain(7).await;
        assert!(left.slots.take(HERE).is_none());
        let mut dropped = client();
        dropped.in_vain(7).await;
        drop(dropped.body);
        sleep(Duration::from_secs(1)).await;
        assert!(dropped.slots.take(HERE).is_none());
    }
}
