//! When the requests of an open loop are sent.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp};

/// How requests follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// At random, as from many clients that know nothing of each other: exponential gaps.
    #[default]
    Poisson,
    /// At even gaps.
    Constant,
}

/// The times at which one of several threads sends, from the beginning of the run on, ascending.
#[derive(Debug)]
pub struct Schedule {
    times: Times,
    /// Seconds.
    end: f64,
}

#[derive(Debug)]
enum Times {
    Random {
        gap: Exp<f64>,
        random: Box<StdRng>,
        last: f64,
    },
    /// Number `next` of a rate. Gaps are not added up: their rounding errors would be, too.
    Even {
        rate: f64,
        next: u64,
        step: u64,
    },
}

impl Schedule {
    /// The part of thread `number` in `rate` requests a second of all `threads` together. Random streams of a part of
    /// the rate each are together one of the whole rate; even ones take turns.
    ///
    /// # Errors
    ///
    /// If `rate` is not a positive number.
    pub fn new(
        arrivals: Arrivals,
        rate: f64,
        length: Duration,
        seed: u64,
        (number, threads): (usize, usize),
    ) -> anyhow::Result<Self> {
        anyhow::ensure!(rate.is_finite() && rate > 0.0, "a rate of {rate} requests a second cannot be kept");
        let times = match arrivals {
            Arrivals::Poisson => Times::Random {
                gap: Exp::new(rate / threads as f64)?,
                random: Box::new(StdRng::seed_from_u64(seed.wrapping_add(number as u64))),
                last: 0.0,
            },
            Arrivals::Constant => Times::Even { rate, next: number as u64, step: threads as u64 },
        };
        Ok(Self { times, end: length.as_secs_f64() })
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let at = match &mut self.times {
            Times::Random { gap, random, last } => {
                *last += gap.sample(random);
                *last
            }
            Times::Even { rate, next, step } => {
                let at = *next as f64 / *rate;
                *next += *step;
                at
            }
        };
        (at < self.end).then(|| Duration::from_secs_f64(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, rate: f64, seconds: u64, seed: u64, thread: (usize, usize)) -> Vec<Duration> {
        Schedule::new(arrivals, rate, Duration::from_secs(seconds), seed, thread).unwrap().collect()
    }

    #[test]
    fn even_gaps_take_turns_among_threads() {
        let millis = |thread| {
            let all = times(Arrivals::Constant, 4.0, 2, 0, thread);
            all.iter().map(Duration::as_millis).collect::<Vec<_>>()
        };
        assert_eq!(millis((0, 1)), [0, 250, 500, 750, 1000, 1250, 1500, 1750]);
        assert_eq!(millis((0, 2)), [0, 500, 1000, 1500]);
        assert_eq!(millis((1, 2)), [250, 750, 1250, 1750]);
        // Twenty gaps of a twentieth, added up, are less than one.
        assert_eq!(times(Arrivals::Constant, 20.0, 1, 0, (0, 1)).len(), 20);
    }

    #[test]
    fn random_gaps_repeat_with_their_seed_and_keep_their_rate() {
        let all = times(Arrivals::Poisson, 1000.0, 100, 7, (0, 1));
        assert_eq!(all, times(Arrivals::Poisson, 1000.0, 100, 7, (0, 1)));
        assert_ne!(all, times(Arrivals::Poisson, 1000.0, 100, 8, (0, 1)));
        assert!(all.is_sorted());
        // A Poisson count of 100,000 has a standard deviation of 316: five of them.
        assert!((98_419..=101_581).contains(&all.len()), "{}", all.len());
        // Gaps of an exponential distribution are longer than their mean in 1 of e cases.
        let long = all.windows(2).filter(|pair| pair[1] - pair[0] > Duration::from_millis(1)).count();
        assert!((0.35..0.39).contains(&(long as f64 / all.len() as f64)), "{long}");
        let both: usize = (0..2).map(|thread| times(Arrivals::Poisson, 1000.0, 100, 7, (thread, 2)).len()).sum();
        assert!((98_419..=101_581).contains(&both), "{both}");
    }

    #[test]
    fn a_rate_that_is_none_is_an_error() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::new(Arrivals::Constant, rate, Duration::from_secs(1), 0, (0, 1)).is_err());
        }
    }
}
