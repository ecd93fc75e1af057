//! Measurements of the server in its process, in turns, so that all of them meet the same machine.

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

use super::super::base::{Base, answer};
use super::super::client::request;
use super::super::generator::{self, Load};
use super::super::loops::{Asked, Loop, Speed};
use super::super::process::{Server, pieces};
use super::profile::Profiles;
use super::rows::{Figure, Sample, rows};
use crate::measure::{Pace, bar};
use crate::report::model::Limit;

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
    pub pace: Pace,
    pub profiles: Profiles,
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
                self.pace.go_on()?;
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
        self.profiles.add(&mut rows, self.server.id(), self.sample(ours, PROFILED)).await?;
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
        Load::closed(connections, Duration::from_millis(ms), &self.pace.stop)
    }

    async fn receive(&self, target: &str, bytes: u64) -> Result<()> {
        let answer = self.base.ask(Method::GET, target).send().await?.error_for_status()?;
        let received = answer.bytes_stream().try_fold(0, async |sum, piece| Ok(sum + piece.len() as u64)).await?;
        ensure!(received == bytes, "{target}: {received} of {bytes} bytes came");
        Ok(())
    }
}
