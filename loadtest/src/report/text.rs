//! The report for a terminal: tables that can be pasted into Markdown.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use super::model::{Limit, Measured, Report, Spread};
use super::numbers::{bytes, figure, grouped, maybe, percent};
use super::order;
use super::phrases::{clients, facts, loop_of, partial, range, renamed};
use super::ratios::{self, Ratio};

/// All parts that were measured, each under a line that says what it is. Hot spots are counted only: they are many, and
/// in the page and the CSV.
pub fn render(report: &Report) -> String {
    let parts = [
        headline(report),
        layouts(report),
        ratios(report),
        regions(report),
        costs(report),
        http(report),
        limits(report),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn headline(report: &Report) -> String {
    let facts = facts(&report.meta).into_iter().map(|(name, value)| format!("{name}: {value}"));
    let notes = report.meta.notes.iter().filter(|_| report.meta.complete).map(|note| format!("note: {note}"));
    let partial = partial(&report.meta).map(|why| format!("PARTIAL: {why}"));
    partial.into_iter().chain(facts).chain(notes).collect::<Vec<_>>().join("\n")
}

/// A table under its title; numbers stand to the right, what comes before `numbers_from` to the left. Nothing without
/// rows.
fn titled(title: &str, header: &[&str], numbers_from: usize, rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(numbers_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{title}\n\n{table}")
}

fn layouts(report: &Report) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for operation in order::operations(report) {
        for (at, (layout, measured)) in order::by_layout(report, operation).enumerate() {
            let mut row = vec![if at == 0 { operation.to_owned() } else { String::new() }, layout.to_owned()];
            match measured {
                Measured::Figures(figures) => {
                    let note = figures.note.as_deref().map(|note| format!(" [{}]", numbered(&mut reasons, note)));
                    row.push(clients(figures));
                    row.push(format!("{}{}", figure(figures.per_second), note.unwrap_or_default()));
                    row.push(range(figures));
                    row.extend([figures.p50_us, figures.p99_us, figures.count].map(grouped));
                    row.push(figures.one_client.as_ref().map_or_else(|| "-".to_owned(), |one| grouped(one.p50_us)));
                }
                Measured::Unsupported { unsupported } => {
                    row.extend(["-".to_owned(), format!("- [{}]", numbered(&mut reasons, unsupported))]);
                    row.extend(std::iter::repeat_n("-".to_owned(), 5));
                }
            }
            rows.push(row);
        }
    }
    let header =
        ["operation", "layout", "clients", "per second", "range", "p50 us", "p99 us", "count", "one client, p50 us"];
    let table = titled("Operations per second, and latency in microseconds", &header, 2, rows);
    let reasons = reasons.iter().enumerate().map(|(at, reason)| format!("\n[{}] {reason}", at + 1));
    std::iter::once(table).chain(reasons).collect()
}

/// How much faster each layout is than the one that all are compared with.
fn ratios(report: &Report) -> String {
    let row = |(operation, all): (&str, Vec<Option<Ratio>>)| {
        let ratios = all.iter().map(|ratio| ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.text()));
        std::iter::once(operation.to_owned()).chain(ratios).collect()
    };
    let header: Vec<&str> = std::iter::once("operation").chain(ratios::layouts(report)).collect();
    let title = format!(
        "Operations per second divided by those of {}, round by round: median (lowest to highest); ? not clear, * one client",
        ratios::REFERENCE,
    );
    titled(&title, &header, 1, ratios::rows(report).into_iter().map(row).collect())
}

/// The number of a reason, from 1; the same reason keeps its number.
fn numbered<'a>(reasons: &mut Vec<&'a str>, reason: &'a str) -> usize {
    let known = reasons.iter().position(|known| *known == reason);
    let at = known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    at + 1
}

fn regions(report: &Report) -> String {
    let row = |layout: &str, table: &str, spread: &Spread| {
        vec![
            layout.to_owned(),
            table.to_owned(),
            figure(spread.hottest_over_mean),
            figure(spread.floor),
            figure(spread.gini),
            percent(spread.hottest_share),
            spread.idle_regions.to_string(),
            percent(spread.achieved),
        ]
    };
    let all =
        report.regions.iter().flat_map(|(layout, tables)| tables.iter().map(move |(table, s)| (layout, table, s)));
    let rows = all.map(|(layout, table, spread)| row(layout, table, spread)).collect();
    let header = ["layout", "table", "hottest / mean", "by chance", "Gini", "hottest's share", "idle", "load achieved"];
    let title =
        "Where the writes of one import fall among 16 regions split at the quantiles of their keys (1 and 0 are even)";
    let table = titled(title, &header, 2, rows);
    match report.hot_spots.len() {
        0 => table,
        spots => format!("{table}\n\nOther loads, and remedies: {spots} rows in hot_spots.csv and report.html.")
            .trim()
            .into(),
    }
}

fn costs(report: &Report) -> String {
    let rows = report.costs.iter().map(|(layout, costs)| {
        vec![
            layout.clone(),
            grouped(costs.refused),
            maybe(costs.cells_per_file),
            figure(costs.disk_bytes_per_file),
            maybe(costs.write_amplification),
            costs.index_and_filter_bytes.map_or_else(|| "-".to_owned(), |all| bytes(all as f64)),
            figure(costs.load_seconds),
            figure(costs.load_cpu_seconds),
            maybe(costs.open_ms),
            renamed(costs),
        ]
    });
    let header = [
        "layout",
        "refused",
        "keys / file",
        "bytes / file",
        "write amp.",
        "index, filters",
        "load s",
        "load CPU s",
        "open ms",
        "rename of a folder",
    ];
    titled("What the same tree costs in each layout", &header, 1, rows.collect())
}

fn http(report: &Report) -> String {
    let rows = report.http.iter().map(|run| {
        let bound = if run.generator_bound { " (generator at its limit)" } else { "" };
        vec![
            run.mix.clone(),
            format!("{}{bound}", loop_of(run)),
            figure(run.offered_per_second),
            figure(run.per_second),
            format!("{}/s", bytes(run.bytes_per_second)),
            grouped(run.p50_us),
            grouped(run.p99_us),
            grouped(run.errors),
        ]
    });
    let header = ["mix", "loop", "offered / s", "done / s", "bytes", "p50 us", "p99 us", "errors"];
    titled("HTTP, latency in microseconds from the intended time of sending", &header, 2, rows.collect())
}

fn limits(report: &Report) -> String {
    let row = |limit: &Limit| {
        vec![
            limit.operation.clone(),
            limit.unit.clone(),
            figure(limit.ours),
            figure(limit.limit),
            figure(limit.ratio),
            limit.goal.clone(),
            if limit.met { "met" } else { "MISSED" }.to_owned(),
        ]
    };
    let header = ["operation", "unit", "ours", "limit", "ratio", "goal", ""];
    titled("Ours beside what the machine can do", &header, 2, report.limits.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn unsupported_operations_are_dashes_with_a_reason_below() {
        let text = render(&samples::full());
        let row = text.lines().find(|line| line.starts_with("| period")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "period", "fullpath", "-", "- [1]", "-", "-", "-", "-", "-", ""]);
        assert!(text.contains("\n[1] no order by time"), "{text}");
    }

    #[test]
    fn the_same_reason_keeps_its_number() {
        let mut reasons = Vec::new();
        assert_eq!(["a", "b", "a"].map(|reason| numbered(&mut reasons, reason)), [1, 2, 1]);
        assert_eq!(reasons, ["a", "b"]);
    }

    #[test]
    fn every_part_has_its_numbers() {
        let text = render(&samples::full());
        for expected in [
            "|     41,235 | 37,111 to 45,358 |",
            "0.79? (0.79 to 1.09)",
            "1.05 | 0.94",
            "open, 25 %",
            "MISSED",
            "1 rows in",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert!(!text.contains("PARTIAL"));
    }

    #[test]
    fn an_empty_report_says_that_it_is_partial_and_no_more() {
        let text = render(&Report::default());
        assert!(text.starts_with("PARTIAL: the run did not end\n"), "{text}");
        assert!(!text.contains('|'), "{text}");
        render(&samples::not_numbers());
    }
}
