//! What operators see of the engine beside its commits: reads, memory, disk, and whether it can write.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::counters::Counters;
use super::db::Db;
use super::options::Tuning;
use super::space::Space;
use super::specs::Specs;

/// Where a read found what it wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct From {
    from: &'static str,
}

/// Reads of rows and pages. Held apart from the family, so that counting one looks up nothing.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    all: Family<From, Counter>,
    memory: Counter,
    pool: Counter,
}

impl Default for Reads {
    fn default() -> Self {
        let all = Family::<From, Counter>::default();
        let of = |from| all.get_or_create_owned(&From { from });
        Self { memory: of("memory"), pool: of("pool"), all }
    }
}

impl Reads {
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

/// Looks at the engine whenever somebody asks.
pub(super) struct Watch {
    // Weak: a store that is closed waits for the end of whoever has it.
    db: Weak<Db>,
    counters: Arc<Counters>,
    tuning: Arc<Tuning>,
    space: Arc<Space>,
    specs: Arc<Mutex<Specs>>,
}

/// A column family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    table: String,
    family: String,
}

impl Watch {
    pub fn new(
        db: &Arc<Db>,
        counters: Arc<Counters>,
        tuning: Arc<Tuning>,
        space: Arc<Space>,
        specs: Arc<Mutex<Specs>>,
    ) -> Self {
        Self { db: Arc::downgrade(db), counters, tuning, space, specs }
    }

    fn families(&self) -> Vec<Of> {
        let specs = self.specs.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = specs.tables().iter();
        let of = tables.flat_map(|table| table.families.iter().map(|family| (table.name.clone(), family.name.clone())));
        of.map(|(table, family)| Of { table, family }).collect()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Collector for Watch {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        let commits = self.counters.read();
        out.counter("commit_changes", "Changes of cells in plans that were judged", commits.changes)?;
        out.counter("commit_bytes", "Bytes of keys, qualifiers and values in them", commits.bytes)?;
        let (cached, most) = self.tuning.cached();
        out.gauge("cache_bytes", "Bytes in the cache of blocks, write buffers included", cached as u64)?;
        out.gauge("cache_capacity_bytes", "Bytes the cache of blocks may hold", most as u64)?;
        out.gauge("write_buffer_bytes", "Bytes in write buffers", self.tuning.buffered() as u64)?;
        if let Some(room) = self.space.room() {
            out.gauge("disk_free_bytes", "Bytes free on the file system of the store", room.free)?;
            out.gauge("disk_size_bytes", "Bytes of the file system of the store", room.total)?;
        }
        let Some(db) = self.db.upgrade() else { return Ok(()) };
        out.gauge("damaged_tables", "Tables that are known to be damaged", db.spoilt.count() as u64)?;
        let help = "0 once a write has failed, until the next start, and while RocksDB waits for room";
        out.gauge("writable", help, db.works().is_ok().into())?;
        let families = self.families();
        for (name, help, property) in PROPERTIES {
            out.of_each(&db, &families, (name, help), property)?;
        }
        Ok(())
    }
}

/// Name, what it says, and the property of RocksDB that it is, for each column family.
const PROPERTIES: [(&str, &str, &str); 5] = [
    ("table_bytes", "Bytes of the files of a column family", "rocksdb.total-sst-files-size"),
    ("live_bytes", "About as many of them are not yet replaced or deleted", "rocksdb.estimate-live-data-size"),
    ("cells", "About as many cells there are", "rocksdb.estimate-num-keys"),
    ("compaction_pending_bytes", "Bytes that wait for a compaction", "rocksdb.estimate-pending-compaction-bytes"),
    ("files_at_level_0", "Files that the next compaction merges", "rocksdb.num-files-at-level0"),
];

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, None, counter.metric_type())?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = signed(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, gauge.metric_type())?)
    }

    fn of_each(&mut self, db: &Db, families: &[Of], (name, help): (&str, &str), property: &str) -> fmt::Result {
        let kind = signed(0).metric_type();
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for of in families {
            let Ok(family) = db.family(&of.table, &of.family) else { continue };
            // A property that RocksDB does not tell is left out rather than told wrong.
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
