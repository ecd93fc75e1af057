//! Loops that time requests: closed ones, in which each client sends its next request when the last one is answered, and
//! one at a set rate, in which requests begin by the clock. And what the loops of all rounds say together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::BoxFuture;
use hdrhistogram::Histogram;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Options;
use super::work::Meter;
use crate::progress::Stop;
use crate::report::model::{AtRate, Figures, Work};
use crate::stats::median;

/// Requests that show whether an operation is slow: the quickest, since the first one may open files, and any may wait for
/// the disk.
const PROBES: u64 = 3;
/// The highest limit of [`slow`]. A request that takes longer reads much of a table: several only wait for a core.
const SLOW: Duration = Duration::from_millis(20);
/// Requests of each client of a loop of many: with one each there would be no time at which all are at work.
const MIN_REQUESTS: u64 = 2;
/// What takes longer is not repeated for the sake of a number of requests.
const LONG: Duration = Duration::from_secs(1);
/// How long a store that was just opened is asked for stats, in loops.
const WARM_UP: u32 = 4;
/// The longest latency of a histogram, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;

/// A request that takes longer is slow: a quarter of a loop of this length, but from 2.5 to 20 ms.
pub fn slow(loop_length: Duration) -> Duration {
    SLOW.min(loop_length / 4).max(SLOW / 8)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pacing {
    /// One client sends a request when it has the answer to the one before.
    One,
    /// The same with [`Options::clients`].
    Many,
    /// By the clock, so many a second, whether the ones before are answered or not.
    Rate(u32),
}

#[derive(Clone)]
struct Loop {
    seconds: f64,
    /// Of each answered request, in microseconds, from the moment at which it was wanted.
    latencies: Histogram<u64>,
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
    /// Whether a request takes longer than [`slow`]. The first round decides it, so that all rounds are alike.
    pub is_slow: Option<bool>,
    /// Whether the requests of a round ended before its loops did: then that round does not count, and no round follows.
    pub ran_out: bool,
    rounds: usize,
    /// In the order of the rounds. One client alone sends slow requests; at a set rate a layout that is too slow for it has
    /// no loop.
    loops: BTreeMap<Pacing, Vec<Loop>>,
}

impl Found {
    /// The figures of the loops of so many clients, with those of one client beside them; of one client alone, if a round
    /// has no loop of many; none if nothing was measured.
    pub fn figures(&self, clients: usize) -> Option<Figures> {
        let at_rate = self.loops.keys().find_map(|pacing| {
            let Pacing::Rate(rate) = pacing else { return None };
            let Figures { count, p50_us, p99_us, curve, .. } = self.of(pacing)?;
            let max_us = curve.last().map_or(0, |(_, latency)| *latency);
            Some(AtRate { per_second: f64::from(*rate), count, p50_us, p99_us, max_us })
        });
        match (self.of(&Pacing::One), self.of(&Pacing::Many)) {
            (one, Some(many)) => {
                Some(Figures { clients: Some(clients), one_client: one.map(Box::new), at_rate, ..many })
            }
            (one, None) => one,
        }
    }

    /// Of all rounds or none: a layout that can hardly hold a rate would be judged by its best rounds alone.
    fn of(&self, pacing: &Pacing) -> Option<Figures> {
        let loops = self.loops.get(pacing).filter(|loops| loops.len() == self.rounds)?;
        let mut all = loops.first()?.clone();
        loops.iter().skip(1).for_each(|other| all.add(other));
        let rounds: Vec<f64> = loops.iter().map(Loop::per_second).collect();
        let count = all.latencies.len();
        Some(Figures {
            per_second: median(&rounds),
            p50_us: all.latencies.value_at_quantile(0.5),
            p99_us: all.latencies.value_at_quantile(0.99),
            count,
            clients: Some(1),
            rounds,
            work: Some(all.work.zip(&all.work, |all, _| all / count.max(1) as f64)),
            // Each point halves the way to the last one.
            curve: all.latencies.iter_quantiles(1).map(|at| (at.percentile(), at.value_iterated_to())).collect(),
            ..Figures::default()
        })
    }
}

/// The clients of a round's loops. They take from the same requests: each is sent once, when it is polled.
pub struct Clients<'a> {
    pub options: &'a Options,
    pub stop: &'a Stop,
    pub meter: &'a Meter,
    pub requests: Arc<Mutex<dyn Iterator<Item = BoxFuture<'static, Result<()>>> + Send>>,
}

type Latencies = Arc<Mutex<Histogram<u64>>>;

impl Clients<'_> {
    /// Measures one round: a few probes, which decide in the first round whether requests are slow; a loop of many clients
    /// that is not counted; then a loop of each of `pacings`. A round whose requests run out adds nothing to `found`.
    pub async fn measure(&self, pacings: &[Pacing], found: &mut Found) -> Result<()> {
        let length = self.options.loop_length;
        // The quickest probe decides whether requests are slow. The last one is measured: those before it are cold.
        let cold = self.run(Pacing::One, Duration::ZERO, PROBES - 1).await?;
        let mut probe = self.run(Pacing::One, Duration::ZERO, 1).await?;
        if probe.latencies.is_empty() {
            found.ran_out = true;
            return Ok(());
        }
        let quickest = Duration::from_micros(cold.latencies.min().min(probe.latencies.min()));
        let is_slow = *found.is_slow.get_or_insert(quickest > slow(length));
        let mut loops = BTreeMap::new();
        if is_slow || *pacings == [Pacing::One] {
            let spent = Duration::from_secs_f64(probe.seconds);
            if spent < length {
                probe.add(&self.run(Pacing::One, length - spent, 1).await?);
            }
            loops.insert(Pacing::One, probe);
        } else {
            self.run(Pacing::Many, length / 2, MIN_REQUESTS).await?;
            for pacing in pacings {
                let many = loops.get(&Pacing::Many).map_or(0.0, Loop::per_second);
                let (length, least) = match pacing {
                    Pacing::One => (length, 1),
                    Pacing::Many if self.options.clients > 1 => (length, MIN_REQUESTS),
                    // Its percentiles need many samples.
                    Pacing::Rate(rate) if many > 1.5 * f64::from(*rate) => (self.options.at_rate_length, 0),
                    Pacing::Many | Pacing::Rate(_) => continue,
                };
                let done = self.run(*pacing, length, least).await?;
                if !done.latencies.is_empty() {
                    loops.insert(*pacing, done);
                } else if *pacing == Pacing::One {
                    loops.insert(*pacing, probe.clone());
                }
            }
        }
        found.ran_out = lock(&self.requests).next().is_none();
        if !found.ran_out {
            found.rounds += 1;
            loops.into_iter().for_each(|(pacing, done)| found.loops.entry(pacing).or_default().push(done));
        }
        Ok(())
    }

    /// Sends requests that are not counted; only a few, if each takes longer than [`SLOW`].
    pub async fn warm_up(&self) -> Result<()> {
        let probe = self.run(Pacing::One, Duration::ZERO, PROBES).await?;
        if Duration::from_micros(probe.latencies.min()) < SLOW {
            self.run(Pacing::Many, self.options.loop_length * WARM_UP, MIN_REQUESTS).await?;
        }
        Ok(())
    }

    /// Runs one loop. `least`: requests of each client. What has begun is waited for.
    async fn run(&self, pacing: Pacing, length: Duration, least: u64) -> Result<Loop> {
        let before = self.meter.read()?;
        let (start, all) = (Instant::now(), Arc::new(Mutex::new(histogram()?)));
        let mut running = match pacing {
            Pacing::Rate(rate) => self.by_clock(rate, length, &all).await?,
            Pacing::One => self.closed(1, length, least, &all),
            Pacing::Many => self.closed(self.options.clients, length, least, &all),
        };
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended? {
                // Nobody may use the layout any more when the caller closes it.
                running.shutdown().await;
                return Err(error);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        self.stop.check()?;
        let work = self.meter.read()?.zip(&before, |after, before| after - before);
        let latencies = lock(&all).clone();
        Ok(Loop { seconds, latencies, work })
    }

    /// Starts clients, which end when the time is up and each has done its least, or when there are no more requests.
    fn closed(&self, clients: usize, length: Duration, least: u64, all: &Latencies) -> JoinSet<Result<()>> {
        let (start, mut running) = (Instant::now(), JoinSet::new());
        for _ in 0..clients {
            let (stop, requests, all) = (self.stop.clone(), self.requests.clone(), all.clone());
            running.spawn(async move {
                let mut own = histogram()?;
                // One request is enough if it takes long.
                let is_early =
                    |done| done == 0 || start.elapsed() < if done < least { LONG.max(length) } else { length };
                while is_early(own.len()) && stop.check().is_ok() {
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
        let (requests, all, runtime, stop) = (self.requests.clone(), all.clone(), Handle::current(), self.stop.clone());
        // A thread of its own sleeps more exactly than the timer of the clients does.
        let clock = tokio::task::spawn_blocking(move || {
            let (start, mut running) = (Instant::now(), JoinSet::new());
            // All that are due in a millisecond begin at its end.
            let due = (0..).map(|n| Duration::from_millis(n * 1_000 / u64::from(rate) + 1));
            for due in due.take_while(|due| *due <= length && stop.check().is_ok()) {
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                let Some(request) = lock(&requests).next() else { break };
                let (all, wanted) = (all.clone(), start + due);
                let send = async move {
                    request.await?;
                    record(&mut lock(&all), wanted);
                    Ok(())
                };
                running.spawn_on(send, &runtime);
            }
            running
        });
        Ok(clock.await?)
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

    async fn asleep() -> Result<()> {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok(())
    }

    async fn at_work(us: u64) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(us) {}
        Ok(())
    }

    /// Gives this to so many clients, one request like the other, in loops of so many milliseconds.
    async fn asked<T, F: Future<Output = Result<()>> + Send + 'static>(
        (clients, ms): (usize, u64),
        (most, request): (usize, fn() -> F),
        ask: impl AsyncFnOnce(Clients<'_>) -> Result<T>,
    ) -> Result<T> {
        let options = &Options { clients, loop_length: Duration::from_millis(ms), ..Options::default() };
        let requests = std::iter::repeat_with(move || -> BoxFuture<_> { Box::pin(request()) }).take(most);
        let requests = Arc::new(Mutex::new(requests));
        ask(Clients { options, stop: &Stop(watch::channel(false).1), meter: &Meter::default(), requests }).await
    }

    async fn rounds<const N: usize>(clients: Clients<'_>) -> Result<Found> {
        let mut found = Found::default();
        for _ in 0..N {
            clients.measure(&BOTH, &mut found).await?;
        }
        Ok(found)
    }

    #[tokio::test]
    async fn every_request_is_sent_once_and_failures_are_returned() {
        // Three are sent by probes, of which the last one counts, and the others while it warms up: too few are there.
        for (clients, most) in [((3, 60_000), 5), ((1, 1), 0)] {
            let found = asked(clients, (most, || at_work(0)), rounds::<1>).await.unwrap();
            assert!(found.ran_out && found.figures(clients.0).is_none());
        }
        // Rounds before that one stay.
        let one = asked((1, 0), (8, || at_work(0)), rounds::<2>).await.unwrap();
        assert!(one.ran_out && one.figures(1).unwrap().rounds.len() == 1);
        assert!(!asked((1, 1), (usize::MAX, || at_work(0)), rounds::<1>).await.unwrap().ran_out);
        assert!(asked((1, 1), (9, || async { anyhow::bail!("missing") }), rounds::<1>).await.is_err());
    }

    /// Of what never waits there are as many requests under way as clients, by Little's law: the sum of the latencies
    /// divided by the time. Of slow requests there is one.
    #[tokio::test]
    async fn the_latency_has_the_wait_for_other_clients() {
        let found = asked((8, 100), (usize::MAX, || at_work(50)), rounds::<1>).await.unwrap();
        let under_way = |of: &Loop| of.latencies.mean() * of.latencies.len() as f64 / 1e6 / of.seconds;
        let [one, many] = BOTH.map(|pacing| under_way(&found.loops[&pacing][0]));
        assert!(one < 1.1 && (4.0..8.8).contains(&many), "{one} {many}");
        let found = asked((8, 80), (usize::MAX, asleep), rounds::<1>).await.unwrap();
        assert!(found.is_slow == Some(true) && found.loops.keys().eq([&Pacing::One]));
    }

    /// Requests of 30 ms each, so of 33 a second by one client, begin 500 times a second nevertheless; the latency of
    /// those that wait for a stalled thread has the wait.
    #[tokio::test]
    async fn a_set_rate_does_not_wait_for_answers() {
        let at_rate = async |clients: Clients<'_>| clients.run(Pacing::Rate(500), Duration::from_millis(200), 0).await;
        let held = asked((1, 1), (usize::MAX, asleep), at_rate).await.unwrap();
        assert!(held.latencies.len() == 100 && held.seconds < 1.0, "{} in {}", held.latencies.len(), held.seconds);
        assert!(held.latencies.min() >= 29_900, "{}", held.latencies.min());
        let late = asked((1, 1), (usize::MAX, || at_work(10_000)), at_rate).await.unwrap();
        // A second of work was asked for within a fifth of one.
        assert!(late.latencies.max() > 500_000, "{}", late.latencies.max());
    }

    #[test]
    fn the_rate_is_the_median_and_the_latencies_are_those_of_all_rounds() {
        let mut all = Found { rounds: 3, ..Found::default() };
        for (seconds, us) in [(1.0, 1..=30), (2.0, 31..=50), (0.5, 51..=100)] {
            let loops = [(Pacing::One, 1.0, 7..=7), (Pacing::Many, seconds, us), (Pacing::Rate(5), 1.0, 40..=40)];
            for (pacing, seconds, us) in loops {
                let mut latencies = histogram().unwrap();
                us.for_each(|us| latencies.record(us).unwrap());
                let work = Work { reads: Some(3.0 * latencies.len() as f64), cpu_us: 100.0, ..Work::default() };
                let one = Loop { seconds, latencies, work };
                all.loops.entry(pacing).or_default().push(one);
            }
        }
        let found = all.figures(64).unwrap();
        assert_eq!((found.clients, found.count, &found.rounds[..]), (Some(64), 100, &[30.0, 10.0, 100.0][..]));
        assert_eq!((found.per_second, found.p50_us, found.p99_us), (30.0, 50, 99));
        assert_eq!(found.curve, [1, 50, 75, 88, 94, 97, 99, 100, 100].map(|us| (us as f64, us)));
        let work = found.work.unwrap();
        assert_eq!((work.reads, work.commits, work.cpu_us), (Some(3.0), None, 3.0));
        let (one, at_rate) = (found.one_client.unwrap(), found.at_rate.unwrap());
        assert_eq!((one.count, one.per_second, one.p50_us), (3, 1.0, 7));
        assert_eq!((at_rate.per_second, at_rate.count, at_rate.p99_us, at_rate.max_us), (5.0, 3, 40, 40));
        // A round without many clients leaves one client, and none at the rate leaves that out.
        all.loops.get_mut(&Pacing::Rate(5)).unwrap().pop();
        assert_eq!(all.figures(64).unwrap().at_rate, None);
        all.loops.get_mut(&Pacing::Many).unwrap().pop();
        let one = all.figures(64).unwrap();
        assert_eq!((one.count, one.one_client), (3, None));
    }
}
