//! What a run found, as `report.json` holds it. Members are added, never renamed; what is not known is `null`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Regions that each table is cut into, wherever load on regions is simulated.
pub const REGIONS: usize = 16;

/// The note of an operation whose later rounds are left out; or, if all are, why it is unsupported.
pub const RAN_OUT: &str = "the files ran out: give a larger --size, or a shorter --ms (at least 10)";

/// A run of fewer files names no key: its largest folder is small, and a second of its load is of a few folders alone.
pub const MIN_FILES: u64 = 50_000;
/// In the cost of a remedy that leaves readers no range of keys.
pub const READS_ALL: &str = "reads the whole table";
/// In place of a table's name: all tables of a layout together.
pub const ALL_TABLES: &str = "all tables";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub meta: Meta,
    pub layouts: BTreeMap<String, BTreeMap<String, Measured>>,
    /// By layout, then by table: where the requests of one import fall, in regions split at quantiles of their keys.
    pub regions: BTreeMap<String, BTreeMap<String, Spread>>,
    pub hot_spots: Vec<HotSpot>,
    pub costs: BTreeMap<String, Costs>,
    pub http: Vec<HttpRun>,
    pub limits: Vec<Limit>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    pub version: String,
    pub started: String,
    pub seconds: f64,
    /// False if it was interrupted or failed: the report holds what was measured until then.
    pub complete: bool,
    /// Why it is not complete, and whatever else a reader must know.
    pub notes: Vec<String>,
    pub seed: u64,
    pub files: u64,
    pub directories: Option<u64>,
    pub clients: Option<usize>,
    pub rounds: Option<usize>,
    pub quick: bool,
    pub settings: BTreeMap<String, String>,
    pub machine: Value,
    pub versions: BTreeMap<String, String>,
}

/// An operation of a layout, or why the layout cannot do it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Measured {
    Figures(Box<Figures>),
    Unsupported { unsupported: String },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The median of `rounds`; the others are of all rounds together.
    pub per_second: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub count: u64,
    pub clients: Option<usize>,
    pub rounds: Vec<f64>,
    /// On average; none where nothing was counted.
    pub work: Option<Work>,
    /// The same operation with one client; none if `clients` is one.
    pub one_client: Option<Box<Figures>>,
    /// Latencies at a set rate, the same for all layouts that were measured at it; none for a layout that is too slow.
    pub at_rate: Option<AtRate>,
    /// Latency in microseconds by percentile, ascending.
    pub curve: Vec<(f64, u64)>,
    pub note: Option<String>,
}

/// Latencies of operations that begin at set times, whether the ones before are answered or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtRate {
    pub per_second: f64,
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// Work of one operation. What a store does is none for a layout that is in no store of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Rows asked for by key, pages and scans.
    pub reads: Option<f64>,
    pub rows_read: Option<f64>,
    pub cells_read: Option<f64>,
    pub bytes_read: Option<f64>,
    /// Cells that commits read to check their conditions, beside `cells_read`.
    pub checks: Option<f64>,
    pub commits: Option<f64>,
    pub cells_written: Option<f64>,
    /// In conditions too.
    pub bytes_written: Option<f64>,
    /// Writes of the log, each with a sync; commits of several clients share one.
    pub syncs: Option<f64>,
    /// Microseconds of CPU of this process, so of the store and of the clients.
    pub cpu_us: f64,
}

impl Work {
    pub fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let both = |one: Option<f64>, other: Option<f64>| Some(f(one?, other?));
        Self {
            reads: both(self.reads, other.reads),
            rows_read: both(self.rows_read, other.rows_read),
            cells_read: both(self.cells_read, other.cells_read),
            bytes_read: both(self.bytes_read, other.bytes_read),
            checks: both(self.checks, other.checks),
            commits: both(self.commits, other.commits),
            cells_written: both(self.cells_written, other.cells_written),
            bytes_written: both(self.bytes_written, other.bytes_written),
            syncs: both(self.syncs, other.syncs),
            cpu_us: f(self.cpu_us, other.cpu_us),
        }
    }
}

/// How evenly load falls on regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// Median over windows of a second: requests of the hottest region. Unlike a ratio, it compares layouts and remedies,
    /// which make different numbers of requests of the same load.
    pub hottest_per_second: f64,
    /// Median over windows of a second: requests of the hottest region divided by the mean of all.
    pub hottest_over_mean: f64,
    /// What that is by chance alone, when each request falls on a random region.
    pub floor: f64,
    /// [`hottest_over_mean`](Self::hottest_over_mean) of the worst window.
    pub worst: f64,
    /// Mean over windows: 0 is even, (regions - 1) / regions is all in one.
    pub gini: f64,
    pub hottest_share: f64,
    pub idle_regions: usize,
    /// Achieved load divided by the offered one, when each region has a token bucket of twice its fair share of this very load.
    pub achieved: f64,
    /// Requests by window, then by region.
    pub heat: Vec<Vec<u32>>,
}

/// The spread of a table under one load, with or without a remedy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HotSpot {
    /// As `one tree imported`, `64 users import`, `reads, Zipf 0.99`.
    pub load: String,
    pub layout: String,
    /// `all tables`: whole requests, by the servers that hold the regions of all tables.
    pub table: String,
    /// `none`, or as `salt 16`, `hash`, `reverse`.
    pub remedy: String,
    /// `even`, `at quantiles`, or `growing`: one region at first, which splits when it is full.
    pub splits: String,
    pub spread: Spread,
    /// Of the remedy, as `a scan is 16 reads`.
    pub cost: Option<String>,
    /// Files imported, or reads, a second.
    pub rate: f64,
    /// Row keys or ranges that a reader of this very table asks for to get one row, to list one folder, and to scan one
    /// range of keys, as a period; none where the table answers no such question, or is read whole for it.
    pub get: Option<u32>,
    pub list: Option<u32>,
    pub scan: Option<u32>,
}

/// What a layout costs beside what it gives; none where it could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    pub files: u64,
    /// Files that could not be stored, since the layout has no room for two of one name.
    pub refused: u64,
    pub load_seconds: f64,
    pub load_cpu_seconds: f64,
    pub disk_bytes_per_file: f64,
    pub cells_per_file: Option<f64>,
    /// Bytes handed to the device divided by bytes of keys and values handed to the store.
    pub write_amplification: Option<f64>,
    pub index_and_filter_bytes: Option<u64>,
    pub open_ms: Option<f64>,
    pub table_bytes: BTreeMap<String, u64>,
    pub rename_ms: Option<f64>,
    pub rename_files: u64,
}

/// A load over HTTP, and a line of the comparison with what the machine can do, as `limits.py` prints them. It names
/// the members, and `tables.md` says which of them a table has.
pub type HttpRun = Map<String, Value>;
pub type Limit = HttpRun;
