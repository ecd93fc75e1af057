//! Bodies whose client sends [too slowly](super::slow_client). When a new connection finds no free place, a request
//! whose body has stalled may lose its connection ([`super::connection_limit`]).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::http::Request;
use http_body::{Body as _, Frame, SizeHint};

use super::connection_limit::ConnectionSlot;
use super::slow_client::{EXCUSED, Pace, SHORT_STALL, StallTimer, Timeouts, is_by_link};
use super::streams::RunningStream;

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
    /// Whether its sender has proved to be a user.
    of_user: AtomicBool,
}

impl BodyWaiter {
    pub fn new(carrier: BodyCarrier) -> Self {
        carrier.set_body_awaited(true);
        let [body_stalled, detached, of_user] = <[AtomicBool; 3]>::default();
        Self(Arc::new(WaiterState { carrier, body_stalled, detached, of_user }))
    }

    /// Its sender has proved to be a user: it may be awaited for a while before it stalls.
    pub fn note_user(&self) {
        self.0.of_user.store(true, Ordering::Relaxed);
        if let BodyCarrier::Connection(slot) = &self.0.carrier {
            slot.note_user();
        }
    }

    fn is_of_user(&self) -> bool {
        self.0.of_user.load(Ordering::Relaxed)
    }

    /// Sets whether the body has stalled. False if the connection is evicted.
    fn set_body_stalled(&self, body_stalled: bool) -> bool {
        let WaiterState { carrier, body_stalled: before, detached, .. } = &*self.0;
        let body_stalled = body_stalled && !detached.load(Ordering::Relaxed);
        // A body of a user rarely stalls: it needs no lock.
        before.swap(body_stalled, Ordering::Relaxed) == body_stalled || carrier.set_body_stalled(body_stalled)
    }

    /// For how long, in all, the server has not read what the client sends.
    fn paused_for(&self) -> Duration {
        match &self.0.carrier {
            BodyCarrier::Stream(stream) => stream.paused_for(),
            // There the handler reads the socket: it waits for no other request.
            BodyCarrier::Connection(_) => Duration::ZERO,
        }
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

/// The error for a body whose stream was reset, or whose connection was lost. The HTTP library reports some of them as
/// an end of the body: a reset without an error code among them.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the stream of the body has not ended")]
struct StreamCut;

/// The same request with time-outs on its body, if it has one.
pub fn time_body<B>(request: Request<B>, timeouts: Timeouts, carrier: impl FnOnce() -> BodyCarrier) -> Request<Body>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let (parts, body) = request.into_parts();
    let is_by_link = is_by_link(parts.uri.path());
    let mut request = Request::from_parts(parts, Body::empty());
    if !body.is_end_stream() {
        let waiter = BodyWaiter::new(carrier());
        *request.body_mut() = Body::new(TimedBody::new(Body::new(body), (timeouts, is_by_link), waiter.clone()));
        request.extensions_mut().insert(waiter);
    }
    request
}

/// A body with time-outs.
pub struct TimedBody {
    body: Body,
    timeouts: Timeouts,
    is_by_link: bool,
    /// What was received, before this stall.
    pace: Pace,
    stall: Option<StallTimer>,
    /// What is left of [`EXCUSED`].
    excused: Duration,
    waiter: BodyWaiter,
    /// The connection was evicted during a stall: the handler gets no more of the body.
    evicted: bool,
}

impl TimedBody {
    pub fn new(body: Body, (timeouts, is_by_link): (Timeouts, bool), waiter: BodyWaiter) -> Self {
        let pace = Pace::default();
        Self { body, timeouts, is_by_link, pace, stall: None, excused: EXCUSED, waiter, evicted: false }
    }

    /// The pace with the present stall.
    fn pace_now(&self) -> Pace {
        self.pace.after(self.stalled_for())
    }

    /// How long the present stall has lasted.
    fn stalled_for(&self) -> Duration {
        self.stall.as_ref().map_or(Duration::ZERO, StallTimer::elapsed)
    }

    /// How long others have waited that the client hurries for.
    fn others_wait(&self) -> Option<Duration> {
        match &self.waiter.0.carrier {
            BodyCarrier::Stream(stream) => self.timeouts.others_wait_for_stream(self.is_by_link, stream),
            BodyCarrier::Connection(_) => self.timeouts.others_wait(self.is_by_link),
        }
    }

    fn poll_timed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(stall) = &mut self.stall {
            stall.exclude_pauses(self.waiter.paused_for(), &mut self.excused);
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let waited = self.stall.take().map_or(Duration::ZERO, |stall| stall.elapsed());
                self.pace.add(frame.data_ref().map_or(0, Bytes::len) as u64, waited);
                if self.pace.is_too_slow(&self.timeouts.limits, self.others_wait()) {
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
            Poll::Pending if self.pace_now().is_too_slow_for_others(self.others_wait()) => {
                Poll::Ready(Some(Err(axum::Error::new(BodyTooSlow))))
            }
            Poll::Pending => {
                let do_others_wait = self.others_wait().is_some();
                let start = || StallTimer::start(self.timeouts.limits.body_idle, self.waiter.paused_for());
                let stall = self.stall.get_or_insert_with(start);
                stall.poll_end(cx, || do_others_wait).map(|()| Some(Err(axum::Error::new(BodyTooSlow))))
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
        let is_slow = || self.stalled_for() >= SHORT_STALL || self.pace_now().drips();
        let body_stalled = polled.is_pending() && (!self.waiter.is_of_user() || is_slow());
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
    use tokio::time::{Instant, advance, sleep, timeout};

    use super::super::connection_limit::ConnectionLimit;
    use super::super::socket_state::SocketState;
    use super::super::streams::tests::of_socket;
    use super::*;
    use crate::http::options::Limits;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Client {
        send: mpsc::UnboundedSender<&'static [u8]>,
        slots: Arc<ConnectionLimit>,
        slot: Arc<ConnectionSlot>,
        waiter: BodyWaiter,
        body: TimedBody,
    }

    /// A request of a user is running on the only connection that the limit allows.
    fn client() -> Client {
        let client = stranger();
        client.waiter.note_user();
        client
    }

    /// As [`client`], and nobody knows of whom.
    fn stranger() -> Client {
        let slots = ConnectionLimit::new(1, 1);
        let slot = Arc::new(slots.acquire(HERE).unwrap());
        assert!(slot.start_request());
        let (send, pieces) = mpsc::unbounded_channel::<&[u8]>();
        let pieces = stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
        let body = Body::from_stream(pieces.map(Ok::<_, std::io::Error>));
        let timeouts = Timeouts::for_tests();
        let waiter = BodyWaiter::new(BodyCarrier::Connection(slot.clone()));
        Client { send, slots, slot, body: TimedBody::new(body, (timeouts, false), waiter.clone()), waiter }
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

    #[tokio::test(start_paused = true)]
    async fn a_body_of_no_user_makes_room_whenever_it_is_awaited() {
        let mut stranger = stranger();
        stranger.piece().await;
        assert!(stranger.slots.acquire(HERE).is_none(), "it is not awaited");
        stranger.wait_without_piece(1).await;
        stranger.piece().await;
        assert!(stranger.slots.acquire(HERE).is_none());
        stranger.wait_without_piece(1).await;
        assert!(stranger.slots.acquire(HERE).is_some());
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
    async fn pauses_of_the_socket_are_not_its_clients_for_a_while_and_what_is_between_them_is() {
        let idle = Limits::default().body_idle;
        let short = (Duration::from_millis(600), Duration::from_millis(400));
        for ((read, pause), is_polled) in [((idle / 2, EXCUSED / 2), true), (short, true), (short, false)] {
            let socket = Arc::new(SocketState::default());
            let streams = of_socket(&ConnectionLimit::new(1, 1), socket.clone());
            let waiter = BodyWaiter::new(BodyCarrier::Stream(Arc::new(streams.start().unwrap())));
            let body = Body::from_stream(stream::pending::<std::io::Result<Bytes>>());
            let mut body = TimedBody::new(body, (Timeouts::for_tests(), false), waiter);
            let begun = Instant::now();
            loop {
                if timeout(read, body.frame()).await.is_ok() {
                    break;
                }
                socket.set_paused(true);
                if !is_polled {
                    sleep(pause).await;
                } else if timeout(pause, body.frame()).await.is_ok() {
                    break;
                }
                socket.set_paused(false);
            }
            let (lasted, excused) = (begun.elapsed(), socket.paused_for().min(EXCUSED));
            let expected = idle + excused..=idle + excused + read + pause;
            assert!(expected.contains(&lasted), "{read:?}, {pause:?}: {lasted:?}");
        }
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
