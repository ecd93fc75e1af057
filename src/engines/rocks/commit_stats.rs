//! What the commit thread counts of its own work: sums and maxima for whoever holds the store, histograms for
//! whoever watches it over time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::table::{Check, Refusal};

/// What the commit thread has done since the store was opened. Sums and maxima only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// Groups of plans that were judged one after the other and then written together.
    pub groups: u64,
    /// Groups that had something to write: each is one write and one sync.
    pub syncs: u64,
    /// Plans judged. One that was sent back for a compaction counts again when it returns.
    pub plans: u64,
    /// Changes of all these plans, those of refused ones too.
    pub changes: u64,
    /// Bytes of keys, qualifiers and values in them, checks included.
    pub bytes: u64,
    /// Time that groups held the thread, each from its first plan to its answers.
    pub held: Duration,
    /// The longest that one group held it: how long a plan that came just too late had to wait.
    pub longest_hold: Duration,
    /// The part of `held` that went into writing and syncing the log.
    pub synced: Duration,
    /// The longest that one group was written and synced.
    pub longest_sync: Duration,
    /// The most changes of one plan.
    pub most_changes_of_plan: u64,
    /// The most bytes of one plan.
    pub most_bytes_of_plan: u64,
    /// The most plans of one group.
    pub most_plans_of_group: u64,
    /// The most changes of one group.
    pub most_changes_of_group: u64,
    /// The most bytes of one group.
    pub most_bytes_of_group: u64,
}

/// What one group adds, told by the thread once the group is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub plans: usize,
    pub changes: usize,
    pub bytes: usize,
    pub most_changes: usize,
    pub most_bytes: usize,
    /// How long it was written and synced; none if there was nothing to write.
    pub synced: Option<Duration>,
}

impl Tally {
    pub fn add(&mut self, changes: usize, bytes: usize) {
        self.plans += 1;
        self.changes += changes;
        self.bytes += bytes;
        self.most_changes = self.most_changes.max(changes);
        self.most_bytes = self.most_bytes.max(bytes);
    }
}

/// A sum and the largest of what was added.
#[derive(Debug, Default)]
struct Total {
    sum: AtomicU64,
    most: AtomicU64,
}

// No lock: one who reads must never keep the commit thread waiting. Only that thread adds, so nothing is lost
// between two numbers; a reader may see one of them a group ahead of another.
impl Total {
    fn add(&self, number: u64) {
        self.sum.fetch_add(number, Ordering::Relaxed);
        self.most.fetch_max(number, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

/// Why a plan was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    table: &'static str,
    check: &'static str,
}

#[derive(Debug)]
pub(super) struct Counters {
    groups: AtomicU64,
    syncs: AtomicU64,
    plans: Total,
    changes: Total,
    bytes: Total,
    plan_changes: AtomicU64,
    plan_bytes: AtomicU64,
    /// Nanoseconds.
    held: Total,
    synced: Total,
    // A lock each, held for an addition, or while one of them is printed.
    plans_of_sync: Histogram,
    seconds_of_sync: Histogram,
    seconds_of_hold: Histogram,
    refused: Family<Why, Counter>,
    /// Plans sent back for a compaction.
    sent_back: Counter,
}

impl Default for Counters {
    fn default() -> Self {
        // From 50 microseconds to 1.6 seconds.
        let seconds = || Histogram::new(exponential_buckets(50e-6, 2.0, 16));
        Self {
            groups: AtomicU64::default(),
            syncs: AtomicU64::default(),
            plans: Total::default(),
            changes: Total::default(),
            bytes: Total::default(),
            plan_changes: AtomicU64::default(),
            plan_bytes: AtomicU64::default(),
            held: Total::default(),
            synced: Total::default(),
            plans_of_sync: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            seconds_of_sync: seconds(),
            seconds_of_hold: seconds(),
            refused: Family::default(),
            sent_back: Counter::default(),
        }
    }
}

impl Counters {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("commit_plans", "Plans that shared a sync", self.plans_of_sync.clone());
        let seconds = self.seconds_of_sync.clone();
        registry.register_with_unit("commit_sync", "Time to write and sync the log", Unit::Seconds, seconds);
        let seconds = self.seconds_of_hold.clone();
        registry.register_with_unit("commit_hold", "Time a group held the commit thread", Unit::Seconds, seconds);
        registry.register("commit_refused", "Plans refused, by the check that failed", self.refused.clone());
        registry.register("commit_sent_back", "Plans sent back for a compaction", self.sent_back.clone());
    }

    pub fn refused(&self, refusal: &Refusal) {
        let check = match refusal.check {
            Check::Absent(_) => "absent",
            Check::Equals(..) => "equals",
            Check::FamilyEmpty(_) => "family-empty",
        };
        self.refused.get_or_create(&Why { table: refusal.table, check }).inc();
    }

    pub fn sent_back(&self) {
        self.sent_back.inc();
    }

    pub fn add(&self, group: &Tally, held: Duration) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.plans.add(group.plans as u64);
        self.changes.add(group.changes as u64);
        self.bytes.add(group.bytes as u64);
        self.plan_changes.fetch_max(group.most_changes as u64, Ordering::Relaxed);
        self.plan_bytes.fetch_max(group.most_bytes as u64, Ordering::Relaxed);
        self.held.add(nanoseconds(held));
        self.seconds_of_hold.observe(held.as_secs_f64());
        if let Some(synced) = group.synced {
            self.plans_of_sync.observe(group.plans as f64);
            self.seconds_of_sync.observe(synced.as_secs_f64());
            self.syncs.fetch_add(1, Ordering::Relaxed);
            self.synced.add(nanoseconds(synced));
        }
    }

    pub fn read(&self) -> Commits {
        Commits {
            groups: self.groups.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            plans: self.plans.sum(),
            changes: self.changes.sum(),
            bytes: self.bytes.sum(),
            held: Duration::from_nanos(self.held.sum()),
            longest_hold: Duration::from_nanos(self.held.most()),
            synced: Duration::from_nanos(self.synced.sum()),
            longest_sync: Duration::from_nanos(self.synced.most()),
            most_changes_of_plan: self.plan_changes.load(Ordering::Relaxed),
            most_bytes_of_plan: self.plan_bytes.load(Ordering::Relaxed),
            most_plans_of_group: self.plans.most(),
            most_changes_of_group: self.changes.most(),
            most_bytes_of_group: self.bytes.most(),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
