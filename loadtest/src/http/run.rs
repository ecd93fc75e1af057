//! All loops of a run: for each mix a closed one that finds the peak, then open ones at parts of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use indicatif::ProgressStyle;

use super::base::Base;
use super::mixes::{Mix, Requests};
use super::open::Offer;
use super::prepare::prepare;
use super::shape::Shape;
use super::tally::Loop;
use super::{Control, Options, Progress, closed, open};
use crate::report::model::HttpRun;
use crate::stats::curve;

/// Of the peak, in the open loops.
const PARTS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];

/// What a run found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By mix, the closed loop first; if interrupted, those until then, the last of them cut short.
    pub runs: Vec<HttpRun>,
    pub interrupted: bool,
    /// Why there are no more runs: the server went away, or answered nothing well.
    pub failed: Option<anyhow::Error>,
}

/// Finds the server, uploads the tree, and runs all loops. The tree stays for the next run, and so do the uploads of
/// this one: [`clean_up`](super::clean_up) removes both.
///
/// # Errors
///
/// If the server is not there, is no Rowdrive server, or cannot serve; or if it refuses the tree. Errors in the loops
/// are counted, and what ends them does not lose those before.
pub async fn run(options: &Options, progress: &Progress) -> anyhow::Result<Outcome> {
    let outcome = measure(options, progress).await;
    progress.bar.finish_and_clear();
    outcome
}

async fn measure(options: &Options, progress: &Progress) -> anyhow::Result<Outcome> {
    let base = Base::find(&options.url).await?;
    let shape = Arc::new(Shape::new(options.seed, options.files)?);
    let bar = &progress.bar;
    bar.set_style(ProgressStyle::with_template("{msg:40} {bar:30} {pos}/{len}")?);
    if prepare(&base, &shape, progress).await?.interrupted {
        return Ok(Outcome { interrupted: true, ..Outcome::default() });
    }
    bar.set_style(ProgressStyle::with_template("{msg:40} {bar:30} {eta} left")?);
    bar.set_length(options.mix.len() as u64 * (1 + PARTS.len() as u64) * u64::from(options.seconds) * 1000);
    bar.set_position(0);
    let mut bench = Bench { options, progress, base, shape, name: run_name(), loops: 0, outcome: Outcome::default() };
    for mix in &options.mix {
        bench.outcome.failed = bench.measure(*mix).await.err();
        if bench.outcome.interrupted || bench.outcome.failed.is_some() {
            break;
        }
    }
    Ok(bench.outcome)
}

/// A name that no earlier run has had.
fn run_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("run-{}-{}", now.as_millis(), std::process::id())
}

struct Bench<'a> {
    options: &'a Options,
    progress: &'a Progress,
    base: Base,
    shape: Arc<Shape>,
    name: String,
    /// Loops that were begun.
    loops: usize,
    outcome: Outcome,
}

impl Bench<'_> {
    /// All loops of a mix, or those until it is ended early.
    async fn measure(&mut self, mix: Mix) -> anyhow::Result<()> {
        let (connections, threads) = (self.options.connections as usize, self.options.threads as usize);
        let duration = Duration::from_secs(u64::from(self.options.seconds));
        let (requests, control) = self.next(mix);
        let make = move |n| requests.request(n);
        let closed = closed::run(self.base.address, connections, threads, duration, make, control.clone());
        let found = self.watched(format!("{}: closed loop", mix.name()), &control, closed).await?;
        let peak = found.per_second();
        self.keep(&found, mix, 1.0, None);
        if self.outcome.interrupted {
            return Ok(());
        }
        ensure!(
            found.requests > 0,
            "{} answered no request of `{}` well in {} s: {:?}",
            self.base,
            mix.name(),
            self.options.seconds,
            found.failures.by_name()
        );
        for of_peak in PARTS {
            let (requests, control) = self.next(mix);
            let make = move |n| requests.request(n);
            let seed = self.options.seed.wrapping_add(self.loops as u64);
            let offer = Offer { arrivals: self.options.arrivals, rate: peak * of_peak, duration, seed };
            let open = open::run(self.base.address, connections, threads, offer, make, control.clone());
            let found = self.watched(format!("{}: {:.0} % of it", mix.name(), of_peak * 100.0), &control, open).await?;
            self.keep(&found, mix, of_peak, Some(offer.rate));
            if self.outcome.interrupted {
                break;
            }
        }
        Ok(())
    }

    /// What the next loop sends, other than those before it.
    fn next(&mut self, mix: Mix) -> (Requests, Control) {
        self.loops += 1;
        let uploads = Requests::uploads(&self.name, self.loops);
        // Far apart, since request numbers are added.
        let seed = self.options.seed.wrapping_add((self.loops as u64) << 40);
        let requests = Requests { base: self.base.clone(), shape: Arc::clone(&self.shape), mix, seed, uploads };
        (requests, Control::new(self.progress.stop.clone()))
    }

    /// Shows how a loop goes while it runs.
    async fn watched(
        &self,
        title: String,
        control: &Control,
        running: impl Future<Output = anyhow::Result<Loop>>,
    ) -> anyhow::Result<Loop> {
        let bar = &self.progress.bar;
        let before = (self.loops as u64 - 1) * u64::from(self.options.seconds) * 1000;
        let (mut last, mut since) = (0, Instant::now());
        let begun = since;
        bar.set_message(title.clone());
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        tick.tick().await;
        tokio::pin!(running);
        loop {
            tokio::select! {
                found = &mut running => return found,
                _ = tick.tick() => {
                    let (answered, now) = (control.answered.load(Ordering::Relaxed), Instant::now());
                    let rate = (answered - last) as f64 / (now - since).as_secs_f64().max(1e-9);
                    (last, since) = (answered, now);
                    bar.set_position(before + (now - begun).as_millis() as u64);
                    bar.set_message(format!("{title}, {rate:.0}/s"));
                }
            }
        }
    }

    fn keep(&mut self, found: &Loop, mix: Mix, of_peak: f64, offered: Option<f64>) {
        self.outcome.interrupted |= found.interrupted || self.progress.stopped();
        self.outcome.runs.push(HttpRun {
            mix: mix.name().to_owned(),
            of_peak,
            open_loop: offered.is_some(),
            connections: self.options.connections as usize,
            offered_per_second: offered.unwrap_or_else(|| found.per_second()),
            per_second: found.per_second(),
            bytes_per_second: found.bytes as f64 / found.seconds.max(1e-9),
            errors: found.errors(),
            p50_us: found.histogram.value_at_quantile(0.5),
            p99_us: found.histogram.value_at_quantile(0.99),
            curve: curve(&found.histogram),
            generator_bound: found.generator_bound(),
            requests: found.requests,
            seconds: found.seconds,
            failures: found.failures.by_name(),
            reopened: found.reopened,
            generator_cpu_share: found.generator.computing,
            generator_wait_share: found.generator.waiting,
            interrupted: found.interrupted,
        });
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use tokio::sync::watch;

    use super::*;
    use crate::http::Arrivals;
    use crate::http::test_server::{TestServer, answer, rowdrive};

    fn options(url: String) -> Options {
        Options {
            clean_up: false,
            url,
            mix: vec![Mix::Stat, Mix::UploadSmall],
            connections: 4,
            threads: 1,
            seconds: 1,
            files: 100,
            seed: 1,
            arrivals: Arrivals::Poisson,
        }
    }

    /// Stores nothing, and says that all went well.
    async fn pretender(uploaded: u16) -> TestServer {
        TestServer::start(move |method, target| async move {
            rowdrive(&method, &target).unwrap_or_else(|| match method {
                Method::PUT if target.contains("/uploads/") => answer(uploaded, "{}"),
                Method::PUT => answer(201, "{}"),
                _ => {
                    std::thread::sleep(Duration::from_micros(200));
                    answer(200, "{}")
                }
            })
        })
        .await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_early_end_gives_the_loops_until_then() {
        let server = pretender(201).await;
        let (tell, stop) = watch::channel(false);
        tokio::spawn(async move {
            // In the second of ten loops.
            tokio::time::sleep(Duration::from_millis(1_600)).await;
            tell.send(true).unwrap();
            std::future::pending::<()>().await;
        });
        let outcome = run(&options(server.url()), &Progress::new(stop)).await.unwrap();
        assert!(outcome.interrupted);
        assert!((1..10).contains(&outcome.runs.len()), "{}", outcome.runs.len());
        let (first, last) = (&outcome.runs[0], outcome.runs.last().unwrap());
        assert_eq!((first.mix.as_str(), first.of_peak, first.open_loop), ("stat", 1.0, false));
        assert!(last.interrupted && last.seconds < 1.0, "{last:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_mix_that_is_never_answered_well_ends_the_run() {
        let server = pretender(507).await;
        let progress = Progress::new(watch::channel(false).1);
        let asked = Options { mix: vec![Mix::UploadSmall], ..options(server.url()) };
        let outcome = run(&asked, &progress).await.unwrap();
        assert_eq!((outcome.runs.len(), outcome.runs[0].requests), (1, 0));
        assert_eq!(outcome.runs[0].errors, outcome.runs[0].failures["status 507"]);
        let error = outcome.failed.unwrap().to_string();
        assert!(
            error.contains("answered no request of `upload small` well") && error.contains("status 507"),
            "{error}"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_that_goes_away_does_not_lose_what_was_measured() {
        let server = pretender(201).await;
        let url = server.url();
        tokio::spawn(async move {
            // Connections that are open are served on; the second loop finds no one who takes more.
            tokio::time::sleep(Duration::from_millis(500)).await;
            drop(server);
        });
        let outcome = run(&options(url), &Progress::new(watch::channel(false).1)).await.unwrap();
        assert_eq!((outcome.runs.len(), outcome.interrupted), (1, false));
        assert!(outcome.runs[0].requests > 0);
        assert!(outcome.failed.unwrap().to_string().contains("does not answer any more"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn open_loops_offer_parts_of_the_peak() {
        let server = pretender(201).await;
        let progress = Progress::new(watch::channel(false).1);
        let asked = Options { mix: vec![Mix::Stat], ..options(server.url()) };
        let runs = run(&asked, &progress).await.unwrap().runs;
        assert_eq!(runs.iter().map(|run| run.of_peak).collect::<Vec<_>>(), [1.0, 0.25, 0.5, 0.75, 0.9]);
        for open in &runs[1..] {
            assert!(
                open.open_loop && (open.offered_per_second / (runs[0].per_second * open.of_peak) - 1.0).abs() < 1e-9
            );
        }
    }
}
