//! The two pages, row keys and the limits of the server, and all tables in their order: what the rows say beside the
//! members of the model.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::model::{Limit, Measured, Meta, RAN_OUT, Report};
use super::order::{self, LAYOUTS, OPERATIONS, figures, layouts, words};
use super::table::{Table, ends, figure};
use super::{hot_spots, ratios};

pub struct Page {
    /// The names of its files without their ending: `report` or `limits`.
    pub name: &'static str,
    pub title: &'static str,
    /// What is missing, each after its kind: `partial` or `left out`.
    pub warnings: Vec<(&'static str, String)>,
    /// Whether anything was measured that no other page has.
    pub is_measured: bool,
    pub tables: Vec<Table>,
}

impl Page {
    /// Its tables, section by section.
    pub fn sections(&self) -> impl Iterator<Item = (&Table, &[Table])> {
        let sections = self.tables.chunk_by(|one, next| one.section == next.section);
        sections.filter_map(|tables| Some((tables.first()?, tables)))
    }
}

pub fn all(report: &Report) -> [Page; 2] {
    let all = tables(report);
    let notes = &report.meta.notes;
    let why = if notes.is_empty() { "the run did not end".to_owned() } else { notes.join("; ") };
    let why = format!("{why}. What the run had not reached was not measured, or in fewer rounds.");
    [("report", "Row keys compared"), ("limits", "Limits of the server")].map(|(name, title)| {
        let tables: Vec<Table> = all.iter().filter(|table| table.pages.contains(name)).cloned().collect();
        let is_measured = tables.iter().any(|table| table.section != "The run" && table.is_shown());
        let partial = (!report.meta.complete).then(|| ("partial", why.clone()));
        let left_out = left_out(report).filter(|_| name == "report");
        let warnings = partial.into_iter().chain(left_out.map(|which| ("left out", which))).collect();
        Page { name, title, warnings, is_measured, tables }
    })
}

/// In which operations which layouts ran out of files, so that they have fewer rounds or none; and what helps.
fn left_out(report: &Report) -> Option<String> {
    let ran_out = |of: &Measured| match of {
        Measured::Figures(figures) => figures.note.as_deref() == Some(RAN_OUT),
        Measured::Unsupported { unsupported } => unsupported == RAN_OUT,
    };
    let mut operations = BTreeMap::<String, Vec<String>>::new();
    for (operation, layout, _) in order::measured(report).filter(|(.., measured)| ran_out(measured)) {
        operations.entry(order::label(operation)).or_default().push(format!("`{layout}`"));
    }
    let all: Vec<_> = operations.iter().map(|(operation, of)| format!("{operation} ({})", of.join(", "))).collect();
    (!all.is_empty()).then(|| format!("{}, at least in later rounds; {RAN_OUT}", all.join("; ")))
}

/// All tables, those of CSV files alone too.
pub fn tables(report: &Report) -> Vec<Table> {
    let known = |layout: &str| json!([{"layout": layout}, words(LAYOUTS, layout)]);
    let meaning = |operation: &str| json!([{"shown": order::label(operation)}, words(OPERATIONS, operation)]);
    let work = order::measured(report).filter_map(|(operation, layout, _)| {
        let work = order::work(report, layout, operation)?;
        Some(json!([{"operation": operation, "layout": layout}, work]))
    });
    let bytes = report.costs.iter().flat_map(|(layout, costs)| {
        costs.table_bytes.iter().map(move |(table, all)| json!([{"layout": layout, "table": table, "bytes": all}]))
    });
    let met = report.limits.iter().filter(|limit| limit.get("met") == Some(&Value::Bool(true))).count();
    let met = match report.meta.quick {
        true => "One short round shows that all of it works. Its rates and goals are no result.".to_owned(),
        false => format!("{met} of {} goals are met.", report.limits.len()),
    };
    let run = |meta: &Meta| members(&serde_json::to_value(meta).unwrap_or_default(), "");
    let (settings, versions) = (BTreeMap::new(), BTreeMap::new());
    let server = Meta { directories: None, clients: None, rounds: None, settings, versions, ..report.meta.clone() };
    let [answers, ratios, to_reference, factors] = ratios::all(report);
    let [deciding, regions, hot_spots] = hot_spots::all(report);
    vec![
        answers,
        Table::new("layouts", layouts(report).into_iter().map(known)),
        Table::new("operations", order::operations(report).into_iter().map(meaning)),
        ratios,
        to_reference,
        factors,
        Table::new("rates", order::measured(report).map(|measured| rate(report, measured))),
        Table::new("work", work),
        costs(report),
        Table::new("bytes", bytes),
        deciding,
        regions,
        hot_spots,
        Table { note: met, ..Table::new("met", []) },
        Table::new("goals", report.limits.iter().map(goal)),
        Table::new("mixes", report.http.iter().map(|run| json!([run]))),
        Table::new("run", run(&report.meta)),
        Table::new("server-run", run(&server)),
    ]
}

fn rate(report: &Report, (operation, layout, measured): (&str, &str, &Measured)) -> Value {
    let name = json!({"operation": operation, "layout": layout});
    let Measured::Figures(found) = measured else { return json!([name, measured]) };
    let rates = layouts(report).into_iter().filter_map(|layout| Some(figures(report, layout, operation)?.per_second));
    let bar = json!({"per_second_bar": (0.0, found.per_second / rates.fold(0.0, f64::max), "more", [0.0; 0])});
    let rounds = ends(&found.rounds).map(|[lowest, highest]| {
        let more = format!("{} to {}", figure(lowest), figure(highest));
        json!({"per_second_more": more, "lowest_per_second": lowest, "highest_per_second": highest})
    });
    json!([name, bar, rounds, found])
}

fn costs(report: &Report) -> Table {
    let most = report.costs.values().map(|costs| costs.disk_bytes_per_file).fold(0.0, f64::max);
    let rows = layouts(report).into_iter().filter_map(|layout| {
        let costs = report.costs.get(layout)?;
        let files = costs.files.max(1) as f64;
        let tables: BTreeMap<_, _> = costs.table_bytes.iter().map(|(of, all)| (of, *all as f64 / files)).collect();
        let bar = (0.0, costs.disk_bytes_per_file / most, "more", [0.0; 0]);
        let more = json!({"by_table": tables, "disk_bytes_per_file_bar": bar});
        Some(json!([{"layout": layout}, costs, more]))
    });
    Table::new("costs", rows)
}

/// The row of a limit. The bar of its ratio ends at 2, with a stroke at the goal.
fn goal(limit: &Limit) -> Value {
    let goal = |goal: &Value| goal.as_str()?.trim_start_matches(['<', '>', '=', ' ']).parse::<f64>().ok();
    let goal = limit.get("goal").and_then(goal).map(|goal| goal / 2.0);
    let ratio = limit.get("ratio").and_then(Value::as_f64).map(|ratio| ratio / 2.0);
    let class = if limit.get("met") == Some(&Value::Bool(true)) { "more" } else { "less" };
    json!([limit, {"ratio_bar": (0.0, ratio, class, goal.as_slice())}])
}

/// All members of an object, with those of its own objects.
fn members(object: &Value, of: &str) -> Vec<Value> {
    let row = |(name, value): (&String, &Value)| match value {
        Value::Null => Vec::new(),
        Value::Object(_) => members(value, &format!("{name}: ")),
        Value::Array(list) => list.iter().map(|value| json!([{"name": name, "value": value}])).collect(),
        value => vec![json!([{"name": format!("{of}{}", name.replace('_', " ")), "value": value}])],
    };
    object.as_object().into_iter().flatten().flat_map(row).collect()
}
