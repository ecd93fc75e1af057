//! What the rounds of an operation say together.

use hdrhistogram::Histogram;

use super::loops::{Loop, Round};
use crate::report::model::{AtRate, Figures, Work};
use crate::stats::{curve, median};

/// The figures of the loops of many clients, with those of one client beside them; of one client alone, if a round has
/// no loop of many.
pub fn figures(rounds: &[Round]) -> Figures {
    let one: Option<Vec<&Loop>> = rounds.iter().map(|round| round.one.as_ref()).collect();
    let many: Option<Vec<&Loop>> = rounds.iter().map(|round| round.many.as_ref()).collect();
    let [one, many] = [one, many].map(|loops| loops.filter(|loops| !loops.is_empty()).map(|loops| together(&loops)));
    // Of all rounds or none: a layout that can hardly hold the rate would be told by its best rounds alone.
    let at_rate: Option<Vec<&(f64, Loop)>> = rounds.iter().map(|round| round.at_rate.as_ref()).collect();
    let at_rate = at_rate.unwrap_or_default();
    let at_rate = at_rate.first().and_then(|(per_second, _)| {
        let latencies = latencies(&at_rate.iter().map(|(_, one)| one).collect::<Vec<_>>())?;
        let per_second = *per_second;
        let [p50_us, p99_us] = [0.5, 0.99].map(|quantile| latencies.value_at_quantile(quantile));
        Some(AtRate { per_second, count: latencies.len(), p50_us, p99_us, max_us: latencies.max() })
    });
    match (one, many) {
        (one, Some(many)) => Figures { one_client: one.map(Box::new), at_rate, ..many },
        (one, None) => one.unwrap_or_default(),
    }
}

fn latencies(loops: &[&Loop]) -> Option<Histogram<u64>> {
    let mut all = loops.first()?.latencies.clone();
    // All have the same bounds, so there is nothing that cannot be added.
    loops.iter().skip(1).for_each(|one| all.add(&one.latencies).unwrap_or_default());
    Some(all)
}

fn together(loops: &[&Loop]) -> Figures {
    let mut figures = Figures::default();
    let mut work: Option<Work> = None;
    for one in loops {
        figures.clients = Some(one.clients);
        figures.count += one.count;
        figures.rounds.push(one.per_second());
        work = match (work, one.work) {
            (Some(work), Some(more)) => Some(work.zip(&more, |one, other| one + other)),
            (work, more) => work.or(more),
        };
    }
    let count = figures.count.max(1) as f64;
    figures.work = work.map(|work| work.zip(&work, |all, _| all / count));
    figures.per_second = median(&figures.rounds);
    if let Some(latencies) = latencies(loops) {
        figures.p50_us = latencies.value_at_quantile(0.5);
        figures.p99_us = latencies.value_at_quantile(0.99);
        figures.curve = curve(&latencies);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looped(clients: usize, seconds: f64, latencies: impl IntoIterator<Item = u64>) -> Loop {
        let mut histogram = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latencies.into_iter().for_each(|us| histogram.record(us).unwrap());
        let work = Some(Work { reads: Some(3.0 * histogram.len() as f64), cpu_us: 100.0, ..Work::default() });
        Loop { clients, count: histogram.len(), seconds, latencies: histogram, work }
    }

    #[test]
    fn the_rate_is_the_median_and_the_latencies_are_those_of_all_rounds() {
        let rounds = [(1.0, 1..=30), (2.0, 31..=50), (0.5, 51..=100)].map(|(seconds, us)| Round {
            is_slow: false,
            one: Some(looped(1, 1.0, [7])),
            many: Some(looped(64, seconds, us)),
            at_rate: Some((5.0, looped(0, 1.0, [40]))),
        });
        let found = figures(&rounds);
        assert_eq!((found.clients, found.count, &found.rounds[..]), (Some(64), 100, &[30.0, 10.0, 100.0][..]));
        assert_eq!((found.per_second, found.p50_us, found.p99_us), (30.0, 50, 99));
        assert_eq!(found.curve, [(0.0, 1), (50.0, 50), (75.0, 75), (90.0, 90), (100.0, 100)]);
        let work = found.work.unwrap();
        assert_eq!((work.reads, work.commits, work.cpu_us), (Some(3.0), None, 3.0));
        let one = found.one_client.unwrap();
        assert_eq!((one.clients, one.count, one.per_second, one.p50_us), (Some(1), 3, 1.0, 7));
        let at_rate = found.at_rate.unwrap();
        assert_eq!((at_rate.per_second, at_rate.count, at_rate.p99_us), (5.0, 3, 40));
        let [first, second, third] = rounds;
        assert_eq!(figures(&[first, second, Round { at_rate: None, ..third }]).at_rate, None);
    }

    #[test]
    fn a_round_without_many_clients_leaves_one_client() {
        let slow = Round { one: Some(looped(1, 2.0, [30_000])), ..Round::default() };
        let quick =
            Round { one: Some(looped(1, 1.0, [9_000])), many: Some(looped(64, 1.0, [9_000])), ..Round::default() };
        let found = figures(&[slow, quick]);
        assert_eq!((found.clients, found.count, found.per_second), (Some(1), 2, 0.75));
        assert_eq!(found.one_client, None);
    }
}
