//! Rows of the comparison with what the machine can do.

use super::super::loops::Speed;
use crate::report::model::Limit;
use crate::stats::median;

/// The goal for the ratio of ours to the limit.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// A row of ours and the limit by round.
pub fn row(operation: impl Into<String>, unit: &str, limit_is: &str, goal: Goal, rounds: &[(f64, f64)]) -> Limit {
    let middle = |of: fn(&(f64, f64)) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    let ratio = middle(|(ours, limit)| ours / limit);
    let (met, goal) = match goal {
        Goal::AtLeast(goal) => (ratio >= goal, format!(">= {goal}")),
        Goal::AtMost(goal) => (ratio <= goal, format!("<= {goal}")),
    };
    let (ours, limit) = (middle(|(ours, _)| *ours), middle(|(_, limit)| *limit));
    let (operation, unit, limit_is) = (operation.into(), unit.into(), limit_is.into());
    Limit { operation, unit, ours, limit, limit_is, ratio, goal, met, ..Limit::default() }
}

/// What one measurement of the server found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub speed: Speed,
    /// The most that the server had in memory, in MiB, less what it had before.
    pub memory: f64,
    /// MiB that it wrote to devices.
    pub written: f64,
    pub commits_per_sync: f64,
    pub generator_bound: bool,
}

/// A row that measurements give.
pub struct Figure {
    pub operation: String,
    pub unit: &'static str,
    /// What is compared.
    pub of: fn(&Sample) -> f64,
    /// The limit, of the same figures of the measurements beside ours.
    pub limit: fn(&[f64]) -> f64,
    pub limit_is: String,
    pub goal: Goal,
}

/// What is left if each request costs both: both are work of the same cores.
pub fn composed(beside: &[f64]) -> f64 {
    1.0 / beside.iter().take(2).map(|per_second| 1.0 / per_second).sum::<f64>()
}

pub fn first(beside: &[f64]) -> f64 {
    beside.first().copied().unwrap_or(f64::NAN)
}

pub fn lesser(beside: &[f64]) -> f64 {
    beside.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The rows that rounds of measurements give: ours, and those beside it, by name. The first row has all details.
pub fn rows(figures: &[Figure], names: &[&str], rounds: &[(Sample, Vec<Sample>)]) -> Vec<Limit> {
    let bound = rounds.iter().any(|(ours, beside)| [ours].into_iter().chain(beside).any(|s| s.generator_bound));
    let mut rows = Vec::new();
    for Figure { operation, unit, of, limit, limit_is, goal } in figures {
        let limit = |beside: &[Sample]| limit(&beside.iter().map(of).collect::<Vec<_>>());
        let both: Vec<_> = rounds.iter().map(|(ours, beside)| (of(ours), limit(beside))).collect();
        let mut row = row(operation.as_str(), unit, limit_is, *goal, &both);
        row.note = bound.then(|| "the generator had no time left: its own limit, not the server's".into());
        if rows.is_empty() {
            let beside = |at| median(&rounds.iter().filter_map(|(_, all)| all.get(at).map(of)).collect::<Vec<_>>());
            row.raw = names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), beside(at))).collect();
            let latency = |of: fn(&Speed) -> f64| median(&rounds.iter().map(|(s, _)| of(&s.speed)).collect::<Vec<_>>());
            let latencies = [("p50 us", latency(|speed| speed.p50_us)), ("p99 us", latency(|speed| speed.p99_us))];
            row.also = latencies.into_iter().filter(|(_, us)| *us > 0.0).map(|(k, us)| (k.to_owned(), us)).collect();
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_those_of_each_round() {
        let sample = |per_second| Sample { speed: Speed { per_second, ..Speed::default() }, ..Sample::default() };
        let figure = |limit, limit_is: &str, goal| Figure {
            operation: "stat".into(),
            unit: "requests/s",
            of: |sample| sample.speed.per_second,
            limit,
            limit_is: limit_is.into(),
            goal,
        };
        // 0.5, 0.9, 0.3: the machine was five times as fast in two of the rounds.
        let rounds = [(10.0, 40.0), (90.0, 200.0), (30.0, 200.0)].map(|(ours, beside)| {
            let bound = Sample { generator_bound: ours == 90.0, ..sample(beside) };
            (sample(ours), vec![sample(beside), bound, sample(7.0)])
        });
        let figures = [figure(composed, "a and b", Goal::AtLeast(0.85)), figure(lesser, "lesser", Goal::AtMost(5.0))];
        let [found, lesser] = rows(&figures, &["a", "b", "c"], &rounds).try_into().unwrap();
        assert_eq!((found.ours, found.limit, found.ratio, found.raw["c"]), (30.0, 100.0, 0.5, 7.0));
        assert_eq!((found.goal.as_str(), found.met, found.note.is_some()), (">= 0.85", false, true));
        assert_eq!((lesser.limit, lesser.met, lesser.raw.is_empty()), (7.0, true, true));
        assert_eq!((first(&[3.0, 2.0]), composed(&[60_000.0, 300_000.0]).round()), (3.0, 50_000.0));
    }
}
