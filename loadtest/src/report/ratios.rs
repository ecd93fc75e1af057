//! How much faster or slower a layout is than another, whether the run shows it clearly, and which key is for whom.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::hot_spots::hottest;
use super::model::{MIN_FILES, Report};
use super::order::{self, LAYOUTS, REFERENCE, figures, words};
use super::table::{Table, ends, figure};

/// Fewer rounds say nothing of which layout is faster: two alike layouts have all of five rounds on one side in one
/// case of sixteen, and all of two rounds in one case of two.
const MIN_ROUNDS: usize = 5;
/// A smaller difference is none: many pairs are compared, and some have all rounds on one side by chance.
const MIN_DIFFERENCE: f64 = 0.05;

/// The operations that decide a key: what it is chosen for, or its price.
const DECIDING: &str = "rename_folder rename_deep move_file stat list_attributes list_page_deep time_period \
    time_period_scattered create overwrite";

/// Two layouts, and the name of both.
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
    /// Whether the run shows which of the two is faster: the same one in all rounds, by 5 % or more.
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
        let text = |ratio| if ratio < 0.05 { format!("1/{}", figure(1.0 / ratio)) } else { figure(ratio) };
        let range = (self.rounds > 1).then(|| format!("{} to {}", text(self.lowest), text(self.highest)));
        let n = (self.rounds < rounds).then(|| format!("n {}", self.rounds));
        let more = range.into_iter().chain(n).collect::<Vec<_>>().join(", ");
        let end = (0.5 + self.median.log10() / 4.0).clamp(0.0, 1.0);
        let class = if self.median < 1.0 { "less" } else { "more" };
        json!({
            name: format!("{same}{}{few}{alone}", text(self.median)),
            format!("{name}_more"): more,
            format!("{name}_bar"): (end.min(0.5), end.max(0.5), if self.clear { class } else { "same" }, [0.5]),
        })
    }
}

/// What each key is good for; all ratios, each once; and the same for pages: to the reference, and by one factor.
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
    [
        answers(report),
        Table::new("ratios", rows),
        matrix(report, "to-reference", &to_reference),
        matrix(report, "factors", &steps),
    ]
}

/// A row for each layout: its ratios, its bytes, and its hottest servers. None of few files or rounds.
fn answers(report: &Report) -> Table {
    let (clients, rounds) = (report.meta.clients.unwrap_or(1), report.meta.rounds.unwrap_or(MIN_ROUNDS));
    let row = |layout: &&str| {
        let ratio = |operation: &str| {
            let ratio = Ratio::of(report, operation, [layout, REFERENCE], true).filter(|it| it.rounds >= MIN_ROUNDS)?;
            let mut cell = ratio.cell(operation, clients, rounds);
            cell.as_object_mut()?.remove(&format!("{operation}_more"));
            let own = figures(report, REFERENCE, operation)?;
            let alone = if own.clients < Some(clients) { "*" } else { "" };
            let rate = json!({operation: format!("{}/s{alone}", figure(own.per_second))});
            Some(if *layout == REFERENCE { rate } else { cell })
        };
        let ratios: Vec<_> = DECIDING.split(' ').filter_map(ratio).collect();
        let [users, import] = ["64 users import", "one tree imported"].map(|load| hottest(report, layout, load));
        let more = json!({"layout": layout, "users": users, "import": import});
        let is_compared = !ratios.is_empty() && report.meta.files >= MIN_FILES;
        is_compared.then(|| [more, json!(report.costs.get(*layout))].into_iter().chain(ratios).collect::<Value>())
    };
    let mut answers = Table::new("answers", order::layouts(report).iter().filter_map(row));
    if answers.rows.len() < 2 {
        answers.rows.clear();
        answers.note = format!(
            "No keys are compared: that needs `{REFERENCE}`, another layout (--layouts), {MIN_FILES} files (--size) and \
            {MIN_ROUNDS} whole rounds (--rounds). docs/load-test.md has the answers of five runs of 100,000 files."
        );
    }
    answers
}

/// A column for each pair; each operation with many clients, if it was measured so, and with one.
fn matrix(report: &Report, id: &'static str, pairs: &[Pair]) -> Table {
    let (most, rounds) = (report.meta.clients.unwrap_or(1), report.meta.rounds.unwrap_or(MIN_ROUNDS));
    let row = |operation: &str, clients: usize| {
        let ratio = |(name, pair): &Pair| Some((name.clone(), Ratio::of(report, operation, *pair, clients > 1)?));
        let found: Vec<_> = pairs.iter().filter_map(ratio).collect();
        found.iter().find(|(_, ratio)| ratio.clients == clients)?;
        let cells = found.iter().map(|(name, ratio)| ratio.cell(name, clients, rounds));
        Some([json!({"operation": operation, "clients": clients})].into_iter().chain(cells).collect::<Value>())
    };
    let operations = order::operations(report).into_iter();
    let rows =
        operations.flat_map(|operation| BTreeSet::from([1, most]).into_iter().rev().map(move |n| (operation, n)));
    let columns = pairs.iter().map(|(name, _)| format!(",{name}=#{name}"));
    Table::with(id, &columns.collect::<String>(), rows.filter_map(|(operation, clients)| row(operation, clients)))
}
