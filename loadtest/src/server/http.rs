//! Load over HTTP on a running drive: for each mix a closed loop that finds the peak, then open loops at parts of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::client::Base;
use super::dataset::{self, Dataset, ROOT};
pub use super::generator::Arrivals;
use super::generator::{self, Load, Offer};
pub use super::mixes::Mix;
use super::mixes::Requests;
use crate::progress::{Stop, bar};
use crate::server::HttpRun;
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
    /// What is asked for; all of it by default.
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

/// Finds the server, uploads the tree, and runs all loops; `keep` is given each as soon as it is done. The tree stays for
/// the next run, and so do the uploads of this one: [`clean_up`] removes both. Failed requests are counted; it is an
/// error if the server cannot be measured, refuses the tree, goes away, or answers no request well.
pub async fn run(options: &Options, stop: &Stop, mut keep: impl FnMut(HttpRun) -> Result<()>) -> Result<()> {
    let base = Base::find(&options.url).await?;
    let dataset = Arc::new(Dataset::new(options.files, options.seed)?);
    dataset.upload(&base, stop).await?;
    let bench = Bench { options, stop, base, dataset };
    for (mix, number) in options.mix.iter().zip(0..) {
        let mut peak = None;
        for (of_peak, part) in PARTS.into_iter().zip(1..) {
            if stop.go_on().is_err() {
                return Ok(());
            }
            let rate = peak.map(|peak| peak * of_peak);
            let run = bench.run(*mix, of_peak, rate, number * PARTS.len() as u64 + part).await?;
            peak = peak.or(Some(run.per_second));
            keep(run.clone())?;
            ensure!(
                run.requests > 0 || run.interrupted,
                "{} answered no request of `{}` well in {} s: {:?}",
                bench.base,
                run.mix,
                run.seconds,
                run.failures
            );
        }
    }
    Ok(())
}

/// Removes everything that load tests have stored on the server at `url`; false if there is nothing.
pub async fn clean_up(url: &str) -> Result<bool> {
    dataset::clean_up(&Base::find(url).await?).await
}

struct Bench<'a> {
    options: &'a Options,
    stop: &'a Stop,
    base: Base,
    dataset: Arc<Dataset>,
}

impl Bench<'_> {
    /// Loop `number`: a closed one if there is no rate.
    async fn run(&self, mix: Mix, of_peak: f64, rate: Option<f64>, number: u64) -> Result<HttpRun> {
        let Options { connections, threads, seconds, seed, arrivals, .. } = *self.options;
        let name = if rate.is_some() { "of the peak" } else { "closed loop" };
        let bar = bar(&format!("http: {}, {:.0} % {name}", mix.name(), of_peak * 100.0))?;
        // Far apart, since request numbers are added.
        let seed = seed.wrapping_add(number << 40);
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
    use tokio::sync::watch;

    use std::sync::atomic::{AtomicU64, Ordering};

    use axum::Router;
    use axum::http::{Method, StatusCode, Uri};

    use super::*;
    use crate::server::test_server::TestServer;

    async fn runs(url: String, mix: Mix, stop: &Stop) -> (Vec<HttpRun>, Result<()>) {
        let (mix, arrivals) = (vec![mix], Arrivals::Poisson);
        let asked = Options {
            clean_up: false,
            url,
            mix,
            connections: 4,
            threads: 1,
            seconds: 1,
            files: 100,
            seed: 1,
            arrivals,
        };
        let mut runs = Vec::new();
        let keep = |run| {
            runs.push(run);
            Ok(())
        };
        let ended = run(&asked, stop, keep).await;
        (runs, ended)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_drive_is_measured_at_its_peak_and_at_parts_of_it() {
        let (server, _folder) = TestServer::drive().await;
        let (runs, ended) = runs(server.url(), Mix::Mixed, &Stop(watch::channel(false).1)).await;
        assert_eq!(runs.iter().map(|run| run.of_peak).collect::<Vec<_>>(), PARTS);
        for run in &runs {
            assert!(ended.is_ok() && run.requests > 0 && run.errors == 0 && run.mix == "mixed", "{ended:?} {run:?}");
            assert!((run.offered_per_second / (runs[0].per_second * run.of_peak) - 1.0).abs() < 1e-9);
        }
        assert!(clean_up(&server.url()).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_ends_a_run_does_not_lose_what_was_measured() {
        // A server that stores nothing, refuses uploads of the loops, and ends the run with its 100th stat.
        let (tell, stop) = watch::channel(false);
        let asked = Arc::new(AtomicU64::new(0));
        let routes = Router::new().fallback(async move |method: Method, uri: Uri| {
            if uri.path().starts_with("/v1/stat") && asked.fetch_add(1, Ordering::Relaxed) == 99 {
                tell.send_replace(true);
            }
            let refused = method == Method::PUT && uri.path().contains("/run-");
            let status = if refused { StatusCode::INSUFFICIENT_STORAGE } else { StatusCode::OK };
            (status, r#"{"path": "/", "creator": "loadtest"}"#)
        });
        let server = TestServer::start(routes).await;
        let (refused, ended) = runs(server.url(), Mix::UploadSmall, &Stop(stop.clone())).await;
        assert_eq!((refused[0].requests, refused[0].errors), (0, refused[0].failures["status 507"]));
        assert!(ended.unwrap_err().to_string().contains("answered no request of `upload small` well"));
        let (cut, ended) = runs(server.url(), Mix::Stat, &Stop(stop)).await;
        assert!(
            ended.is_ok() && cut.len() == 1 && cut[0].interrupted && (1..=99).contains(&cut[0].requests),
            "{cut:?}"
        );
    }
}
