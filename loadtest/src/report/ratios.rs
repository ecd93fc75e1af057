//! How much faster or slower a layout is than another, and whether the run shows it clearly.

use serde::Serialize;
use serde_json::{Value, json};

use super::model::{Figures, Report};
use super::numbers::figure;
use super::order::{self, REFERENCE, STEPS, figures};
use super::table::Table;

/// Fewer rounds say nothing of which layout is faster: two alike layouts have all of five rounds on one side in one case
/// of sixteen, and all of two rounds in one case of two.
pub const ROUNDS: usize = 5;
/// A smaller difference is none: many pairs are compared, and some have all rounds on one side by chance.
const MIN_DIFFERENCE: f64 = 0.05;

/// The rate of a layout divided by that of another in the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Clients of both.
    pub clients: usize,
    pub rounds: usize,
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Ratio {
    /// With many clients, or with one if one of the two was measured with one alone, or if `many` is false. None without
    /// rounds that both have.
    pub fn of(report: &Report, operation: &str, [layout, reference]: [&str; 2], many: bool) -> Option<Self> {
        Self::new([figures(report, layout, operation)?, figures(report, reference, operation)?], many)
    }

    fn new(pair: [&Figures; 2], many: bool) -> Option<Self> {
        let is_alike = pair.map(|figures| figures.clients);
        let [top, bottom] = if many && is_alike[0] == is_alike[1] { pair } else { pair.map(one_client) };
        if top.clients != bottom.clients || !many && top.clients != Some(1) {
            return None;
        }
        let rounds: Vec<f64> = top.rounds.iter().zip(&bottom.rounds).map(|(top, bottom)| top / bottom).collect();
        let lowest = rounds.iter().copied().reduce(f64::min)?;
        let highest = rounds.iter().copied().reduce(f64::max)?;
        let median = crate::stats::median(&rounds);
        let ratio = Self { clients: top.clients?, rounds: rounds.len(), median, lowest, highest };
        median.is_finite().then_some(ratio)
    }

    /// Whether the run shows which of the two is faster: in all of its rounds it is the same one.
    pub fn is_clear(&self) -> bool {
        self.rounds >= ROUNDS && (self.highest < 1.0 || self.lowest > 1.0) && (self.median - 1.0).abs() > MIN_DIFFERENCE
    }

    /// `0.66`, `≈ 0.98` if there is no difference, and `0.66?` of too few rounds.
    pub fn text(&self) -> String {
        let [sign, few] = match self.rounds < ROUNDS {
            true => ["", "?"],
            false if self.is_clear() => ["", ""],
            false => ["≈ ", ""],
        };
        format!("{sign}{}{few}", figure(self.median))
    }

    /// `0.61 to 0.72`.
    pub fn range(&self) -> String {
        format!("{} to {}", figure(self.lowest), figure(self.highest))
    }

    /// Its bar starts in the middle, at 1, and ends at 0.01 or 100; with the number of rounds where it is not the usual.
    fn value(&self, name: &str, clients: usize, rounds: usize) -> Value {
        let alone = if self.clients < clients { "*" } else { "" };
        let n = if self.rounds < rounds { format!(", n {}", self.rounds) } else { String::new() };
        let end = (0.5 + self.median.log10() / 4.0).clamp(0.0, 1.0);
        let class = if self.median < 1.0 { "less" } else { "more" };
        json!({
            name: format!("{}{alone}", self.text()),
            format!("{name}_more"): format!("{}{n}", self.range()),
            format!("{name}_bar"): (end.min(0.5), end.max(0.5), if self.is_clear() { class } else { "same" }, [0.5]),
        })
    }
}

fn one_client(figures: &Figures) -> &Figures {
    figures.one_client.as_deref().unwrap_or(figures)
}

/// Each layout and the one that all are compared with; and those of [`STEPS`]. Only what was measured.
pub fn pairs(report: &Report) -> [Vec<[&str; 2]>; 2] {
    let is_measured = |pair: &[&str; 2]| pair.iter().all(|layout| report.layouts.contains_key(*layout));
    let others = order::layouts(report).into_iter().filter(|layout| *layout != REFERENCE);
    let to_reference = others.map(|layout| [layout, REFERENCE]).filter(is_measured).collect();
    [to_reference, STEPS.into_iter().filter(is_measured).collect()]
}

/// All ratios, each once.
pub fn rows(report: &Report) -> Vec<Value> {
    let [mut pairs, steps] = pairs(report);
    pairs.extend(steps.into_iter().filter(|[_, reference]| *reference != REFERENCE));
    let mut all = Vec::new();
    for operation in order::operations(report) {
        for [layout, reference] in &pairs {
            let [many, one] = [true, false].map(|many| Ratio::of(report, operation, [layout, reference], many));
            for ratio in [many, one.filter(|_| many != one)].into_iter().flatten() {
                let clear = ratio.is_clear();
                let name = json!({"operation": operation, "layout": layout, "reference": reference, "clear": clear});
                all.push(json!([name, ratio]));
            }
        }
    }
    all
}

/// A row for each operation, a column for each pair.
pub fn matrix(report: &Report, id: &str, caption: &str, pairs: &[[&str; 2]], many: bool) -> Table {
    let clients = if many { report.meta.clients } else { 1 };
    let rounds = report.meta.rounds.unwrap_or(ROUNDS);
    let common = pairs.iter().all(|[_, reference]| *reference == REFERENCE);
    let name = |[layout, reference]: &[&str; 2]| match common {
        true => format!("`{layout}`"),
        false => format!("`{layout}` / `{reference}`"),
    };
    let rows = order::operations(report).into_iter().filter_map(|operation| {
        let cell =
            |pair: &[&str; 2]| Some(Ratio::of(report, operation, *pair, many)?.value(&name(pair), clients, rounds));
        let cells: Vec<Value> = pairs.iter().filter_map(cell).collect();
        let name = json!({"operation": order::label(operation)});
        (!cells.is_empty()).then(|| std::iter::once(name).chain(cells).collect())
    });
    let columns: String = pairs.iter().map(name).map(|name| format!(",{name}=#{name}")).collect();
    let caption = format!("{caption} (clients: {clients}, rounds: {rounds})");
    Table { id: id.into(), caption, ..Table::default() }.with(&format!("operation=operation{columns}"), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clients: usize, rounds: &[f64]) -> Figures {
        Figures { clients: Some(clients), rounds: rounds.to_vec(), ..Figures::default() }
    }

    fn text(pair: [&Figures; 2]) -> String {
        let value = Ratio::new(pair, true).unwrap().value("a", 64, 5);
        format!("{} {}", value["a"].as_str().unwrap(), value["a_more"].as_str().unwrap())
    }

    #[test]
    fn rounds_are_compared_one_by_one_and_noise_is_no_difference() {
        // The machine was ten times as slow in the second round, for both.
        let slow = of(64, &[100.0, 10.0, 100.0, 100.0, 100.0]);
        assert_eq!(text([&of(64, &[50.0, 6.0, 80.0, 70.0, 55.0]), &slow]), "0.60 0.50 to 0.80");
        let both = [&of(64, &[90.0, 120.0, 90.0, 90.0, 90.0]), &of(64, &[100.0; 5])];
        assert_eq!(text(both), "≈ 0.90 0.90 to 1.20");
        assert_eq!(Ratio::new(both, true).unwrap().value("a", 64, 5)["a_bar"][2], "same");
        // One of the two was interrupted after four rounds.
        assert_eq!(text([&of(64, &[50.0; 4]), &of(64, &[100.0; 5])]), "0.50? 0.50 to 0.50, n 4");
    }

    #[test]
    fn what_one_client_did_is_compared_with_one_client() {
        let quick = Figures { one_client: Some(Box::new(of(1, &[10.0; 5]))), ..of(64, &[100.0; 5]) };
        let slow = of(1, &[2.0; 5]);
        assert_eq!(text([&slow, &quick]), "0.20* 0.20 to 0.20");
        assert_eq!(text([&quick, &slow]), "5.00* 5.00 to 5.00");
        assert_eq!(Ratio::new([&quick, &quick], false).unwrap().clients, 1);
        for (many, pair) in [(false, [64, 64]), (true, [64, 32])] {
            assert_eq!(Ratio::new([&of(pair[0], &[1.0]), &of(pair[1], &[1.0])], many), None);
        }
        assert_eq!(Ratio::new([&of(64, &[1.0]), &of(64, &[0.0])], true), None);
        assert_eq!(Ratio::new([&of(64, &[]), &of(64, &[])], true), None);
    }
}
