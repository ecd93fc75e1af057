//! How many connections there may be. When there is no room for another, the one goes that has been waiting longest
//! for its client to send a request: slow clients, however many, do not keep others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// The connections that there are.
pub struct Slots {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    slots: HashMap<u64, Held>,
}

struct Held {
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
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// None if all places are taken by connections that are at work.
    pub fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut taken = self.lock();
        if taken.slots.len() >= self.most {
            let waiting = taken.slots.iter().filter_map(|(number, held)| Some((held.waiting?, *number)));
            let (_, longest) = waiting.min()?;
            // Its place is free at once; its task hears of it and ends.
            taken.slots.remove(&longest)?.evicted.notify_one();
        }
        let (number, evicted) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        taken.slots.insert(number, Held { waiting: Some(Instant::now()), evicted: evicted.clone() });
        Some(Slot { slots: self.clone(), number, evicted })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.slots.lock().slots.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_one_that_waits_longest_makes_room_and_none_that_is_at_work() {
        let slots = Slots::new(3);
        let [a, b, c] = [(); 3].map(|()| slots.take().unwrap());
        a.set_at_work(true);
        let d = slots.take().unwrap();
        assert!(b.evicted().now_or_never().is_some());
        assert!(a.evicted().now_or_never().is_none() && c.evicted().now_or_never().is_none());
        c.set_at_work(true);
        d.set_at_work(true);
        assert!(slots.take().is_none());
        // What was evicted takes nobody's place with it when it ends.
        drop(b);
        assert!(slots.take().is_none());
        a.set_at_work(false);
        let e = slots.take().unwrap();
        assert!(a.evicted().now_or_never().is_some());
        drop(e);
        assert!(slots.take().is_some());
    }
}
