//! A number of bytes that permits are taken of: the budget, or the part of it that strangers have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Bytes are counted in units of this size.
pub const UNIT: usize = 4096;
/// Small buffers have the budget divided by this.
const SMALL_DIVISOR: usize = 4;

/// A number of bytes that permits are taken of: the budget, or a part of it.
#[derive(Debug)]
pub struct Part {
    /// How many; none if it is unlimited.
    pub limit: Option<usize>,
    /// Bytes of the largest small buffer.
    largest_small: usize,
    small: Lane,
    large: Lane,
    queue: Mutex<WaitQueue>,
    /// Of the part of an address: its requests that wait for this part or another one.
    pub waiters: Gauge,
    pub metrics: BudgetMetrics,
}

/// The start of the wait of each waiting request, by number: the first one has waited longest.
#[derive(Debug, Default)]
struct WaitQueue {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

/// The bytes of a buffer, and those that are taken for it.
#[derive(Clone, Copy)]
pub struct Size {
    pub buffer: usize,
    pub taken: usize,
}

/// A request that a gauge counts, until this is dropped.
pub struct Counted<'a>(&'a Gauge);

#[derive(Debug)]
pub struct Lane {
    units: Arc<Semaphore>,
    all: usize,
    /// Units that are never given back.
    kept: AtomicUsize,
}

/// The metrics of the budget.
#[derive(Clone, Debug, Default)]
pub struct BudgetMetrics {
    pub bytes: Gauge,
    pub used: Gauge,
    pub waiting: Gauge,
    pub waited: Counter,
}

impl Size {
    fn units(self) -> u32 {
        u32::try_from(self.taken.div_ceil(UNIT)).unwrap_or(u32::MAX)
    }
}

impl<'a> Counted<'a> {
    pub fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Lane {
    fn new(bytes: usize) -> Self {
        // A permit has at most `u32::MAX` units.
        let all = (bytes / UNIT).clamp(1, u32::MAX as usize);
        Self { units: Arc::new(Semaphore::new(all)), all, kept: AtomicUsize::new(0) }
    }

    /// Bytes that buffers may have.
    pub fn bytes(&self) -> usize {
        self.all.saturating_sub(self.kept.load(Ordering::Relaxed)).saturating_mul(UNIT)
    }
}

impl Part {
    /// `limit`: bytes; none if it is unlimited. IMPORTANT: both lanes have room for the largest small buffer, or a
    /// permit would be for less than its buffer; where they do not fit, the part has more than its limit.
    pub fn new(limit: Option<usize>, largest_small: usize) -> Self {
        let (metrics, bytes) = (BudgetMetrics::default(), limit.unwrap_or(0));
        metrics.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let small = Lane::new((bytes / SMALL_DIVISOR).max(largest_small));
        let large = Lane::new(bytes.saturating_sub(small.bytes()).max(largest_small));
        Self { limit, largest_small, small, large, queue: Mutex::default(), waiters: Gauge::default(), metrics }
    }

    /// None without a limit. `more`: also counts it while it waits.
    pub async fn take(&self, size: Size, more: Option<&Gauge>) -> Option<OwnedSemaphorePermit> {
        if let Some(taken) = self.try_take(size) {
            return taken;
        }
        let (_waiting, _more) = (WaitingRequest::begin(self), more.map(Counted::new));
        // This fails only if the semaphore is closed, and nothing closes it.
        self.lane(size.buffer).units.clone().acquire_many_owned(size.units()).await.ok()
    }

    /// None if they are not free at once; of the permit, without a limit.
    pub fn try_take(&self, size: Size) -> Option<Option<OwnedSemaphorePermit>> {
        if self.limit.is_none() {
            return Some(None);
        }
        Some(Some(self.lane(size.buffer).units.clone().try_acquire_many_owned(size.units()).ok()?))
    }

    pub fn is_short(&self) -> bool {
        self.metrics.waiting.get() > 0
    }

    pub fn waited(&self) -> Duration {
        if !self.is_short() {
            return Duration::ZERO;
        }
        self.queue().since.first_key_value().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// Bytes of the largest buffer that so many of have room.
    pub fn largest_of(&self, many: usize) -> usize {
        let large = self.large.bytes() / many;
        // A small one does not get what large ones have.
        if large > self.largest_small { large } else { self.small.bytes() / many }
    }

    /// So many bytes of large buffers are never given back.
    pub fn keep(&self, bytes: usize) {
        self.large.kept.fetch_add(bytes / UNIT, Ordering::Relaxed);
    }

    pub fn lane(&self, buffer: usize) -> &Lane {
        if buffer <= self.largest_small { &self.small } else { &self.large }
    }

    fn queue(&self) -> MutexGuard<'_, WaitQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits, until this is dropped.
struct WaitingRequest<'a> {
    budget: &'a Part,
    number: u64,
    _counted: Counted<'a>,
}

impl<'a> WaitingRequest<'a> {
    fn begin(budget: &'a Part) -> Self {
        let mut queue = budget.queue();
        let number = queue.next;
        queue.next += 1;
        queue.since.insert(number, Instant::now());
        budget.metrics.waited.inc();
        Self { budget, number, _counted: Counted::new(&budget.metrics.waiting) }
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.budget.queue().since.remove(&self.number);
    }
}
