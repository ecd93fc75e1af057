//! The requests under way on an HTTP/2 connection, and what they mean for its [slot](super::connection_limit).
//!
//! Without a request, and when all responses are in the socket, the connection is idle. With requests it may be evicted
//! only while each of them waits for the client: for its body, or for the client to read more of the response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::connection_limit::{ConnectionSlot, LinkRequest};
use super::places::{ConnectionPlaces, Place, UserRequest};
use super::socket_state::SocketState;

/// The streams of a connection that have a request under way.
pub struct Streams {
    slot: Arc<ConnectionSlot>,
    places: Arc<ConnectionPlaces>,
    socket: Arc<SocketState>,
    table: Mutex<StreamTable>,
}

struct StreamTable {
    next: u64,
    running: HashMap<u64, Waits>,
    /// Since when no request is under way, if there is none.
    rest: Rest,
    /// Wakes the connection.
    connection: Option<Waker>,
}

/// What is known of the responses of a connection without a request.
#[derive(Clone, Copy)]
enum Rest {
    /// The library has all of them.
    Ended,
    /// The connection was woken to send them.
    Sending,
    /// Since this instant the socket has all of them.
    Sent(Instant),
}

/// What a request waits for its client for.
#[derive(Clone, Copy, Default)]
struct Waits {
    body: bool,
    response: bool,
}

/// A request under way, until [`end`](Self::end) or until it is dropped.
pub struct RunningStream {
    streams: Arc<Streams>,
    number: u64,
    /// Kept also while the rest of its body is read.
    place: Mutex<Option<Place>>,
}

impl Streams {
    pub fn new(slot: Arc<ConnectionSlot>, places: Arc<ConnectionPlaces>, socket: Arc<SocketState>) -> Arc<Self> {
        let rest = Rest::Sent(Instant::now());
        let table = StreamTable { next: 0, running: HashMap::new(), rest, connection: None };
        Arc::new(Self { slot, places, socket, table: Mutex::new(table) })
    }

    /// A request has arrived. It takes one of the places if it is not the only one of its connection. None if there is
    /// no place, or if the connection is evicted: then the request must not be executed.
    pub fn start(self: &Arc<Self>) -> Option<RunningStream> {
        // IMPORTANT: the table stays locked while the slot changes. Otherwise the slot could get the states of two
        // streams in the wrong order, and a connection could be evicted while a request is executed.
        let mut table = self.lock();
        let is_alone = table.running.is_empty();
        let place = if is_alone { None } else { Some(self.places.try_take()?) };
        let begun = if is_alone { self.slot.start_request() } else { self.slot.set_body_stalled(false) };
        if !begun {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.running.insert(number, Waits::default());
        Some(RunningStream { streams: self.clone(), number, place: Mutex::new(place) })
    }

    /// Whether the connection is of a user: [`ConnectionPlaces::is_of_user`].
    pub fn is_of_user(&self) -> bool {
        self.places.is_of_user()
    }

    /// Since when no request is under way and the socket has all responses; none if it is not so.
    pub fn idle_since(&self) -> Option<Instant> {
        let table = self.lock();
        match table.rest {
            Rest::Sent(since) if table.running.is_empty() => Some(since),
            _ => None,
        }
    }

    /// Call it whenever the connection was polled. `all_sent`: the socket has all bytes that the library has written.
    pub fn settle(&self, cx: &Context<'_>, all_sent: bool) {
        let mut table = self.lock();
        table.connection = Some(cx.waker().clone());
        if !table.running.is_empty() {
            return;
        }
        match table.rest {
            // The last response may have been queued after the connection was polled: it is polled once more.
            Rest::Ended => {
                table.rest = Rest::Sending;
                cx.waker().wake_by_ref();
            }
            Rest::Sending if all_sent => {
                table.rest = Rest::Sent(Instant::now());
                self.slot.set_idle();
            }
            Rest::Sending | Rest::Sent(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamTable {
    fn all_wait(&self) -> bool {
        self.running.values().all(|waits| waits.body || waits.response)
    }
}

impl RunningStream {
    /// Sets whether the handler waits for a body that has stalled. False if the connection is evicted: then the request
    /// must not be executed, even if its body is complete now.
    pub fn set_body_stalled(&self, stalled: bool) -> bool {
        self.change(|waits| waits.body = stalled)
    }

    /// Sets whether the client has read nothing of the response for a while.
    pub fn set_response_stalled(&self, stalled: bool) -> bool {
        self.change(|waits| waits.response = stalled)
    }

    /// Its user has proved himself: [`ConnectionPlaces::begin_of_user`].
    pub fn begin_of_user(&self) -> UserRequest {
        self.streams.slot.note_user();
        self.streams.places.begin_of_user(self.place().as_mut())
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long others have been refused who could have had the place of this request: [`Place::wanted_for`].
    pub fn wanted_for(&self) -> Option<Duration> {
        self.place().as_ref().and_then(Place::wanted_for)
    }

    /// For how long, in all, the server has not read what the client of its connection sends.
    pub fn paused_for(&self) -> Duration {
        self.streams.socket.paused_for()
    }

    /// Counts it as by the link of a share.
    pub fn link_request(&self) -> LinkRequest {
        LinkRequest::new(self.streams.slot.clone())
    }

    /// False if the connection is evicted.
    fn change(&self, how: impl FnOnce(&mut Waits)) -> bool {
        let mut table = self.streams.lock();
        // What drops the rest of a body may report after the end of its request.
        let Some(waits) = table.running.get_mut(&self.number) else { return true };
        how(waits);
        self.streams.slot.set_body_stalled(table.all_wait())
    }

    /// The request has ended: all pieces of its response are in the socket, or its stream is reset.
    pub fn end(&self) {
        let mut table = self.streams.lock();
        if table.running.remove(&self.number).is_none() {
            return;
        }
        if table.running.is_empty() {
            table.rest = Rest::Ended;
            self.streams.slot.set_body_stalled(false);
            self.streams.slot.handler_done();
            if let Some(connection) = table.connection.take() {
                connection.wake();
            }
        } else {
            self.streams.slot.set_body_stalled(table.all_wait());
        }
    }
}

impl Drop for RunningStream {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
pub mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::connection_limit::ConnectionLimit;
    use super::super::places::Places;
    use super::*;
    use crate::http::metrics::ConnectionMetrics;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The only connection that the limit allows.
    fn connection() -> (Arc<ConnectionLimit>, Arc<Streams>) {
        let slots = ConnectionLimit::new(1, 1);
        let streams = of_socket(&slots, Arc::default());
        (slots, streams)
    }

    /// Those of a connection of this limit, with this socket.
    pub fn of_socket(slots: &Arc<ConnectionLimit>, socket: Arc<SocketState>) -> Arc<Streams> {
        let slot = Arc::new(slots.acquire(HERE).unwrap());
        let places = Places::new(18, 9, &ConnectionMetrics::default()).for_connection(None);
        Streams::new(slot, places, socket)
    }

    fn start(streams: &Arc<Streams>) -> Option<RunningStream> {
        streams.start()
    }

    /// As the connection does after its last request: it polls twice.
    fn settle(streams: &Streams, all_sent: bool) {
        let cx = Context::from_waker(Waker::noop());
        streams.settle(&cx, all_sent);
        streams.settle(&cx, all_sent);
    }

    #[test]
    fn a_connection_is_evicted_only_if_all_its_requests_wait_for_the_client() {
        let (slots, streams) = connection();
        let [a, b] = [(); 2].map(|()| start(&streams).unwrap());
        assert!(streams.idle_since().is_none());
        assert!(a.set_body_stalled(true));
        assert!(slots.acquire(HERE).is_none(), "the other request may be executed");
        assert!(b.set_response_stalled(true) && a.set_body_stalled(false));
        assert!(slots.acquire(HERE).is_none(), "the body is complete");
        assert!(a.set_body_stalled(true));
        let late = start(&streams).unwrap();
        assert!(slots.acquire(HERE).is_none(), "a request has arrived");
        drop(late);
        let _other = slots.acquire(HERE).unwrap();
        assert!(!a.set_body_stalled(false), "the rest of its body is too late");
        assert!(start(&streams).is_none(), "an evicted connection starts no request");
    }

    #[test]
    fn a_connection_without_requests_is_idle() {
        let (slots, streams) = connection();
        let a = start(&streams).unwrap();
        a.end();
        streams.settle(&Context::from_waker(Waker::noop()), true);
        assert!(streams.idle_since().is_none(), "the response may not be written yet");
        settle(&streams, false);
        assert!(streams.idle_since().is_none() && slots.acquire(HERE).is_none(), "the socket has not all of it");
        settle(&streams, true);
        assert!(streams.idle_since().is_some());
        let b = start(&streams).unwrap();
        // The end counts once, and what it reports later changes nothing.
        a.end();
        assert!(a.set_body_stalled(true) && streams.idle_since().is_none());
        drop(a);
        assert!(slots.acquire(HERE).is_none());
        drop(b);
        settle(&streams, true);
        assert!(slots.acquire(HERE).is_some());
    }
}
