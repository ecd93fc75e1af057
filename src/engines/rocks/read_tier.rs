//! Whether a read may access the disk.

use rocksdb::{ReadOptions, ReadTier as RocksReadTier};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadTier {
    /// Memory alone, for threads that must not block: [`ReadError::Incomplete`](super::raw::ReadError) for other data.
    Cached,
    /// Memory and disk.
    Disk,
}

/// The options of point reads without a snapshot, created once.
pub(super) struct PointReadOptions {
    cached: ReadOptions,
    disk: ReadOptions,
}

impl Default for PointReadOptions {
    fn default() -> Self {
        Self { cached: tiered(ReadTier::Cached), disk: tiered(ReadTier::Disk) }
    }
}

impl PointReadOptions {
    pub fn options(&self, tier: ReadTier) -> &ReadOptions {
        match tier {
            ReadTier::Cached => &self.cached,
            ReadTier::Disk => &self.disk,
        }
    }
}

pub(super) fn tiered(tier: ReadTier) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.set_read_tier(match tier {
        ReadTier::Cached => RocksReadTier::BlockCache,
        ReadTier::Disk => RocksReadTier::All,
    });
    options
}
