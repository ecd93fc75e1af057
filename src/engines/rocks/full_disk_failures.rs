//! Counts writes that have failed on a full disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many writes have failed on a full disk. After the first one RocksDB may refuse others.
#[derive(Default)]
pub(super) struct FullDiskFailures {
    all: AtomicU64,
    /// How many of them RocksDB has recovered from.
    over: AtomicU64,
}

impl FullDiskFailures {
    /// Counts a write that has failed, or a group of plans whose wait has ended, because the disk is full.
    pub fn add(&self) {
        self.all.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there are; none if RocksDB has refused none after the last one. Read it before RocksDB is asked.
    pub fn unresolved(&self) -> Option<u64> {
        let over = self.over.load(Ordering::Relaxed);
        Some(self.all.load(Ordering::Relaxed)).filter(|all| *all > over)
    }

    /// RocksDB refuses no writes after the first `all` of them.
    pub fn resolve(&self, all: u64) {
        self.over.fetch_max(all, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_between_two_answers_of_rocksdb_is_not_forgotten() {
        let failures = FullDiskFailures::default();
        assert_eq!(failures.unresolved(), None);
        failures.add();
        // Two callers ask RocksDB. The first one has its answer, then a write fails, then the second one has its own.
        let [first, second] = [(); 2].map(|()| failures.unresolved().unwrap());
        failures.resolve(first);
        assert_eq!(failures.unresolved(), None);
        failures.add();
        failures.resolve(second);
        assert_eq!(failures.unresolved(), Some(2));
        failures.resolve(2);
        assert_eq!(failures.unresolved(), None);
    }
}
