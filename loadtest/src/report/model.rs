//! What a run found, as `report.json` holds it. Members are added, never renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Regions that each table is cut into, wherever load on regions is simulated.
pub const REGIONS: usize = 16;

/// The tables of a layout together, where a spread is of one table otherwise: their regions on the same servers.
pub const ALL_TABLES: &str = "all tables";

/// Everything that a run found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub meta: Meta,
    /// By layout, then by operation.
    pub layouts: BTreeMap<String, BTreeMap<String, Measured>>,
    /// By layout, then by table: where the writes of one import fall, among 16 regions that
    /// are split at the quantiles of their own keys.
    pub regions: BTreeMap<String, BTreeMap<String, Spread>>,
    /// The same under other loads, and with remedies.
    pub hot_spots: Vec<HotSpot>,
    /// By layout.
    pub costs: BTreeMap<String, Costs>,
    pub http: Vec<HttpRun>,
    pub limits: Vec<Limit>,
}

/// Which run this was.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Version of this program.
    pub version: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    pub seconds: f64,
    /// False if it was interrupted or failed: the report holds what was measured until then.
    pub complete: bool,
    /// Why it is not complete, and whatever else a reader must know.
    pub notes: Vec<String>,
    pub seed: u64,
    /// Files in the tree.
    pub files: u64,
    pub directories: u64,
    /// Clients of the loops of many clients.
    pub clients: usize,
    /// Rounds over all layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    pub quick: bool,
    /// How it was measured, by name: bytes of memory for a store, milliseconds of a loop, and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    pub machine: Machine,
    /// Versions of what was measured, by name.
    pub versions: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub system: String,
    pub file_system: String,
}

/// An operation of a layout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Measured {
    Figures(Box<Figures>),
    /// Why the layout cannot do it.
    Unsupported {
        unsupported: String,
    },
}

/// What all rounds of an operation have found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The median of `rounds`.
    pub per_second: f64,
    /// Latencies of all rounds together.
    pub p50_us: u64,
    pub p99_us: u64,
    /// Operations that were done, in all rounds together.
    pub count: u64,
    /// Clients at a time: each sends its next request when the last one is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    /// Operations a second in each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
    /// What one operation makes the store and this process do, on average; none where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The same operation with one client; none if `clients` is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_client: Option<Box<Figures>>,
    /// Latencies at a set rate, the same for all layouts that were measured at it; none for a layout that is too slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rate: Option<AtRate>,
    /// Latency in microseconds by percentile, ascending: a curve.
    #[serde(default)]
    pub curve: Vec<(f64, u64)>,
    /// What a reader must know of these figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Latencies of operations that begin at set times, whether the ones before are answered or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtRate {
    pub per_second: f64,
    pub count: u64,
    /// From the set time, in microseconds.
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
    /// Of qualifiers and values.
    pub bytes_read: Option<f64>,
    /// Cells that commits read to check their conditions, beside `cells_read`.
    #[serde(default)]
    pub checks: Option<f64>,
    pub commits: Option<f64>,
    pub cells_written: Option<f64>,
    /// Of keys, qualifiers and values, in conditions too.
    pub bytes_written: Option<f64>,
    /// Writes of the log, each with a sync; commits of several clients share one.
    pub syncs: Option<f64>,
    /// Microseconds of CPU: of this process, so of the store and of the clients, and of the processes of a database
    /// server.
    pub cpu_us: f64,
}

impl Work {
    /// Member by member; none where one of the two has none.
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

impl Figures {
    /// The slowest and the fastest round.
    pub fn range(&self) -> Option<(f64, f64)> {
        let least = self.rounds.iter().copied().reduce(f64::min)?;
        Some((least, self.rounds.iter().copied().reduce(f64::max)?))
    }
}

/// How evenly load falls on regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// Median over windows of a second: requests of the hottest region through the mean of all.
    pub hottest_over_mean: f64,
    /// What that is by chance alone, when each request falls on any region: no layout does better.
    pub floor: f64,
    /// The same in the worst window.
    pub worst: f64,
    /// Mean over windows: 0 is even, (regions - 1) / regions is all in one.
    pub gini: f64,
    /// The same over all requests of the run together.
    pub hottest_share: f64,
    /// Regions that had no request at all.
    pub idle_regions: usize,
    /// Achieved through offered load, when each region has a token bucket of twice its fair share.
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
    /// What the remedy costs, as `a scan reads 16 ranges`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Requests a second, on average.
    pub rate: f64,
    /// Row keys or ranges that a reader of this very table asks for to get one row, to list one folder, and to scan one
    /// range of keys, as a period; none where the table answers no such question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<u32>,
}

/// What a layout costs beside what it gives; nothing where it could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    pub files: u64,
    /// Files that could not be stored, since the layout has no room for two of one name.
    pub refused: u64,
    pub load_seconds: f64,
    pub load_cpu_seconds: f64,
    /// Tables, indexes and all, compacted.
    pub disk_bytes_per_file: f64,
    /// Keys of the store for each file; none where there is no such thing.
    pub cells_per_file: Option<f64>,
    /// Bytes handed to the device through bytes of keys and values handed to the store.
    pub write_amplification: Option<f64>,
    /// Blocks of index and filter, for all files.
    pub index_and_filter_bytes: Option<u64>,
    /// Milliseconds to open the store and what it holds.
    pub open_ms: Option<f64>,
    /// By table.
    pub table_bytes: BTreeMap<String, u64>,
    /// Milliseconds for the rename of a folder of `rename_files`.
    pub rename_ms: Option<f64>,
    pub rename_files: u64,
}

/// A load over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpRun {
    /// As `stat`, `upload small`, `mixed`.
    pub mix: String,
    /// Of the peak: 1 for the closed loop that finds it, 0.25 ... 0.9 for the open loops.
    pub of_peak: f64,
    pub open_loop: bool,
    pub connections: usize,
    pub offered_per_second: f64,
    pub per_second: f64,
    pub bytes_per_second: f64,
    pub errors: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    /// Latency from the intended time of sending, in microseconds by percentile.
    pub curve: Vec<(f64, u64)>,
    /// The generator had no time left: these are its own limits, not the server's.
    pub generator_bound: bool,
    /// Answered with 2xx within `seconds`: `per_second` is of these.
    pub requests: u64,
    pub seconds: f64,
    /// `errors` by kind, as `status 503`, `connection broken`, `not sent`.
    pub failures: BTreeMap<String, u64>,
    /// How often the server closed a connection between two requests.
    pub reopened: u64,
    /// Share of its time that the busiest thread of the generator computed.
    pub generator_cpu_share: f64,
    /// And that it waited for a core, since others had them all; nothing where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_wait_share: Option<f64>,
    /// It was cut short.
    pub interrupted: bool,
}

/// One line of the comparison with what the machine can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    pub operation: String,
    /// As `requests/s`, `MiB/s`, `ms`.
    pub unit: String,
    pub ours: f64,
    /// What it is compared with.
    pub limit: f64,
    /// As `composed: static handler and store call`.
    pub limit_is: String,
    /// Median over rounds of ours through the limit.
    pub ratio: f64,
    /// As `>= 0.85`.
    pub goal: String,
    pub met: bool,
    /// Each raw limit, by name.
    pub raw: BTreeMap<String, f64>,
    /// Commits per sync, system calls per request, resident bytes, and the like, by name.
    pub also: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// A flame graph of where the time goes, if the goal is missed: a file beside the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}
