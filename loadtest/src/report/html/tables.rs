//! The tables of the page.

use std::collections::BTreeSet;

use maud::{Markup, html};

use self::Column::{Number, Text};
use crate::report::model::{Costs, HttpRun, Limit, Measured, Report, Spread};
use crate::report::numbers::{bytes, figure, grouped, maybe, percent};
use crate::report::order;
use crate::report::phrases::{clients, loop_of, range, renamed};
use crate::report::ratios;

/// A column's header.
#[derive(Clone, Copy)]
enum Column<'a> {
    Text(&'a str),
    /// Stands to the right, as its numbers do.
    Number(&'a str),
}

/// A table that scrolls by itself where the page is narrow.
fn table(caption: &str, header: &[Column<'_>], rows: &Markup) -> Markup {
    html! {
        p.caption { (caption) }
        div.table tabindex="0" role="region" aria-label=(caption) {
            table {
                thead {
                    tr {
                        @for column in header {
                            @match column {
                                Text(name) => th scope="col" { (name) },
                                Number(name) => th.number scope="col" { (name) },
                            }
                        }
                    }
                }
                (rows)
            }
        }
    }
}

fn number(text: &str) -> Markup {
    html! { td.number { (text) } }
}

/// The first cell of `rows` rows that belong together, in the first of them.
fn group(name: &str, at: usize, rows: usize) -> Markup {
    html! { @if at == 0 { th scope="rowgroup" rowspan=(rows) { (name) } } }
}

pub fn operations(report: &Report) -> Markup {
    let rows = html! {
        @for operation in order::operations(report) {
            @let layouts: Vec<_> = order::by_layout(report, operation).collect();
            tbody { @for (at, (layout, measured)) in layouts.iter().enumerate() {
                tr {
                    (group(operation, at, layouts.len()))
                    td { (layout) }
                    @match measured {
                        Measured::Figures(figures) => {
                            (number(&clients(figures)))
                            (number(&figure(figures.per_second)))
                            (number(&range(figures)))
                            (number(&grouped(figures.p50_us)))
                            (number(&grouped(figures.p99_us)))
                            (number(&grouped(figures.count)))
                            (number(&figures.one_client.as_ref().map_or_else(|| "-".to_owned(), |one| grouped(one.p50_us))))
                            td.long { @if let Some(note) = &figures.note { (note) } }
                        }
                        Measured::Unsupported { unsupported } => {
                            @for _ in 0..7 { (number("-")) }
                            td.long { "not supported: " (unsupported) }
                        }
                    }
                }
            } }
        }
    };
    let header = [
        Text("operation"),
        Text("layout"),
        Number("clients"),
        Number("per second"),
        Number("slowest to fastest round"),
        Number("p50 µs"),
        Number("p99 µs"),
        Number("count"),
        Number("one client, p50 µs"),
        Text("notes"),
    ];
    table("Operations per second, and latency in microseconds", &header, &rows)
}

/// How much faster each layout is than the one that all are compared with; nothing if that was not measured.
pub fn ratios(report: &Report) -> Markup {
    let compared = ratios::rows(report);
    if compared.is_empty() {
        return Markup::default();
    }
    let layouts = ratios::layouts(report).into_iter().map(Number);
    let header: Vec<Column<'_>> = std::iter::once(Text("operation")).chain(layouts).collect();
    let rows = html! {
        tbody { @for (operation, all) in compared {
            tr {
                th scope="row" { (operation) }
                @for ratio in all { (number(&ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.text()))) }
            }
        } }
    };
    let caption =
        format!("Operations per second divided by those of {}: median (lowest to highest)", ratios::REFERENCE);
    html! {
        (table(&caption, &header, &rows))
        p.soft {
            "Each round is compared with the same round of " (ratios::REFERENCE) ". ?: this run does not show which of "
            "the two is faster, since not all rounds had the same one faster, or there were fewer than five. *: the "
            "layout was measured with one client alone, and is compared with one client."
        }
    }
}

/// What an operation makes the store do; nothing if that was not counted.
pub fn work(report: &Report) -> Markup {
    let all: Vec<_> = order::work(report).collect();
    if all.is_empty() {
        return Markup::default();
    }
    let rows = html! {
        @for layouts in all.chunk_by(|one, next| one.0 == next.0) {
            tbody { @for (at, (operation, layout, work)) in layouts.iter().enumerate() {
                tr {
                    (group(operation, at, layouts.len()))
                    td { (layout) }
                    (number(&maybe(work.reads)))
                    (number(&maybe(work.rows_read)))
                    (number(&maybe(work.cells_read)))
                    (number(&maybe(work.bytes_read)))
                    (number(&maybe(work.commits)))
                    (number(&maybe(work.cells_written)))
                    (number(&maybe(work.bytes_written)))
                    (number(&maybe(work.syncs)))
                    (number(&figure(work.cpu_us)))
                }
            } }
        }
    };
    let header = [
        Text("operation"),
        Text("layout"),
        Number("reads"),
        Number("rows"),
        Number("cells"),
        Number("bytes"),
        Number("commits"),
        Number("cells written"),
        Number("bytes written"),
        Number("syncs"),
        Number("CPU µs"),
    ];
    html! {
        (table("What one operation makes the store do", &header, &rows))
        p.soft {
            "A read is a row by its key, a page of a row or a scan; what a commit reads for its checks is not counted. "
            "Bytes read are those of qualifiers and values, bytes written also those of keys and conditions. What a "
            "layout removes after its answer is counted too. All this is with one client, which shares no sync. CPU is "
            "with many clients, where there was such a loop; it is that of this process, so it has the clients' part, "
            "and not that of a database server."
        }
    }
}

/// Columns of what [`spread`] tells.
const SPREAD: [Column<'_>; 6] = [
    Number("hottest / mean"),
    Number("by chance"),
    Number("Gini"),
    Number("hottest's share"),
    Number("idle regions"),
    Number("load achieved"),
];

fn spread(spread: &Spread) -> Markup {
    html! {
        (number(&figure(spread.hottest_over_mean)))
        (number(&figure(spread.floor)))
        (number(&figure(spread.gini)))
        (number(&percent(spread.hottest_share)))
        (number(&spread.idle_regions.to_string()))
        (number(&percent(spread.achieved)))
    }
}

pub fn regions(report: &Report) -> Markup {
    let rows = html! {
        @for (layout, tables) in &report.regions {
            tbody {
                @for (at, (table, of)) in tables.iter().enumerate() {
                    tr { (group(layout, at, tables.len())) td { (table) } (spread(of)) }
                }
            }
        }
    };
    let header = [&[Text("layout"), Text("table")][..], &SPREAD].concat();
    html! {
        @if !report.regions.is_empty() {
            (table("One import over regions split at the quantiles of their keys; 1 and 0 are even", &header, &rows))
            p.soft {
                "Load achieved: the part of the offered load that gets through if each region can do twice its fair share."
            }
        }
    }
}

pub fn hot_spots(report: &Report) -> Markup {
    if report.hot_spots.is_empty() {
        return Markup::default();
    }
    let loads = report.hot_spots.chunk_by(|one, next| one.load == next.load);
    let rows = html! {
        @for load in loads {
            tbody { @for (at, spot) in load.iter().enumerate() {
                tr {
                    (group(&spot.load, at, load.len()))
                    td { (spot.layout) ": " (spot.table) }
                    td { (spot.remedy) }
                    td { (spot.splits) }
                    (spread(&spot.spread))
                }
            } }
        }
    };
    let header = [&[Text("load"), Text("table"), Text("remedy"), Text("splits")][..], &SPREAD].concat();
    html! {
        h3 { "Hot spots and remedies" }
        (remedies(report))
        (table("The same under other loads, without and with remedies", &header, &rows))
    }
}

/// What remedies cost, each once.
fn remedies(report: &Report) -> Markup {
    let costs: BTreeSet<(&str, &str)> =
        report.hot_spots.iter().filter_map(|spot| Some((spot.remedy.as_str(), spot.cost.as_deref()?))).collect();
    let rows =
        html! { tbody { @for (remedy, cost) in costs { tr { th scope="row" { (remedy) } td.long { (cost) } } } } };
    table("What a remedy costs those who read", &[Text("remedy"), Text("cost")], &rows)
}

pub fn costs(report: &Report) -> Markup {
    let row = |layout: &str, costs: &Costs| {
        html! {
            tr {
                th scope="row" { (layout) }
                (number(&grouped(costs.files)))
                (number(&grouped(costs.refused)))
                (number(&maybe(costs.cells_per_file)))
                (number(&figure(costs.disk_bytes_per_file)))
                (number(&costs.index_and_filter_bytes.map_or_else(|| "-".to_owned(), |all| bytes(all as f64))))
                (number(&maybe(costs.write_amplification)))
                (number(&figure(costs.load_seconds)))
                (number(&figure(costs.load_cpu_seconds)))
                (number(&maybe(costs.open_ms)))
                (number(&renamed(costs)))
            }
        }
    };
    let rows = html! { tbody { @for (layout, costs) in &report.costs { (row(layout, costs)) } } };
    let header = [
        Text("layout"),
        Number("files"),
        Number("refused"),
        Number("keys / file"),
        Number("bytes / file"),
        Number("index and filters"),
        Number("write amplification"),
        Number("load s"),
        Number("load CPU s"),
        Number("open ms"),
        Number("rename of a folder"),
    ];
    table("What the same tree costs in each layout", &header, &rows)
}

pub fn http(report: &Report) -> Markup {
    let row = |run: &HttpRun, at: usize, of: usize| {
        html! {
            tr {
                (group(&run.mix, at, of))
                td { (loop_of(run)) }
                (number(&run.connections.to_string()))
                (number(&figure(run.offered_per_second)))
                (number(&figure(run.per_second)))
                (number(&format!("{}/s", bytes(run.bytes_per_second))))
                (number(&grouped(run.p50_us)))
                (number(&grouped(run.p99_us)))
                (number(&grouped(run.errors)))
                td.long { @if run.generator_bound { "generator at its limit" } }
            }
        }
    };
    let rows = html! {
        @for mix in report.http.chunk_by(|a, b| a.mix == b.mix) {
            tbody { @for (at, run) in mix.iter().enumerate() { (row(run, at, mix.len())) } }
        }
    };
    let header = [
        Text("mix"),
        Text("loop"),
        Number("connections"),
        Number("offered / s"),
        Number("done / s"),
        Number("bytes"),
        Number("p50 µs"),
        Number("p99 µs"),
        Number("errors"),
        Text("notes"),
    ];
    table("Requests over HTTP, and latency in microseconds", &header, &rows)
}

pub fn limits(report: &Report) -> Markup {
    let row = |limit: &Limit| {
        html! {
            tr {
                th scope="row" { (limit.operation) }
                (number(&figure(limit.ours)))
                (number(&figure(limit.limit)))
                td { (limit.unit) }
                (number(&figure(limit.ratio)))
                td.number { (limit.goal) }
                td.missed[!limit.met] { @if limit.met { "✓ met" } @else { "✗ missed" } }
                td.long {
                    (limit.limit_is)
                    @for (name, value) in &limit.raw { br; span.soft { (name) ": " (figure(*value)) } }
                    @for (name, value) in &limit.also { br; (name) ": " (figure(*value)) }
                    @if let Some(note) = &limit.note { br; (note) }
                    @if let Some(profile) = &limit.profile { br; a href=(profile) { "where its time goes" } }
                }
            }
        }
    };
    let rows = html! { tbody { @for limit in &report.limits { (row(limit)) } } };
    let header = [
        Text("operation"),
        Number("ours"),
        Number("limit"),
        Text("unit"),
        Number("ratio"),
        Number("goal"),
        Text(""),
        Text("the limit, and more"),
    ];
    table("Ours beside the limit", &header, &rows)
}
