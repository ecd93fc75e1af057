//! Replays a load: once to see which keys there are and how many, once to count where the requests fall.

use super::gauge::{Gauge, floor_of};
use super::keys::{Access, Keyed, Keys, Table};
use super::loads::Load;
use super::pace::Pace;
use super::remedies::Remedy;
use super::splits::{Sample, Splits, Splitting};
use crate::data::Tree;
use crate::report::model::Spread;

/// A table whose spread is asked for, its keys changed by a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub table: Table,
    pub remedy: Remedy,
    pub splitting: Splitting,
}

/// Takes each row that a request touches, with its second.
type TouchedAt<'a> = dyn FnMut(f64, Access, Table, &[u8]) + 'a;

/// What a first replay shows, by case.
struct Survey {
    splits: Vec<Splits>,
    requests: Vec<u64>,
}

/// One load on one layout.
pub struct Replay<'a> {
    pub tree: &'a Tree,
    pub layout: Keyed,
    pub load: Load,
    pub pace: Pace,
    pub seed: u64,
}

impl Replay<'_> {
    /// The spread of each case, in their order.
    pub fn spreads(&self, cases: &[Case]) -> anyhow::Result<Vec<Spread>> {
        let seconds = self.pace.seconds();
        let survey = self.survey(cases)?;
        let requests = if self.load == self.load.data() { survey.requests } else { self.requests(cases)? };
        let offered = requests.into_iter().map(|requests| requests as f64 / seconds.max(1.0));
        let mut gauges: Vec<Gauge> = survey.splits.into_iter().zip(offered).map(|(s, o)| Gauge::new(s, o)).collect();
        let mut changed = Vec::new();
        self.each(self.load, &mut |at, _, table, key| {
            for (case, gauge) in cases.iter().zip(&mut gauges).filter(|(case, _)| case.table == table) {
                case.remedy.apply(self.layout.shape(table), key, &mut changed);
                gauge.request(at, &changed);
            }
        })?;
        let floored = |spread: Spread| Ok(Spread { floor: floor_of(&spread)?, ..spread });
        gauges.into_iter().map(|gauge| floored(gauge.finish(seconds))).collect()
    }

    /// Replays what brings the rows.
    fn survey(&self, cases: &[Case]) -> anyhow::Result<Survey> {
        let sample = |case: &Case| (case.splitting == Splitting::Quantiles).then(|| Sample::new(self.seed));
        let mut seen: Vec<(u64, Option<Sample>)> = cases.iter().map(|case| (0, sample(case))).collect();
        let mut changed = Vec::new();
        self.each(self.load.data(), &mut |_, access, table, key| {
            for (case, (requests, sample)) in cases.iter().zip(&mut seen).filter(|(case, _)| case.table == table) {
                *requests += 1;
                if let (Access::Write, Some(sample)) = (access, sample) {
                    case.remedy.apply(self.layout.shape(table), key, &mut changed);
                    sample.push(&changed);
                }
            }
        })?;
        let mut survey = Survey { splits: Vec::new(), requests: Vec::new() };
        for (case, (requests, sample)) in cases.iter().zip(seen) {
            let even = || Splits::even(case.remedy.alphabet(self.layout.shape(case.table)));
            survey.splits.push(sample.map_or_else(even, Sample::into_splits));
            survey.requests.push(requests);
        }
        Ok(survey)
    }

    /// How many requests the table of each case gets.
    fn requests(&self, cases: &[Case]) -> anyhow::Result<Vec<u64>> {
        let mut requests = vec![0; cases.len()];
        self.each(self.load, &mut |_, _, table, _| {
            for (case, requests) in cases.iter().zip(&mut requests) {
                *requests += u64::from(case.table == table);
            }
        })?;
        Ok(requests)
    }

    fn each(&self, load: Load, touched: &mut TouchedAt<'_>) -> anyhow::Result<()> {
        let keys = Keys::new(self.layout, self.seed);
        load.replay(self.tree, &self.pace, self.seed, &mut |at, request| {
            keys.touch(request, &mut |access, table, key| touched(at, access, table, key));
        })
    }
}
