//! Small frames of bodies over HTTP/2 that wait for their handlers.
//!
//! The library keeps each frame DATA in a slot of some 220 bytes until the handler takes it, however short it is. A
//! connection keeps the slots of its most frames to its end (h2 0.4, `Buffer`). So the socket of a connection is not read
//! while many small frames wait. That blocks its other requests too: after a second it is read on, a few times, and then
//! the connection ends.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

/// A frame is small with fewer bytes of a body. Larger ones fill the window of their body before they take many slots.
pub const SMALL: usize = 1024;
/// While so many wait, the socket is not read.
const MANY: usize = 200;
/// How long it is not read while no handler takes any.
const PAUSE: Duration = Duration::from_secs(1);
/// After each of so many pauses as many again may wait.
const PAUSES: usize = 3;

/// The small frames of a connection.
#[derive(Default)]
pub struct SmallFrames(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// How many wait; some more are counted if a handler has dropped its body before they came.
    many: usize,
    /// Pauses that ended without any taken.
    pauses: usize,
    /// Wakes what reads the socket. While there is one, the socket is not read before half of them are taken.
    reader: Option<Waker>,
}

/// The socket of a connection waits until handlers have taken frames.
#[derive(Default)]
pub struct Pause(Option<Pin<Box<Sleep>>>);

/// Too many wait, and their handlers take none.
#[derive(Debug)]
pub struct TooMany;

/// The body of a request. It tells which frames its handler has taken.
pub struct ReceivedBody<B: Body<Data = Bytes> + Unpin = Incoming> {
    body: B,
    frames: Arc<SmallFrames>,
}

impl SmallFrames {
    /// So many have arrived.
    pub fn arrived(&self, many: usize) {
        self.lock().many += many;
    }

    /// No request is under way, so none waits.
    pub fn forget(&self) {
        let mut waiting = self.lock();
        (waiting.many, waiting.pauses) = (0, 0);
        waiting.wake();
    }

    /// How many more may arrive, at least one. Pending while that is none; an error after some pauses.
    pub fn poll_room(&self, cx: &mut Context<'_>, pause: &mut Pause) -> Poll<Result<usize, TooMany>> {
        loop {
            let mut waiting = self.lock();
            let room = waiting.room();
            if room > 0 {
                (pause.0, waiting.reader) = (None, None);
                return Poll::Ready(Ok(room));
            }
            if waiting.pauses >= PAUSES {
                return Poll::Ready(Err(TooMany));
            }
            waiting.reader = Some(cx.waker().clone());
            drop(waiting);
            let timer = pause.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
            ready!(timer.as_mut().poll(cx));
            pause.0 = None;
            let mut waiting = self.lock();
            // Otherwise a handler has taken some at this moment.
            if waiting.room() == 0 {
                waiting.pauses += 1;
                waiting.reader = None;
            }
        }
    }

    fn taken(&self) {
        let mut waiting = self.lock();
        waiting.many = waiting.many.saturating_sub(1);
        if waiting.many == 0 {
            waiting.pauses = 0;
        }
        waiting.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn room(&self) -> usize {
        let all = MANY * (1 + self.pauses);
        let is_half_taken = self.many * 2 <= all;
        if self.reader.is_none() || is_half_taken { all.saturating_sub(self.many) } else { 0 }
    }

    fn wake(&mut self) {
        if self.room() > 0
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> ReceivedBody<B> {
    pub fn new(body: B, frames: Arc<SmallFrames>) -> Self {
        Self { body, frames }
    }

    /// The next frame, as [`Body::poll_frame`].
    fn poll_counted(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.data_ref().is_some_and(|bytes| (1..SMALL).contains(&bytes.len()))
        {
            self.frames.taken();
        }
        polled
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReceivedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.poll_counted(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Drop for ReceivedBody<B> {
    /// Takes what has arrived, so that it does not count as waiting for ever.
    fn drop(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..MANY * (1 + PAUSES) {
            if !matches!(self.poll_counted(&mut cx), Poll::Ready(Some(Ok(_)))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::time::{Instant, timeout};

    use super::*;

    async fn room(frames: &SmallFrames, pause: &mut Pause) -> Result<usize, TooMany> {
        poll_fn(|cx| frames.poll_room(cx, pause)).await
    }

    /// A body of so many frames of a byte, which then has no further one.
    fn body(many: usize, frames: &Arc<SmallFrames>) -> ReceivedBody<Frames> {
        frames.arrived(many);
        ReceivedBody::new(Frames(many), frames.clone())
    }

    struct Frames(usize);

    impl Body for Frames {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Pending };
            self.0 = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    fn take(body: &mut ReceivedBody<Frames>, many: usize) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..many {
            assert!(body.poll_counted(&mut cx).is_ready());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_socket_is_read_again_when_half_of_the_frames_are_taken() {
        let (frames, mut pause) = (Arc::<SmallFrames>::default(), Pause::default());
        assert_eq!(room(&frames, &mut pause).await.unwrap(), MANY);
        let mut waiting = body(MANY - 1, &frames);
        assert_eq!(room(&frames, &mut pause).await.unwrap(), 1);
        frames.arrived(1);
        let mut reads = Box::pin(room(&frames, &mut pause));
        assert!((&mut reads).now_or_never().is_none());
        take(&mut waiting, MANY / 2 - 1);
        assert!((&mut reads).now_or_never().is_none());
        take(&mut waiting, 1);
        // It was woken: no timer has ended.
        let begun = Instant::now();
        assert_eq!((reads.await.unwrap(), begun.elapsed()), (MANY / 2, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_nobody_takes_end_the_connection_after_some_pauses() {
        let (frames, mut pause) = (Arc::<SmallFrames>::default(), Pause::default());
        let begun = Instant::now();
        let mut waiting = body(0, &frames);
        for _ in 0..PAUSES {
            frames.arrived(MANY);
            assert_eq!(room(&frames, &mut pause).await.unwrap(), MANY);
        }
        assert_eq!(begun.elapsed(), PAUSE * PAUSES as u32);
        frames.arrived(MANY);
        assert!(room(&frames, &mut pause).await.is_err());
        // All are taken: it may pause again.
        waiting.body.0 = MANY * (1 + PAUSES);
        take(&mut waiting, MANY * (1 + PAUSES));
        frames.arrived(MANY);
        assert_eq!(room(&frames, &mut pause).await.unwrap(), MANY);
        assert_eq!(begun.elapsed(), PAUSE * (PAUSES as u32 + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_dropped_gives_back_its_frames() {
        let (frames, mut pause) = (Arc::<SmallFrames>::default(), Pause::default());
        let waiting = body(MANY, &frames);
        let reads = room(&frames, &mut pause);
        let dropped = async { drop(waiting) };
        let read = timeout(PAUSE / 2, async { tokio::join!(reads, dropped).0 }).await;
        assert_eq!(read.unwrap().unwrap(), MANY);
        // One that came too late for its body counts until no request is under way.
        frames.arrived(MANY);
        let (read, ()) = tokio::join!(room(&frames, &mut pause), async { frames.forget() });
        assert_eq!(read.unwrap(), MANY);
    }
}
