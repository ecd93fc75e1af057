//! Time-outs for clients that send a body, or read a response, too slowly: no byte for a while, or too few bytes in all.
//!
//! While other requests wait for memory, a stall may last 5 seconds only, and the required rate of a body doubles with
//! each second of their wait. So the slowest clients are cut first, and no more of them than necessary. When a new
//! connection finds no free place, a request whose body has stalled may lose its connection
//! ([`super::connection_limit`]).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Request;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::connection_limit::ConnectionSlot;
use super::streams::RunningStream;
use crate::api::path::share_secret;
use crate::budget::Budget;
use crate::http::options::Limits;

/// Bytes of a body that a client must send each second, or bytes of a response that it must read, on average after
/// [`Limits::body_grace`](crate::http::Limits).
pub const MIN_RATE: u64 = 1024;
/// How long a client may stall while others wait for memory, or for a connection.
pub const SHORT_STALL: Duration = Duration::from_secs(5);
/// How many times the required rate doubles at most while others wait for memory: to 64 KiB a second, which a client with
/// a slow link can still send.
const MAX_DOUBLINGS: u64 = 6;
/// How often a stall is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time-outs of a client, and the memory that other requests may wait for.
#[derive(Clone)]
pub struct Timeouts {
    pub limits: Limits,
    pub memory: Budget,
}

impl Timeouts {
    /// Those of a request of this path: who asks by a link is a stranger, and hurries for other strangers too.
    fn of_path(self, path: &str) -> Self {
        Self { memory: self.memory_of(is_by_link(path)), ..self }
    }

    /// The memory that others wait for, for whom the client of a request hurries.
    pub fn memory_of(&self, is_by_link: bool) -> Budget {
        if is_by_link { self.memory.of_strangers() } else { self.memory.clone() }
    }
}

/// Whether a request of this path is by the link of a share.
pub fn is_by_link(path: &str) -> bool {
    share_secret(path).is_some()
}

/// A timer that runs while a client stalls.
pub struct StallTimer {
    since: Instant,
    next_check: Pin<Box<Sleep>>,
    idle: Duration,
}

impl StallTimer {
    /// `idle`: how long the stall may last.
    pub fn start(idle: Duration) -> Self {
        Self { since: Instant::now(), next_check: Box::pin(tokio::time::sleep(idle.min(CHECK_INTERVAL))), idle }
    }

    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ready when the stall has lasted too long.
    pub fn poll_end(&mut self, cx: &mut Context<'_>, memory: &Budget) -> Poll<()> {
        while !ready!(self.poll_check(cx, memory)) {}
        Poll::Ready(())
    }

    /// Ready every second and at the end, and returns whether the stall has lasted too long. Call it until it is pending.
    pub fn poll_check(&mut self, cx: &mut Context<'_>, memory: &Budget) -> Poll<bool> {
        ready!(self.next_check.as_mut().poll(cx));
        let idle = if memory.is_short() { self.idle.min(SHORT_STALL) } else { self.idle };
        let next = self.idle.saturating_sub(self.elapsed()).clamp(Duration::from_millis(1), CHECK_INTERVAL);
        self.next_check.as_mut().reset(Instant::now() + next);
        Poll::Ready(self.elapsed() >= idle)
    }
}

/// What has to know whether the body of a request stalls: the connection, or in HTTP/2 its stream.
pub enum BodyCarrier {
    Connection(Arc<ConnectionSlot>),
    Stream(Arc<RunningStream>),
}

impl BodyCarrier {
    /// Only HTTP/1.1 reads the socket differently while a body is awaited.
    fn set_body_awaited(&self, awaited: bool) {
        if let Self::Connection(slot) = self {
            slot.set_body_awaited(awaited);
        }
    }

    /// False if the connection is evicted.
    fn set_body_stalled(&self, body_stalled: bool) -> bool {
        match self {
            Self::Connection(slot) => slot.set_body_stalled(body_stalled),
            Self::Stream(stream) => stream.set_body_stalled(body_stalled),
        }
    }
}

/// The handler that waits for a body, and what carries the body.
#[derive(Clone)]
pub struct BodyWaiter(Arc<WaiterState>);

struct WaiterState {
    carrier: BodyCarrier,
    /// The last value that the carrier got.
    body_stalled: AtomicBool,
    detached: AtomicBool,
}

impl BodyWaiter {
    pub fn new(carrier: BodyCarrier) -> Self {
        carrier.set_body_awaited(true);
        Self(Arc::new(WaiterState { carrier, body_stalled: AtomicBool::new(false), detached: AtomicBool::new(false) }))
    }

    /// Sets whether the body has stalled. False if the connection is evicted.
    fn set_body_stalled(&self, body_stalled: bool) -> bool {
        let WaiterState { carrier, body_stalled: before, detached } = &*self.0;
        let body_stalled = body_stalled && !detached.load(Ordering::Relaxed);
        // Most bodies never stall: they need no lock.
        before.swap(body_stalled, Ordering::Relaxed) == body_stalled || carrier.set_body_stalled(body_stalled)
    }

    /// Whether a stream of HTTP/2 carries the body.
    fn is_of_stream(&self) -> bool {
        matches!(self.0.carrier, BodyCarrier::Stream(_))
    }

    /// The handler no longer waits, and may execute the request. The rest of the body is only drained.
    pub fn detach(&self) {
        // Only once: by now the next request of the connection may wait for its body.
        if !self.0.detached.swap(true, Ordering::Relaxed) {
            self.0.carrier.set_body_awaited(false);
        }
        self.set_body_stalled(false);
    }
}

/// The error for a body that arrives too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client sends too slowly")]
pub struct BodyTooSlow;

/// The error for a body whose stream was reset, or whose connection was lost. The HTTP library reports some of them as an
/// end of the body: a reset without an error code among them.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the stream of the body has not ended")]
struct StreamCut;

/// The same request with time-outs on its body, if it has one.
pub fn time_body(
    request: Request<Incoming>,
    timeouts: Timeouts,
    carrier: impl FnOnce() -> BodyCarrier,
) -> Request<Body> {
    let (parts, body) = request.into_parts();
    let timeouts = timeouts.of_path(parts.uri.path());
    let mut request = Request::from_parts(parts, Body::empty());
    if !body.is_end_stream() {
        let waiter = BodyWaiter::new(carrier());
        *request.body_mut() = Body::new(TimedBody::new(Body::new(body), timeouts, waiter.clone()));
        request.extensions_mut().insert(waiter);
    }
    request
}

/// A body with time-outs.
pub struct TimedBody {
    body: Body,
    timeouts: Timeouts,
    received: u64,
    stall: Option<StallTimer>,
    /// How long the server has waited for the client, before this stall.
    waited: Duration,
    waiter: BodyWaiter,
    /// The connection was evicted during a stall: the handler gets no more of the body.
    evicted: bool,
}

impl TimedBody {
    pub fn new(body: Body, timeouts: Timeouts, waiter: BodyWaiter) -> Self {
        let (waited, evicted) = (Duration::ZERO, false);
        Self { body, timeouts, received: 0, stall: None, waited, waiter, evicted }
    }

    /// Whether the body is too slow.
    fn is_slow(&self) -> bool {
        self.is_below(MIN_RATE, self.timeouts.limits.body_grace)
    }

    /// Whether the body is too slow while others wait for memory.
    fn is_slow_for_memory(&self) -> bool {
        let seconds = self.timeouts.memory.waited().as_secs().min(MAX_DOUBLINGS);
        seconds > 0 && self.is_below(MIN_RATE << seconds, SHORT_STALL)
    }

    /// Whether the server has waited for the client for at least `grace`, and has received less than so many bytes a second
    /// meanwhile. Time in which the server does not read does not count.
    fn is_below(&self, rate: u64, grace: Duration) -> bool {
        let waited = self.waited + self.stalled_for();
        waited >= grace && self.received < waited.as_secs().saturating_mul(rate)
    }

    /// How long the present stall has lasted.
    fn stalled_for(&self) -> Duration {
        self.stall.as_ref().map_or(Duration::ZERO, StallTimer::elapsed)
    }

    fn poll_timed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.received += frame.data_ref().map_or(0, Bytes::len) as u64;
                let stalled = self.stall.take().map_or(Duration::ZERO, |stall| stall.elapsed());
                self.waited += stalled;
                if self.is_slow() || self.is_slow_for_memory() {
                    Poll::Ready(Some(Err(axum::Error::new(BodyTooSlow))))
                } else {
                    Poll::Ready(Some(Ok(frame)))
                }
            }
            // IMPORTANT: otherwise a part of a file would be stored as the whole.
            Poll::Ready(None) if self.waiter.is_of_stream() && !self.body.is_end_stream() => {
                Poll::Ready(Some(Err(axum::Error::new(StreamCut))))
            }
            Poll::Ready(other) => Poll::Ready(other),
            // Polled again every second while it stalls.
            Poll::Pending if self.is_slow_for_memory() => Poll::Ready(Some(Err(axum::Error::new(BodyTooSlow)))),
            Poll::Pending => {
                let Self { timeouts, stall, .. } = self;
                let stall = stall.get_or_insert_with(|| StallTimer::start(timeouts.limits.body_idle));
                stall.poll_end(cx, &timeouts.memory).map(|()| Some(Err(axum::Error::new(BodyTooSlow))))
            }
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.evicted {
            return Poll::Pending;
        }
        let polled = self.poll_timed(cx);
        let body_stalled =
            polled.is_pending() && (self.stalled_for() >= SHORT_STALL || self.is_below(MIN_RATE, SHORT_STALL));
        // IMPORTANT: a request whose body is complete may be executed, and then its connection must not be evicted. The
        // lock of the slot decides which comes first. After an eviction the body stays pending: its connection is about
        // to be dropped.
        self.evicted = !self.waiter.set_body_stalled(body_stalled);
        if self.evicted { Poll::Pending } else { polled }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.waiter.detach();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;
    use tokio::time::{advance, sleep, timeout};

    use super::super::connection_limit::ConnectionLimit;
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Client {
        send: mpsc::UnboundedSender<&'static [u8]>,
        slots: Arc<ConnectionLimit>,
        slot: Arc<ConnectionSlot>,
        waiter: BodyWaiter,
        body: TimedBody,
    }

    /// A request is running on the only connection that the limit allows.
    fn client() -> Client {
        let slots = ConnectionLimit::new(1, 1);
        let slot = Arc::new(slots.acquire(HERE).unwrap());
        assert!(slot.start_request());
        let (send, pieces) = mpsc::unbounded_channel::<&[u8]>();
        let pieces = stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
        let body = Body::from_stream(pieces.map(Ok::<_, std::io::Error>));
        let timeouts = Timeouts { limits: Limits::default(), memory: Budget::unlimited() };
        let waiter = BodyWaiter::new(BodyCarrier::Connection(slot.clone()));
        Client { send, slots, slot, body: TimedBody::new(body, timeouts, waiter.clone()), waiter }
    }

    impl Client {
        /// Waits so long for a piece, and gets none.
        async fn wait_without_piece(&mut self, seconds: u64) {
            assert!(timeout(Duration::from_secs(seconds), self.body.frame()).await.is_err());
        }

        async fn piece(&mut self) {
            self.send.send(b"x").unwrap();
            assert!(self.body.frame().await.unwrap().is_ok());
        }
    }

    #[tokio::test]
    async fn strangers_alone_hurry_for_strangers() {
        let memory = Budget::new(64 << 20);
        let strangers = memory.of_strangers();
        let _all = strangers.take(64 << 20).await;
        let mut waiting = Box::pin(strangers.take(1 << 20));
        assert!((&mut waiting).now_or_never().is_none());
        for (path, is_short) in [("/s/secret/fs/a", true), ("/s/secret/", true), ("/v1/fs/s/a", false)] {
            let timeouts = Timeouts { limits: Limits::default(), memory: memory.clone() };
            assert_eq!(timeouts.memory_of(is_by_link(path)).is_short(), is_short, "{path}");
            assert_eq!(timeouts.of_path(path).memory.is_short(), is_short, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_or_drips_makes_room_and_none_that_is_whole() {
        let mut stalled = client();
        stalled.wait_without_piece(4).await;
        assert!(stalled.slots.acquire(HERE).is_none(), "not yet");
        stalled.piece().await;
        stalled.wait_without_piece(4).await;
        stalled.piece().await;
        // Two pauses and two bytes: it drips.
        stalled.wait_without_piece(2).await;
        assert!(stalled.slots.acquire(HERE).is_some());

        let mut whole = client();
        whole.wait_without_piece(7).await;
        drop(std::mem::replace(&mut whole.send, mpsc::unbounded_channel().0));
        assert!(whole.body.frame().await.is_none());
        advance(Duration::from_secs(100)).await;
        assert!(whole.slots.acquire(HERE).is_none(), "it may be executed by now");
    }

    /// Such as while what it has sent waits to be stored.
    #[tokio::test(start_paused = true)]
    async fn a_client_is_not_slow_while_the_server_does_not_read() {
        let mut client = client();
        for _ in 0..4 {
            client.piece().await;
            sleep(Limits::default().body_grace * 2).await;
        }
        client.piece().await;
        // Its own pauses count, however short each of them is.
        let slow = async {
            loop {
                client.wait_without_piece(20).await;
                client.send.send(b"x").unwrap();
                if client.body.frame().await.unwrap().is_err() {
                    return;
                }
            }
        };
        timeout(Limits::default().body_grace * 2, slow).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_after_an_eviction_do_not_reach_the_handler() {
        let mut late = client();
        late.wait_without_piece(7).await;
        let _other = late.slots.acquire(HERE).unwrap();
        assert!(late.slot.evicted().now_or_never().is_some());
        late.send.send(b"x").unwrap();
        late.wait_without_piece(1).await;
        drop(std::mem::replace(&mut late.send, mpsc::unbounded_channel().0));
        late.wait_without_piece(1).await;
    }

    /// A delete may have a body too, which is read only so that its client gets the response.
    #[tokio::test(start_paused = true)]
    async fn a_body_without_a_waiting_handler_evicts_nothing() {
        let mut left = client();
        left.wait_without_piece(7).await;
        left.waiter.detach();
        assert!(left.slots.acquire(HERE).is_none());
        left.wait_without_piece(7).await;
        assert!(left.slots.acquire(HERE).is_none());
        let mut dropped = client();
        dropped.wait_without_piece(7).await;
        drop(dropped.body);
        sleep(Duration::from_secs(1)).await;
        assert!(dropped.slots.acquire(HERE).is_none());
    }
}
