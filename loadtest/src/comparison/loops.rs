//! Loops that time requests: closed ones, in which each client sends its next request when the last one is answered, and
//! one at a set rate, in which requests begin by the clock. And what the loops of all rounds say together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::BoxFuture;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::Options;
use super::work::Meter;
use crate::progress::Stop;
use crate::report::model::{AtRate, Figures, Work};
use crate::stats::{curve, median};

/// Requests that show whether an operation is slow.
const PROBES: usize = 3;
/// A request that takes longer reads much of a table, and so does one that takes longer than a quarter of a loop, but at
/// least an eighth of this: several at a time only wait for a core.
const SLOW: Duration = Duration::from_millis(20);
/// Requests of each client of a loop of many: with one each there would be no time at which all are at work.
const MIN_REQUESTS: u64 = 2;
/// How long a store that was just opened is asked for stats, in loops.
const WARM_UP: u32 = 4;
/// The longest latency of a histogram, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;

/// A request that takes longer is slow, in loops of this length.
pub fn slow(loop_length: Duration) -> Duration {
    SLOW.min(loop_length / 4).max(SLOW / 8)
}

/// When the requests of a loop begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pacing {
    /// When the one client has the answer to its last one.
    One,
    /// The same with [`Options::clients`].
    Many,
    /// By the clock, so many a second, whether the ones before are answered or not.
    Rate(u32),
}

/// What one loop did.
#[derive(Clone)]
struct Loop {
    /// None at a set rate.
    clients: Option<usize>,
    seconds: f64,
    /// Of each answered request, in microseconds, from the moment at which it was wanted.
    latencies: Histogram<u64>,
    /// Of all requests together.
    work: Work,
}

impl Loop {
    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds.max(1e-9)
    }

    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        // All have the same bounds, so there is nothing that cannot be added.
        self.latencies.add(&other.latencies).unwrap_or_default();
        self.work = self.work.zip(&other.work, |one, other| one + other);
    }
}

/// What the rounds of an operation have found.
#[derive(Default)]
pub struct Found {
    /// Whether a request reads much of a table. The first round decides it, so that all rounds are alike.
    pub is_slow: Option<bool>,
    rounds: usize,
    /// In the order of the rounds. One client alone sends slow requests; at a set rate a layout that is too slow for it has
    /// no loop.
    loops: BTreeMap<Pacing, Vec<Loop>>,
}

impl Found {
    /// The figures of the loops of many clients, with those of one client beside them; of one client alone, if a round
    /// has no loop of many.
    pub fn figures(&self) -> Figures {
        let (mut one, mut many, mut at_rate) = (None, None, None);
        // Of all rounds or none: a layout that can hardly hold the rate would be told by its best rounds alone.
        for (pacing, loops) in self.loops.iter().filter(|(_, loops)| loops.len() == self.rounds) {
            let found = together(loops);
            match pacing {
                Pacing::One => one = found,
                Pacing::Many => many = found,
                Pacing::Rate(rate) => {
                    at_rate = found.map(|Figures { count, p50_us, p99_us, curve, .. }| {
                        let max_us = curve.last().map_or(0, |(_, latency)| *latency);
                        AtRate { per_second: f64::from(*rate), count, p50_us, p99_us, max_us }
                    });
                }
            }
        }
        match many {
            Some(many) => Figures { one_client: one.map(Box::new), at_rate, ..many },
            None => one.unwrap_or_default(),
        }
    }
}

fn together(loops: &[Loop]) -> Option<Figures> {
    let mut all = loops.first()?.clone();
    loops.iter().skip(1).for_each(|other| all.add(other));
    let rounds: Vec<f64> = loops.iter().map(Loop::per_second).collect();
    let count = all.latencies.len();
    Some(Figures {
        per_second: median(&rounds),
        p50_us: all.latencies.value_at_quantile(0.5),
        p99_us: all.latencies.value_at_quantile(0.99),
        count,
        clients: all.clients,
        rounds,
        work: Some(all.work.zip(&all.work, |all, _| all / count.max(1) as f64)),
        curve: curve(&all.latencies),
        ..Figures::default()
    })
}

/// The requests of a round, which the clients of all its loops take from: each is sent once, when it is polled.
pub struct Clients<'a> {
    pub options: &'a Options,
    pub stop: &'a Stop,
    pub meter: &'a Meter,
    pub requests: Arc<Mutex<dyn Iterator<Item = BoxFuture<'static, Result<()>>> + Send>>,
}

type Latencies = Arc<Mutex<Histogram<u64>>>;

impl Clients<'_> {
    /// Measures one round: a loop of many clients that is not counted, then these. Nothing is found if there are no
    /// requests.
    pub async fn measure(&self, pacings: &[Pacing], found: &mut Found) -> Result<()> {
        let length = self.options.loop_length;
        let probes = if found.is_slow.is_none() { PROBES } else { 1 };
        let Some((mut probe, quickest)) = self.probe(probes).await? else { return Ok(()) };
        let is_slow = *found.is_slow.get_or_insert(quickest > slow(length));
        let mut loops = BTreeMap::new();
        if is_slow || *pacings == [Pacing::One] {
            let spent = Duration::from_secs_f64(probe.seconds);
            if spent < length {
                probe.add(&self.run(Pacing::One, length - spent).await?);
            }
            loops.insert(Pacing::One, probe);
        } else {
            self.run(Pacing::Many, length / 2).await?;
            for pacing in pacings {
                let many = loops.get(&Pacing::Many).map_or(0.0, Loop::per_second);
                let length = match pacing {
                    Pacing::One => length,
                    Pacing::Many if self.options.clients > 1 => length,
                    // Its percentiles need many samples.
                    Pacing::Rate(rate) if many > 1.5 * f64::from(*rate) => self.options.at_rate_length,
                    Pacing::Many | Pacing::Rate(_) => continue,
                };
                let done = if length.is_zero() { continue } else { self.run(*pacing, length).await? };
                if !done.latencies.is_empty() {
                    loops.insert(*pacing, done);
                } else if *pacing == Pacing::One {
                    loops.insert(*pacing, probe.clone());
                }
            }
        }
        found.rounds += 1;
        loops.into_iter().for_each(|(pacing, done)| found.loops.entry(pacing).or_default().push(done));
        Ok(())
    }

    /// Sends requests that are not counted. Slow ones are left out after the first few.
    pub async fn warm_up(&self) -> Result<()> {
        if self.probe(PROBES).await?.is_some_and(|(_, quickest)| quickest < SLOW) {
            self.run(Pacing::Many, self.options.loop_length * WARM_UP).await?;
        }
        Ok(())
    }

    /// Sends up to so many requests, one after the other; one alone if that takes a second. Returns the last one, and the
    /// quickest latency: the first one may open files, and any may wait for the disk, so it shows what the layout has to
    /// do. None if there are no requests.
    async fn probe(&self, most: usize) -> Result<Option<(Loop, Duration)>> {
        let mut last = self.run(Pacing::One, Duration::ZERO).await?;
        let mut quickest = last.latencies.max();
        for _ in 1..if last.seconds < 1.0 { most } else { 1 } {
            let again = self.run(Pacing::One, Duration::ZERO).await?;
            if !again.latencies.is_empty() {
                quickest = quickest.min(again.latencies.max());
                last = again;
            }
        }
        Ok((!last.latencies.is_empty()).then_some((last, Duration::from_micros(quickest))))
    }

    /// Runs one loop. What has begun is waited for.
    async fn run(&self, pacing: Pacing, length: Duration) -> Result<Loop> {
        let before = self.meter.read()?;
        let clients = match pacing {
            Pacing::One => Some(1),
            Pacing::Many => Some(self.options.clients),
            Pacing::Rate(_) => None,
        };
        let (start, all) = (Instant::now(), Arc::new(Mutex::new(histogram()?)));
        let mut running = match pacing {
            Pacing::Rate(rate) => self.by_clock(rate, length, &all).await?,
            Pacing::One | Pacing::Many => self.closed(clients.unwrap_or(1), length, &all),
        };
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended? {
                // Nobody may use the layout any more when the caller closes it.
                running.shutdown().await;
                return Err(error);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        self.stop.go_on()?;
        let work = self.meter.read()?.zip(&before, |after, before| after - before);
        let latencies = lock(&all).clone();
        Ok(Loop { clients, seconds, latencies, work })
    }

    /// Starts clients, which end when the time is up and each has done its least, or when there are no more requests.
    fn closed(&self, clients: usize, length: Duration, all: &Latencies) -> JoinSet<Result<()>> {
        let start = Instant::now();
        let least = if clients == 1 { 1 } else { MIN_REQUESTS };
        let mut running = JoinSet::new();
        for _ in 0..clients {
            let (stop, requests, all) = (self.stop.clone(), self.requests.clone(), all.clone());
            running.spawn(async move {
                let mut own = histogram()?;
                while (own.len() < least || start.elapsed() < length) && stop.go_on().is_ok() {
                    let Some(request) = lock(&requests).next() else { break };
                    let wanted = Instant::now();
                    // Many clients share few threads. The others have their turn here, and the wait is part of the
                    // latency: without it a request that never waits would be measured as if its client were alone.
                    tokio::task::yield_now().await;
                    request.await?;
                    record(&mut own, wanted);
                }
                Ok(lock(&all).add(&own)?)
            });
        }
        running
    }

    /// Begins requests at a set rate. A latency begins at the set time, so that a stall counts for all requests that it
    /// delays.
    async fn by_clock(&self, rate: u32, length: Duration, all: &Latencies) -> Result<JoinSet<Result<()>>> {
        let (send, mut due) = tokio::sync::mpsc::unbounded_channel::<Instant>();
        // A thread of its own sleeps more exactly than the timer of the clients does.
        let clock = tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            // All that are due in a millisecond begin at its end.
            let due = (0..).map(|n| Duration::from_millis(n * 1_000 / u64::from(rate) + 1));
            for due in due.take_while(|due| *due <= length) {
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                if send.send(start + due).is_err() {
                    break;
                }
            }
        });
        let mut running = JoinSet::new();
        while let Some(wanted) = due.recv().await {
            let Some(request) = lock(&self.requests).next() else { break };
            let all = all.clone();
            running.spawn(async move {
                request.await?;
                record(&mut lock(&all), wanted);
                Ok(())
            });
        }
        drop(due);
        clock.await?;
        Ok(running)
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST, 3)?)
}

fn record(latencies: &mut Histogram<u64>, wanted: Instant) {
    latencies.saturating_record(wanted.elapsed().as_micros().max(1) as u64);
}

fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    const BOTH: [Pacing; 2] = [Pacing::One, Pacing::Many];

    /// Requests without end that take so long, asleep or at work.
    fn slow(sleep_ms: u64, spin_us: u64) -> impl Iterator<Item = BoxFuture<'static, Result<()>>> + Send {
        std::iter::repeat_with(move || -> BoxFuture<_> {
            Box::pin(async move {
                if sleep_ms > 0 {
                    tokio::time::sleep(Duration::from_millis(sleep_ms)).await;
                }
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(spin_us) {}
                Ok(())
            })
        })
    }

    /// What a round of so many clients and loops of so many milliseconds finds.
    async fn round(
        (clients, ms): (usize, u64),
        (pacings, is_slow): (&[Pacing], Option<bool>),
        requests: impl Iterator<Item = BoxFuture<'static, Result<()>>> + Send + 'static,
    ) -> Result<Found> {
        let loop_length = Duration::from_millis(ms);
        let options = &Options { clients, loop_length, at_rate_length: loop_length * 5, ..Options::default() };
        let (stop, requests) = (&Stop(watch::channel(false).1), Arc::new(Mutex::new(requests)));
        let mut found = Found { is_slow, ..Found::default() };
        Clients { options, stop, meter: &Meter::default(), requests }.measure(pacings, &mut found).await?;
        Ok(found)
    }

    #[tokio::test]
    async fn every_request_is_sent_once_and_failures_are_returned() {
        // Three are sent by the probe, the others while it warms up: there is nothing else to count.
        let found = round((3, 60_000), (&BOTH, None), slow(0, 0).take(5)).await.unwrap();
        assert!(found.loops.keys().eq([&Pacing::One]) && found.loops[&Pacing::One][0].latencies.len() == 1);
        assert_eq!(round((1, 1), (&BOTH, None), slow(0, 0).take(0)).await.unwrap().rounds, 0);
        let failing = std::iter::repeat_with(|| -> BoxFuture<_> { Box::pin(async { anyhow::bail!("missing") }) });
        assert!(round((1, 1), (&BOTH, None), failing).await.is_err());
    }

    /// Of what never waits there are as many requests under way as clients, by Little's law: the sum of the latencies
    /// divided by the time.
    #[tokio::test]
    async fn the_latency_has_the_wait_for_other_clients() {
        let found = round((8, 100), (&BOTH, None), slow(0, 50)).await.unwrap();
        let under_way = |of: &Loop| of.latencies.mean() * of.latencies.len() as f64 / 1e6 / of.seconds;
        let [one, many] = BOTH.map(|pacing| under_way(&found.loops[&pacing][0]));
        assert!(one < 1.1 && (4.0..8.8).contains(&many), "{one} {many}");
    }

    #[tokio::test]
    async fn a_slow_operation_is_measured_with_one_client() {
        let found = round((8, 80), (&BOTH, None), slow(30, 0)).await.unwrap();
        assert!(found.is_slow == Some(true) && found.loops.keys().eq([&Pacing::One]));
    }

    /// Requests of 10 ms each, so of 100 a second by one client, begin 500 times a second nevertheless; the latency of
    /// those that wait for a stalled thread has the wait.
    #[tokio::test]
    async fn a_set_rate_does_not_wait_for_answers_and_ends_when_asked() {
        let found = round((64, 40), (&[Pacing::Many, Pacing::Rate(500)], Some(false)), slow(10, 0)).await.unwrap();
        let at_rate = &found.loops[&Pacing::Rate(500)][0].latencies;
        assert!(at_rate.len() == 100 && at_rate.value_at_quantile(0.5) >= 10_000, "{}", at_rate.len());
        let options = &Options { clients: 2, loop_length: Duration::from_secs(60), ..Options::default() };
        let ((ask, stopped), requests) = (watch::channel(false), Arc::new(Mutex::new(slow(0, 10_000))));
        let clients = Clients { options, stop: &Stop(stopped), meter: &Meter::default(), requests };
        let late = clients.run(Pacing::Rate(500), Duration::from_millis(200)).await.unwrap();
        // A second of work was asked for within a fifth of one.
        assert!(late.latencies.max() > 500_000, "{}", late.latencies.max());
        let asked = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ask.send_replace(true);
        };
        let (ended, ()) = tokio::join!(clients.measure(&BOTH, &mut Found::default()), asked);
        assert_eq!(ended.unwrap_err().to_string(), "interrupted");
    }

    fn looped(clients: usize, seconds: f64, us: impl IntoIterator<Item = u64>) -> Loop {
        let mut latencies = histogram().unwrap();
        us.into_iter().for_each(|us| latencies.record(us).unwrap());
        let work = Work { reads: Some(3.0 * latencies.len() as f64), cpu_us: 100.0, ..Work::default() };
        Loop { clients: Some(clients), seconds, latencies, work }
    }

    #[test]
    fn the_rate_is_the_median_and_the_latencies_are_those_of_all_rounds() {
        let mut all = Found { rounds: 3, ..Found::default() };
        for (seconds, us) in [(1.0, 1..=30), (2.0, 31..=50), (0.5, 51..=100)] {
            all.push(Pacing::One, looped(1, 1.0, [7]));
            all.push(Pacing::Many, looped(64, seconds, us));
            all.push(Pacing::Rate(5), looped(0, 1.0, [40]));
        }
        let found = all.figures();
        assert_eq!((found.clients, found.count, &found.rounds[..]), (Some(64), 100, &[30.0, 10.0, 100.0][..]));
        assert_eq!((found.per_second, found.p50_us, found.p99_us), (30.0, 50, 99));
        assert_eq!(found.curve, [(0.0, 1), (50.0, 50), (75.0, 75), (90.0, 90), (100.0, 100)]);
        let work = found.work.unwrap();
        assert_eq!((work.reads, work.commits, work.cpu_us), (Some(3.0), None, 3.0));
        let one = found.one_client.unwrap();
        assert_eq!((one.clients, one.count, one.per_second, one.p50_us), (Some(1), 3, 1.0, 7));
        let at_rate = found.at_rate.unwrap();
        assert_eq!((at_rate.per_second, at_rate.count, at_rate.p99_us, at_rate.max_us), (5.0, 3, 40, 40));
        // A round without many clients leaves one client, and none at the rate leaves that out.
        all.loops.get_mut(&Pacing::Rate(5)).unwrap().pop();
        assert_eq!(all.figures().at_rate, None);
        all.loops.get_mut(&Pacing::Many).unwrap().pop();
        let found = all.figures();
        assert_eq!((found.clients, found.count, found.one_client), (Some(1), 3, None));
    }
}
