//! RocksDB's options, derived from one memory budget. Every option that matters for speed, space or safety is set
//! explicitly: RocksDB's defaults change between versions.

use std::path::Path;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ChecksumType, CompactionPri, DBCompactionStyle, DBCompressionType,
    DBRecoveryMode, DataBlockIndexType, LogLevel, Options, WriteBufferManager,
};

use super::disk_space;
use super::files::numbered;
use crate::table::FamilySpec;
use crate::table::spec::{CellSize, Compression};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const DAY: u64 = 24 * 60 * 60;

/// More than the size of any WAL, and no more than RocksDB accepts as the size of a write buffer.
const UNBOUNDED: usize = 32 << 30;

/// More write buffers, and more SST files of level 0, than any column family has: RocksDB never stops writes, or slows
/// them down. Writes wait in [`backlog`](super::backlog) instead, before they reach RocksDB.
const NEVER: i32 = 1 << 20;

/// The largest size of a write buffer; half of the reserve on a small file system.
///
/// After a write on a full disk RocksDB refuses writes until as much is free as the largest write buffer it was opened
/// with. Deletes must work below the reserve.
const LARGEST: usize = 32 * MIB;

/// The largest size of the write buffers of content, and of families without point reads.
///
/// In an import of small files the buffer of content is full first, and then the atomic flush flushes all families. New
/// buffers fill meanwhile. So an import needs somewhat more than twice this size.
const LARGEST_OF_OTHERS: usize = 16 * MIB;

/// The size of a large SST file; a thousandth of a smaller file system, so that a compaction takes no large part of it.
const LARGE_FILE: u64 = 64 * MIB as u64;
/// The size of a large SST file on the smallest file system.
const SMALLEST_FILE: u64 = 2 * MIB as u64;

/// Bytes of a write buffer in addition to those that the WAL fills: for later writes, and for partly filled arena
/// blocks.
const SLACK: usize = 16 * MIB;

/// SST files that a running store may add beyond twice those at its start: 256 GiB of the largest size.
const SPARE_FILES: u64 = 4_096;

/// Below this many bytes the parts of the budget would be too small to work with.
const LEAST: usize = 16 * MIB;

/// Sizes of SST files and of what a compaction merges, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SstSizes {
    /// A large SST file.
    pub file: u64,
    /// The first level below level 0.
    pub level: u64,
    /// `max_compaction_bytes`: [`compaction_space`](super::compaction_space) says what it bounds.
    pub merged: u64,
}

impl SstSizes {
    /// The sizes on a file system of this many bytes.
    fn of_disk(total: u64) -> Self {
        let file = (total / 1_024).clamp(SMALLEST_FILE, LARGE_FILE);
        Self { file, level: 4 * file, merged: 12 * file }
    }
}

/// The options of one database, and what all its column families share.
pub(super) struct Tuning {
    cache: Cache,
    /// Bytes of the cache.
    memory: usize,
    buffers: WriteBufferManager,
    /// Bytes of all write buffers together.
    buffered: usize,
    /// The largest step that a write buffer grows by.
    arena: usize,
    /// The largest size of one write buffer.
    largest: usize,
    /// The size of each write buffer regardless of the budget.
    fixed: Option<usize>,
    /// SST files open at once; -1: all.
    open_files: i32,
    sizes: SstSizes,
}

impl Tuning {
    /// `memory`: bytes for block cache and write buffers together. A quarter may be write buffers; they are
    /// charged to the cache, which uses the rest for blocks, filters and indexes.
    pub fn new(memory: usize) -> Self {
        let (memory, buffered) = (memory.max(LEAST), Self::buffers(memory));
        let cache = Cache::new_hyper_clock_cache(memory, 0);
        // No stalls: at the limit RocksDB flushes the oldest buffer, and writers continue meanwhile.
        let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(buffered, false, cache.clone());
        let arena = (buffered / 128).min(MIB);
        let sizes = SstSizes::of_disk(u64::MAX);
        Self { cache, memory, buffers, buffered, arena, largest: LARGEST, fixed: None, open_files: -1, sizes }
    }

    /// Bytes of all write buffers together, out of this memory budget.
    pub fn buffers(memory: usize) -> usize {
        memory.max(LEAST) / 4
    }

    /// Bounds write buffers and SST files by the file system of this folder.
    pub fn with_disk(self, dir: &Path) -> Self {
        let Some((total, reserve)) = disk_space::sizes_of(dir) else { return self };
        let largest = usize::try_from(reserve / 2).map_or(LARGEST, |half| half.min(LARGEST));
        Self { largest, sizes: SstSizes::of_disk(total), ..self }
    }

    /// Sizes of SST files.
    pub fn sizes(&self) -> SstSizes {
        self.sizes
    }

    /// Bounds the open SST files, if those of this folder could exceed a third of the limit of open files. At the limit
    /// RocksDB cannot create a file, and then refuses writes permanently.
    ///
    /// Keeps all open otherwise: RocksDB then checks them when it opens the database, not at their first read.
    pub fn with_handles(self, dir: &Path, limit: u64) -> Self {
        let third = limit / 3;
        let files = numbered(dir, "sst").map_or(0, |files| files.len() as u64);
        // During a compaction the new files exist besides the old ones.
        if 2 * files + SPARE_FILES <= third {
            return self;
        }
        tracing::info!(files, limit, "not all table files are kept open: the limit of open files is low");
        Self { open_files: i32::try_from(third).unwrap_or(i32::MAX), ..self }
    }

    /// Sizes of a write buffer to try for a WAL of this many bytes: one that the WAL should not fill, then one that it
    /// cannot fill.
    pub fn enough_for(log: u64) -> [usize; 2] {
        let log = usize::try_from(log).unwrap_or(UNBOUNDED);
        // Content takes as much memory as space in the WAL. Rows take more, and are spread over many families.
        [(log + log / 8).saturating_add(SLACK).min(UNBOUNDED), UNBOUNDED]
    }

    /// Sets the size of each write buffer, and no bound on their sum until [`bound`](Self::bound).
    pub fn unbounded(&self, each: usize) -> Self {
        self.buffers.set_buffer_size(UNBOUNDED);
        Self { cache: self.cache.clone(), buffers: self.buffers.clone(), fixed: Some(each), ..*self }
    }

    /// Bounds the sum of all write buffers again, as [`new`](Self::new) does.
    pub fn bound(&self) {
        self.buffers.set_buffer_size(self.buffered);
    }

    /// Options of a database that does not flush while it replays a WAL of this many bytes, nor for its size later.
    pub fn without_flush(&self, mut options: Options, log: u64) -> Result<Options, rocksdb::Error> {
        // The option cannot be changed later, so add the usual size.
        options.set_max_total_wal_size(log + self.longest_log());
        // The crate has no function for this option. A start on a full disk lacks the space to preallocate a WAL file.
        options.get_options_from_string("avoid_flush_during_recovery=true;allow_fallocate=false")
    }

    /// Whether the sizes of write buffers keep all data of the WAL in memory.
    pub fn keeps_wal_in_memory(&self) -> bool {
        self.fixed.is_some()
    }

    /// Bytes of a WAL file to allocate for deletes on a full disk.
    ///
    /// If a write to the WAL finds no space, RocksDB refuses all writes until there is space for a write buffer. Of a
    /// database [without flush](Self::without_flush) a write buffer holds the whole log.
    pub fn log_for_deletes(&self) -> u64 {
        self.largest as u64 / 8
    }

    /// Bytes in the block cache, including those charged by write buffers, and its capacity.
    pub fn cached(&self) -> (usize, usize) {
        (self.cache.get_usage(), self.memory)
    }

    /// Bytes in write buffers.
    pub fn buffered(&self) -> usize {
        self.buffers.get_usage()
    }

    /// Options of the database. `new`: whether to create it if it does not exist.
    pub fn database(&self, new: bool) -> Options {
        let mut options = Options::default();
        options.create_if_missing(new);
        // After a crash `tables.json` may name column families that were not created yet.
        options.create_missing_column_families(true);
        options.set_paranoid_checks(true);

        // The opening checks the WAL, and may choose another mode.
        options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
        // The MANIFEST records the sizes of complete WAL files, so that RocksDB detects a missing or truncated one.
        options.set_track_and_verify_wals_in_manifest(true);
        // RocksDB deletes a WAL file once all its data is flushed, so a rarely written column family would pin them
        // all.
        options.set_max_total_wal_size(self.longest_log());
        options.set_manual_wal_flush(false);
        options.set_use_fsync(false);
        // A failed write may be whole in the WAL, and RocksDB recovers by a flush of all families. If it flushed them
        // one by one, a crash in between would leave that write in some families and not in others.
        options.set_atomic_flush(true);

        options.set_write_buffer_manager(&self.buffers);
        // One flush and one compaction at a time: uploads leave disk space for one.
        options.set_max_background_jobs(2);
        options.set_max_subcompactions(1);
        // Sync SST files as they are written, so that a sync of the WAL does not wait for a burst of them.
        options.set_bytes_per_sync(MIB as u64);
        options.set_compaction_readahead_size(2 * MIB);
        // Reads run on threads that serve requests: delete files in a background job.
        options.set_avoid_unnecessary_blocking_io(true);
        options.set_max_open_files(self.open_files);
        options.set_max_file_opening_threads(16);

        options.set_log_level(LogLevel::Info);
        options.set_max_log_file_size(4 * MIB);
        options.set_keep_log_file_num(4);
        // No statistics: nothing reads them, and they cost every operation.
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options
    }

    /// Options of the column family of this spec. Nothing here may depend on the name of a table: a spec has all
    /// properties.
    pub fn family(&self, spec: &FamilySpec) -> Options {
        let mut options = Options::default();
        options.set_block_based_table_factory(&self.blocks(spec));

        let buffer = self.write_buffer(spec);
        options.set_write_buffer_size(buffer);
        options.set_max_write_buffer_number(NEVER);
        options.set_min_write_buffer_number_to_merge(1);
        // The step of allocation: with large ones many rarely written families would fill a small budget.
        options.set_arena_block_size((buffer / 8).min(self.arena));

        options.set_compaction_style(DBCompactionStyle::Level);
        options.set_compaction_pri(CompactionPri::MinOverlappingRatio);
        options.set_num_levels(7);
        options.set_level_compaction_dynamic_level_bytes(true);
        let level_0 = Self::level_0_files(spec);
        options.set_level_zero_file_num_compaction_trigger(level_0);
        // RocksDB would slow writes down to 16 KiB a second within seconds: each flush adds a file to each family, and
        // each of these files takes a fifth off the rate.
        options.set_level_zero_slowdown_writes_trigger(NEVER);
        options.set_level_zero_stop_writes_trigger(NEVER);
        options.set_soft_pending_compaction_bytes_limit(usize::MAX);
        // Zero is no limit.
        options.set_hard_pending_compaction_bytes_limit(0);
        // Nearly all content that is asked for is there: its last level needs no filters.
        options.set_optimize_filters_for_hits(spec.cells == CellSize::Large);
        options.set_max_bytes_for_level_base(self.sizes.level);
        options.set_max_bytes_for_level_multiplier(10.0);
        options.set_target_file_size_base(self.sizes.file);
        options.set_max_compaction_bytes(self.sizes.merged);
        // Compacts an SST file soon if half of 8,192 consecutive keys are deleted: reads and checks for an empty family
        // pay for every tombstone that they skip.
        options.add_compact_on_deletion_collector_factory(8_192, 4_096, 0.5);
        options.set_ttl(30 * DAY);
        options.set_periodic_compaction_seconds(0);

        match spec.compression {
            Compression::Light => {
                options.set_compression_type(DBCompressionType::Lz4);
                options.set_bottommost_compression_type(DBCompressionType::Zstd);
            }
            Compression::None => {
                options.set_compression_type(DBCompressionType::None);
                options.set_bottommost_compression_type(DBCompressionType::None);
            }
        }
        options
    }

    /// Options of the default column family, which RocksDB requires. It is empty.
    pub fn unused(&self) -> Options {
        let mut options = Options::default();
        // In the first run of a database this alone decides how much space RocksDB preallocates for a WAL file.
        options.set_write_buffer_size(self.bounded(self.buffered / 4));
        options
    }

    /// The size of a write buffer. Larger ones mean fewer compactions. Families with point reads, whose row keys are
    /// random, get the largest ones: of them a compaction merges most.
    pub fn write_buffer(&self, spec: &FamilySpec) -> usize {
        let size = match (spec.cells, spec.bloom) {
            (CellSize::Small, true) => self.buffered / 4,
            (CellSize::Small, false) => (self.buffered / 16).min(LARGEST_OF_OTHERS),
            (CellSize::Large, _) => (self.buffered / 4).min(LARGEST_OF_OTHERS),
        };
        self.bounded(size)
    }

    /// Files of level 0 at which they are merged into the next level. Each merge reads and writes a part of that level as
    /// well: for content, which is written once, that is most of what a write costs. Sixteen of the largest write
    /// buffers are as large as that level. If there are more, RocksDB merges them within level 0.
    fn level_0_files(spec: &FamilySpec) -> i32 {
        match spec.cells {
            CellSize::Small => 4,
            CellSize::Large => 16,
        }
    }

    /// A size of a write buffer within what this database allows.
    fn bounded(&self, size: usize) -> usize {
        self.fixed.unwrap_or(size.min(self.largest))
    }

    /// The size of the WAL at which families are flushed.
    fn longest_log(&self) -> u64 {
        (self.buffered * 2).min(512 * MIB) as u64
    }

    fn blocks(&self, spec: &FamilySpec) -> BlockBasedOptions {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        blocks.set_format_version(7);
        blocks.set_checksum_type(ChecksumType::XXH3);
        blocks.set_block_size(match spec.cells {
            CellSize::Small => 8 * KIB,
            CellSize::Large => 16 * KIB,
        });
        blocks.set_block_restart_interval(16);
        blocks.set_index_type(BlockBasedIndexType::BinarySearch);
        blocks.set_index_block_restart_interval(1);
        blocks.set_data_block_index_type(DataBlockIndexType::BinarySearch);
        // Count them in the memory budget.
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        if spec.bloom || spec.cells == CellSize::Large {
            blocks.set_bloom_filter(10.0, false);
            blocks.set_whole_key_filtering(true);
            blocks.set_optimize_filters_for_memory(true);
        }
        blocks
    }
}
