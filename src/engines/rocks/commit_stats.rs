//! Counters of the commits: sums and maxima for callers in the process, histograms for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::table::{Check, Refusal};

/// What was committed since the store was opened. Sums and maxima never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// Groups of plans that were evaluated one after the other and then written together.
    pub groups: u64,
    /// Groups that had something to write: each is one write and one sync.
    pub syncs: u64,
    /// Plans evaluated. A plan that was sent back for a compaction counts again when it is evaluated again.
    pub plans: u64,
    /// Changes of all these plans, including refused ones.
    pub changes: u64,
    /// Bytes of keys, qualifiers and values in them, checks included.
    pub bytes: u64,
    /// The time that groups took, each from its first plan to its answers.
    pub busy: Duration,
    /// The longest time of one group. A plan that has just missed a group waits that long.
    pub longest_group: Duration,
    /// The part of `busy` for writing and syncing the WAL.
    pub synced: Duration,
    /// The longest time to write and sync one group.
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

/// The numbers of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupStats {
    pub plans: usize,
    pub changes: usize,
    pub bytes: usize,
    pub most_changes: usize,
    pub most_bytes: usize,
    /// Time to write and sync it; none if there was nothing to write.
    pub synced: Option<Duration>,
}

impl GroupStats {
    pub fn add(&mut self, changes: usize, bytes: usize) {
        self.plans += 1;
        self.changes += changes;
        self.bytes += bytes;
        self.most_changes = self.most_changes.max(changes);
        self.most_bytes = self.most_bytes.max(bytes);
    }
}

/// The sum and the maximum of numbers.
#[derive(Debug, Default)]
struct SumAndMax {
    sum: AtomicU64,
    most: AtomicU64,
}

// No lock: a reader must never block the writer of a group. One writes at a time, so no update is lost; a reader may see
// one number a group ahead of another.
impl SumAndMax {
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
struct RefusalLabels {
    table: &'static str,
    check: &'static str,
}

#[derive(Debug)]
pub(super) struct CommitCounters {
    groups: AtomicU64,
    syncs: AtomicU64,
    plans: SumAndMax,
    changes: SumAndMax,
    bytes: SumAndMax,
    plan_changes: AtomicU64,
    plan_bytes: AtomicU64,
    /// Nanoseconds.
    busy: SumAndMax,
    synced: SumAndMax,
    // Each histogram has a lock, which an observation and the encoding take.
    plans_of_sync: Histogram,
    seconds_of_sync: Histogram,
    seconds_of_group: Histogram,
    refused: Family<RefusalLabels, Counter>,
    /// Plans sent back for a compaction.
    sent_back: Counter,
}

impl Default for CommitCounters {
    fn default() -> Self {
        // From 50 microseconds to 1.6 seconds.
        let seconds = || Histogram::new(exponential_buckets(50e-6, 2.0, 16));
        Self {
            groups: AtomicU64::default(),
            syncs: AtomicU64::default(),
            plans: SumAndMax::default(),
            changes: SumAndMax::default(),
            bytes: SumAndMax::default(),
            plan_changes: AtomicU64::default(),
            plan_bytes: AtomicU64::default(),
            busy: SumAndMax::default(),
            synced: SumAndMax::default(),
            plans_of_sync: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            seconds_of_sync: seconds(),
            seconds_of_group: seconds(),
            refused: Family::default(),
            sent_back: Counter::default(),
        }
    }
}

impl CommitCounters {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("commit_plans", "Plans that shared a sync", self.plans_of_sync.clone());
        let seconds = self.seconds_of_sync.clone();
        registry.register_with_unit("commit_sync", "Time to write and sync the log", Unit::Seconds, seconds);
        let seconds = self.seconds_of_group.clone();
        registry.register_with_unit("commit_hold", "Time to check, write and sync a group", Unit::Seconds, seconds);
        registry.register("commit_refused", "Plans refused, by the check that failed", self.refused.clone());
        registry.register(
            "commit_sent_back",
            "Plans that were evaluated again after a compaction of the family that they check",
            self.sent_back.clone(),
        );
    }

    pub fn refused(&self, refusal: &Refusal) {
        let check = match refusal.check {
            Check::Absent(_) => "absent",
            Check::Equals(..) => "equals",
            Check::FamilyEmpty(_) => "family-empty",
            Check::AtMost(..) => "at-most",
        };
        self.refused.get_or_create(&RefusalLabels { table: refusal.table, check }).inc();
    }

    pub fn sent_back(&self) {
        self.sent_back.inc();
    }

    pub fn add(&self, group: &GroupStats, busy: Duration) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.plans.add(group.plans as u64);
        self.changes.add(group.changes as u64);
        self.bytes.add(group.bytes as u64);
        self.plan_changes.fetch_max(group.most_changes as u64, Ordering::Relaxed);
        self.plan_bytes.fetch_max(group.most_bytes as u64, Ordering::Relaxed);
        self.busy.add(nanoseconds(busy));
        self.seconds_of_group.observe(busy.as_secs_f64());
        if let Some(synced) = group.synced {
            self.plans_of_sync.observe(group.plans as f64);
            self.seconds_of_sync.observe(synced.as_secs_f64());
            self.syncs.fetch_add(1, Ordering::Relaxed);
            self.synced.add(nanoseconds(synced));
        }
    }

    pub fn read(&self) -> CommitStats {
        CommitStats {
            groups: self.groups.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            plans: self.plans.sum(),
            changes: self.changes.sum(),
            bytes: self.bytes.sum(),
            busy: Duration::from_nanos(self.busy.sum()),
            longest_group: Duration::from_nanos(self.busy.most()),
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
