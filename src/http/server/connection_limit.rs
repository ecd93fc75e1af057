//! The limit of open connections, in all and of one address (of IPv6: of one /64).
//!
//! At the limit a new connection evicts another one, so that slow clients, however many, do not keep others out. The
//! connection that has been idle longest is evicted first. If none is idle, the limit evicts one whose handler waits
//! for a body that no known user sends; then the one that has stalled longest: its client reads nothing of its
//! response, or sends nothing of a body that the handler waits for. A request whose body is complete is never evicted
//! before its response: it may have been executed. A response may begin before the body has ended, as the answer to a
//! tar does: then both stalls count. An HTTP/2 connection has several requests: [`Streams`](super::streams::Streams)
//! reports it as one that stalls while all of them do.
//!
//! ```text
//! Idle -> Handling -> Responding -> Idle      a request arrives, the handler returns, the last byte is flushed
//! ```

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::client_net::ClientNet;

/// How long a client must have read nothing of its response before it can be evicted.
const STALLED: Duration = Duration::from_secs(5);

/// The open connections.
pub struct ConnectionLimit {
    max: usize,
    max_of_address: usize,
    table: Mutex<SlotTable>,
}

#[derive(Default)]
struct SlotTable {
    next: u64,
    /// By their numbers, in a tree: each request looks up its slot four times or more, and hashes cost more.
    slots: BTreeMap<u64, SlotState>,
    of_address: HashMap<ClientNet, usize>,
}

struct SlotState {
    address: ClientNet,
    phase: SlotPhase,
    /// Since when its client reads nothing of the response.
    stalled: Option<Instant>,
    /// Since when the handler waits for a body that has stalled, or of no known user;
    /// [`TimedBody`](super::body_timeout::TimedBody) sets it. In
    /// HTTP/2 since when every request waits for its client.
    body_stalled: Option<Instant>,
    /// A user has sent a body on it, at any time.
    of_user: bool,
    evicted: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum SlotPhase {
    /// No request is under way. Since this instant all responses are in the socket.
    Idle(Instant),
    /// The handler has a request.
    Handling,
    /// The handler has returned. `ended`: the HTTP library has the whole response, but a part of it may not be in the
    /// socket yet.
    Responding { ended: bool },
}

/// Those of a class are evicted before those of the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionClass {
    Idle,
    /// A handler waits for a body of no known user.
    AwaitedFromNobody,
    Stalled,
}

impl SlotState {
    /// The order of eviction; within a class by age. None if it must not be evicted.
    fn rank(&self) -> Option<(EvictionClass, Instant)> {
        let class = if self.of_user { EvictionClass::Stalled } else { EvictionClass::AwaitedFromNobody };
        let of_body = self.body_stalled.map(|since| (class, since));
        match self.phase {
            SlotPhase::Idle(since) => Some((EvictionClass::Idle, since)),
            // The handler executes no request before its body is complete.
            SlotPhase::Handling => of_body,
            // The request has been executed, or all that the response says of it has; only the response is lost.
            SlotPhase::Responding { .. } => {
                let stalled = self.stalled.and_then(|since| since.checked_add(STALLED));
                let stalled =
                    stalled.filter(|since| *since <= Instant::now()).map(|since| (EvictionClass::Stalled, since));
                stalled.into_iter().chain(of_body).min()
            }
        }
    }
}

/// A place in the limit, until it is dropped.
pub struct ConnectionSlot {
    slots: Arc<ConnectionLimit>,
    number: u64,
    evicted: Arc<Notify>,
    handling: AtomicBool,
    /// A handler, or what writes its response, waits for the body of the request.
    body_awaited: AtomicBool,
    /// A response has begun, and not all of it is in the socket.
    responding: AtomicBool,
    /// A response has ended since the last flush.
    ended: AtomicBool,
    /// The response under way ends where the connection ends (RFC 9112 section 6.3).
    close_delimited: AtomicBool,
    /// The same as in the table, which then need not be locked.
    of_user: AtomicBool,
    /// Requests by the link of a share. Of HTTP/1.1 the latest one counts also after its response.
    link_requests: AtomicUsize,
}

/// A request of HTTP/2 by the link of a share, until it is dropped.
pub struct LinkRequest(Arc<ConnectionSlot>);

impl LinkRequest {
    pub fn new(slot: Arc<ConnectionSlot>) -> Self {
        slot.link_requests.fetch_add(1, Ordering::Relaxed);
        Self(slot)
    }
}

impl Drop for LinkRequest {
    fn drop(&mut self) {
        self.0.link_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionLimit {
    pub fn new(max: usize, max_of_address: usize) -> Arc<Self> {
        Arc::new(Self { max, max_of_address, table: Mutex::default() })
    }

    /// A place for a new connection; none if no connection, or none of this address, can be evicted.
    pub fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let (mut table, address) = (self.lock(), ClientNet::new(address));
        let crowded = table.of_address.get(&address).is_some_and(|many| *many >= self.max_of_address);
        if crowded || table.slots.len() >= self.max {
            // An address at its own limit evicts one of its own connections.
            table.evict(crowded.then_some(address))?;
        }
        let (number, evicted) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        let phase = SlotPhase::Idle(Instant::now());
        let (stalled, body_stalled, of_user) = (None, None, false);
        let state = SlotState { address, phase, stalled, body_stalled, of_user, evicted: evicted.clone() };
        table.slots.insert(number, state);
        *table.of_address.entry(address).or_default() += 1;
        let [handling, body_awaited, responding, ended, close_delimited, of_user] = <[AtomicBool; 6]>::default();
        let slots = self.clone();
        Some(ConnectionSlot {
            slots,
            number,
            evicted,
            handling,
            body_awaited,
            responding,
            ended,
            close_delimited,
            of_user,
            link_requests: AtomicUsize::new(0),
        })
    }

    /// Evicts one connection, of any address, to free its file descriptor. False if none can be evicted.
    pub fn evict_one(&self) -> bool {
        self.lock().evict(None).is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SlotTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    /// Evicts the first connection in rank, of this address if one is given. Its place is free at once; its task is
    /// notified, and ends later.
    fn evict(&mut self, address: Option<ClientNet>) -> Option<()> {
        let asked = self.slots.iter().filter(|(_, slot)| address.is_none_or(|address| slot.address == address));
        let (_, first) = asked.filter_map(|(number, slot)| Some((slot.rank()?, *number))).min()?;
        self.remove(first)?.evicted.notify_one();
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<SlotState> {
        let slot = self.slots.remove(&number)?;
        if let Some(many) = self.of_address.get_mut(&slot.address) {
            *many -= 1;
            if *many == 0 {
                self.of_address.remove(&slot.address);
            }
        }
        Some(slot)
    }
}

impl ConnectionSlot {
    /// A request has arrived. False if the connection is evicted: then the request must not be executed.
    pub fn start_request(&self) -> bool {
        let begun = self.change(|slot| (slot.phase, slot.body_stalled) = (SlotPhase::Handling, None));
        self.handling.store(begun, Ordering::Relaxed);
        self.responding.store(false, Ordering::Relaxed);
        begun
    }

    /// Whether the handler has a request and has not returned, or the body of the request is still read.
    pub fn is_handling(&self) -> bool {
        self.handling.load(Ordering::Relaxed) || self.body_awaited.load(Ordering::Relaxed)
    }

    /// Sets whether a handler, or what writes its response, waits for the body.
    pub fn set_body_awaited(&self, awaited: bool) {
        self.body_awaited.store(awaited, Ordering::Relaxed);
    }

    /// Whether a response has begun, and not all of it is in the socket.
    pub fn is_responding(&self) -> bool {
        self.responding.load(Ordering::Relaxed)
    }

    /// The handler has returned.
    pub fn handler_done(&self) {
        self.handling.store(false, Ordering::Relaxed);
        self.responding.store(true, Ordering::Relaxed);
        self.change(|slot| slot.phase = SlotPhase::Responding { ended: false });
    }

    /// The next response ends with the connection, as an HTTP/1.0 response without a length does.
    pub fn set_close_delimited(&self) {
        self.close_delimited.store(true, Ordering::Relaxed);
    }

    /// Sets whether the request of HTTP/1.1 that begins is by the link of a share.
    pub fn set_by_link(&self, is_by_link: bool) {
        self.link_requests.store(usize::from(is_by_link), Ordering::Relaxed);
    }

    /// Whether it carries a request by the link of a share. Then its client hurries for other strangers, also with what
    /// else it reads there.
    pub fn has_link_request(&self) -> bool {
        self.link_requests.load(Ordering::Relaxed) > 0
    }

    pub fn is_close_delimited(&self) -> bool {
        self.close_delimited.load(Ordering::Relaxed)
    }

    /// The HTTP library has the whole response.
    pub fn body_taken(&self) {
        self.change(|slot| slot.phase = SlotPhase::Responding { ended: true });
        self.ended.store(true, Ordering::Relaxed);
    }

    /// The socket has all bytes that the HTTP library had.
    pub fn flushed(&self) {
        // Most flushes are in the middle of a response: they need no lock.
        if !self.ended.swap(false, Ordering::Relaxed) {
            return;
        }
        self.change(|slot| {
            if matches!(slot.phase, SlotPhase::Responding { ended: true }) {
                slot.phase = SlotPhase::Idle(Instant::now());
                self.responding.store(false, Ordering::Relaxed);
            }
        });
    }

    /// No request is under way, and no response either.
    pub fn set_idle(&self) {
        self.change(|slot| (slot.phase, slot.body_stalled) = (SlotPhase::Idle(Instant::now()), None));
    }

    /// Sets whether the client reads nothing of the response.
    pub fn set_write_stalled(&self, stalled: bool) {
        self.change(|slot| slot.stalled = stalled.then(|| slot.stalled.unwrap_or_else(Instant::now)));
    }

    /// A user has proved himself on the connection. Anybody is one on a drive without users.
    pub fn note_user(&self) {
        if !self.of_user.swap(true, Ordering::Relaxed) {
            self.change(|slot| slot.of_user = true);
        }
    }

    /// Sets whether the handler waits for a body that has stalled. False if the connection is evicted: then the request
    /// must not be executed, even if its body is complete now.
    pub fn set_body_stalled(&self, body_stalled: bool) -> bool {
        self.change(|slot| slot.body_stalled = body_stalled.then(|| slot.body_stalled.unwrap_or_else(Instant::now)))
    }

    /// False if it is evicted.
    fn change(&self, how: impl FnOnce(&mut SlotState)) -> bool {
        self.slots.lock().slots.get_mut(&self.number).map(how).is_some()
    }

    /// Ends when the connection is evicted.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    #[test]
    fn an_address_at_its_limit_evicts_only_its_own_connections() {
        let slots = ConnectionLimit::new(5, 2);
        let [a, b] = [(); 2].map(|()| slots.acquire(THERE).unwrap());
        let [c, d] = [(); 2].map(|()| slots.acquire(HERE).unwrap());
        let e = slots.acquire(HERE).unwrap();
        assert!(c.evicted().now_or_never().is_some(), "a place was free, but not for this address");
        assert!([&a, &b, &d].iter().all(|slot| slot.evicted().now_or_never().is_none()));
        assert!(d.start_request() && e.start_request());
        assert!(slots.acquire(HERE).is_none());
        drop((c, e));
        let f = slots.acquire(HERE).unwrap();
        assert!(f.start_request());
        assert!(slots.acquire(HERE).is_none());
        drop((a, b, d, f));
        assert!(slots.lock().slots.is_empty() && slots.lock().of_address.is_empty());
    }

    #[test]
    fn the_addresses_of_an_ipv6_client_are_one() {
        let slots = ConnectionLimit::new(5, 1);
        let from = |text: &str| slots.acquire(text.parse().unwrap()).unwrap();
        let first = from("2001:db8::1");
        let _next = from("2001:db8:0:1::1");
        assert!(first.evicted().now_or_never().is_none());
        let _same = from("2001:db8::ffff:0:0:2");
        assert!(first.evicted().now_or_never().is_some());
    }

    #[test]
    fn the_longest_idle_connection_is_evicted_and_none_that_is_handling() {
        let slots = ConnectionLimit::new(3, 3);
        let [a, b, c] = [(); 3].map(|()| slots.acquire(HERE).unwrap());
        assert!(a.start_request());
        let d = slots.acquire(HERE).unwrap();
        assert!(b.evicted().now_or_never().is_some());
        assert!(a.evicted().now_or_never().is_none() && c.evicted().now_or_never().is_none());
        assert!(c.start_request() && d.start_request());
        assert!(slots.acquire(HERE).is_none());
        // An evicted connection has no place to free when it ends.
        drop(b);
        assert!(slots.acquire(HERE).is_none());
        a.handler_done();
        a.body_taken();
        a.flushed();
        let e = slots.acquire(HERE).unwrap();
        assert!(a.evicted().now_or_never().is_some());
        drop(e);
        assert!(slots.acquire(HERE).is_some());
    }

    #[test]
    fn an_answer_is_handling_until_its_last_byte_is_flushed() {
        let slots = ConnectionLimit::new(1, 1);
        let a = slots.acquire(HERE).unwrap();
        let is_handling = || slots.acquire(HERE).is_none();
        assert!(a.start_request() && is_handling());
        // `100 Continue` is flushed like this.
        a.flushed();
        assert!(is_handling());
        a.handler_done();
        a.flushed();
        assert!(is_handling(), "the head was flushed, the body was not");
        a.body_taken();
        assert!(is_handling());
        a.flushed();
        assert!(!is_handling());
    }

    #[test]
    fn an_upload_is_evicted_only_while_its_body_stalls() {
        let slots = ConnectionLimit::new(2, 2);
        let [a, b] = [(); 2].map(|()| slots.acquire(HERE).unwrap());
        assert!(a.start_request() && b.start_request() && a.set_body_stalled(true) && a.set_body_stalled(false));
        assert!(slots.acquire(HERE).is_none(), "its body continues, and may be complete");
        assert!(b.set_body_stalled(true) && a.set_body_stalled(true) && b.set_body_stalled(true));
        let c = slots.acquire(HERE).unwrap();
        assert!(b.evicted().now_or_never().is_some(), "its body has stalled longest");
        assert!(!b.set_body_stalled(false), "the rest of its body is too late");
        assert!(a.set_body_stalled(false) && c.start_request());
        assert!(slots.acquire(HERE).is_none());
        // The stall does not count for the next request of the connection.
        assert!(a.set_body_stalled(true));
        a.handler_done();
        a.body_taken();
        a.flushed();
        assert!(a.start_request());
        assert!(slots.acquire(HERE).is_none());
    }

    #[test]
    fn a_body_of_no_known_user_stalls_before_all_others() {
        let slots = ConnectionLimit::new(4, 4);
        let [user, stranger, reader, idle] = [(); 4].map(|()| slots.acquire(HERE).unwrap());
        user.note_user();
        assert!([&user, &stranger, &reader].iter().all(|slot| slot.start_request()));
        reader.handler_done();
        let long_ago = Instant::now().checked_sub(STALLED * 9).unwrap();
        assert!(reader.change(|slot| slot.stalled = Some(long_ago)));
        assert!(user.set_body_stalled(true) && stranger.set_body_stalled(true));
        for (n, first) in [idle, stranger, reader, user].iter().enumerate() {
            let next = slots.acquire(HERE).unwrap();
            assert!(first.evicted().now_or_never().is_some(), "{n}");
            assert!(next.start_request());
            // Its place stays taken.
            std::mem::forget(next);
        }
        assert!(slots.acquire(HERE).is_none());
    }

    #[test]
    fn an_evicted_connection_starts_no_request() {
        let slots = ConnectionLimit::new(1, 1);
        let a = slots.acquire(HERE).unwrap();
        let _b = slots.acquire(HERE).unwrap();
        assert!(!a.start_request());
    }

    #[test]
    fn a_client_that_does_not_read_its_response_is_evicted_after_a_while() {
        let slots = ConnectionLimit::new(2, 2);
        let [a, b] = [(); 2].map(|()| slots.acquire(HERE).unwrap());
        assert!(a.start_request() && b.start_request());
        let long_ago = Instant::now().checked_sub(STALLED).unwrap();
        let stall = |slot: &ConnectionSlot| assert!(slot.change(|slot| slot.stalled = Some(long_ago)));
        stall(&a);
        assert!(slots.acquire(HERE).is_none(), "its request may not be executed yet");
        a.handler_done();
        b.handler_done();
        // It reads again, then stalls for a moment.
        a.set_write_stalled(false);
        a.set_write_stalled(true);
        assert!(slots.acquire(HERE).is_none());
        stall(&a);
        a.set_write_stalled(true);
        let c = slots.acquire(HERE).unwrap();
        assert!(a.evicted().now_or_never().is_some());
        // An idle connection is evicted before a stalled one.
        stall(&b);
        let _d = slots.acquire(HERE).unwrap();
        assert!(c.evicted().now_or_never().is_some() && b.evicted().now_or_never().is_none());
        assert!(slots.evict_one() && slots.evict_one() && !slots.evict_one());
    }
}
