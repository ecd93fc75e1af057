//! Load over HTTP on a running drive: for each mix a closed loop that finds the peak, then open loops at parts of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use tokio::sync::watch;

use super::base::Base;
use super::dataset::{self, Dataset, ROOT};
pub use super::generator::Arrivals;
use super::generator::{self, Load, Offer};
pub use super::mixes::Mix;
use super::mixes::Requests;
use crate::measure::bar;
use crate::report::model::HttpRun;
use crate::stats::curve;

/// The loops of a mix: a closed one that finds the peak, then open ones at parts of it.
const PARTS: [f64; 5] = [1.0, 0.25, 0.5, 0.75, 0.9];

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Remove what earlier runs have left on the server, and do nothing else.
    #[arg(long)]
    pub clean_up: bool,
    /// Where the server is.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/")]
    pub url: String,
    /// What is asked for; all of it unless told.
    #[arg(long, value_enum, value_name = "MIX", value_delimiter = ',')]
    #[arg(default_values_t = Mix::value_variants().iter().copied())]
    pub mix: Vec<Mix>,
    /// Connections of each run.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,
    /// Threads that make the load: more of them if a run says that these had no time left.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// How long a run lasts; there are five for each mix.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Files in the tree that is uploaded first, if it is not there from an earlier time.
    #[arg(long, value_name = "NUMBER", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub files: u32,
    /// Seed of everything random.
    #[arg(skip)]
    pub seed: u64,
    /// When requests of the open loops are sent.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub arrivals: Arrivals,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By mix, the closed loop first; if interrupted, those until then, the last of them cut short.
    pub runs: Vec<HttpRun>,
    /// Why there are no more runs: the server went away, or answered nothing well.
    pub failed: Option<anyhow::Error>,
}

/// Finds the server, uploads the tree, and runs all loops. The tree stays for the next run, and so do the uploads of
/// this one: [`clean_up`] removes both.
///
/// # Errors
///
/// If the server is not there, is no Rowdrive server, or cannot serve; or if it refuses the tree. Failures in the loops
/// are counted, and what ends them does not lose those before.
pub async fn run(options: &Options, stop: &watch::Receiver<bool>) -> Result<Outcome> {
    let base = Base::find(&options.url).await?;
    let dataset = Arc::new(Dataset::new(options.files, options.seed)?);
    dataset.upload(&base, stop).await?;
    let mut bench = Bench { options, stop, base, dataset, runs: Vec::new() };
    let failed = bench.all().await.err();
    Ok(Outcome { runs: bench.runs, failed })
}

/// Removes everything that load tests have stored on the server at `url`; false if there is nothing.
pub async fn clean_up(url: &str) -> Result<bool> {
    dataset::clean_up(&Base::find(url).await?).await
}

struct Bench<'a> {
    options: &'a Options,
    stop: &'a watch::Receiver<bool>,
    base: Base,
    dataset: Arc<Dataset>,
    runs: Vec<HttpRun>,
}

impl Bench<'_> {
    async fn all(&mut self) -> Result<()> {
        for mix in &self.options.mix {
            let mut peak = None;
            for of_peak in PARTS {
                if *self.stop.borrow() {
                    return Ok(());
                }
                let run = self.one(*mix, of_peak, peak.map(|peak| peak * of_peak)).await?;
                peak = peak.or(Some(run.per_second));
                self.runs.push(run.clone());
                ensure!(
                    run.requests > 0 || run.interrupted,
                    "{} answered no request of `{}` well in {} s: {:?}",
                    self.base,
                    run.mix,
                    run.seconds,
                    run.failures
                );
            }
        }
        Ok(())
    }

    /// One loop: a closed one if there is no rate.
    async fn one(&self, mix: Mix, of_peak: f64, rate: Option<f64>) -> Result<HttpRun> {
        let Options { connections, threads, seconds, seed, arrivals, .. } = *self.options;
        let name = if rate.is_some() { "of the peak" } else { "closed loop" };
        let bar = bar(&format!("http: {}, {:.0} % {name}", mix.name(), of_peak * 100.0))?;
        // Far apart, since request numbers are added.
        let seed = seed.wrapping_add((self.runs.len() as u64 + 1) << 40);
        let closed = Load::closed(connections as usize, Duration::from_secs(seconds.into()), self.stop);
        let offer = rate.map(|rate| Offer { arrivals, rate, seed });
        let load = Load { threads: threads as usize, offer, bar: bar.clone(), ..closed };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let uploads = format!("{ROOT}/run-{now}-{}", std::process::id());
        let requests = Requests { dataset: self.dataset.clone(), mix, seed, uploads };
        let found = generator::run(&self.base, &load, move |n| requests.request(n)).await?;
        bar.finish_and_clear();
        Ok(HttpRun {
            mix: mix.name(),
            of_peak,
            open_loop: rate.is_some(),
            connections: load.connections,
            offered_per_second: rate.unwrap_or_else(|| found.per_second()),
            per_second: found.per_second(),
            bytes_per_second: found.bytes as f64 / found.seconds.max(1e-9),
            errors: found.failures.values().sum(),
            p50_us: found.latencies.value_at_quantile(0.5),
            p99_us: found.latencies.value_at_quantile(0.99),
            curve: curve(&found.latencies),
            generator_bound: found.generator_bound(),
            requests: found.requests,
            seconds: found.seconds,
            failures: found.failures,
            reopened: found.reopened,
            generator_cpu_share: found.computing,
            generator_wait_share: found.waiting,
            interrupted: found.interrupted,
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{Method, StatusCode};

    use super::*;
    use crate::server::test_server::TestServer;

    fn options(server: &TestServer, mix: Mix) -> Options {
        let (connections, arrivals, url) = (4, Arrivals::Poisson, server.url());
        Options {
            clean_up: false,
            url,
            mix: vec![mix],
            connections,
            threads: 1,
            seconds: 1,
            files: 100,
            seed: 1,
            arrivals,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_drive_is_measured_at_its_peak_and_at_parts_of_it() {
        let (server, _folder) = TestServer::drive().await;
        let Outcome { runs, failed } = run(&options(&server, Mix::Mixed), &watch::channel(false).1).await.unwrap();
        assert!(failed.is_none(), "{failed:?}");
        assert_eq!(runs.iter().map(|run| run.of_peak).collect::<Vec<_>>(), [1.0, 0.25, 0.5, 0.75, 0.9]);
        for run in &runs {
            assert!(run.requests > 0 && run.errors == 0 && run.mix == "mixed", "{run:?}");
            assert!((run.offered_per_second / (runs[0].per_second * run.of_peak) - 1.0).abs() < 1e-9);
        }
        assert!(clean_up(&server.url()).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_ends_a_run_does_not_lose_what_was_measured() {
        // A server that stores nothing, refuses uploads of the loops, and ends the run with its 100th stat.
        let (tell, stop) = watch::channel(false);
        let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let server = TestServer::start(Router::new().fallback(async move |method: Method, uri: axum::http::Uri| {
            if uri.path().starts_with("/v1/stat") && asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 99 {
                tell.send_replace(true);
            }
            let refused = method == Method::PUT && uri.path().contains("/run-");
            let status = if refused { StatusCode::INSUFFICIENT_STORAGE } else { StatusCode::OK };
            (status, r#"{"path": "/", "creator": "loadtest"}"#)
        }))
        .await;
        let Outcome { runs, failed } = run(&options(&server, Mix::UploadSmall), &stop).await.unwrap();
        assert_eq!((runs.len(), runs[0].requests, runs[0].errors), (1, 0, runs[0].failures["status 507"]));
        assert!(failed.unwrap().to_string().contains("answered no request of `upload small` well"));
        let Outcome { runs, failed } = run(&options(&server, Mix::Stat), &stop).await.unwrap();
        assert!(failed.is_none() && runs.len() == 1 && runs[0].interrupted && runs[0].requests > 0, "{runs:?}");
    }
}
