//! Times operations in closed loops: so many clients, each of which sends its next operation when the last one is
//! answered.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::report::model::Work;
use crate::work::Meter;

/// An operation that takes longer, in microseconds, reads much of a table: several at a time only wait for a core.
const SLOW_US: u64 = 20_000;
/// Operations of each client of a loop of many: with one each there would be no time at which all are at work.
const LEAST: u64 = 3;
/// The longest latency of a histogram, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;

/// How operations are measured. Cheap to clone.
#[derive(Clone)]
pub struct Pace {
    /// Clients of the second loop; the first has one.
    pub clients: usize,
    /// How long one loop lasts.
    pub budget: Duration,
    /// True when the user wants no more.
    pub stop: watch::Receiver<bool>,
}

impl Pace {
    /// An error once the user has asked for the end.
    pub fn go_on(&self) -> Result<()> {
        if *self.stop.borrow() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// For what only one client can do.
    pub fn alone(&self) -> Self {
        Self { clients: 1, ..self.clone() }
    }
}

/// What one loop did.
#[derive(Clone)]
pub struct Loop {
    pub clients: usize,
    /// Operations that were answered.
    pub count: u64,
    pub seconds: f64,
    /// Of each operation, in microseconds, from the moment at which its client wanted it.
    pub latencies: Histogram<u64>,
    /// Of all operations together.
    pub work: Option<Work>,
}

impl Loop {
    fn new(clients: usize) -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3)?;
        Ok(Self { clients, count: 0, seconds: 0.0, latencies, work: None })
    }

    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.seconds.max(1e-9)
    }

    /// Operations under way at a time, on average: their latencies together divided by the time (Little's law). It is
    /// below `clients` by what the clients themselves needed between two operations.
    #[cfg(test)]
    pub fn under_way(&self) -> f64 {
        self.latencies.mean() * self.count as f64 / 1e6 / self.seconds
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        self.count += other.count;
        self.seconds += other.seconds;
        self.latencies.add(&other.latencies)?;
        self.work = match (self.work, &other.work) {
            (Some(work), Some(more)) => Some(work.zip(more, |one, other| one + other)),
            (work, more) => work.or(*more),
        };
        Ok(())
    }
}

/// One round of an operation: a loop of one client, and one of many.
#[derive(Clone)]
pub struct Round {
    pub one: Loop,
    /// None if an operation is slow, if only one client can do it, or if there were not enough items.
    pub many: Option<Loop>,
}

/// The items that the clients of all loops take from, each once.
type Items<T> = Arc<Mutex<Box<dyn Iterator<Item = T> + Send>>>;

/// Measures one round of an operation: a loop of many clients that is not counted, so that what is read often is in
/// memory; then a loop of one client, then a loop of [`Pace::clients`].
///
/// Of a slow operation there is no loop of many clients. `is_slow`: whether it was slow in an earlier round, so that all
/// rounds are alike; in the first one, the second of two operations alone shows it.
pub async fn measure<T, F>(
    title: &str,
    pace: &Pace,
    meter: &Meter,
    is_slow: Option<bool>,
    items: impl Iterator<Item = T> + Send + 'static,
    operation: impl Fn(T) -> F + Send + Sync + 'static,
) -> Result<Round>
where
    T: Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    pace.go_on()?;
    let bar = bar(title)?;
    let items: Items<T> = Arc::new(Mutex::new(Box::new(items)));
    let operation = Arc::new(operation);
    let run = async |clients, budget| {
        let before = meter.read()?;
        let least = if clients == 1 { 1 } else { LEAST };
        let mut done = closed_loop((clients, least), budget, pace, items.clone(), operation.clone()).await?;
        done.work = Some(meter.read()?.zip(&before, |after, before| after - before));
        anyhow::Ok(done)
    };
    let probe = run(1, Duration::ZERO).await?;
    if probe.count == 0 {
        bail!("{title}: there is nothing to measure");
    }
    // The very first operation may be slow for other reasons: it opens files, for example.
    let probe = if probe.seconds < 1.0 {
        Some(run(1, Duration::ZERO).await?).filter(|again| again.count > 0).unwrap_or(probe)
    } else {
        probe
    };
    if is_slow.unwrap_or(probe.latencies.min() > SLOW_US) {
        let mut one = probe;
        let spent = Duration::from_secs_f64(one.seconds);
        if spent < pace.budget {
            one.add(&run(1, pace.budget - spent).await?)?;
        }
        bar.finish_and_clear();
        return Ok(Round { one, many: None });
    }
    run(pace.clients, pace.budget / 2).await?;
    let measured = run(1, pace.budget).await?;
    let one = if measured.count > 0 { measured } else { probe };
    let many = if pace.clients > 1 { Some(run(pace.clients, pace.budget).await?) } else { None };
    bar.finish_and_clear();
    Ok(Round { one, many: many.filter(|many| many.count > 0) })
}

/// Runs clients until the time is up and each has done `least` operations, or until there are no more items. What has
/// begun is waited for.
async fn closed_loop<T, F, O>(
    (clients, least): (usize, u64),
    budget: Duration,
    pace: &Pace,
    items: Items<T>,
    operation: Arc<O>,
) -> Result<Loop>
where
    T: Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
    O: Fn(T) -> F + Send + Sync + 'static,
{
    let start = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (items, operation, pace) = (items.clone(), operation.clone(), pace.clone());
        running.spawn(async move {
            let mut own = Loop::new(clients)?;
            while (own.count < least || start.elapsed() < budget) && pace.go_on().is_ok() {
                let Some(item) = items.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
                let wanted = Instant::now();
                // Many clients share few threads. The others have their turn here, and the wait is part of the latency:
                // without it an operation that never waits would be measured as if its client were alone.
                tokio::task::yield_now().await;
                operation(item).await?;
                own.latencies.saturating_record(wanted.elapsed().as_micros().max(1) as u64);
                own.count += 1;
            }
            anyhow::Ok(own)
        });
    }
    let mut all = Loop::new(clients)?;
    while let Some(own) = running.join_next().await {
        match own?.and_then(|own| all.add(&own)) {
            Ok(()) => {}
            Err(error) => {
                // Nobody may use the layout any more when the caller closes it.
                running.shutdown().await;
                return Err(error);
            }
        }
    }
    all.seconds = start.elapsed().as_secs_f64();
    pace.go_on()?;
    Ok(all)
}

/// A line that says what is being done, where there is a terminal.
pub fn bar(title: &str) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{spinner} {msg:44} {elapsed:>4} {pos:>10} {per_sec}")?;
    let bar = ProgressBar::new_spinner().with_style(style).with_message(title.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    if bar.is_hidden() {
        eprintln!("{title}");
    }
    Ok(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(clients: usize, ms: u64) -> Pace {
        Pace { clients, budget: Duration::from_millis(ms), stop: watch::channel(false).1 }
    }

    #[tokio::test]
    async fn every_item_is_used_once_and_failures_are_returned() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let used = seen.clone();
        let record = move |n| {
            used.lock().unwrap().push(n);
            async { Ok(()) }
        };
        let round = measure("t", &pace(3, 60_000), &Meter::default(), None, 1..=4, record).await.unwrap();
        // Two are done alone, the others while it warms up: there is nothing else to count.
        assert_eq!((round.one.count, round.many.is_none()), (1, true));
        seen.lock().unwrap().sort_unstable();
        assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4]);
        assert!(measure("t", &pace(1, 1), &Meter::default(), None, 1..=1, |_| async { bail!("no") }).await.is_err());
        assert!(measure("t", &pace(1, 1), &Meter::default(), None, 0..0, |_| async { Ok(()) }).await.is_err());
    }

    #[tokio::test]
    async fn it_ends_when_it_is_asked_to() {
        let (stop, stopped) = watch::channel(false);
        let pace = Pace { stop: stopped, ..pace(2, 60_000) };
        let stop_at_100 = move |n| {
            stop.send_replace(n >= 100);
            async { Ok(()) }
        };
        let endless = measure("t", &pace, &Meter::default(), None, 0.., stop_at_100).await;
        assert_eq!(endless.err().unwrap().to_string(), "interrupted");
    }

    /// What never waits is measured with as many operations under way as there are clients: by Little's law.
    #[tokio::test]
    async fn the_latency_has_the_wait_for_other_clients() {
        let spin = |_| async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(50) {}
            Ok(())
        };
        let round = measure("t", &pace(8, 100), &Meter::default(), None, 0.., spin).await.unwrap();
        let many = round.many.unwrap();
        assert_eq!((round.one.clients, many.clients), (1, 8));
        assert!(round.one.under_way() < 1.1, "{}", round.one.under_way());
        assert!((4.0..8.8).contains(&many.under_way()), "{}", many.under_way());
    }

    #[tokio::test]
    async fn a_slow_operation_is_measured_with_one_client() {
        let slow = |_| async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(())
        };
        let round = measure("t", &pace(8, 1), &Meter::default(), None, 0.., slow).await.unwrap();
        assert!(round.many.is_none() && round.one.count >= 1);
    }
}
