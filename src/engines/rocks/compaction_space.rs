//! Disk space for a compaction. Uploads leave it free, beside the reserve.
//!
//! A compaction writes its output before RocksDB removes its inputs, and never asks for free space. Without space of
//! its own it takes the reserve; the next delete then finds the disk full, and RocksDB refuses all writes for seconds.
//!
//! RocksDB runs one compaction at a time here. Its inputs are files of two levels of one column family (`SetupOtherInputs`
//! in RocksDB's `compaction_picker.cc`):
//!
//! - all files of level 0, and files of the next level that has any; or
//! - files of two other levels with at most twice `max_compaction_bytes` together. A single file may overlap more only
//!   by the files at its ends: RocksDB ends an SST file before it overlaps more than `max_compaction_bytes` of the
//!   next level.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::options::SstSizes;
use super::raw::RocksDb;

/// The sizes of the SST files are not read again before this time has passed.
const MIN_AGE: Duration = Duration::from_millis(100);
/// To read them takes at most a hundredth of the time: RocksDB blocks writes meanwhile.
const LOAD_DIVISOR: u32 = 100;

/// What a compaction may read: its inputs, as far as it is known.
#[derive(Default)]
struct Inputs {
    /// A bound of the inputs of the next compaction in bytes, and of all that may come to level 0 until then: what is in
    /// write buffers, and each plan that was written since [`read_at`](Self::read_at).
    bytes: u64,
    /// When the sizes of the SST files were read, and how long that took.
    read_at: Option<(Instant, Duration)>,
}

/// The space that uploads leave free for compactions.
#[derive(Default)]
pub(super) struct CompactionSpace {
    inputs: Mutex<Inputs>,
    /// Bytes of plans that are being committed.
    in_flight: AtomicU64,
}

/// A plan that is being committed, until this is dropped.
pub(super) struct PlanInFlight<'a> {
    space: &'a CompactionSpace,
    bytes: u64,
    written: bool,
}

impl CompactionSpace {
    /// Counts a plan of this many bytes, before the check for its space.
    pub fn begin(&self, bytes: usize) -> PlanInFlight<'_> {
        let bytes = bytes as u64;
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.bytes = inputs.bytes.saturating_add(bytes);
        PlanInFlight { space: self, bytes, written: false }
    }

    /// Bytes of plans that are being committed, and not in write buffers yet.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Bytes for the largest compaction that may come next. `available`: reads the sizes of the SST files again if more
    /// bytes than these seem to be necessary. `buffered`: bytes in write buffers.
    pub fn needed(&self, available: u64, sizes: SstSizes, raw: &RocksDb, buffered: impl Fn() -> u64) -> u64 {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = inputs.read_at.is_none_or(|(at, took)| at.elapsed() > MIN_AGE.max(took * LOAD_DIVISOR));
        if is_old && (inputs.read_at.is_none() || space_for(inputs.bytes, sizes) > available) {
            let start = Instant::now();
            // What is flushed meanwhile counts twice, and nothing is missed.
            let unflushed = buffered() + self.in_flight();
            match raw.live_files() {
                Ok(files) => {
                    let files =
                        files.iter().map(|file| (file.column_family_name.as_str(), file.level, file.size as u64));
                    inputs.bytes = largest_inputs(files, sizes).saturating_add(unflushed);
                }
                Err(error) => tracing::warn!(%error, "RocksDB does not list its SST files"),
            }
            inputs.read_at = Some((Instant::now(), start.elapsed()));
        }
        space_for(inputs.bytes, sizes)
    }
}

impl PlanInFlight<'_> {
    /// Call it before the write: from then on the plan counts as written, even if the write fails.
    pub fn count_as_written(&mut self) {
        self.written = true;
    }
}

impl Drop for PlanInFlight<'_> {
    fn drop(&mut self) {
        // Lock first, so that a reading of the sizes counts the plan either before or after both changes.
        let mut inputs = self.space.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        self.space.in_flight.fetch_sub(self.bytes, Ordering::Relaxed);
        if !self.written {
            inputs.bytes = inputs.bytes.saturating_sub(self.bytes);
        }
    }
}

/// The disk space for a compaction of these inputs: for its output, which is hardly larger, and for the SST file that
/// RocksDB preallocates last.
fn space_for(inputs: u64, sizes: SstSizes) -> u64 {
    let all = inputs.saturating_add(inputs.min(sizes.file));
    all.saturating_add(all / 10)
}

/// The most bytes that one compaction reads. `files`: column family, level and size of each SST file.
fn largest_inputs<'a>(files: impl Iterator<Item = (&'a str, i32, u64)>, sizes: SstSizes) -> u64 {
    let (mut families, mut largest) = (BTreeMap::<_, BTreeMap<i32, u64>>::new(), 0);
    for (family, level, size) in files {
        *families.entry(family).or_default().entry(level).or_default() += size;
        // An earlier start on a larger file system may have made larger files.
        largest = size.max(largest);
    }
    let others = (2 * sizes.merged).max(sizes.merged + 3 * largest);
    families.values().map(|levels| inputs_of_family(levels, others)).max().unwrap_or_default()
}

/// As [`largest_inputs`], of one column family. `levels`: bytes by level. `others`: the most bytes of two levels below
/// level 0.
fn inputs_of_family(levels: &BTreeMap<i32, u64>, others: u64) -> u64 {
    let from_level_0 = levels.get(&0).copied().unwrap_or_default();
    let next = levels.range(1..).next().map_or(0, |(_, bytes)| *bytes);
    let all = levels.values().sum();
    (from_level_0 + next).max(others).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: SstSizes = SstSizes { file: 10, level: 40, merged: 100 };

    #[test]
    fn the_largest_inputs_are_of_one_family_and_two_levels() {
        let inputs = |files: &[(&str, i32, u64)]| largest_inputs(files.iter().copied(), SIZES);
        assert_eq!(inputs(&[]), 0);
        assert_eq!(inputs(&[("a", 0, 5), ("a", 6, 7), ("b", 0, 11)]), 12);
        // Level 0 with the next level that has files, though that is more than other compactions read.
        let many = |level, n| (0..n).map(move |_| ("a", level, 10)).collect::<Vec<_>>();
        assert_eq!(inputs(&[many(0, 30), many(4, 5), many(5, 100)].concat()), 350);
        assert_eq!(inputs(&[many(0, 5), many(5, 4), many(6, 100)].concat()), 200);
        // A larger file, and what it may overlap.
        assert_eq!(inputs(&[vec![("a", 5, 64)], many(6, 100)].concat()), 292);
        // No more than there is.
        assert_eq!(inputs(&[many(5, 4), many(6, 10)].concat()), 140);
    }

    #[test]
    fn a_compaction_needs_its_inputs_and_one_more_table() {
        assert_eq!(space_for(0, SIZES), 0);
        assert_eq!(space_for(5, SIZES), 11);
        assert_eq!(space_for(100, SIZES), 121);
    }

    #[test]
    fn a_plan_counts_from_its_check_on_unless_it_is_refused() {
        let space = CompactionSpace::default();
        let bytes = || space.inputs.lock().unwrap().bytes;
        let mut written = space.begin(100);
        let refused = space.begin(10);
        assert_eq!((space.in_flight(), bytes()), (110, 110));
        drop(refused);
        written.count_as_written();
        assert_eq!((space.in_flight(), bytes()), (100, 100));
        drop(written);
        assert_eq!((space.in_flight(), bytes()), (0, 100));
    }
}
