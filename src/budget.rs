//! One budget of bytes for the buffers of requests: request and response bodies, and plans that wait for their commit.
//!
//! A request takes a permit before it allocates a buffer, and waits while the budget is used up. So memory is bounded
//! whatever clients do. A quarter of the budget is for small buffers alone, so that a request for a small file does not
//! wait behind large ones. All strangers together have a quarter of the budget at most: [`Budget::of_strangers`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in units of this size.
const PAGE: usize = 4096;
/// A buffer of at most this many bytes is small.
const SMALL: usize = 64 << 10;
/// Small buffers have the budget divided by this.
const SMALL_PART: usize = 4;
/// Strangers have the budget divided by this.
const STRANGERS_PART: usize = 4;
/// In the part of strangers, a buffer of at most this many bytes is small: what has become large has had a small one before,
/// and must not wait for those that are where it was.
const STRANGERS_SMALL: usize = 256 << 10;
/// How long a request waits for memory before it is refused.
pub const WAIT: Duration = Duration::from_secs(10);

/// The budget. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Budget {
    whole: Arc<Inner>,
    /// The part of strangers: what all of them have at most.
    strangers: Arc<Inner>,
    /// Whether each permit is of that part, too.
    is_of_strangers: bool,
}

#[derive(Debug)]
struct Inner {
    /// Bytes of the budget; none if it is unlimited.
    limit: Option<usize>,
    /// Bytes of the largest small buffer.
    largest_small: usize,
    small: Lane,
    large: Lane,
    queue: Mutex<WaitQueue>,
    metrics: BudgetMetrics,
}

/// The start of the wait of each waiting request, by number: the first one has waited longest.
#[derive(Debug, Default)]
struct WaitQueue {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

#[derive(Debug)]
struct Lane {
    pages: Arc<Semaphore>,
    all: usize,
}

/// The metrics of the budget.
#[derive(Clone, Debug, Default)]
struct BudgetMetrics {
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
    /// The same of the part of strangers, if it is of that.
    of_strangers: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self::of(Inner::new(Some(bytes), SMALL), Inner::new(Some(bytes / STRANGERS_PART), STRANGERS_SMALL))
    }

    /// A budget without a limit, which is not counted either.
    pub fn unlimited() -> Self {
        Self::of(Inner::new(None, SMALL), Inner::new(None, STRANGERS_SMALL))
    }

    fn of(whole: Inner, strangers: Inner) -> Self {
        Self { whole: Arc::new(whole), strangers: Arc::new(strangers), is_of_strangers: false }
    }

    /// The same budget, for requests of which anybody can send many: they wait for each other when all of them have the part
    /// of strangers, and nobody else waits for them then.
    pub fn of_strangers(&self) -> Self {
        Self { is_of_strangers: true, ..self.clone() }
    }

    /// Registers its metrics.
    pub fn register(&self, registry: &mut Registry) {
        let metrics = &self.whole.metrics;
        let registry = registry.sub_registry_with_prefix("rowdrive_buffers");
        registry.register("bytes", "Bytes that the buffers of requests may have", metrics.bytes.clone());
        registry.register("used_bytes", "Bytes that they have", metrics.used.clone());
        registry.register("waiting", "Requests that wait for a buffer", metrics.waiting.clone());
        registry.register("waited", "Times that a request had to wait for a buffer", metrics.waited.clone());
    }

    /// Bytes of the budget; the largest number if it is unlimited.
    pub fn bytes(&self) -> usize {
        self.whole.limit.unwrap_or(usize::MAX)
    }

    /// Takes this many bytes once they are free; the whole budget if it is smaller. First come, first served.
    pub async fn take(&self, bytes: usize) -> Permit {
        // IMPORTANT: of the part first. Who waits for that has nothing that others wait for.
        let of_strangers = if self.is_of_strangers { self.strangers.take(bytes).await } else { None };
        self.permit(self.whole.take(bytes).await, of_strangers)
    }

    /// Takes this many bytes; none if they are not free at once.
    pub fn try_take(&self, bytes: usize) -> Option<Permit> {
        let of_strangers = if self.is_of_strangers { self.strangers.try_take(bytes)? } else { None };
        Some(self.permit(self.whole.try_take(bytes)?, of_strangers))
    }

    /// Whether a request waits: memory that is not in use should be released.
    pub fn is_short(&self) -> bool {
        self.all().any(Inner::is_short)
    }

    /// The longest wait of all waiting requests; zero if none waits.
    pub fn waited(&self) -> Duration {
        self.all().map(Inner::waited).max().unwrap_or_default()
    }

    /// All whose requests wait for what a request of this budget has.
    fn all(&self) -> impl Iterator<Item = &Inner> {
        let strangers = Some(&*self.strangers).filter(|_| self.is_of_strangers);
        strangers.into_iter().chain([&*self.whole])
    }

    fn permit(&self, pages: Option<OwnedSemaphorePermit>, of_strangers: Option<OwnedSemaphorePermit>) -> Permit {
        let used = self.whole.metrics.used.clone();
        let permit = Permit { pages, used, of_strangers };
        permit.used.inc_by(permit.bytes());
        permit
    }
}

impl Lane {
    fn new(bytes: usize) -> Self {
        // A permit has at most `u32::MAX` pages.
        let all = (bytes / PAGE).clamp(1, u32::MAX as usize);
        Self { pages: Arc::new(Semaphore::new(all)), all }
    }
}

impl Inner {
    fn new(limit: Option<usize>, largest_small: usize) -> Self {
        let (metrics, bytes) = (BudgetMetrics::default(), limit.unwrap_or(0));
        metrics.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let small = Lane::new((bytes / SMALL_PART).max(SMALL));
        let large = Lane::new(bytes - bytes / SMALL_PART);
        Self { limit, largest_small, small, large, queue: Mutex::default(), metrics }
    }

    /// None without a limit.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if let Some(taken) = self.try_take(bytes) {
            return taken;
        }
        let _waiting = WaitingRequest::begin(self);
        let (lane, pages) = self.lane(bytes);
        // This fails only if the semaphore is closed, and nothing closes it.
        lane.pages.clone().acquire_many_owned(pages).await.ok()
    }

    /// None if they are not free at once; of the permit, without a limit.
    fn try_take(&self, bytes: usize) -> Option<Option<OwnedSemaphorePermit>> {
        if self.limit.is_none() {
            return Some(None);
        }
        let (lane, pages) = self.lane(bytes);
        Some(Some(lane.pages.clone().try_acquire_many_owned(pages).ok()?))
    }

    fn is_short(&self) -> bool {
        self.metrics.waiting.get() > 0
    }

    fn waited(&self) -> Duration {
        if !self.is_short() {
            return Duration::ZERO;
        }
        self.queue().since.first_key_value().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    fn lane(&self, bytes: usize) -> (&Lane, u32) {
        let lane = if bytes <= self.largest_small { &self.small } else { &self.large };
        (lane, u32::try_from(bytes.div_ceil(PAGE).min(lane.all)).unwrap_or(u32::MAX))
    }

    fn queue(&self) -> MutexGuard<'_, WaitQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits, until this is dropped.
struct WaitingRequest<'a> {
    budget: &'a Inner,
    number: u64,
}

impl<'a> WaitingRequest<'a> {
    fn begin(budget: &'a Inner) -> Self {
        let mut queue = budget.queue();
        let number = queue.next;
        queue.next += 1;
        queue.since.insert(number, Instant::now());
        budget.metrics.waited.inc();
        budget.metrics.waiting.inc();
        Self { budget, number }
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.budget.queue().since.remove(&self.number);
        self.budget.metrics.waiting.dec();
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
        for pages in self.pages.iter_mut().chain(&mut self.of_strangers) {
            let over = pages.num_permits().saturating_sub(bytes.div_ceil(PAGE));
            drop(pages.split(over));
        }
        self.used.dec_by(before - self.bytes());
    }

    /// Returns the same bytes, which keep the permit until their last clone is dropped.
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
    async fn permits_never_exceed_the_budget() {
        let budget = Budget::new(4 * MIB);
        let first = budget.take(2 * MIB).await;
        let second = budget.take(MIB).await;
        assert!(budget.try_take(SMALL + 1).is_none() && !budget.is_short());
        let mut third = Box::pin(budget.take(MIB));
        assert!((&mut third).now_or_never().is_none() && budget.is_short());
        assert!(budget.waited() > Duration::ZERO);
        assert_eq!(budget.whole.metrics.used.get(), 3 * MIB as i64);
        drop(second);
        drop(third.await);
        assert!(!budget.is_short());
        // A cancelled request no longer waits.
        let mut fourth = Box::pin(budget.take(2 * MIB));
        assert!((&mut fourth).now_or_never().is_none() && budget.is_short());
        drop(fourth);
        assert!(!budget.is_short() && budget.waited() == Duration::ZERO && budget.try_take(MIB).is_some());
        drop(first);
        assert_eq!(budget.whole.metrics.used.get(), 0);
        // A request for more than the budget takes all of it.
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
    fn bytes_keep_their_permit_and_a_permit_can_shrink() {
        let budget = Budget::new(4 * MIB);
        let mut permit = budget.try_take(MIB).unwrap();
        permit.shrink(PAGE + 1);
        assert_eq!(budget.whole.metrics.used.get(), 2 * PAGE as i64);
        permit.shrink(MIB);
        let bytes = permit.attach(Bytes::from_static(b"hello"));
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!((&part[..], budget.whole.metrics.used.get()), (&b"el"[..], 2 * PAGE as i64));
        drop(part);
        assert_eq!(budget.whole.metrics.used.get(), 0);
        assert!(budget.try_take(3 * MIB).is_some());
    }

    #[tokio::test]
    async fn strangers_have_a_part_and_wait_for_each_other_alone() {
        let budget = Budget::new(64 * MIB);
        let strangers = budget.of_strangers();
        // 16 MiB: a quarter for small buffers, and more buffers are small than of the whole.
        let small: Vec<_> = std::iter::from_fn(|| strangers.try_take(4 * SMALL)).collect();
        let large: Vec<_> = std::iter::from_fn(|| strangers.try_take(MIB)).collect();
        assert_eq!((small.len(), large.len()), (16, 12));
        assert_eq!(budget.whole.metrics.used.get(), 16 * MIB as i64);
        let mut waiting = Box::pin(strangers.take(MIB));
        assert!((&mut waiting).now_or_never().is_none());
        // Others are not asked to hurry.
        assert!(strangers.is_short() && !budget.is_short());
        assert!(strangers.waited() > Duration::ZERO && budget.waited() == Duration::ZERO);
        let all = budget.try_take(32 * MIB).unwrap();
        // One that waits for all is waited for by strangers too.
        let mut users = Box::pin(budget.take(MIB));
        assert!((&mut users).now_or_never().is_none() && strangers.is_short() && budget.is_short());
        drop((all, users));
        drop(large);
        assert!(waiting.now_or_never().is_some() && !strangers.is_short());
        // A permit that shrinks gives back of both.
        drop(small);
        let mut permit = strangers.try_take(4 * MIB).unwrap();
        permit.shrink(0);
        assert_eq!(budget.whole.metrics.used.get(), 0);
        assert!(strangers.try_take(12 * MIB).is_some());
        assert!(budget.try_take(48 * MIB).is_some());
    }

    #[test]
    fn no_request_waits_without_a_limit() {
        let budget = Budget::unlimited();
        let permits: Vec<_> = (0..100).map(|_| budget.try_take(1 << 40).unwrap()).collect();
        assert!(!budget.is_short() && permits.len() == 100);
    }
}
