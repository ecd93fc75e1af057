//! How far a read may go for what it wants.

use rocksdb::{ReadOptions, ReadTier};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// Memory alone, for threads that must not wait: [`Fault::Incomplete`](super::db::Fault) where it is not
    /// enough.
    Cached,
    /// Whatever it takes.
    Disk,
}

/// Options of point reads without a snapshot, made once.
pub(super) struct Points {
    cached: ReadOptions,
    disk: ReadOptions,
}

impl Default for Points {
    fn default() -> Self {
        Self { cached: tiered(Tier::Cached), disk: tiered(Tier::Disk) }
    }
}

impl Points {
    pub fn of(&self, tier: Tier) -> &ReadOptions {
        match tier {
            Tier::Cached => &self.cached,
            Tier::Disk => &self.disk,
        }
    }
}

pub(super) fn tiered(tier: Tier) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.set_read_tier(match tier {
        Tier::Cached => ReadTier::BlockCache,
        Tier::Disk => ReadTier::All,
    });
    options
}
