//! Metrics of the process itself, by the names that Prometheus' own clients use and dashboards know.
//!
//! By hand: prometheus-client has no process collector, and `metrics-process` is for the crate `metrics`. procfs reads
//! /proc; the five metrics are named here.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub fn register(registry: &mut Registry) {
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("rowdrive_build", "The program", version);
    registry.register_collector(Box::new(ProcessCollector));
}

#[derive(Debug)]
struct ProcessCollector;

/// Usage of this process, from /proc.
struct Usage {
    resident_bytes: u64,
    cpu_seconds: f64,
    open_files: usize,
    most_open_files: u64,
    started: u64,
}

impl Collector for ProcessCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A system without /proc has none of these metrics.
        let Some(usage) = usage() else { return Ok(()) };
        let mut out = GaugeEncoder(encoder);
        let cpu = ConstCounter::new(usage.cpu_seconds);
        cpu.encode(out.0.encode_descriptor("process_cpu_seconds", "Processor time", None, cpu.metric_type())?)?;
        out.gauge("process_resident_memory_bytes", "Memory in use", usage.resident_bytes as f64)?;
        out.gauge("process_open_fds", "Open files and sockets", usage.open_files as f64)?;
        out.gauge("process_max_fds", "Files and sockets it may open", usage.most_open_files as f64)?;
        out.gauge("process_start_time_seconds", "When it began, in unix seconds", usage.started as f64)
    }
}

struct GaugeEncoder<'a>(DescriptorEncoder<'a>);

impl GaugeEncoder<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}

#[cfg(target_os = "linux")]
fn usage() -> Option<Usage> {
    use procfs::process::{LimitValue, Process};
    use procfs::{CurrentSI, KernelStats};

    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let ticks = procfs::ticks_per_second();
    let most_open_files = match process.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(most) => most,
        LimitValue::Unlimited => u64::MAX,
    };
    Some(Usage {
        resident_bytes: stat.rss.saturating_mul(procfs::page_size()),
        cpu_seconds: (stat.utime + stat.stime) as f64 / ticks as f64,
        open_files: process.fd_count().ok()?,
        most_open_files,
        started: KernelStats::current().ok()?.btime + stat.starttime / ticks,
    })
}

#[cfg(not(target_os = "linux"))]
fn usage() -> Option<Usage> {
    None
}
