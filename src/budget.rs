//! One budget of bytes for the buffers of requests: bodies that come and go, answers, plans that wait to be stored.
//!
//! Whoever needs a buffer takes a permit of its size first and waits while there is none, so that memory is bounded
//! whatever clients do. A quarter is for small buffers alone: a request for a small file does not wait behind large
//! ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted by so many.
const PAGE: usize = 4096;
/// Up to so many bytes, a buffer is small.
const SMALL: usize = 64 << 10;
/// The part of the budget that is for small buffers.
const SMALL_PART: usize = 4;
/// How long a request waits for memory before it is refused.
pub const WAIT: Duration = Duration::from_secs(10);

/// The budget. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limited: bool,
    small: Lane,
    large: Lane,
    queue: Mutex<Queue>,
    seen: Seen,
}

/// Since when each one waits, by number: the first one has waited longest.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

#[derive(Debug)]
struct Lane {
    pages: Arc<Semaphore>,
    all: usize,
}

/// What operators see of it.
#[derive(Clone, Debug, Default)]
struct Seen {
    bytes: Gauge,
    used: Gauge,
    waiting: Gauge,
    waited: Counter,
}

/// A part of the budget, until it is dropped. The default is a permit for nothing.
#[derive(Debug, Default)]
pub struct Permit {
    pages: Option<OwnedSemaphorePermit>,
    used: Gauge,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        let seen = Seen::default();
        seen.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let small = Lane::new((bytes / SMALL_PART).max(SMALL));
        let large = Lane::new(bytes - bytes / SMALL_PART);
        Self(Arc::new(Inner { limited: true, small, large, queue: Mutex::default(), seen }))
    }

    /// A budget that is never used up, nor counted.
    pub fn unlimited() -> Self {
        let [small, large] = [Lane::new(0), Lane::new(0)];
        Self(Arc::new(Inner { limited: false, small, large, queue: Mutex::default(), seen: Seen::default() }))
    }

    /// Registers its metrics.
    pub fn register(&self, registry: &mut Registry) {
        let seen = &self.0.seen;
        let registry = registry.sub_registry_with_prefix("rowdrive_buffers");
        registry.register("bytes", "Bytes that the buffers of requests may have", seen.bytes.clone());
        registry.register("used_bytes", "Bytes that they have", seen.used.clone());
        registry.register("waiting", "Requests that wait for a buffer", seen.waiting.clone());
        registry.register("waited", "Times that a request had to wait for a buffer", seen.waited.clone());
    }

    /// Takes this many bytes, or as many as there are in all, once they are free; first come, first served.
    pub async fn take(&self, bytes: usize) -> Permit {
        if let Some(permit) = self.try_take(bytes) {
            return permit;
        }
        let _waiting = Waiting::begin(&self.0);
        let (lane, pages) = self.lane(bytes);
        // It fails only if the semaphore is closed, and nobody closes it.
        self.permit(lane.pages.clone().acquire_many_owned(pages).await.ok())
    }

    /// None if they are not free at once.
    pub fn try_take(&self, bytes: usize) -> Option<Permit> {
        if !self.0.limited {
            return Some(self.permit(None));
        }
        let (lane, pages) = self.lane(bytes);
        let pages = lane.pages.clone().try_acquire_many_owned(pages).ok()?;
        Some(self.permit(Some(pages)))
    }

    /// Whether somebody waits: who holds memory without using it should let it go.
    pub fn is_short(&self) -> bool {
        self.0.seen.waiting.get() > 0
    }

    /// For how long the one has waited that has waited longest; zero if nobody waits.
    pub fn waited(&self) -> Duration {
        if !self.is_short() {
            return Duration::ZERO;
        }
        self.0.queue().since.first_key_value().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    fn lane(&self, bytes: usize) -> (&Lane, u32) {
        let lane = if bytes <= SMALL { &self.0.small } else { &self.0.large };
        (lane, u32::try_from(bytes.div_ceil(PAGE).min(lane.all)).unwrap_or(u32::MAX))
    }

    fn permit(&self, pages: Option<OwnedSemaphorePermit>) -> Permit {
        let used = self.0.seen.used.clone();
        let permit = Permit { pages, used };
        permit.used.inc_by(permit.bytes());
        permit
    }
}

impl Lane {
    fn new(bytes: usize) -> Self {
        // No permit is for more than a `u32` says.
        let all = (bytes / PAGE).clamp(1, u32::MAX as usize);
        Self { pages: Arc::new(Semaphore::new(all)), all }
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody waits, until this is dropped.
struct Waiting<'a> {
    of: &'a Inner,
    number: u64,
}

impl<'a> Waiting<'a> {
    fn begin(of: &'a Inner) -> Self {
        let mut queue = of.queue();
        let number = queue.next;
        queue.next += 1;
        queue.since.insert(number, Instant::now());
        of.seen.waited.inc();
        of.seen.waiting.inc();
        Self { of, number }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.of.queue().since.remove(&self.number);
        self.of.seen.waiting.dec();
    }
}

impl Permit {
    fn bytes(&self) -> i64 {
        let pages = self.pages.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        i64::try_from(pages * PAGE).unwrap_or(i64::MAX)
    }

    /// Gives back all but this many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let before = self.bytes();
        if let Some(pages) = &mut self.pages {
            let over = pages.num_permits().saturating_sub(bytes.div_ceil(PAGE));
            drop(pages.split(over));
        }
        self.used.dec_by(before - self.bytes());
    }

    /// The same bytes; the permit is held until the last clone of them is gone.
    pub fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Paid { bytes, _permit: self })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.used.dec_by(self.bytes());
    }
}

struct Paid {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn what_is_taken_never_passes_the_budget() {
        let budget = Budget::new(4 * MIB);
        let first = budget.take(2 * MIB).await;
        let second = budget.take(MIB).await;
        assert!(budget.try_take(SMALL + 1).is_none() && !budget.is_short());
        let mut third = Box::pin(budget.take(MIB));
        assert!((&mut third).now_or_never().is_none() && budget.is_short());
        assert!(budget.waited() > Duration::ZERO);
        assert_eq!(budget.0.seen.used.get(), 3 * MIB as i64);
        drop(second);
        drop(third.await);
        assert!(!budget.is_short());
        // Who gives up waiting is not waiting.
        let mut fourth = Box::pin(budget.take(2 * MIB));
        assert!((&mut fourth).now_or_never().is_none() && budget.is_short());
        drop(fourth);
        assert!(!budget.is_short() && budget.waited() == Duration::ZERO && budget.try_take(MIB).is_some());
        drop(first);
        assert_eq!(budget.0.seen.used.get(), 0);
        // More than there is in all is all there is.
        let all = budget.take(100 * MIB).await;
        assert!(budget.try_take(SMALL + 1).is_none());
        drop(all);
        assert!(budget.try_take(3 * MIB).is_some());
    }

    #[tokio::test]
    async fn small_buffers_do_not_wait_behind_large_ones() {
        let budget = Budget::new(4 * MIB);
        let _large = budget.take(3 * MIB).await;
        let _waiting = Box::pin(budget.take(MIB));
        let small: Vec<_> = std::iter::from_fn(|| budget.try_take(SMALL)).collect();
        assert_eq!(small.len(), MIB / SMALL);
    }

    #[test]
    fn a_permit_is_held_by_its_bytes_and_can_shrink() {
        let budget = Budget::new(4 * MIB);
        let mut permit = budget.try_take(MIB).unwrap();
        permit.shrink(PAGE + 1);
        assert_eq!(budget.0.seen.used.get(), 2 * PAGE as i64);
        permit.shrink(MIB);
        let bytes = permit.attach(Bytes::from_static(b"hello"));
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!((&part[..], budget.0.seen.used.get()), (&b"el"[..], 2 * PAGE as i64));
        drop(part);
        assert_eq!(budget.0.seen.used.get(), 0);
        assert!(budget.try_take(3 * MIB).is_some());
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let budget = Budget::unlimited();
        let permits: Vec<_> = (0..100).map(|_| budget.try_take(1 << 40).unwrap()).collect();
        assert!(!budget.is_short() && permits.len() == 100);
    }
}
