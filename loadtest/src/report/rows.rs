//! The report as CSV, a file per part; what has no end of columns, as the curves and the maps, is in the JSON only.

use anyhow::Context;
use serde::Serialize;

use super::model::{Limit, Measured, Report, Spread};
use super::order;
use super::ratios;

/// All files by name; each has its header even if it has no row.
pub fn all(report: &Report) -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    Ok(vec![
        ("layouts.csv", csv(LAYOUTS, layouts(report))?),
        ("work.csv", csv(WORK, work(report))?),
        ("ratios.csv", csv(RATIOS, ratios(report))?),
        ("regions.csv", csv(REGIONS, regions(report))?),
        ("hot_spots.csv", csv(HOT_SPOTS, hot_spots(report))?),
        ("costs.csv", csv(COSTS, costs(report))?),
        ("table_bytes.csv", csv(TABLE_BYTES, table_bytes(report))?),
        ("http.csv", csv(HTTP, http(report))?),
        ("limits.csv", csv(LIMITS, report.limits.iter().map(limit))?),
    ])
}

fn csv(header: &[&str], rows: impl Iterator<Item = impl Serialize>) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(header)?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().context("cannot write the report as CSV")
}

const LAYOUTS: &[&str] = &[
    "layout",
    "operation",
    "per_second",
    "p50_us",
    "p99_us",
    "count",
    "note",
    "unsupported",
    "clients",
    "rounds",
    "lowest_per_second",
    "highest_per_second",
    "one_client_per_second",
    "one_client_p50_us",
];

fn layouts(report: &Report) -> impl Iterator<Item = impl Serialize> {
    let all = report.layouts.iter().flat_map(|(layout, all)| all.iter().map(move |(name, was)| (layout, name, was)));
    all.map(|(layout, operation, measured)| match measured {
        Measured::Figures(f) => {
            let numbers = (Some(f.per_second), Some(f.p50_us), Some(f.p99_us), Some(f.count));
            let (lowest, highest) = f.range().unzip();
            let one = f.one_client.as_ref().map(|one| (one.per_second, one.p50_us)).unzip();
            (
                layout,
                operation,
                numbers,
                f.note.as_deref(),
                None,
                (f.clients, Some(f.rounds.len()), lowest, highest),
                one,
            )
        }
        Measured::Unsupported { unsupported } => {
            let none = (None, None, None, None);
            (layout, operation, none, None, Some(unsupported.as_str()), (None, None, None, None), (None, None))
        }
    })
}

/// The columns of [`spread`].
type Evenness = (f64, f64, f64, f64, usize, f64);

fn spread(spread: &Spread) -> Evenness {
    let Spread { hottest_over_mean, floor, gini, hottest_share, idle_regions, achieved, .. } = *spread;
    (hottest_over_mean, floor, gini, hottest_share, idle_regions, achieved)
}

const REGIONS: &[&str] =
    &["layout", "table", "hottest_over_mean", "floor", "gini", "hottest_share", "idle_regions", "achieved"];

fn regions(report: &Report) -> impl Iterator<Item = impl Serialize> {
    report.regions.iter().flat_map(|(layout, tables)| tables.iter().map(move |(table, s)| (layout, table, spread(s))))
}

const HOT_SPOTS: &[&str] = &[
    "load",
    "layout",
    "table",
    "remedy",
    "splits",
    "hottest_over_mean",
    "floor",
    "gini",
    "hottest_share",
    "idle_regions",
    "achieved",
    "cost",
];

fn hot_spots(report: &Report) -> impl Iterator<Item = impl Serialize> {
    report.hot_spots.iter().map(|spot| {
        let what = (&spot.load, &spot.layout, &spot.table, &spot.remedy, &spot.splits);
        (what, spread(&spot.spread), spot.cost.as_deref())
    })
}

const WORK: &[&str] = &[
    "layout",
    "operation",
    "reads",
    "rows_read",
    "cells_read",
    "bytes_read",
    "commits",
    "cells_written",
    "bytes_written",
    "syncs",
    "cpu_us",
];

fn work(report: &Report) -> impl Iterator<Item = impl Serialize> {
    order::work(report).map(|(operation, layout, w)| {
        let reads = (w.reads, w.rows_read, w.cells_read, w.bytes_read);
        (layout, operation, reads, (w.commits, w.cells_written, w.bytes_written, w.syncs), w.cpu_us)
    })
}

const RATIOS: &[&str] =
    &["operation", "layout", "reference", "clients", "median", "lowest", "highest", "rounds", "clear"];

fn ratios(report: &Report) -> impl Iterator<Item = impl Serialize> {
    let layouts = ratios::layouts(report);
    ratios::rows(report).into_iter().flat_map(move |(operation, all)| {
        let rows = layouts.clone().into_iter().zip(all).filter_map(move |(layout, ratio)| {
            let ratio = ratio?;
            let range = (ratio.clients, ratio.median, ratio.lowest, ratio.highest, ratio.rounds);
            Some((operation, layout, ratios::REFERENCE, range, ratio.is_clear()))
        });
        rows.collect::<Vec<_>>()
    })
}

const COSTS: &[&str] = &[
    "layout",
    "files",
    "refused",
    "load_seconds",
    "load_cpu_seconds",
    "disk_bytes_per_file",
    "cells_per_file",
    "write_amplification",
    "index_and_filter_bytes",
    "open_ms",
    "rename_ms",
    "rename_files",
];

fn costs(report: &Report) -> impl Iterator<Item = impl Serialize> {
    report.costs.iter().map(|(layout, c)| {
        let load = (c.files, c.refused, c.load_seconds, c.load_cpu_seconds);
        let size = (c.disk_bytes_per_file, c.cells_per_file, c.write_amplification, c.index_and_filter_bytes);
        (layout, load, size, c.open_ms, c.rename_ms, c.rename_files)
    })
}

const TABLE_BYTES: &[&str] = &["layout", "table", "bytes"];

fn table_bytes(report: &Report) -> impl Iterator<Item = impl Serialize> {
    report.costs.iter().flat_map(|(layout, c)| c.table_bytes.iter().map(move |(table, bytes)| (layout, table, bytes)))
}

const HTTP: &[&str] = &[
    "mix",
    "of_peak",
    "open_loop",
    "connections",
    "offered_per_second",
    "per_second",
    "bytes_per_second",
    "errors",
    "p50_us",
    "p99_us",
    "generator_bound",
];

fn http(report: &Report) -> impl Iterator<Item = impl Serialize> {
    report.http.iter().map(|run| {
        let load = (&run.mix, run.of_peak, run.open_loop, run.connections);
        let rates = (run.offered_per_second, run.per_second, run.bytes_per_second, run.errors);
        (load, rates, run.p50_us, run.p99_us, run.generator_bound)
    })
}

const LIMITS: &[&str] = &["operation", "unit", "ours", "limit", "limit_is", "ratio", "goal", "met", "note", "profile"];

fn limit(limit: &Limit) -> impl Serialize {
    let ours = (&limit.operation, &limit.unit, limit.ours, limit.limit, &limit.limit_is);
    (ours, limit.ratio, &limit.goal, limit.met, limit.note.as_deref(), limit.profile.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn file(report: &Report, name: &str) -> String {
        let content = all(report).unwrap().into_iter().find(|(file, _)| *file == name).unwrap().1;
        String::from_utf8(content).unwrap()
    }

    #[test]
    fn an_operation_is_a_row_and_so_is_one_that_is_not_supported() {
        let text = file(&samples::full(), "layouts.csv");
        assert!(
            text.starts_with("layout,operation,per_second,p50_us,p99_us,count,note,unsupported,clients,"),
            "{text}"
        );
        assert!(
            text.contains("uuid,stat,41234.5,80,1240,1000,,,64,3,37111.05,45357.950000000004,41234.5,80\n"),
            "{text}"
        );
        assert!(text.contains("fullpath,period,,,,,,\"no order by time, <script>\",,,,,,\n"), "{text}");
    }

    #[test]
    fn every_row_has_as_many_fields_as_its_header() {
        for report in [samples::full(), Report::default()] {
            for (name, content) in all(&report).unwrap() {
                // A reader that is not flexible refuses a row of another length.
                let mut reader = csv::Reader::from_reader(content.as_slice());
                let rows = reader.records().collect::<Result<Vec<_>, _>>();
                assert!(rows.is_ok(), "{name}: {rows:?}");
                assert_eq!(rows.unwrap().is_empty(), report.layouts.is_empty(), "{name}");
            }
        }
    }
}
