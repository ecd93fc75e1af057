//! What a drive does in its own way: its clock, how long it waits, and how much it does at a time.

use std::time::Duration;

use super::background::Backoff;
use crate::content::RESERVE;
use crate::schema::Timestamp;

/// How often an operation decides anew before it gives up.
pub(super) const TRIES: usize = 8;

/// About how many bytes a cached path takes.
pub(super) const USUAL_PATH_BYTES: usize = 512;

/// What a drive does in its own way, in tests.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The current time.
    pub clock: fn() -> Timestamp,
    /// How long a writer waits for operations that hold its rows.
    pub lock_wait: Duration,
    /// Index rows that a query reads at a time, at least: some are skipped.
    pub rows_per_step: usize,
    /// Cells that a query reads at most; past it the page is short, and has a next one.
    pub cells_per_query: usize,
    /// Bytes of the file system that content leaves alone, of a small one a seventh at most: no less than the store
    /// does, or a file is written whole before its row is refused.
    pub reserve: u64,
    /// The pauses between tries of clean-up that failed.
    pub retry: Backoff,
    /// Bytes of memory for the buffers of requests.
    pub memory: usize,
    /// Bytes of memory for the paths of folders that queries keep.
    pub path_cache: usize,
    /// Counts at which an operation changes what it does.
    pub limits: Thresholds,
}

/// How much is done at a time. None changes what an operation does, only how many calls it makes of the store: tests
/// set them to 1, 2 or 3, so that rivals and faults come between all of these calls. All are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Files of deleted directories that are dropped by one plan: each has 17 cells in its row, hints and content.
    pub files_dropped: usize,
    /// Cells up to which an operation on a subtree is finished before it is answered.
    pub cells_before_answer: usize,
    /// Children up to which a writer settles a deleted directory's row that is in its way.
    pub children_finished_by_writer: usize,
    /// Rows of a plan that changes many rows, each under its own check.
    pub batch_rows: usize,
    /// Changes, and bytes of keys and values, of such a plan: what the commit thread is held for.
    pub batch_changes: usize,
    /// Bytes of rows in one plan of a subtree operation.
    pub batch_bytes: usize,
    /// Rows of a subtree that are scanned at a time.
    pub keys_a_page: usize,
    /// Children of a directory that are listed at a time when they are closed.
    pub children_locked: usize,
    /// Directories whose children are closed together.
    pub directories_locked_together: usize,
    /// Children that are copied to a directory's new row by one plan.
    pub children_staged: usize,
    /// Children of a directory that are listed at a time when it is copied.
    pub children_copied: usize,
    /// Files of a directory that are copied at a time: those that come together share a sync.
    pub copies_at_a_time: usize,
    /// Content files removed at a time, so that they share the syncs of their folders.
    pub unlinks_at_a_time: usize,
    /// Content files to be removed that are kept in memory; what is more is listed from the store again, so many at a
    /// time.
    pub unlinks_listed: usize,
    /// Records of operations that are listed at a time.
    pub records_listed: usize,
    /// Files of a directory, or rows of an index, that a query reads at a time, at most.
    pub files_queried: usize,
    /// Paths from a directory to the root that are kept in memory.
    pub paths_cached: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Timestamp::now,
            lock_wait: Duration::from_secs(2),
            rows_per_step: 64,
            cells_per_query: 150_000,
            reserve: RESERVE,
            retry: Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) },
            memory: 256 << 20,
            path_cache: 32 << 20,
            limits: Thresholds::DEFAULT,
        }
    }
}

impl Settings {
    /// Bytes of kept walks: of so many usual ones at most.
    pub(super) fn paths_bytes(&self) -> usize {
        self.path_cache.min(self.limits.paths_cached.saturating_mul(USUAL_PATH_BYTES))
    }
}

impl Thresholds {
    /// The values of a server.
    pub const DEFAULT: Self = Self {
        files_dropped: 100,
        cells_before_answer: 1_000,
        children_finished_by_writer: 1_000,
        batch_rows: 100,
        batch_changes: 2_000,
        batch_bytes: 512 << 10,
        keys_a_page: 100,
        children_locked: 100,
        directories_locked_together: 32,
        children_staged: 1_000,
        children_copied: 200,
        copies_at_a_time: 16,
        unlinks_at_a_time: 500,
        unlinks_listed: 10_000,
        records_listed: 1_000,
        files_queried: 1_000,
        paths_cached: 50_000,
    };

    /// Every threshold this small.
    pub const fn all(n: usize) -> Self {
        Self {
            files_dropped: n,
            cells_before_answer: n,
            children_finished_by_writer: n,
            batch_rows: n,
            batch_changes: n,
            batch_bytes: n,
            keys_a_page: n,
            children_locked: n,
            directories_locked_together: n,
            children_staged: n,
            children_copied: n,
            copies_at_a_time: n,
            unlinks_at_a_time: n,
            unlinks_listed: n,
            records_listed: n,
            files_queried: n,
            paths_cached: n,
        }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
