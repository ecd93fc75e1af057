//! Several measurements in turns, so that all of them meet the same machine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use super::child::Server;
use super::loops::{Loop, Speed};
use super::server::Asked;
use crate::http::closed_loop;
use crate::progress;
use crate::stats::median;

type Make = Arc<dyn Fn(u64) -> Request<Full<Bytes>> + Send + Sync>;

/// One thing to measure.
#[derive(Clone)]
pub enum Measure {
    /// Requests in a closed loop.
    Requests { connections: usize, make: Make },
    /// A loop inside the server.
    Loop { which: Loop, tasks: usize },
}

impl Measure {
    pub fn requests(connections: usize, make: impl Fn(u64) -> Request<Full<Bytes>> + Send + Sync + 'static) -> Self {
        Self::Requests { connections, make: Arc::new(make) }
    }
}

pub struct Rounds {
    pub rounds: usize,
    pub ms: u64,
    pub pace: progress::Stop,
}

/// What one measurement gave, by round.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub speeds: Vec<Speed>,
    /// Whether the generator had no time left in any of them.
    pub generator_bound: bool,
}

impl Series {
    pub fn per_second(&self) -> f64 {
        median(&self.each(|speed| speed.per_second))
    }

    pub fn p50_us(&self) -> f64 {
        median(&self.each(|speed| speed.p50_us))
    }

    pub fn p99_us(&self) -> f64 {
        median(&self.each(|speed| speed.p99_us))
    }

    fn each(&self, of: impl Fn(&Speed) -> f64) -> Vec<f64> {
        self.speeds.iter().map(of).collect()
    }
}

impl Rounds {
    /// All of these in each round; one round before them warms up and is not counted.
    pub async fn all<const N: usize>(
        &self,
        title: &str,
        server: &Server,
        measures: [Measure; N],
    ) -> Result<[Series; N]> {
        let bar = progress::bar(&format!("limits: {title}"))?;
        let mut found = [(); N].map(|()| Series::default());
        for round in 0..=self.rounds {
            let ms = if round == 0 { self.ms / 4 } else { self.ms };
            for (measure, series) in measures.iter().zip(&mut found) {
                self.pace.go_on()?;
                let (speed, bound) = once(server, measure, ms.max(50)).await?;
                if round > 0 {
                    series.speeds.push(speed);
                    series.generator_bound |= bound;
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(found)
    }
}

/// One measurement, of so many milliseconds, and whether the generator had no time left.
pub async fn once(server: &Server, measure: &Measure, ms: u64) -> Result<(Speed, bool)> {
    match measure {
        Measure::Loop { which, tasks } => {
            Ok((server.looped(*which, Asked { tasks: *tasks, ms, bytes: 0 }).await?, false))
        }
        Measure::Requests { connections, make } => {
            let make = make.clone();
            let done =
                closed_loop(server.address, *connections, 1, Duration::from_millis(ms), move |n| make(n)).await?;
            ensure!(done.errors() == 0, "requests failed: {:?}", done.failures.by_name());
            let us = |quantile| done.histogram.value_at_quantile(quantile) as f64;
            let speed = Speed { per_second: done.per_second(), p50_us: us(0.5), p99_us: us(0.99) };
            Ok((speed, done.generator_bound()))
        }
    }
}

/// What is left if each request costs both: `1 / (1 / http + 1 / store)`, since both are work of the same cores.
pub fn composed(http: f64, store: f64) -> f64 {
    1.0 / (1.0 / http + 1.0 / store)
}

/// The median over rounds of one pace through another.
pub fn ratio(ours: &Series, limit: impl Fn(usize) -> Option<f64>) -> f64 {
    let each = ours.speeds.iter().enumerate().filter_map(|(round, speed)| Some(speed.per_second / limit(round)?));
    median(&each.collect::<Vec<_>>())
}

/// The pace of a series in a round.
pub fn at(series: &Series, round: usize) -> Option<f64> {
    series.speeds.get(round).map(|speed| speed.per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(all: &[f64]) -> Series {
        let speeds = all.iter().map(|per_second| Speed { per_second: *per_second, ..Speed::default() }).collect();
        Series { speeds, generator_bound: false }
    }

    #[test]
    fn costs_add_up() {
        assert_eq!(composed(100.0, 100.0), 50.0);
        assert!((composed(60_000.0, 300_000.0) - 50_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_ratio_is_the_median_of_those_of_each_round() {
        let (ours, limit) = (series(&[10.0, 90.0, 30.0]), series(&[20.0, 100.0, 100.0]));
        // 0.5, 0.9, 0.3: the machine was five times as fast in two of the rounds.
        assert_eq!(ratio(&ours, |round| at(&limit, round)), 0.5);
    }
}
