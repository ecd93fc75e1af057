//! The server under load, and how close the drive is to what its machine can do. In the order of reading:
//!
//! - [`http`]: load on any server, by requests of [`mixes`] for the files of [`dataset`]; [`generator`] sends them on
//!   connections of [`client`]
//! - [`limits`]: each operation beside what the machine can do, measured on the server of [`process`], which has
//!   [`loops`] without HTTP
//! - [`large_folder`]: the move of a folder of very many files, beside the same rows in a plain RocksDB
//!   ([`raw_rocksdb`])

mod client;
mod dataset;
mod generator;
pub mod http;
mod large_folder;
pub mod limits;
mod loops;
mod mixes;
pub mod process;
mod raw_rocksdb;
#[cfg(test)]
mod test_server;

use std::collections::BTreeMap;

/// A load over HTTP.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
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
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
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
