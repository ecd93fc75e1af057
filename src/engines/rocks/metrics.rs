//! Metrics of the engine except its commits: reads, memory, disk, and whether it can write.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::commit_stats::CommitCounters;
use super::db::Db;
use super::disk_space::DiskSpace;
use super::options::Tuning;
use super::tables_file::TablesFile;

/// The label of the source of a read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReadSource {
    from: &'static str,
}

/// Counts reads of rows and pages. Keeps the counters outside of the family, so that an increment needs no lookup.
#[derive(Clone, Debug)]
pub(super) struct ReadCounters {
    all: Family<ReadSource, Counter>,
    memory: Counter,
    pool: Counter,
}

impl Default for ReadCounters {
    fn default() -> Self {
        let all = Family::<ReadSource, Counter>::default();
        let counter = |from| all.get_or_create_owned(&ReadSource { from });
        Self { memory: counter("memory"), pool: counter("pool"), all }
    }
}

impl ReadCounters {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Rows and pages read: from memory at once, or by the threads that may wait for the disk";
        registry.register("reads", help, self.all.clone());
    }

    pub fn memory(&self, rows: usize) {
        self.memory.inc_by(rows as u64);
    }

    pub fn pool(&self, rows: usize) {
        self.pool.inc_by(rows as u64);
    }
}

/// Collects the metrics of the engine at each scrape.
pub(super) struct StoreCollector {
    // Weak: closing the store waits until the last reference is dropped.
    db: Weak<Db>,
    counters: Arc<CommitCounters>,
    tuning: Arc<Tuning>,
    space: Arc<DiskSpace>,
    tables: Arc<Mutex<TablesFile>>,
}

/// The labels of a column family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FamilyLabels {
    table: String,
    family: String,
}

impl StoreCollector {
    pub fn new(
        db: &Arc<Db>,
        counters: Arc<CommitCounters>,
        tuning: Arc<Tuning>,
        space: Arc<DiskSpace>,
        tables: Arc<Mutex<TablesFile>>,
    ) -> Self {
        Self { db: Arc::downgrade(db), counters, tuning, space, tables }
    }

    fn families(&self) -> Vec<FamilyLabels> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = tables.specs().iter();
        let of = tables.flat_map(|table| table.families.iter().map(|family| (table.name.clone(), family.name.clone())));
        of.map(|(table, family)| FamilyLabels { table, family }).collect()
    }
}

impl fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCollector").finish_non_exhaustive()
    }
}

impl Collector for StoreCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = MetricEncoder(encoder);
        let commits = self.counters.read();
        out.counter("commit_changes", "Changes of cells in plans that were judged", commits.changes)?;
        out.counter("commit_bytes", "Bytes of keys, qualifiers and values in them", commits.bytes)?;
        let (cached, most) = self.tuning.cached();
        out.gauge("cache_bytes", "Bytes in the cache of blocks, write buffers included", cached as u64)?;
        out.gauge("cache_capacity_bytes", "Bytes the cache of blocks may hold", most as u64)?;
        out.gauge("write_buffer_bytes", "Bytes in write buffers", self.tuning.buffered() as u64)?;
        if let Some(space) = self.space.free_space() {
            out.gauge("disk_free_bytes", "Bytes free on the file system of the store", space.free)?;
            out.gauge("disk_size_bytes", "Bytes of the file system of the store", space.total)?;
        }
        let Some(db) = self.db.upgrade() else { return Ok(()) };
        out.gauge("damaged_tables", "Tables that are known to be damaged", db.damaged_files.count() as u64)?;
        let help = "0 once a write has failed, until the next start, and while RocksDB waits for disk space";
        out.gauge("writable", help, db.ready().is_ok().into())?;
        let families = self.families();
        for (name, help, property) in PROPERTIES {
            out.of_each(&db, &families, (name, help), property)?;
        }
        Ok(())
    }
}

/// Name, help text and RocksDB property of the metrics of each column family.
const PROPERTIES: [(&str, &str, &str); 5] = [
    ("table_bytes", "Bytes of the files of a column family", "rocksdb.total-sst-files-size"),
    ("live_bytes", "About as many of them are not yet replaced or deleted", "rocksdb.estimate-live-data-size"),
    ("cells", "About as many cells there are", "rocksdb.estimate-num-keys"),
    ("compaction_pending_bytes", "Bytes that wait for a compaction", "rocksdb.estimate-pending-compaction-bytes"),
    ("files_at_level_0", "Files that the next compaction merges", "rocksdb.num-files-at-level0"),
];

struct MetricEncoder<'a>(DescriptorEncoder<'a>);

impl MetricEncoder<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, None, counter.metric_type())?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = signed(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, gauge.metric_type())?)
    }

    fn of_each(
        &mut self,
        db: &Db,
        families: &[FamilyLabels],
        (name, help): (&str, &str),
        property: &str,
    ) -> fmt::Result {
        let kind = signed(0).metric_type();
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for of in families {
            let Ok(family) = db.family(&of.table, &of.family) else { continue };
            // Leave out a property that RocksDB does not return: any number would be wrong.
            if let Ok(Some(value)) = db.raw.property_int_value_cf(&family, property) {
                signed(value).encode(metric.encode_family(of)?)?;
            }
        }
        Ok(())
    }
}

fn signed(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
