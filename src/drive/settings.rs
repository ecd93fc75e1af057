//! The settings of a drive: its clock, its waiting times, and how much it does at a time.

use std::time::Duration;

use super::background::Backoff;
use crate::schema::Timestamp;

/// How many times an operation decides before it gives up.
pub(super) const TRIES: usize = 8;

/// How long content is sent or received before the right of its requester is read again.
pub const ASK_AGAIN: Duration = Duration::from_secs(5);

/// About how many bytes a cached path takes.
pub(super) const USUAL_PATH_BYTES: usize = 512;

/// The most bytes for directories that were found live.
const LIVE_DIRS_BYTES: usize = 800 << 10;

/// The settings of a drive. The default is what a server uses; tests change them.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The current time.
    pub clock: fn() -> Timestamp,
    /// How long a writer waits for subtree operations that have locked its rows.
    pub lock_wait: Duration,
    /// Index rows that a query reads at a time, at least: some of them are dropped.
    pub rows_per_step: usize,
    /// Cells that a query reads at most. At this limit its page ends early, with a cursor.
    pub cells_per_query: usize,
    /// The pauses between attempts at clean-up that failed. The longest one is how often the drive asks, after a full disk,
    /// whether the store is ready again.
    pub retry: Backoff,
    /// Bytes of memory for the buffers of requests.
    pub memory: usize,
    /// Bytes of memory for the cache of directory paths.
    pub path_cache: usize,
    /// Bytes of memory for the keys of folders by which time queries find their files.
    pub folder_keys: usize,
    /// How much one call does.
    pub limits: Thresholds,
}

/// How much one call does. No threshold changes the result of an operation, only the number of its calls of the store.
/// Tests set them to 1, 2 or 3, so that concurrent changes and faults fall between all of these calls. All are at
/// least 1.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Files of deleted directories that one plan drops: each has 17 cells in its file row, index rows and content.
    pub files_dropped: usize,
    /// A subtree operation of up to so many cells is finished before its answer.
    pub cells_before_answer: usize,
    /// A writer finishes the row of a deleted directory of up to so many children itself; for a larger one it waits.
    pub children_finished_by_writer: usize,
    /// Rows of a plan that changes many rows, each under its own check.
    pub batch_rows: usize,
    /// Changes of such a plan: they bound the time that it takes the commit thread.
    pub batch_changes: usize,
    /// Bytes of keys and values of such a plan.
    pub batch_bytes: usize,
    /// Rows of a subtree that one scan reads.
    pub keys_a_page: usize,
    /// Children of a directory that are listed at a time when they are locked.
    pub children_locked: usize,
    /// Directories whose children are locked together.
    pub directories_locked_together: usize,
    /// Children that one plan copies to the new row of a moved directory.
    pub children_moved: usize,
    /// Children of a directory that are listed at a time when it is copied.
    pub children_copied: usize,
    /// Files of a directory that are copied at a time: their commits share a sync.
    pub copies_at_a_time: usize,
    /// Content files removed at a time, so that they share the syncs of their folders.
    pub unlinks_at_a_time: usize,
    /// Content files to be removed that are queued in memory. Any more are listed from the store, in pages of this size.
    pub unlinks_listed: usize,
    /// Records of subtree operations that are listed at a time.
    pub records_listed: usize,
    /// Files of a directory, or rows of an index, that a query reads at a time, at most.
    pub files_queried: usize,
    /// Directory paths of usual length for which the cache has memory, at most. A server has as many as its memory for
    /// them ([`Settings::path_cache`]) holds: a page of a period reads the rows of each path that is not cached.
    pub paths_cached: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Timestamp::now,
            lock_wait: Duration::from_secs(2),
            rows_per_step: 64,
            cells_per_query: 150_000,
            retry: Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) },
            memory: 256 << 20,
            path_cache: 32 << 20,
            folder_keys: 32 << 20,
            limits: Thresholds::DEFAULT,
        }
    }
}

impl Settings {
    /// Bytes of the path cache: `path_cache`, or less if `paths_cached` usual paths take less.
    pub(super) fn paths_bytes(&self) -> usize {
        self.path_cache.min(self.limits.paths_cached.saturating_mul(USUAL_PATH_BYTES))
    }

    /// Bytes for directories that were found live; chains of directories get as many.
    pub(super) fn live_dirs_bytes(&self) -> usize {
        (self.paths_bytes() / 32).min(LIVE_DIRS_BYTES)
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
        children_moved: 1_000,
        children_copied: 200,
        copies_at_a_time: 16,
        unlinks_at_a_time: 500,
        unlinks_listed: 10_000,
        records_listed: 1_000,
        files_queried: 1_000,
        paths_cached: usize::MAX,
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
            children_moved: n,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_memory_for_paths_bounds_them() {
        for path_cache in [1 << 20, 64 << 20, 1 << 40] {
            assert_eq!(Settings { path_cache, ..Settings::default() }.paths_bytes(), path_cache);
        }
        let limits = Thresholds { paths_cached: 2, ..Thresholds::DEFAULT };
        assert_eq!(Settings { limits, ..Settings::default() }.paths_bytes(), 2 * USUAL_PATH_BYTES);
    }
}
