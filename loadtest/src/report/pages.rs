//! The two pages: row keys, and the limits of the server. Each section is a few tables, in the order of the page.

use maud::html;
use serde_json::{Value, json};

use super::hot_spots;
use super::model::{HttpRun, Meta, Report};
use super::numbers::percent;
use super::order::{self, REFERENCE};
use super::svg::{self, Line};
use super::table::{Page, Part, Table};
use super::{ratios, recommendations, rows};

/// Those of which any part was measured.
pub fn all(report: &Report) -> Vec<Page> {
    let partial = partial(&report.meta);
    let mut pages = Vec::new();
    if !order::layouts(report).is_empty() {
        let sections = keys(report);
        pages.push(Page { name: "report", title: "Row keys compared", partial: partial.clone(), sections });
    }
    if !report.limits.is_empty() || !report.http.is_empty() {
        let met = report.limits.iter().filter(|limit| limit.met).count();
        let met = Part::Text(format!("**{met} of {} goals are met.**", report.limits.len()));
        let sections = vec![
            ("goals", "Goals", vec![met, Part::Table(rows::goals(report))]),
            ("http", "Requests over HTTP", vec![Part::Table(rows::mixes(report)), plots(&report.http)]),
            ("run", "The run", vec![run(&report.meta), settings(&report.meta)]),
        ];
        pages.push(Page { name: "limits", title: "Limits of the server", partial, sections });
    }
    pages
}

/// Why the run is not whole; nothing if it is.
fn partial(meta: &Meta) -> Option<String> {
    let why = if meta.notes.is_empty() { "the run did not end".to_owned() } else { meta.notes.join("; ") };
    let rest = "What comes after that was not measured, or in fewer rounds.";
    (!meta.complete).then(|| format!("{why}. {rest}"))
}

fn keys(report: &Report) -> Vec<(&'static str, &'static str, Vec<Part>)> {
    let answers = recommendations::all(report).into_iter().map(Part::Text);
    let steps = Table::new("layouts", order::layouts(report).into_iter().map(order::step));
    let operations = Table::new("operations", order::operations(report).into_iter().map(order::meaning));
    let [to_reference, steps_before] = ratios::pairs(report);
    let caption = format!("To `{REFERENCE}`");
    let before = "Each step to the one before";
    let matrix = |id, caption: &str, pairs, many| Part::Table(ratios::matrix(report, id, caption, pairs, many));
    vec![
        ("answer", "Which key for whom", answers.chain([run(&report.meta)]).collect()),
        ("steps", "The steps of the worked example", vec![Part::Table(steps), Part::Table(operations)]),
        (
            "ratios",
            "Ratios, one factor at a time",
            vec![
                Part::Text(Table::new("ratios", []).note),
                matrix("to-reference", &caption, &to_reference, true),
                matrix("to-reference-alone", &caption, &to_reference, false),
                matrix("factors", before, &steps_before, true),
                matrix("factors-alone", before, &steps_before, false),
            ],
        ),
        ("rates", "Rates and latencies", vec![Part::Table(rows::rates(report))]),
        ("work", "Work of one operation", vec![Part::Table(rows::work(report))]),
        ("costs", "Costs", vec![Part::Table(rows::costs(report))]),
        ("hot-spots", "Hot spots", hot_spots::parts(report)),
        ("method", "How it was measured", vec![settings(&report.meta)]),
    ]
}

/// Which run this was.
fn run(meta: &Meta) -> Part {
    Part::Table(Table::new("run", members(&serde_json::to_value(meta).unwrap_or_default(), "")))
}

fn settings(meta: &Meta) -> Part {
    Part::Table(Table::new("settings", members(&json!(meta.settings), "")))
}

/// All members of an object, with those of its own objects.
fn members(object: &Value, of: &str) -> Vec<Value> {
    let row = |(name, value): (&String, &Value)| match value {
        Value::Object(_) => members(value, &format!("{name}: ")),
        Value::Array(list) => list.iter().map(|value| json!([{"name": name, "value": value}])).collect(),
        value => vec![json!([{"name": format!("{of}{}", name.replace('_', " ")), "value": value}])],
    };
    object.as_object().into_iter().flatten().flat_map(row).collect()
}

/// Only open loops have a latency that counts the wait for a busy server.
fn plots(runs: &[HttpRun]) -> Part {
    let open = || runs.iter().filter(|run| run.open_loop && run.offered_per_second > 0.0);
    let mut mixes: Vec<&str> = open().map(|run| run.mix.as_str()).collect();
    mixes.dedup();
    let by_load = |of: fn(&HttpRun) -> u64| {
        let points =
            |mix| open().filter(move |run| run.mix == mix).map(|run| (run.offered_per_second.log10(), of(run)));
        mixes.iter().map(|mix| Line { name: (*mix).into(), points: points(*mix).collect() }).collect::<Vec<_>>()
    };
    let by_percentile = |mix| {
        let line = |run: &HttpRun| Line { name: percent(run.of_peak), points: svg::percentiles(&run.curve) };
        open().filter(|run| run.mix == mix).map(line).collect::<Vec<_>>()
    };
    Part::Drawn(html! {
        div.plots {
            (svg::chart("p50 by offered requests a second", false, &by_load(|run| run.p50_us)))
            (svg::chart("p99 by offered requests a second", false, &by_load(|run| run.p99_us)))
            @for mix in &mixes {
                (svg::chart(&format!("{mix}: latency by percentile, at parts of its peak"), true, &by_percentile(*mix)))
            }
        }
    })
}
