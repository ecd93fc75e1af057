//! Measurements of the server in its process, in turns, so that all of them meet the same machine, and their rows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use http_body_util::Full;
use hyper::header::CONTENT_LENGTH;
use hyper::{Method, Request};
use procfs::process::{ClearRefs, Process};
use reqwest::{Body, RequestBuilder};
use serde::de::DeserializeOwned;

use super::super::client::{Base, answer, request};
use super::super::generator::{self, Load};
use super::super::loops::{Asked, Loop, Speed};
use super::super::process::{Server, pieces};
use super::profile::profile;
use crate::progress::{Stop, bar};
use crate::server::Limit;
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

const MIB: f64 = 1_048_576.0;
/// How long what misses a goal is sampled, in milliseconds.
const PROFILED: u64 = 2_000;

/// One thing to measure.
#[derive(Clone)]
pub enum Measure {
    /// So many connections in a closed loop.
    Requests(usize, Arc<dyn Fn(u64) -> Request<Full<Bytes>> + Send + Sync>),
    /// A loop inside the server, so many times at once.
    Loop(Loop, usize),
    /// An upload of so many MiB.
    Send(&'static str, u64),
    /// Downloads of so many MiB, so many at once.
    Receive(String, u64, usize),
}

/// GET requests in a closed loop.
pub fn get(connections: usize, target: impl Fn(u64) -> String + Send + Sync + 'static) -> Measure {
    Measure::Requests(connections, Arc::new(move |n| request(Method::GET, target(n), Bytes::new())))
}

/// Measurements in turns, and the rows that they give.
pub struct Set {
    pub title: &'static str,
    pub ours: Measure,
    /// By name.
    pub beside: Vec<(&'static str, Measure)>,
    pub figures: Vec<Figure>,
}

/// A drive that is full of files, and how it is measured.
pub struct Subject {
    pub server: Server,
    pub base: Base,
    pub rounds: usize,
    /// How long a measurement lasts.
    pub ms: u64,
    pub stop: Stop,
    /// The folder of the report, if profiles are wanted.
    pub report: Option<PathBuf>,
}

impl Subject {
    /// Measures ours and what is beside it in each round, after one round that is not counted. If a row misses its
    /// goal, ours is measured once more for a profile.
    pub async fn rows(&self, Set { title, ours, beside, figures }: &Set) -> Result<Vec<Limit>> {
        let bar = bar(&format!("limits: {title}"))?;
        let mut rounds = Vec::new();
        for round in 0..=self.rounds {
            let ms = if round == 0 { self.ms / 4 } else { self.ms };
            let sample = async |measure| {
                self.stop.go_on()?;
                bar.inc(1);
                self.sample(measure, ms.max(50)).await
            };
            let mut samples = (sample(ours).await?, Vec::new());
            for (_, measure) in beside {
                samples.1.push(sample(measure).await?);
            }
            rounds.push(samples);
        }
        bar.finish_and_clear();
        rounds.remove(0);
        let names: Vec<&str> = beside.iter().map(|(name, _)| *name).collect();
        let mut rows = rows(figures, &names, &rounds);
        let report = self.report.as_deref();
        profile(report, &mut rows, self.server.id(), self.sample(ours, PROFILED)).await?;
        Ok(rows)
    }

    /// The answer to a request, from JSON.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let (status, text) = answer(request).await?;
        ensure!(status.is_success(), "{status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    async fn sample(&self, measure: &Measure, ms: u64) -> Result<Sample> {
        let commits = || self.json::<[u64; 2]>(self.base.ask(Method::GET, "/limits/commits"));
        let process = Process::new(self.server.id() as i32)?;
        let [plans, syncs] = commits().await?;
        let (resident, written) = (process.statm()?.resident * procfs::page_size(), process.io()?.write_bytes);
        process.clear_refs(ClearRefs::PeakRSS)?;
        let (speed, generator_bound) = self.speed(measure, ms).await?;
        let peak = process.status()?.vmhwm.unwrap_or_default() << 10;
        let ([plans_after, syncs_after], written) = (commits().await?, process.io()?.write_bytes - written);
        let sent = if let Measure::Send(_, mib) = measure { mib << 20 } else { 1 };
        Ok(Sample {
            speed,
            memory: peak.saturating_sub(resident) as f64 / MIB,
            written: written as f64 / sent as f64,
            commits_per_sync: (plans_after - plans) as f64 / (syncs_after - syncs).max(1) as f64,
            generator_bound,
        })
    }

    /// How fast it was, and whether the generator had no time left.
    async fn speed(&self, measure: &Measure, ms: u64) -> Result<(Speed, bool)> {
        let start = Instant::now();
        let mib = match measure {
            Measure::Loop(which, tasks) => {
                let asked = Asked { which: *which, tasks: *tasks, ms };
                return Ok((self.json(self.base.ask(Method::POST, "/limits/loop").json(&asked)).await?, false));
            }
            Measure::Requests(connections, make) => {
                let (load, make) = (self.closed(*connections, ms), make.clone());
                let found = generator::run(&self.base, &load, move |n| make(n)).await?;
                ensure!(found.failures.is_empty(), "requests failed: {:?}", found.failures);
                let us = |quantile| found.latencies.value_at_quantile(quantile) as f64;
                let speed = Speed { per_second: found.per_second(), p50_us: us(0.5), p99_us: us(0.99) };
                return Ok((speed, found.generator_bound()));
            }
            Measure::Send(target, mib) => {
                let body = Body::wrap_stream(pieces(vec![7; 256 << 10].into(), mib << 20));
                let put = self.base.ask(Method::PUT, target).header(CONTENT_LENGTH, mib << 20).body(body);
                put.send().await?.error_for_status()?;
                *mib
            }
            Measure::Receive(target, mib, streams) => {
                try_join_all((0..*streams).map(|_| self.receive(target, mib << 20))).await?;
                mib * *streams as u64
            }
        };
        Ok((Speed { per_second: mib as f64 / start.elapsed().as_secs_f64(), ..Speed::default() }, false))
    }

    /// A closed loop that ends when the user asks for it.
    pub fn closed(&self, connections: usize, ms: u64) -> Load {
        Load::closed(connections, Duration::from_millis(ms), &self.stop)
    }

    async fn receive(&self, target: &str, bytes: u64) -> Result<()> {
        let answer = self.base.ask(Method::GET, target).send().await?.error_for_status()?;
        let received = answer.bytes_stream().try_fold(0, async |sum, piece| Ok(sum + piece.len() as u64)).await?;
        ensure!(received == bytes, "{target}: {received} of {bytes} bytes came");
        Ok(())
    }
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
