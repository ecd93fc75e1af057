//! How many connections there may be. When there is no room for another, the one goes that has been waiting longest
//! for its client to send a request: slow clients, however many, do not keep others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

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
    /// Since when its client has had nothing to wait for; none while a request of his is at work.
    waiting: Option<Instant>,
    evicted: Arc<Notify>,
}

/// A connection's place, until it is dropped.
pub struct Slot {
    slots: Arc<Slots>,
    number: u64,
    evicted: Arc<Notify>,
}

impl Slots {
    pub fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_address, taken: Mutex::default() })
    }

    /// None if all places, or all of this address, are taken by connections that are at work.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let mut taken = self.lock();
        let crowded = taken.of_address.get(&address).is_some_and(|many| *many >= self.most_of_address);
        if crowded || taken.slots.len() >= self.most {
            // Who has all that is his makes room for himself.
            let asked = taken.slots.iter().filter(|(_, held)| !crowded || held.address == address);
            let waiting = asked.filter_map(|(number, held)| Some((held.waiting?, *number)));
            let (_, longest) = waiting.min()?;
            // Its place is free at once; its task hears of it and ends.
            taken.remove(longest)?.evicted.notify_one();
        }
        let (number, evicted) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        taken.slots.insert(number, Held { address, waiting: Some(Instant::now()), evicted: evicted.clone() });
        *taken.of_address.entry(address).or_default() += 1;
        Some(Slot { slots: self.clone(), number, evicted })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
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
    /// Whether a request is at work on the connection, from its head to the end of its answer.
    pub fn set_at_work(&self, at_work: bool) {
        if let Some(held) = self.slots.lock().slots.get_mut(&self.number) {
            held.waiting = (!at_work).then(Instant::now);
        }
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
        d.set_at_work(true);
        e.set_at_work(true);
        assert!(slots.take(HERE).is_none());
        drop((c, e));
        let f = slots.take(HERE).unwrap();
        f.set_at_work(true);
        assert!(slots.take(HERE).is_none());
        drop((a, b, d, f));
        assert!(slots.lock().slots.is_empty() && slots.lock().of_address.is_empty());
    }

    #[test]
    fn the_one_that_waits_longest_makes_room_and_none_that_is_at_work() {
        let slots = Slots::new(3, 3);
        let [a, b, c] = [(); 3].map(|()| slots.take(HERE).unwrap());
        a.set_at_work(true);
        let d = slots.take(HERE).unwrap();
        assert!(b.evicted().now_or_never().is_some());
        assert!(a.evicted().now_or_never().is_none() && c.evicted().now_or_never().is_none());
        c.set_at_work(true);
        d.set_at_work(true);
        assert!(slots.take(HERE).is_none());
        // What was evicted takes nobody's place with it when it ends.
        drop(b);
        assert!(slots.take(HERE).is_none());
        a.set_at_work(false);
        let e = slots.take(HERE).unwrap();
        assert!(a.evicted().now_or_never().is_some());
        drop(e);
        assert!(slots.take(HERE).is_some());
    }
}
