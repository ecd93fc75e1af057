//! Frames of bodies over HTTP/2 that wait for their handlers.
//!
//! The library keeps each frame DATA in a slot of some 220 bytes until the handler takes it, however short it is. A
//! connection never gives slots back: it keeps as many as ever waited at once (h2 0.4, `Buffer`). So a connection takes
//! memory of the [budget](crate::budget) for more than some slots, and keeps it to its end. While there is none, its socket
//! is not read.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::budget::{Budget, Permit};

/// Slots that a connection has without a permit, and that it takes one for at a time. In frames of 16 KiB, as clients send
/// them, the windows of 64 bodies need 256. A permit for them is one for a small buffer.
const STEP: usize = 288;
/// Bytes of that many slots.
const STEP_BYTES: usize = STEP * 224;
/// Permits of a connection. The library ends one for which more than 8,000 frames of one byte wait.
const PERMITS: usize = 24;
/// A socket waits so long for handlers before it takes memory for more slots, and before it tries again.
const RETRY: Duration = Duration::from_millis(100);
/// How often a connection with memory for slots looks whether others wait for it.
const CHECK: Duration = Duration::from_secs(1);
/// The connection fails when it has waited so long: longer than a handler waits for what it needs.
const LONGEST: Duration = Duration::from_secs(15);

/// The frames of a connection.
pub struct WaitingFrames {
    memory: Budget,
    table: Mutex<FrameTable>,
}

#[derive(Default)]
struct FrameTable {
    /// How many wait. A frame that came after its body was dropped is counted too, until no body is left.
    waiting: usize,
    /// Bodies that are not dropped.
    bodies: usize,
    /// One for each [`STEP`] of slots after the first.
    permits: Vec<Permit>,
    /// Wakes what reads the socket. While there is one, the socket is not read before half of the frames are taken.
    reader: Option<Waker>,
}

/// The wait of a socket for slots.
#[derive(Default)]
pub struct SlotWait(Option<(Instant, Interval)>);

/// There was no memory for more frames for too long.
#[derive(Debug)]
pub struct NoSlots;

/// The body of a request. It tells which frames its handler has taken.
pub struct ReceivedBody<B: Body<Data = Bytes> + Unpin = Incoming> {
    body: B,
    frames: Arc<WaitingFrames>,
}

/// Ticks after each such time, and once after it was not looked at for longer.
fn interval_from_now(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl WaitingFrames {
    /// `memory`: for more frames than some.
    pub fn new(memory: Budget) -> Self {
        Self { memory, table: Mutex::default() }
    }

    /// So many frames with content have arrived.
    pub fn arrived(&self, many: usize) {
        self.lock().waiting += many;
    }

    /// The timer of [`poll_wanted`](Self::poll_wanted).
    pub fn check_interval() -> Interval {
        interval_from_now(CHECK)
    }

    /// Ready when a request waits for memory that the connection has for its slots.
    pub fn poll_wanted(&self, cx: &mut Context<'_>, check: &mut Interval) -> Poll<()> {
        if self.lock().permits.is_empty() {
            return Poll::Pending;
        }
        loop {
            if self.memory.is_short() {
                return Poll::Ready(());
            }
            ready!(check.poll_tick(cx));
        }
    }

    /// For how many more frames there are slots, at least one. Pending while there is none.
    pub fn poll_slots(&self, cx: &mut Context<'_>, wait: &mut SlotWait) -> Poll<Result<usize, NoSlots>> {
        loop {
            if let Some(free) = self.free(cx) {
                wait.0 = None;
                return Poll::Ready(Ok(free));
            }
            let (since, retry) = wait.0.get_or_insert_with(|| (Instant::now(), interval_from_now(RETRY)));
            ready!(retry.poll_tick(cx));
            if since.elapsed() >= LONGEST {
                return Poll::Ready(Err(NoSlots));
            }
            // Only now: most handlers take their frames at once.
            self.take_memory();
        }
    }

    fn free(&self, cx: &Context<'_>) -> Option<usize> {
        let mut table = self.lock();
        let free = table.free();
        table.reader = if free == 0 { Some(cx.waker().clone()) } else { None };
        Some(free).filter(|free| *free > 0)
    }

    /// Takes a permit for more slots, if there is memory.
    fn take_memory(&self) {
        let mut table = self.lock();
        if table.free() == 0
            && table.permits.len() < PERMITS
            && let Some(permit) = self.memory.try_take(STEP_BYTES)
        {
            table.permits.push(permit);
            table.reader = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, FrameTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameTable {
    fn free(&self) -> usize {
        let slots = STEP * (1 + self.permits.len());
        let is_half_taken = self.waiting * 2 <= slots;
        if self.reader.is_none() || is_half_taken { slots.saturating_sub(self.waiting) } else { 0 }
    }

    fn wake(&mut self) {
        if self.free() > 0
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> ReceivedBody<B> {
    pub fn new(body: B, frames: Arc<WaitingFrames>) -> Self {
        frames.lock().bodies += 1;
        Self { body, frames }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReceivedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.data_ref().is_some_and(|content| !content.is_empty())
        {
            let mut table = self.frames.lock();
            table.waiting = table.waiting.saturating_sub(1);
            table.wake();
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

impl<B: Body<Data = Bytes> + Unpin> Drop for ReceivedBody<B> {
    /// Takes what has arrived: it does not wait any more.
    fn drop(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // The library keeps no more of a connection.
        for _ in 0..1 << 14 {
            if !matches!(Pin::new(&mut *self).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))) {
                break;
            }
        }
        let mut table = self.frames.lock();
        table.bodies -= 1;
        if table.bodies == 0 {
            // What is left came too late for its body, or, at most a few, is of a request that has no body yet.
            table.waiting = 0;
            table.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;
    use crate::budget::STRANGERS_SMALL;
    use crate::client_net::ClientNet;

    async fn slots(frames: &WaitingFrames, wait: &mut SlotWait) -> Result<usize, NoSlots> {
        poll_fn(|cx| frames.poll_slots(cx, wait)).await
    }

    /// A body of so many frames of a byte, which then has no further one.
    fn body(many: usize, frames: &Arc<WaitingFrames>) -> ReceivedBody<Frames> {
        frames.arrived(many);
        ReceivedBody::new(Frames(many), frames.clone())
    }

    struct Frames(usize);

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Pending };
            self.0 = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    fn take(body: &mut ReceivedBody<Frames>, many: usize) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..many {
            assert!(Pin::new(&mut *body).poll_frame(&mut cx).is_ready());
        }
    }

    /// A budget in which nothing is free.
    fn full() -> (Budget, Vec<Permit>) {
        let memory = Budget::new(1 << 20);
        let all = [1 << 20, 4096].map(|bytes| std::iter::from_fn(|| memory.try_take(bytes)).collect::<Vec<_>>());
        (memory.clone(), all.into_iter().flatten().collect())
    }

    #[tokio::test(start_paused = true)]
    async fn without_memory_the_socket_is_read_again_when_half_of_the_frames_are_taken() {
        let (memory, _all) = full();
        let (frames, mut wait) = (Arc::new(WaitingFrames::new(memory)), SlotWait::default());
        assert_eq!(slots(&frames, &mut wait).await.unwrap(), STEP);
        let mut waiting = body(STEP - 1, &frames);
        assert_eq!(slots(&frames, &mut wait).await.unwrap(), 1);
        frames.arrived(1);
        let mut reads = Box::pin(slots(&frames, &mut wait));
        assert!((&mut reads).now_or_never().is_none());
        take(&mut waiting, STEP / 2 - 1);
        assert!((&mut reads).now_or_never().is_none());
        take(&mut waiting, 1);
        // It was woken: no timer has ended.
        let begun = Instant::now();
        assert_eq!((reads.await.unwrap(), begun.elapsed()), (STEP / 2, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn more_frames_take_memory_until_the_connection_ends() {
        let memory = Budget::new(1 << 30);
        let address = |last| memory.of_stranger(ClientNet::new([192, 0, 2, last].into()));
        let (frames, mut wait) = (Arc::new(WaitingFrames::new(address(1))), SlotWait::default());
        let mut waiting = body(0, &frames);
        for _ in 0..4 {
            assert_eq!(slots(&frames, &mut wait).await.unwrap(), STEP);
            frames.arrived(STEP);
        }
        waiting.body.0 = STEP * 4;
        take(&mut waiting, STEP * 4);
        drop(waiting);
        assert_eq!(frames.lock().permits.len(), 3, "the library keeps the slots");
        let is_wanted = async |frames: &WaitingFrames| {
            let mut check = WaitingFrames::check_interval();
            timeout(CHECK * 2, poll_fn(|cx| frames.poll_wanted(cx, &mut check))).await.is_ok()
        };
        assert!(!is_wanted(&frames).await);
        let all = address(1).take(1 << 30).await;
        let mut waits = Box::pin(async { address(1).take(1 << 20).await });
        assert!((&mut waits).now_or_never().is_none());
        assert!(is_wanted(&frames).await);
        assert!(!is_wanted(&WaitingFrames::new(address(1))).await, "it has none of it");
        let small = |all: &mut Vec<_>| {
            all.extend(std::iter::from_fn(|| address(1).try_take(STRANGERS_SMALL)));
            all.len()
        };
        assert_eq!(small(&mut Vec::new()), 63);
        drop((waits, all, frames));
        assert_eq!(small(&mut Vec::new()), 64, "all is given back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_fails_when_there_is_no_memory_for_its_frames_for_long() {
        let (memory, all) = full();
        let (frames, mut wait) = (Arc::new(WaitingFrames::new(memory)), SlotWait::default());
        let waiting = body(STEP, &frames);
        let begun = Instant::now();
        assert!(slots(&frames, &mut wait).await.is_err());
        assert!((LONGEST..LONGEST + RETRY * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // Memory that becomes free.
        let mut wait = SlotWait::default();
        let (read, ()) = tokio::join!(slots(&frames, &mut wait), async { drop(all) });
        assert_eq!(read.unwrap(), STEP);
        drop(waiting);
        assert_eq!(frames.lock().waiting, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_dropped_gives_back_its_frames() {
        let (memory, _all) = full();
        let (frames, mut wait) = (Arc::new(WaitingFrames::new(memory)), SlotWait::default());
        let (waiting, other) = (body(STEP - 9, &frames), body(9, &frames));
        let begun = Instant::now();
        let (read, ()) = tokio::join!(slots(&frames, &mut wait), async { drop(waiting) });
        assert_eq!((read.unwrap(), begun.elapsed()), (STEP - 9, Duration::ZERO));
        // Those that came too late for their body count until the last one.
        frames.arrived(STEP - 9);
        let (read, ()) = tokio::join!(slots(&frames, &mut wait), async { drop(other) });
        assert_eq!((read.unwrap(), begun.elapsed()), (STEP, Duration::ZERO));
    }
}
