//! How much faster or slower a layout is than another, whether the run shows it clearly, and which key is for whom.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::model::{MIN_FILES, Report};
use super::order::{self, LAYOUTS, REFERENCE, figures, label, words};
use super::table::{Table, ends, figure};

/// Fewer rounds say nothing of which layout is faster: two alike layouts have all of five rounds on one side in one
/// case of sixteen, and all of two rounds in one case of two.
const MIN_ROUNDS: usize = 5;
/// A smaller difference is none: many pairs are compared, and some have all rounds on one side by chance.
const MIN_DIFFERENCE: f64 = 0.05;

/// Operations that decide a question, and those that are its price.
const QUESTIONS: [(&str, &[&str]); 4] = [
    ("A drive that renames folders often", &["rename_folder", "rename_deep", "move_file", "stat", "create"]),
    ("An archive asked by period", &["time_period", "time_period_scattered", "time_period_under", "create"]),
    ("Many writers at once", &["create", "overwrite", "move_file", "list_attributes", "find_name"]),
    ("One very large folder", &["list_page_deep", "list_page_first", "rename_folder", "stat"]),
];

/// Two layouts, and what they are called together.
type Pair<'a> = (String, [&'a str; 2]);

/// The rate of a layout divided by that of another in the same round.
#[derive(Clone, Copy, PartialEq, Serialize)]
struct Ratio {
    /// Clients of both.
    clients: usize,
    rounds: usize,
    median: f64,
    lowest: f64,
    highest: f64,
    /// Whether the run shows which of the two is faster: in all of its rounds it is the same one.
    clear: bool,
}

impl Ratio {
    /// With many clients, or with one if one of the two was measured with one alone, or if `many` is false. None
    /// without rounds that both have.
    fn of(report: &Report, operation: &str, [layout, reference]: [&str; 2], many: bool) -> Option<Self> {
        let pair = [figures(report, layout, operation)?, figures(report, reference, operation)?];
        let is_alike = many && pair[0].clients == pair[1].clients;
        let [top, bottom] =
            if is_alike { pair } else { pair.map(|figures| figures.one_client.as_deref().unwrap_or(figures)) };
        if top.clients != bottom.clients || !many && top.clients != Some(1) {
            return None;
        }
        let found: Vec<f64> = top.rounds.iter().zip(&bottom.rounds).map(|(top, bottom)| top / bottom).collect();
        let ([lowest, highest], median, rounds) = (ends(&found)?, crate::stats::median(&found), found.len());
        let clear = rounds >= MIN_ROUNDS && (highest < 1.0 || lowest > 1.0) && (median - 1.0).abs() > MIN_DIFFERENCE;
        median.is_finite().then_some(Self { clients: top.clients?, rounds, median, lowest, highest, clear })
    }

    /// A cell: `0.66`, `≈ 0.98` if there is no difference, `0.66?` of too few rounds, `0.66*` of fewer clients than the
    /// others; its bar starts in the middle, at 1, and ends at 0.01 or 100.
    fn cell(&self, name: &str, clients: usize, rounds: usize) -> Value {
        let few = if self.rounds < MIN_ROUNDS { "?" } else { "" };
        let same = if self.clear || self.rounds < MIN_ROUNDS { "" } else { "≈ " };
        let alone = if self.clients < clients { "*" } else { "" };
        let range = (self.rounds > 1).then(|| format!("{} to {}", figure(self.lowest), figure(self.highest)));
        let n = (self.rounds < rounds).then(|| format!("n {}", self.rounds));
        let more = range.into_iter().chain(n).collect::<Vec<_>>().join(", ");
        let end = (0.5 + self.median.log10() / 4.0).clamp(0.0, 1.0);
        let class = if self.median < 1.0 { "less" } else { "more" };
        json!({
            name: format!("{same}{}{few}{alone}", figure(self.median)),
            format!("{name}_more"): more,
            format!("{name}_bar"): (end.min(0.5), end.max(0.5), if self.clear { class } else { "same" }, [0.5]),
        })
    }
}

/// Which key is for whom; all ratios, each once; and the same for pages: each layout to the one that all are compared
/// with, and those that differ by one factor. Only what was measured.
pub fn all(report: &Report) -> [Table; 4] {
    let layouts = order::layouts(report);
    let is_measured = |(_, pair): &Pair| pair.iter().all(|layout| report.layouts.contains_key(*layout));
    let others = layouts.iter().filter(|layout| **layout != REFERENCE);
    let to_reference = others.map(|layout| (format!("`{layout}`"), [*layout, REFERENCE]));
    let to_reference: Vec<Pair> = to_reference.filter(is_measured).collect();
    let step = |layout| words(LAYOUTS, layout).get("one factor from").copied().unwrap_or_default().split_whitespace();
    let steps = layouts.iter().flat_map(|layout| step(layout).map(|other| [*layout, other]));
    let steps = steps.map(|[layout, other]| (format!("`{layout}` / `{other}`"), [layout, other]));
    let steps: Vec<Pair> = steps.filter(is_measured).collect();
    let once: Vec<_> = to_reference.iter().chain(steps.iter().filter(|(_, pair)| pair[1] != REFERENCE)).collect();
    let rows = order::operations(report).into_iter().flat_map(|operation| {
        once.iter().flat_map(move |(_, [layout, reference])| {
            let [many, one] = [true, false].map(|many| Ratio::of(report, operation, [layout, reference], many));
            let name = json!({"operation": operation, "layout": layout, "reference": reference});
            let ratios = [many, one.filter(|_| many != one)].into_iter().flatten();
            ratios.map(move |ratio| json!([name, ratio]))
        })
    });
    let asked = QUESTIONS.iter().flat_map(|(question, all)| all.iter().map(move |operation| (question, operation)));
    let answer =
        |(question, operation): (&&str, &&str)| rows_of(report, &to_reference, question, operation).into_iter().next();
    let is_answered = |row: &Value| row.pointer("/0/fastest").is_some_and(|fastest| fastest != "");
    let mut answers = Table::new("answers", asked.filter_map(answer).filter(is_answered));
    if answers.rows.is_empty() {
        answers.note = format!(
            "No key is named: that needs `{REFERENCE}`, another layout (--layouts), at least {MIN_FILES} files (--size) \
            and {MIN_ROUNDS} whole rounds (--rounds). docs/load-test.md has the answers of five runs of 100,000 files."
        );
    }
    [
        answers,
        Table::new("ratios", rows),
        matrix(report, "to-reference", &to_reference),
        matrix(report, "factors", &steps),
    ]
}

/// A column for each pair; rows for each operation.
fn matrix(report: &Report, id: &'static str, pairs: &[Pair]) -> Table {
    let operations = order::operations(report).into_iter();
    let rows = operations.flat_map(|operation| rows_of(report, pairs, operation, operation));
    let columns = pairs.iter().map(|(name, _)| format!(",{name}=#{name}"));
    Table::with(id, &columns.collect::<String>(), rows)
}

/// An operation with many clients, if it was measured so, and with one.
fn rows_of(report: &Report, pairs: &[Pair], group: &str, operation: &str) -> Vec<Value> {
    let rounds = report.meta.rounds.unwrap_or(MIN_ROUNDS);
    let row = |clients: usize| {
        let ratio = |(name, pair): &Pair| Some((name.clone(), Ratio::of(report, operation, *pair, clients > 1)?));
        let found: Vec<_> = pairs.iter().filter_map(ratio).collect();
        found.iter().find(|(_, ratio)| ratio.clients == clients)?;
        let fastest = fastest(report, operation, clients);
        let first = json!({"group": group, "operation": label(operation), "clients": clients, "fastest": fastest});
        let cells = found.iter().map(|(name, ratio)| ratio.cell(name, clients, rounds));
        Some(std::iter::once(first).chain(cells).collect())
    };
    let clients = BTreeSet::from([1, report.meta.clients.unwrap_or(1)]);
    clients.into_iter().rev().filter_map(row).collect()
}

/// The keys that no other key is shown to beat, each with its ratio to the reference. None of few files or rounds.
fn fastest(report: &Report, operation: &str, clients: usize) -> String {
    let ratio = |pair| Ratio::of(report, operation, pair, clients > 1).filter(|ratio| ratio.clients == clients);
    // These differ from the others by more than their key.
    let keys = order::layouts(report).into_iter().filter(|layout| !["relational", "drive"].contains(layout));
    let keys = keys.filter_map(|key| Some((ratio([key, REFERENCE])?, key)));
    let mut keys: Vec<_> = keys.filter(|(of, _)| of.rounds >= MIN_ROUNDS && report.meta.files >= MIN_FILES).collect();
    keys.sort_by(|(one, _), (other, _)| other.median.total_cmp(&one.median));
    let is_faster = |one, than| ratio([one, than]).is_some_and(|ratio| ratio.clear && ratio.median > 1.0);
    let fastest = keys.iter().filter(|(_, key)| !keys.iter().any(|(_, other)| is_faster(other, key)));
    let same = |of: &Ratio| if of.clear || of.median == 1.0 { "" } else { "≈ " };
    let fastest: Vec<_> = fastest.map(|(of, key)| format!("`{key}` {}{}", same(of), figure(of.median))).collect();
    match keys.len() {
        0 | 1 => String::new(),
        all if all == fastest.len() => "none shown to be faster".to_owned(),
        _ => fastest.join(", "),
    }
}
