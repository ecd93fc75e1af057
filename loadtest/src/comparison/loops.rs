//! Loops that time requests: closed ones, in which each client sends its next request when the last one is answered, and
//! one at a set rate, in which requests begin by the clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rowdrive::table::Tables;
use tokio::task::JoinSet;

use super::requests::Request;
use super::work::Meter;
use crate::layouts::Layout;
use crate::progress::Stop;
use crate::report::model::Work;

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
/// How often requests at a set rate begin: all of a tick at once.
const TICK: Duration = Duration::from_millis(1);

/// A request that takes longer is slow, in loops of this length.
pub fn slow(loop_length: Duration) -> Duration {
    SLOW.min(loop_length / 4).max(SLOW / 8)
}

/// A layout that is open, with the counters of its work.
#[derive(Clone)]
pub struct Subject {
    pub layout: Arc<dyn Layout>,
    pub meter: Meter,
    /// Of a layout in a store.
    pub tables: Option<Tables>,
}

/// How requests are measured. Cheap to clone.
#[derive(Clone)]
pub struct Pace {
    /// Clients of the second loop; the first has one.
    pub clients: usize,
    /// How long one loop lasts.
    pub loop_length: Duration,
    /// How long a loop at a set rate lasts; zero for none. Its percentiles need many samples.
    pub at_rate_length: Duration,
    pub stop: Stop,
}

/// What one loop did.
#[derive(Clone)]
pub struct Loop {
    pub clients: usize,
    /// Requests that were answered.
    pub count: u64,
    pub seconds: f64,
    /// Of each request, in microseconds, from the moment at which its client wanted it.
    pub latencies: Histogram<u64>,
    /// Of all requests together.
    pub work: Option<Work>,
}

impl Loop {
    pub fn new(clients: usize) -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3)?;
        Ok(Self { clients, count: 0, seconds: 0.0, latencies, work: None })
    }

    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.seconds.max(1e-9)
    }

    fn record(&mut self, latency: Duration) {
        self.latencies.saturating_record(latency.as_micros().max(1) as u64);
        self.count += 1;
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

/// One round of an operation.
#[derive(Clone, Default)]
pub struct Round {
    /// Whether a request reads much of a table.
    pub is_slow: bool,
    /// A loop of one client; none for a mix.
    pub one: Option<Loop>,
    /// A loop of many; none if a request is slow, if only one client can send it, or if there were too few of them.
    pub many: Option<Loop>,
    /// A loop at a set rate, and the rate.
    pub at_rate: Option<(f64, Loop)>,
}

/// Which loops an operation has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clients {
    /// One, and many; at a set rate too, if there is one.
    OneAndMany {
        rate: Option<f64>,
    },
    /// What two clients at a time cannot do.
    One,
    Many,
}

/// The requests that the clients of all loops take from, each once.
type Requests = Arc<Mutex<dyn Iterator<Item = Request> + Send>>;

/// Measures one round: a loop of many clients that is not counted; then a loop of one client, one of [`Pace::clients`],
/// and one at the set rate, unless the layout is too slow for it.
///
/// Of a slow request there is no loop of many clients. `is_slow`: whether it was slow in an earlier round, so that all
/// rounds are alike; in the first one, requests alone show it. None if there are no requests.
pub async fn measure(
    subject: &Subject,
    clients: Clients,
    pace: &Pace,
    is_slow: Option<bool>,
    requests: impl Iterator<Item = Request> + Send + 'static,
) -> Result<Option<Round>> {
    let requests: Requests = Arc::new(Mutex::new(requests));
    let run = async |clients, loop_length| metered_loop(subject, clients, loop_length, &pace.stop, &requests).await;
    let probes = if is_slow.is_none() { PROBES } else { 1 };
    let Some((mut probe, quickest)) = probe(subject, probes, &pace.stop, &requests).await? else { return Ok(None) };
    let is_slow = is_slow.unwrap_or(quickest > slow(pace.loop_length));
    if is_slow || clients == Clients::One {
        let spent = Duration::from_secs_f64(probe.seconds);
        if spent < pace.loop_length {
            probe.add(&run(1, pace.loop_length - spent).await?)?;
        }
        return Ok(Some(Round { is_slow, one: Some(probe), ..Round::default() }));
    }
    run(pace.clients, pace.loop_length / 2).await?;
    let mut round = Round::default();
    if let Clients::OneAndMany { .. } = clients {
        round.one = Some(Some(run(1, pace.loop_length).await?).filter(|one| one.count > 0).unwrap_or(probe));
    }
    if pace.clients > 1 {
        round.many = Some(run(pace.clients, pace.loop_length).await?).filter(|many| many.count > 0);
    }
    if let Clients::OneAndMany { rate: Some(rate) } = clients
        && !pace.at_rate_length.is_zero()
        && round.many.as_ref().is_some_and(|many| many.per_second() > 1.5 * rate)
    {
        round.at_rate = Some((rate, at_rate(subject, rate, pace.at_rate_length, &requests).await?));
    }
    Ok(Some(round))
}

/// Sends requests that are not counted. Slow ones are left out after the first few.
pub async fn warm_up(
    subject: &Subject,
    pace: &Pace,
    requests: impl Iterator<Item = Request> + Send + 'static,
) -> Result<()> {
    let requests: Requests = Arc::new(Mutex::new(requests));
    let probed = probe(subject, PROBES, &pace.stop, &requests).await?;
    if probed.is_some_and(|(_, quickest)| quickest < SLOW) {
        closed_loop(subject, pace.clients, pace.loop_length * WARM_UP, &pace.stop, &requests).await?;
    }
    Ok(())
}

/// Sends up to so many requests, one after the other; one alone if that takes a second. Returns the last one, and the
/// quickest latency: the first one may open files, and any may wait for the disk, so it shows what the layout has to do.
/// None if there are no requests.
async fn probe(subject: &Subject, most: usize, stop: &Stop, requests: &Requests) -> Result<Option<(Loop, Duration)>> {
    let one = async || metered_loop(subject, 1, Duration::ZERO, stop, requests).await;
    let latency = |of: &Loop| Duration::from_micros(of.latencies.max());
    let mut last = one().await?;
    let mut quickest = latency(&last);
    for _ in 1..if last.seconds < 1.0 { most } else { 1 } {
        let again = one().await?;
        if again.count > 0 {
            quickest = quickest.min(latency(&again));
            last = again;
        }
    }
    Ok((last.count > 0).then_some((last, quickest)))
}

/// A closed loop, with its work.
async fn metered_loop(
    subject: &Subject,
    clients: usize,
    loop_length: Duration,
    stop: &Stop,
    requests: &Requests,
) -> Result<Loop> {
    let before = subject.meter.read()?;
    let mut done = closed_loop(subject, clients, loop_length, stop, requests).await?;
    done.work = Some(subject.meter.read()?.zip(&before, |after, before| after - before));
    Ok(done)
}

fn next(requests: &Requests) -> Option<Request> {
    requests.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Runs clients until the time is up and each has done its least, or until there are no more requests. What has begun is
/// waited for.
async fn closed_loop(
    subject: &Subject,
    clients: usize,
    loop_length: Duration,
    stop: &Stop,
    requests: &Requests,
) -> Result<Loop> {
    let start = Instant::now();
    let least = if clients == 1 { 1 } else { MIN_REQUESTS };
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (layout, stop, requests) = (subject.layout.clone(), stop.clone(), requests.clone());
        running.spawn(async move {
            let mut own = Loop::new(clients)?;
            while (own.count < least || start.elapsed() < loop_length) && stop.go_on().is_ok() {
                let Some(request) = next(&requests) else { break };
                let wanted = Instant::now();
                // Many clients share few threads. The others have their turn here, and the wait is part of the latency:
                // without it a request that never waits would be measured as if its client were alone.
                tokio::task::yield_now().await;
                request.send(layout.as_ref()).await?;
                own.record(wanted.elapsed());
            }
            anyhow::Ok(own)
        });
    }
    let mut all = Loop::new(clients)?;
    while let Some(own) = running.join_next().await {
        if let Err(error) = own?.and_then(|own| all.add(&own)) {
            // Nobody may use the layout any more when the caller closes it.
            running.shutdown().await;
            return Err(error);
        }
    }
    all.seconds = start.elapsed().as_secs_f64();
    stop.go_on()?;
    Ok(all)
}

/// Begins requests at a set rate, whether the ones before are answered or not. A latency begins at the set time, so that a
/// stall counts for all requests that it delays.
async fn at_rate(subject: &Subject, rate: f64, loop_length: Duration, requests: &Requests) -> Result<Loop> {
    let (send, mut due) = tokio::sync::mpsc::unbounded_channel::<Instant>();
    // A thread of its own sleeps more exactly than the timer of the clients does.
    let clock = tokio::task::spawn_blocking(move || {
        let (start, mut sent) = (Instant::now(), 0.0);
        for tick in 1u32.. {
            let at = TICK * tick;
            std::thread::sleep(at.saturating_sub(start.elapsed()));
            while sent < rate * at.as_secs_f64() {
                if send.send(start + at).is_err() {
                    return;
                }
                sent += 1.0;
            }
            if at >= loop_length {
                return;
            }
        }
    });
    let (start, mut running) = (Instant::now(), JoinSet::new());
    while let Some(wanted) = due.recv().await {
        let Some(request) = next(requests) else { break };
        let layout = subject.layout.clone();
        running.spawn(async move { request.send(layout.as_ref()).await.map(|()| wanted.elapsed()) });
    }
    drop(due);
    clock.await?;
    let mut all = Loop::new(0)?;
    while let Some(latency) = running.join_next().await {
        match latency? {
            Ok(latency) => all.record(latency),
            Err(error) => {
                running.shutdown().await;
                return Err(error);
            }
        }
    }
    all.seconds = start.elapsed().as_secs_f64();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;
    use tokio::sync::watch;

    use super::*;
    use crate::layouts::{Child, List, NewFile, Node, Period, Verdict};

    /// Each stat takes so long, asleep or at work; paths that begin with `/no` are missing.
    #[derive(Default)]
    struct Slow {
        sleep_ms: u64,
        spin_us: u64,
        stats: AtomicU64,
    }

    #[async_trait]
    impl Layout for Slow {
        async fn stat(&self, path: &str) -> Result<Option<Node>> {
            self.stats.fetch_add(1, Ordering::Relaxed);
            if self.sleep_ms > 0 {
                tokio::time::sleep(Duration::from_millis(self.sleep_ms)).await;
            }
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(self.spin_us) {}
            Ok((!path.starts_with("/no")).then_some(Node::Directory))
        }

        async fn mkdir(&self, _: &str) -> Result<Verdict> {
            Ok(Verdict::Missing)
        }
        async fn put(&self, _: &NewFile, _: bool) -> Result<Verdict> {
            Ok(Verdict::Missing)
        }
        async fn read(&self, _: &str) -> Result<Option<Bytes>> {
            Ok(None)
        }
        async fn list(&self, _: &str, _: &List) -> Result<Option<Vec<Child>>> {
            Ok(None)
        }
        async fn rename(&self, _: &str, _: &str) -> Result<Verdict> {
            Ok(Verdict::Missing)
        }
        async fn delete(&self, _: &str) -> Result<Verdict> {
            Ok(Verdict::Missing)
        }
        async fn find(&self, _: &str) -> Result<Vec<String>> {
            Ok(Vec::new())
        }
        async fn period(&self, _: &Period) -> Result<Vec<(i64, String)>> {
            Ok(Vec::new())
        }
    }

    fn subject(layout: Slow) -> (Subject, Arc<Slow>) {
        let layout = Arc::new(layout);
        (Subject { layout: layout.clone(), meter: Meter::default(), tables: None }, layout)
    }

    fn pace(clients: usize, ms: u64) -> Pace {
        let loop_length = Duration::from_millis(ms);
        Pace { clients, loop_length, at_rate_length: loop_length * 5, stop: Stop(watch::channel(false).1) }
    }

    fn stats(path: &'static str) -> impl Iterator<Item = Request> + Send + 'static {
        std::iter::repeat_with(|| Request::Stat(path.to_owned()))
    }

    const BOTH: Clients = Clients::OneAndMany { rate: None };

    #[tokio::test]
    async fn every_request_is_sent_once_and_failures_are_returned() {
        let (subject, slow) = subject(Slow::default());
        let round = measure(&subject, BOTH, &pace(3, 60_000), None, stats("/a").take(5)).await.unwrap().unwrap();
        // Three are sent by the probe, the others while it warms up: there is nothing else to count.
        assert_eq!((round.one.unwrap().count, round.many.is_none()), (1, true));
        assert_eq!(slow.stats.load(Ordering::Relaxed), 5);
        assert!(measure(&subject, BOTH, &pace(1, 1), None, stats("/no")).await.is_err());
        assert!(measure(&subject, BOTH, &pace(1, 1), None, stats("/a").take(0)).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn it_ends_when_it_is_asked_to() {
        let (subject, _) = subject(Slow::default());
        let (stop, stopped) = watch::channel(false);
        let pace = Pace { stop: Stop(stopped), ..pace(2, 60_000) };
        let mut sent = 0;
        let requests = stats("/a").inspect(move |_| {
            sent += 1;
            stop.send_replace(sent >= 100);
        });
        let endless = measure(&subject, BOTH, &pace, None, requests).await;
        assert_eq!(endless.err().unwrap().to_string(), "interrupted");
    }

    /// Of what never waits there are as many requests under way as clients, by Little's law: the sum of the latencies
    /// divided by the time.
    #[tokio::test]
    async fn the_latency_has_the_wait_for_other_clients() {
        let (subject, _) = subject(Slow { spin_us: 50, ..Slow::default() });
        let round = measure(&subject, BOTH, &pace(8, 100), None, stats("/a")).await.unwrap().unwrap();
        let under_way = |of: &Loop| of.latencies.mean() * of.count as f64 / 1e6 / of.seconds;
        let (one, many) = (round.one.unwrap(), round.many.unwrap());
        assert!(under_way(&one) < 1.1, "{}", under_way(&one));
        assert!((4.0..8.8).contains(&under_way(&many)), "{}", under_way(&many));
    }

    #[tokio::test]
    async fn a_slow_operation_is_measured_with_one_client() {
        let (subject, _) = subject(Slow { sleep_ms: 30, ..Slow::default() });
        let round = measure(&subject, BOTH, &pace(8, 80), None, stats("/a")).await.unwrap().unwrap();
        assert!(round.is_slow && round.many.is_none() && round.one.unwrap().count >= 1);
    }

    /// Requests of 10 ms each, so of 100 a second by one client, begin 500 times a second nevertheless; the latency of
    /// those that wait for a stalled thread has the wait.
    #[tokio::test]
    async fn a_set_rate_does_not_wait_for_answers() {
        let (subject, _) = subject(Slow { sleep_ms: 10, ..Slow::default() });
        let both = Clients::OneAndMany { rate: Some(500.0) };
        let round = measure(&subject, both, &pace(64, 40), Some(false), stats("/a")).await.unwrap().unwrap();
        let (rate, at_rate) = round.at_rate.unwrap();
        assert_eq!((rate, at_rate.count), (500.0, 100));
        assert!(at_rate.latencies.value_at_quantile(0.5) >= 10_000);
        let (stalled, _) = self::subject(Slow { spin_us: 10_000, ..Slow::default() });
        let requests: Requests = Arc::new(Mutex::new(stats("/a")));
        let late = super::at_rate(&stalled, 500.0, Duration::from_millis(200), &requests).await.unwrap();
        // A second of work was asked for within a fifth of one.
        assert!(late.latencies.max() > 500_000, "{}", late.latencies.max());
    }
}
