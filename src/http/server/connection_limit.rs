//! How many connections there may be. When there is no room for another, the one goes that has been waiting longest
//! for its client to send a request: slow clients, however many, do not keep others out. If none waits, the one goes
//! whose client has for longest taken nothing of its answer, or sent too little of a body that the service waits for.
//!
//! ```text
//! Waiting -> AtWork -> Answering -> Waiting      a request comes, the service answers, the last byte is flushed
//! ```

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long a client must have taken nothing of its answer before it can be evicted.
const STALLED: Duration = Duration::from_secs(5);

/// The connections that there are.
pub struct Slots {
    most: usize,
    most_of_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    slots: HashMap<u64, Held>,
    of_address: HashMap<IpAddr, usize>,
}

struct Held {
    address: IpAddr,
    state: State,
    /// Since when its client takes nothing of what is sent.
    stalled: Option<Instant>,
    /// Since when the service has waited in vain for the rest of a request's body: [`Paced`](super::pace::Paced) says so.
    starved: Option<Instant>,
    evicted: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum State {
    /// Since then its client has had nothing to wait for: all of its answers lie in the socket.
    Waiting(Instant),
    /// The service has a request.
    AtWork,
    /// The service has answered. `ended`: no more is to come of the answer, but some may not be in the socket yet.
    Answering { ended: bool },
}

impl Held {
    /// Whether it may be evicted, and which goes first: the waiting ones, then the stalled ones, each by age.
    fn rank(&self) -> Option<(bool, Instant)> {
        match self.state {
            State::Waiting(since) => Some((false, since)),
            // Nothing of a request is carried out before its body is whole.
            State::AtWork => self.starved.map(|since| (true, since)),
            // Its request is carried out, whatever becomes of the answer.
            State::Answering { .. } => {
                let since = self.stalled?.checked_add(STALLED)?;
                (since <= Instant::now()).then_some((true, since))
            }
        }
    }
}

/// A connection's place, until it is dropped.
pub struct Slot {
    slots: Arc<Slots>,
    number: u64,
    evicted: Arc<Notify>,
    at_work: AtomicBool,
    /// An answer has ended since the last flush.
    ended: AtomicBool,
    /// Only the end of the connection tells where the answer ends.
    endless: AtomicBool,
}

impl Slots {
    pub fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_address, taken: Mutex::default() })
    }

    /// None if all places, or all of this address, are taken by connections that cannot be evicted.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let mut taken = self.lock();
        let crowded = taken.of_address.get(&address).is_some_and(|many| *many >= self.most_of_address);
        if crowded || taken.slots.len() >= self.most {
            // An address at its own limit evicts one of its own connections.
            taken.evict(crowded.then_some(address))?;
        }
        let (number, evicted) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        let state = State::Waiting(Instant::now());
        taken.slots.insert(number, Held { address, state, stalled: None, starved: None, evicted: evicted.clone() });
        *taken.of_address.entry(address).or_default() += 1;
        let (at_work, ended, endless) = <(AtomicBool, AtomicBool, AtomicBool)>::default();
        Some(Slot { slots: self.clone(), number, evicted, at_work, ended, endless })
    }

    /// Evicts one connection for the sake of the process, if one may go.
    pub fn make_room(&self) -> bool {
        self.lock().evict(None).is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Evicts the first one in rank, of this address if one is named. Its place is free at once; its task hears of it
    /// and ends.
    fn evict(&mut self, address: Option<IpAddr>) -> Option<()> {
        let asked = self.slots.iter().filter(|(_, held)| address.is_none_or(|address| held.address == address));
        let (_, first) = asked.filter_map(|(number, held)| Some((held.rank()?, *number))).min()?;
        self.remove(first)?.evicted.notify_one();
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.slots.remove(&number)?;
        if let Some(many) = self.of_address.get_mut(&held.address) {
            *many -= 1;
            if *many == 0 {
                self.of_address.remove(&held.address);
            }
        }
        Some(held)
    }
}

impl Slot {
    /// The service is about to get a request. False if the place was given to another: the request must not be
    /// carried out then.
    pub fn begin(&self) -> bool {
        let begun = self.change(|held| (held.state, held.starved) = (State::AtWork, None));
        self.at_work.store(begun, Ordering::Relaxed);
        begun
    }

    /// Whether the service has a request, and has not answered it.
    pub fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Relaxed)
    }

    /// The service has answered.
    pub fn answered(&self) {
        self.at_work.store(false, Ordering::Relaxed);
        self.change(|held| held.state = State::Answering { ended: false });
    }

    /// The answer that comes ends where the connection does, whose last one it is.
    pub fn set_endless(&self) {
        self.endless.store(true, Ordering::Relaxed);
    }

    pub fn is_endless(&self) -> bool {
        self.endless.load(Ordering::Relaxed)
    }

    /// The HTTP library has all of the answer.
    pub fn ended(&self) {
        self.change(|held| held.state = State::Answering { ended: true });
        self.ended.store(true, Ordering::Relaxed);
    }

    /// The socket has all that the HTTP library had.
    pub fn flushed(&self) {
        // Most flushes are in the midst of an answer: they need not lock.
        if !self.ended.swap(false, Ordering::Relaxed) {
            return;
        }
        self.change(|held| {
            if matches!(held.state, State::Answering { ended: true }) {
                held.state = State::Waiting(Instant::now());
            }
        });
    }

    /// Whether the client takes nothing of what is sent.
    pub fn set_stalled(&self, stalled: bool) {
        self.change(|held| held.stalled = stalled.then(|| held.stalled.unwrap_or_else(Instant::now)));
    }

    /// Whether the service waits in vain for the rest of a request's body. False if the place was given to another: the
    /// request must not be carried out then, even if its body is whole now.
    pub fn set_starved(&self, starved: bool) -> bool {
        self.change(|held| held.starved = starved.then(|| held.starved.unwrap_or_else(Instant::now)))
    }

    /// False if it is evicted.
    fn change(&self, how: impl FnOnce(&mut Held)) -> bool {
        self.slots.lock().slots.get_mut(&self.number).map(how).is_some()
    }

    /// Ends when the place is given to another.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Slot {
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
    fn one_address_makes_room_for_itself_alone() {
        let slots = Slots::new(5, 2);
        let [a, b] = [(); 2].map(|()| slots.take(THERE).unwrap());
        let [c, d] = [(); 2].map(|()| slots.take(HERE).unwrap());
        let e = slots.take(HERE).unwrap();
        assert!(c.evicted().now_or_never().is_some(), "there was room, but not for this address");
        assert!([&a, &b, &d].iter().all(|slot| slot.evicted().now_or_never().is_none()));
        assert!(d.begin() && e.begin());
        assert!(slots.take(HERE).is_none());
        drop((c, e));
        let f = slots.take(HERE).unwrap();
        assert!(f.begin());
        assert!(slots.take(HERE).is_none());
        drop((a, b, d, f));
        assert!(slots.lock().slots.is_empty() && slots.lock().of_address.is_empty());
    }

    #[test]
    fn the_one_that_waits_longest_makes_room_and_none_that_is_at_work() {
        let slots = Slots::new(3, 3);
        let [a, b, c] = [(); 3].map(|()| slots.take(HERE).unwrap());
        assert!(a.begin());
        let d = slots.take(HERE).unwrap();
        assert!(b.evicted().now_or_never().is_some());
        assert!(a.evicted().now_or_never().is_none() && c.evicted().now_or_never().is_none());
        assert!(c.begin() && d.begin());
        assert!(slots.take(HERE).is_none());
        // What was evicted takes nobody's place with it when it ends.
        drop(b);
        assert!(slots.take(HERE).is_none());
        a.answered();
        a.ended();
        a.flushed();
        let e = slots.take(HERE).unwrap();
        assert!(a.evicted().now_or_never().is_some());
        drop(e);
        assert!(slots.take(HERE).is_some());
    }

    #[test]
    fn an_answer_is_at_work_until_its_last_byte_is_flushed() {
        let slots = Slots::new(1, 1);
        let a = slots.take(HERE).unwrap();
        let is_at_work = || slots.take(HERE).is_none();
        assert!(a.begin() && is_at_work());
        // As `100 Continue` is.
        a.flushed();
        assert!(is_at_work());
        a.answered();
        a.flushed();
        assert!(is_at_work(), "the head was flushed, the body was not");
        a.ended();
        assert!(is_at_work());
        a.flushed();
        assert!(!is_at_work());
    }

    #[test]
    fn an_upload_makes_room_only_while_its_body_is_waited_for_in_vain() {
        let slots = Slots::new(2, 2);
        let [a, b] = [(); 2].map(|()| slots.take(HERE).unwrap());
        assert!(a.begin() && b.begin() && a.set_starved(true) && a.set_starved(false));
        assert!(slots.take(HERE).is_none(), "its body goes on, and may be whole");
        assert!(b.set_starved(true) && a.set_starved(true) && b.set_starved(true));
        let c = slots.take(HERE).unwrap();
        assert!(b.evicted().now_or_never().is_some(), "it has been waited for longest");
        assert!(!b.set_starved(false), "the rest of its body comes too late");
        assert!(a.set_starved(false) && c.begin());
        assert!(slots.take(HERE).is_none());
        // Another request on the connection is another matter.
        assert!(a.set_starved(true));
        a.answered();
        a.ended();
        a.flushed();
        assert!(a.begin());
        assert!(slots.take(HERE).is_none());
    }

    #[test]
    fn an_evicted_connection_begins_nothing() {
        let slots = Slots::new(1, 1);
        let a = slots.take(HERE).unwrap();
        let _b = slots.take(HERE).unwrap();
        assert!(!a.begin());
    }

    #[test]
    fn a_client_that_takes_nothing_of_its_answer_makes_room_after_a_while() {
        let slots = Slots::new(2, 2);
        let [a, b] = [(); 2].map(|()| slots.take(HERE).unwrap());
        assert!(a.begin() && b.begin());
        let long_ago = Instant::now().checked_sub(STALLED).unwrap();
        let stall = |slot: &Slot| assert!(slot.change(|held| held.stalled = Some(long_ago)));
        stall(&a);
        assert!(slots.take(HERE).is_none(), "its request may not be carried out yet");
        a.answered();
        b.answered();
        // It goes on taking, then stalls for a moment.
        a.set_stalled(false);
        a.set_stalled(true);
        assert!(slots.take(HERE).is_none());
        stall(&a);
        a.set_stalled(true);
        let c = slots.take(HERE).unwrap();
        assert!(a.evicted().now_or_never().is_some());
        // One that waits goes before one that is stalled.
        stall(&b);
        let _d = slots.take(HERE).unwrap();
        assert!(c.evicted().now_or_never().is_some() && b.evicted().now_or_never().is_none());
        assert!(slots.make_room() && slots.make_room() && !slots.make_room());
    }
}
