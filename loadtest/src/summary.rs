//! What the rounds of an operation say together.

use hdrhistogram::Histogram;

use crate::measure::{Loop, Round};
use crate::report::model::{Figures, Work};
use crate::stats::{curve, median};

/// The figures of the loops of many clients, with those of one client beside them; of one client alone, if a round has
/// no loop of many.
pub fn figures(rounds: &[Round]) -> Figures {
    let one = together(rounds.iter().map(|round| &round.one));
    let many: Option<Vec<&Loop>> = rounds.iter().map(|round| round.many.as_ref()).collect();
    match many {
        Some(many) if !many.is_empty() => Figures { one_client: Some(Box::new(one)), ..together(many.into_iter()) },
        _ => one,
    }
}

fn together<'a>(loops: impl Iterator<Item = &'a Loop>) -> Figures {
    let mut latencies: Option<Histogram<u64>> = None;
    let mut work: Option<Work> = None;
    let mut figures = Figures::default();
    for one in loops {
        figures.clients = Some(one.clients);
        figures.count += one.count;
        figures.rounds.push(one.per_second());
        work = match (work, one.work) {
            (Some(work), Some(more)) => Some(work.zip(&more, |one, other| one + other)),
            (work, more) => work.or(more),
        };
        match &mut latencies {
            // All have the same bounds, so there is nothing that cannot be added.
            Some(all) => all.add(&one.latencies).unwrap_or_default(),
            None => latencies = Some(one.latencies.clone()),
        }
    }
    let count = figures.count.max(1) as f64;
    figures.work = work.map(|work| work.zip(&work, |all, _| all / count));
    figures.per_second = median(&figures.rounds);
    if let Some(latencies) = latencies {
        figures.p50_us = latencies.value_at_quantile(0.5);
        figures.p99_us = latencies.value_at_quantile(0.99);
        figures.curve = curve(&latencies);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clients: usize, seconds: f64, latencies: impl IntoIterator<Item = u64>) -> Loop {
        let mut histogram = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latencies.into_iter().for_each(|us| histogram.record(us).unwrap());
        let work = Some(Work { reads: Some(3.0 * histogram.len() as f64), cpu_us: 100.0, ..Work::default() });
        Loop { clients, count: histogram.len(), seconds, latencies: histogram, work }
    }

    #[test]
    fn the_rate_is_the_median_and_the_latencies_are_those_of_all_rounds() {
        let rounds = [(1.0, 1..=30), (2.0, 31..=50), (0.5, 51..=100)]
            .map(|(seconds, us)| Round { one: of(1, 1.0, [7]), many: Some(of(64, seconds, us)) });
        let found = figures(&rounds);
        assert_eq!((found.clients, found.count, &found.rounds[..]), (Some(64), 100, &[30.0, 10.0, 100.0][..]));
        assert_eq!((found.per_second, found.p50_us, found.p99_us), (30.0, 50, 99));
        assert_eq!(found.curve, [(0.0, 1), (50.0, 50), (75.0, 75), (90.0, 90), (100.0, 100)]);
        let work = found.work.unwrap();
        assert_eq!((work.reads, work.commits, work.cpu_us), (Some(3.0), None, 3.0));
        let one = found.one_client.unwrap();
        assert_eq!((one.clients, one.count, one.per_second, one.p50_us), (Some(1), 3, 1.0, 7));
    }

    #[test]
    fn a_round_without_many_clients_leaves_one_client() {
        let slow = Round { one: of(1, 2.0, [30_000]), many: None };
        let quick = Round { one: of(1, 1.0, [9_000]), many: Some(of(64, 1.0, [9_000])) };
        let found = figures(&[slow, quick]);
        assert_eq!((found.clients, found.count, found.per_second), (Some(1), 2, 0.75));
        assert_eq!(found.one_client, None);
    }
}
