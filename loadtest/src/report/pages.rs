//! The two pages: row keys, and the limits of the server. Each section is a few tables, in the order of the page.

use maud::html;

use super::hot_spots;
use super::model::{HttpRun, Meta, Report};
use super::numbers::{bytes, figure, grouped, percent};
use super::order::{self, REFERENCE};
use super::svg::{self, Line};
use super::table::{Page, Part, Table};
use super::{ratios, rows, verdict};

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
pub fn partial(meta: &Meta) -> Option<String> {
    let why = if meta.notes.is_empty() { "the run did not end".to_owned() } else { meta.notes.join("; ") };
    (!meta.complete).then_some(why)
}

fn keys(report: &Report) -> Vec<(&'static str, &'static str, Vec<Part>)> {
    let answers = verdict::all(report).into_iter().map(Part::Text);
    let steps = Table::new("layouts", order::layouts(report).into_iter().map(order::step));
    let operations = Table::new("operations", order::operations(report).into_iter().map(order::meaning));
    let [to_reference, steps_before] = [ratios::to_reference(report), ratios::steps(report)];
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
    let machine = &meta.machine;
    let tree = format!("{} files in {} folders, seed {}", grouped(meta.files), grouped(meta.directories), meta.seed);
    let rounds = meta.rounds.map(|rounds| format!(", {rounds} rounds over all layouts")).unwrap_or_default();
    let quick = if meta.quick { "; quick: for a look, not for conclusions" } else { "" };
    let mut facts = vec![
        ("began", format!("{}, took {} s{quick}", meta.started, figure(meta.seconds))),
        ("tree", tree),
        ("clients", format!("{}{rounds}", meta.clients)),
        ("machine", format!("{}, {} cores, {}", machine.cpu, machine.cores, bytes(machine.memory_bytes as f64))),
        ("system", format!("{}, {}", machine.system, machine.file_system)),
        ("loadtest", meta.version.clone()),
    ];
    facts.extend(meta.versions.iter().map(|(name, version)| (name.as_str(), version.clone())));
    facts.extend(meta.notes.iter().filter(|_| meta.complete).map(|note| ("note", note.clone())));
    let settings = meta.settings.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
    facts.extend((!settings.is_empty()).then_some(("settings", settings)));
    Part::Table(Table::new(
        "run",
        facts.iter().map(|(name, value)| serde_json::json!([{"name": name, "value": value}])),
    ))
}

fn settings(meta: &Meta) -> Part {
    let settings = meta.settings.iter().map(|(name, value)| serde_json::json!([{"name": name, "value": value}]));
    Part::Table(Table::new("settings", settings))
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
