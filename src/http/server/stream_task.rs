//! The streams of an HTTP/2 connection as tasks. A task ends when the last byte of its response is handed to the
//! socket, or when its client reads nothing of the response for too long, or too little: then its stream is reset.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use tokio::task::JoinSet;

use super::connection_limit::LinkRequest;
use super::slow_client::{EXCUSED, Pace, SHORT_STALL, StallTimer, Timeouts};
use super::streams::{RunningStream, Streams};

tokio::task_local! {
    /// The stream whose task runs.
    static STREAM: Arc<StreamState>;
}

/// The stream whose task runs.
pub fn current() -> Option<Arc<StreamState>> {
    STREAM.try_with(Arc::clone).ok()
}

/// A stream, for its task and for its response.
#[derive(Default)]
pub struct StreamState {
    /// None if the connection was evicted before, or if the request found no place.
    pub running: Option<Arc<RunningStream>>,
    /// Bytes of the response that the library has taken, and those of them that the socket has.
    taken: AtomicU64,
    sent: AtomicU64,
    /// Pieces of the response that the library has taken, and that are not in the socket.
    unsent: AtomicUsize,
    /// Wakes the task when all pieces are in the socket.
    sending: AtomicWaker,
    /// The library has taken a piece of the response: it asks for the next one when the client has read enough.
    waits_for_client: AtomicBool,
    /// Set if the request is by the link of a share, until no piece of its response is left.
    link_request: OnceLock<LinkRequest>,
}

/// Runs the streams of a connection as tasks.
#[derive(Clone)]
pub struct StreamTasks {
    tasks: Arc<Mutex<JoinSet<()>>>,
    streams: Arc<Streams>,
    timeouts: Timeouts,
}

impl StreamTasks {
    pub fn new(streams: Arc<Streams>, timeouts: Timeouts) -> Self {
        Self { tasks: Arc::default(), streams, timeouts }
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, stream: F) {
        let running = self.streams.start().map(Arc::new);
        let state = Arc::new(StreamState { running, ..StreamState::default() });
        let task = StreamTask {
            stream: Some(Box::pin(stream)),
            state: state.clone(),
            timeouts: self.timeouts.clone(),
            stall: None,
            excused: EXCUSED,
            pace: Pace::default(),
            taken: 0,
        };
        let mut tasks = self.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(STREAM.scope(state, task));
    }
}

/// Ends all streams with their connection, as a connection of HTTP/1.1 ends its request.
pub struct EndTasks(pub StreamTasks);

impl Drop for EndTasks {
    fn drop(&mut self) {
        self.0.lock().abort_all();
    }
}

/// A stream as a task.
struct StreamTask<F> {
    /// None when the library has the whole response.
    stream: Option<Pin<Box<F>>>,
    state: Arc<StreamState>,
    timeouts: Timeouts,
    /// Runs while the client reads nothing, with the number of bytes that it had read before.
    stall: Option<(u64, StallTimer)>,
    /// What is left of [`EXCUSED`].
    excused: Duration,
    /// What the library has taken, before this stall; the server waits while the client reads nothing.
    pace: Pace,
    /// Bytes of that.
    taken: u64,
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.stream.as_mut().is_some_and(|stream| stream.as_mut().poll(cx).is_ready()) {
            self.stream = None;
        }
        if self.stream.is_none() {
            // Of a stream that was reset, a piece may still wait for the socket.
            if !self.state.is_unsent(cx) {
                return Poll::Ready(());
            }
            self.state.waits_for_client.store(true, Ordering::Relaxed);
        }
        if self.is_too_slow(cx) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<F> StreamTask<F> {
    /// Whether the client reads too slowly.
    fn is_too_slow(&mut self, cx: &mut Context<'_>) -> bool {
        let Self { state, timeouts, stall, excused, pace, taken: before, .. } = self;
        let others_wait = || {
            let is_by_link = state.link_request.get().is_some();
            state.running.as_ref().and_then(|running| timeouts.others_wait_for_stream(is_by_link, running))
        };
        let taken = state.taken.load(Ordering::Relaxed);
        let progress = taken + state.sent.load(Ordering::Relaxed);
        // IMPORTANT: also while the handler makes the next piece. It may wait for the memory that the last ones hold.
        let is_unsent = state.is_unsent(cx);
        let waits = state.waits_for_client.load(Ordering::Relaxed) || is_unsent;
        let paused = || state.running.as_ref().map_or(Duration::ZERO, |running| running.paused_for());
        if let Some((_, timer)) = stall {
            // What the client tells of its reading is not read either.
            timer.exclude_pauses(paused(), excused);
        }
        if let Some((progress_before, timer)) = stall
            && (*progress_before != progress || !waits)
        {
            pace.add(taken.saturating_sub(*before), timer.elapsed());
            *before = taken;
            *stall = None;
            state.set_stalled(false);
            if pace.is_too_slow(&timeouts.limits, others_wait()) {
                tracing::debug!("a stream was reset: its client reads too slowly");
                return true;
            }
        }
        if !waits {
            return false;
        }
        let (_, timer) =
            stall.get_or_insert_with(|| (progress, StallTimer::start(timeouts.limits.write_idle, paused())));
        while let Poll::Ready(ended) = timer.poll_check(cx, || others_wait().is_some()) {
            if ended {
                tracing::debug!("a stream was reset: its client does not read");
                return true;
            }
            if timer.elapsed() >= SHORT_STALL {
                state.set_stalled(true);
            }
        }
        false
    }
}

impl StreamState {
    /// The request is by the link of a share.
    pub fn set_by_link(&self) {
        if let Some(running) = &self.running {
            let _is_first = self.link_request.set(running.link_request());
        }
    }

    /// The library takes a piece of this many bytes of the response.
    pub fn take_piece(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// The socket has so many bytes more of a piece.
    pub fn bytes_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The piece is in the socket, or its stream is reset.
    pub fn piece_sent(&self) {
        if self.unsent.fetch_sub(1, Ordering::Release) == 1 {
            self.sending.wake();
        }
    }

    /// Whether the library has pieces of the response that are not in the socket. When they are, it wakes the task.
    pub fn is_unsent(&self, cx: &Context<'_>) -> bool {
        self.sending.register(cx.waker());
        self.has_unsent()
    }

    /// As [`is_unsent`](Self::is_unsent), for a caller that does not wait.
    pub fn has_unsent(&self) -> bool {
        self.unsent.load(Ordering::Acquire) != 0
    }

    /// Sets whether the library waits for the client, and not for the body.
    pub fn set_waits_for_client(&self, waits: bool) {
        self.waits_for_client.store(waits, Ordering::Relaxed);
    }

    fn set_stalled(&self, stalled: bool) {
        if let Some(running) = &self.running {
            running.set_response_stalled(stalled);
        }
    }
}

impl<F> Drop for StreamTask<F> {
    fn drop(&mut self) {
        if let Some(running) = &self.state.running {
            running.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use tokio::time::{Instant, sleep, timeout};

    use super::super::connection_limit::ConnectionLimit;
    use super::super::socket_state::SocketState;
    use super::super::streams::tests::of_socket;
    use super::*;
    use crate::http::options::Limits;

    /// A stream whose handler makes its next piece for ever.
    fn task(state: &Arc<StreamState>) -> StreamTask<impl Future<Output = ()> + use<>> {
        let timeouts = Timeouts::for_tests();
        let (stream, state) = (Some(Box::pin(pending())), state.clone());
        StreamTask { stream, state, timeouts, stall: None, excused: EXCUSED, pace: Pace::default(), taken: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_no_piece_is_cut_while_the_next_one_is_made() {
        let (state, longest) = (Arc::new(StreamState::default()), Limits::default().write_idle);
        assert!(timeout(Duration::from_secs(3_600), task(&state)).await.is_err(), "it has no piece");
        state.take_piece(10);
        let begun = Instant::now();
        task(&state).await;
        assert!((longest..longest * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    /// While its socket is not read, nobody knows what it has read. But it may be its own other requests that keep it
    /// so.
    #[tokio::test(start_paused = true)]
    async fn pauses_of_the_socket_are_not_its_clients_for_a_while() {
        let longest = Limits::default().write_idle;
        for (pause, excused) in [(EXCUSED / 2, EXCUSED / 2), (longest * 2, EXCUSED)] {
            let socket = Arc::new(SocketState::default());
            let running = of_socket(&ConnectionLimit::new(1, 1), socket.clone()).start().map(Arc::new);
            let state = Arc::new(StreamState { running, ..StreamState::default() });
            state.take_piece(10);
            let (mut task, begun) = (task(&state), Instant::now());
            assert!(timeout(longest / 2, &mut task).await.is_err());
            socket.set_paused(true);
            if timeout(pause, &mut task).await.is_err() {
                socket.set_paused(false);
                task.await;
            }
            let (lasted, expected) = (begun.elapsed(), longest + excused);
            assert!((expected..expected + Duration::from_secs(2)).contains(&lasted), "{pause:?}: {lasted:?}");
        }
    }

    /// As a tar is answered: a short line now and then, which the client reads at once.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_at_once_is_not_cut_while_pieces_are_made() {
        let state = Arc::new(StreamState::default());
        let reads = async {
            for _ in 0..600 {
                state.take_piece(10);
                sleep(Duration::from_millis(1)).await;
                state.bytes_sent(10);
                state.piece_sent();
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = task(&state) => panic!("it was cut"),
            () = reads => {}
        }
    }
}
