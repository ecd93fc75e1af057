//! RocksDB's options, derived from one budget of memory. Everything that decides speed, space or safety is set
//! here by name, since RocksDB's own defaults have moved between versions.

use std::path::Path;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ChecksumType, CompactionPri, DBCompactionStyle, DBCompressionType,
    DBRecoveryMode, DataBlockIndexType, LogLevel, Options, WriteBufferManager,
};

use super::files::numbered;
use super::space;
use crate::table::FamilySpec;
use crate::table::spec::{CellSize, Compression};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const DAY: u64 = 24 * 60 * 60;

/// More than any log holds, and no more than RocksDB takes for the size of a buffer.
const UNBOUNDED: usize = 32 << 30;

/// Bytes of a write buffer, at most; half of the reserve on a small file system.
///
/// After a write that found no room RocksDB takes none before as much is free as the largest buffer that it was opened
/// with holds. Deletes have to go on below the reserve.
const LARGEST: usize = 32 * MIB;

/// Bytes of a write buffer beside those that a log fills: for what is written later, and for blocks that are not full.
const SLACK: usize = 16 * MIB;

/// Tables that a running store may come to have beyond twice what it had at its start: those of 256 GiB.
const SPARE_TABLES: u64 = 4_096;

/// Below this many bytes the parts of the budget would be too small to work with.
const LEAST: usize = 16 * MIB;

/// What all column families of one database share.
pub(super) struct Tuning {
    cache: Cache,
    /// Bytes of the cache.
    memory: usize,
    buffers: WriteBufferManager,
    /// Bytes of all write buffers together.
    buffered: usize,
    /// Bytes that a write buffer grows by, at most.
    arena: usize,
    /// Bytes of one write buffer, at most.
    largest: usize,
    /// Bytes of each write buffer, whatever the budget.
    fixed: Option<usize>,
    /// Tables that are open at once; -1: all.
    open_tables: i32,
}

impl Tuning {
    /// `memory`: bytes for block cache and write buffers together. A quarter may be write buffers; they are
    /// charged to the cache, which holds blocks, filters and indexes in whatever they leave.
    pub fn new(memory: usize) -> Self {
        let (memory, buffered) = (memory.max(LEAST), Self::buffers(memory));
        let cache = Cache::new_hyper_clock_cache(memory, 0);
        // No stalls: when the sum is reached RocksDB flushes the oldest buffer, and writers go on meanwhile.
        let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(buffered, false, cache.clone());
        let arena = (buffered / 128).min(MIB);
        Self { cache, memory, buffers, buffered, arena, largest: LARGEST, fixed: None, open_tables: -1 }
    }

    /// Bytes of all write buffers together, out of so many for the engine.
    pub fn buffers(memory: usize) -> usize {
        memory.max(LEAST) / 4
    }

    /// Bounds write buffers by the file system of this folder.
    pub fn with_disk(self, dir: &Path) -> Self {
        let half = space::reserve_of(dir).and_then(|bytes| usize::try_from(bytes / 2).ok());
        Self { largest: half.map_or(LARGEST, |half| half.min(LARGEST)), ..self }
    }

    /// Bounds the tables that are open at once, if this folder's could come to more than a third of the handles that
    /// the process may have: without one, RocksDB could make no file any more, and takes no write from then on.
    ///
    /// All are kept open where that is sure: they are then looked at when the store is opened, not when they are read.
    pub fn with_handles(self, dir: &Path, limit: u64) -> Self {
        let third = limit / 3;
        let tables = numbered(dir, "sst").map_or(0, |tables| tables.len() as u64);
        // Compaction writes new ones beside the old.
        if 2 * tables + SPARE_TABLES <= third {
            return self;
        }
        tracing::info!(tables, limit, "not all tables are kept open: the limit of open files is low");
        Self { open_tables: i32::try_from(third).unwrap_or(i32::MAX), ..self }
    }

    /// Bytes of a write buffer that a log of so many does not fill; then, if that was wrong, more than it ever could.
    pub fn enough_for(log: u64) -> [usize; 2] {
        let log = usize::try_from(log).unwrap_or(UNBOUNDED);
        // Content takes as much of memory as of the log. Rows take more, and are spread over many families.
        [(log + log / 8).saturating_add(SLACK).min(UNBOUNDED), UNBOUNDED]
    }

    /// Write buffers of so many bytes each, and no bound on all together; [`bound`](Self::bound) ends that.
    pub fn unbounded(&self, each: usize) -> Self {
        self.buffers.set_buffer_size(UNBOUNDED);
        Self { cache: self.cache.clone(), buffers: self.buffers.clone(), fixed: Some(each), ..*self }
    }

    /// Bounds all write buffers together, as [`new`](Self::new) has it.
    pub fn bound(&self) {
        self.buffers.set_buffer_size(self.buffered);
    }

    /// Options of a database that writes no table while it replays its log of so many bytes, nor for that length later.
    pub fn without_flush(&self, mut options: Options, log: u64) -> Result<Options, rocksdb::Error> {
        // It cannot be changed later, and so keeps the usual length beside that.
        options.set_max_total_wal_size(log + self.longest_log());
        // Not among the options that the crate has names for. Room set aside for a new log is what the start lacks.
        options.get_options_from_string("avoid_flush_during_recovery=true;allow_fallocate=false")
    }

    /// Bytes in the cache of blocks, what write buffers are charged included, and how many it may hold.
    pub fn cached(&self) -> (usize, usize) {
        (self.cache.get_usage(), self.memory)
    }

    /// Bytes in write buffers.
    pub fn buffered(&self) -> usize {
        self.buffers.get_usage()
    }

    /// Options of the database. `new`: whether it may be made if it is not there.
    pub fn database(&self, new: bool) -> Options {
        let mut options = Options::default();
        options.create_if_missing(new);
        // A crash may have come between `tables.json` and the column families it names.
        options.create_missing_column_families(true);
        options.set_paranoid_checks(true);

        // The opening knows more of the log, and may choose another mode.
        options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
        // A log that is whole is noted with its size, so that a missing or shortened one is told.
        options.set_track_and_verify_wals_in_manifest(true);
        // A log is freed once no column family has data in it alone, so a rarely written one would pin them all.
        options.set_max_total_wal_size(self.longest_log());
        options.set_manual_wal_flush(false);
        options.set_use_fsync(false);
        // A write that failed may be whole in the log, and RocksDB goes on after it by writing all families to tables.
        // One by one, a crash in between would leave that write in some families and not in others.
        options.set_atomic_flush(true);

        options.set_write_buffer_manager(&self.buffers);
        options.set_max_background_jobs(2);
        options.set_max_subcompactions(1);
        // Spread the writing of tables, so that the sync of the log need not wait for a burst of it.
        options.set_bytes_per_sync(MIB as u64);
        options.set_compaction_readahead_size(2 * MIB);
        // Reads run on the threads of requests: let a background job delete files.
        options.set_avoid_unnecessary_blocking_io(true);
        options.set_max_open_files(self.open_tables);
        options.set_max_file_opening_threads(16);

        options.set_log_level(LogLevel::Info);
        options.set_max_log_file_size(4 * MIB);
        options.set_keep_log_file_num(4);
        // No statistics: nothing reads them, and counting costs every operation.
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options
    }

    /// Options of the column family that holds the family. Nothing here may be changed by name of a table: what
    /// a family is like is in its spec.
    pub fn family(&self, spec: &FamilySpec) -> Options {
        let mut options = Options::default();
        options.set_block_based_table_factory(&self.blocks(spec));

        let buffer = self.write_buffer(spec);
        options.set_write_buffer_size(buffer);
        options.set_max_write_buffer_number(4);
        options.set_min_write_buffer_number_to_merge(1);
        // Memory is taken in pieces of this size: small ones, or many rarely written families fill a small budget.
        options.set_arena_block_size((buffer / 8).min(self.arena));

        options.set_compaction_style(DBCompactionStyle::Level);
        options.set_compaction_pri(CompactionPri::MinOverlappingRatio);
        options.set_num_levels(7);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_level_zero_file_num_compaction_trigger(4);
        options.set_level_zero_slowdown_writes_trigger(20);
        options.set_level_zero_stop_writes_trigger(36);
        options.set_max_bytes_for_level_base(256 * MIB as u64);
        options.set_max_bytes_for_level_multiplier(10.0);
        options.set_target_file_size_base(64 * MIB as u64);
        // A table with half of 8,192 keys in a row deleted is compacted soon: reads and the emptiness of a family
        // pay for every tombstone they pass.
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

    /// Options of the column family that every database has. Nothing is in it.
    pub fn unused(&self) -> Options {
        let mut options = Options::default();
        // In the first run of a database it alone says how much room is set aside for a log, and waited for.
        options.set_write_buffer_size(self.large_buffer());
        options
    }

    /// Bytes of a write buffer: larger ones mean fewer, longer runs to compact, so families that take most of
    /// the writes (content, and what is read by point) get more.
    pub fn write_buffer(&self, spec: &FamilySpec) -> usize {
        if spec.cells == CellSize::Large || spec.bloom {
            self.large_buffer()
        } else {
            self.fixed.unwrap_or((self.buffered / 16).min(16 * MIB).min(self.largest))
        }
    }

    fn large_buffer(&self) -> usize {
        self.fixed.unwrap_or((self.buffered / 4).min(self.largest))
    }

    /// Bytes of log for which families are flushed.
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
        // Inside the budget, not beside it.
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        if spec.bloom {
            blocks.set_bloom_filter(10.0, false);
            blocks.set_whole_key_filtering(true);
            blocks.set_optimize_filters_for_memory(true);
        }
        blocks
    }
}
