//! The load generator: a closed loop, or an open loop at a set rate, on threads of their own.
//!
//! In a closed loop each connection sends its next request when the last one is answered: this finds the peak. In an
//! open loop requests are sent at set times, and latency begins at these, also if a request had to wait for a
//! connection: all requests of a second in which the server stalls see the stall. To measure from the actual sending is
//! known as coordinated omission (Gil Tene, "How NOT to Measure Latency"; `wrk2`, <https://github.com/giltene/wrk2>).
//!
//! No existing generator fits: `wrk`, `hey`, `oha` and `vegeta` are programs to install, `hey` and `oha` with one
//! method and one body for all requests, `vegeta` with latencies from the actual sending. As crates, `goose` has a
//! general HTTP client, which takes more CPU time, and `rlt` withholds the intended time from its workers.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow, ensure};
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, sleep_until, timeout_at};

use super::client::{Base, Connection, NO_CONNECTION};
use crate::progress::Stop;

/// How long requests may take that are under way or due when the time is over.
const DRAIN: Duration = Duration::from_secs(5);
/// A pause after a connection that could not be made: without it the kernel's refusals would be counted at its speed.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest latency of a histogram, in microseconds: ten minutes.
const LONGEST: u64 = 600_000_000;

/// How the requests of an open loop follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// At random, as from many clients that know nothing of each other: exponential gaps.
    #[default]
    Poisson,
    /// At even gaps.
    Constant,
}

/// An open loop.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub arrivals: Arrivals,
    /// Requests a second of all connections together.
    pub rate: f64,
    pub seed: u64,
}

/// What load is generated.
#[derive(Clone, Debug)]
pub struct Load {
    pub connections: usize,
    pub threads: usize,
    /// How long requests are sent.
    pub length: Duration,
    /// None is a closed loop.
    pub offer: Option<Offer>,
    /// Shows the number of answers.
    pub bar: ProgressBar,
    /// Ends the loop early.
    pub stop: Stop,
}

impl Load {
    /// A closed loop of one thread.
    pub fn closed(connections: usize, length: Duration, stop: &Stop) -> Self {
        Self { connections, threads: 1, length, offer: None, bar: ProgressBar::hidden(), stop: stop.clone() }
    }
}

/// What a loop found.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Answered with 2xx before the time was over: the rate is of these.
    pub requests: u64,
    /// Bodies of `requests`, both ways.
    pub bytes: u64,
    /// How long requests were sent.
    pub seconds: f64,
    /// Latencies in microseconds of all answers with 2xx; and, as a lower bound, the waiting time of each request that
    /// was not sent or not answered when the loop gave up. Other failures are not in it.
    pub latencies: Histogram<u64>,
    /// Requests without an answer of 2xx, by kind.
    pub failures: BTreeMap<String, u64>,
    /// How often the server closed a connection between two requests.
    pub reopened: u64,
    /// The share of its time that the busiest thread computed, and that it waited for a core, where that is known.
    pub computing: f64,
    pub waiting: Option<f64>,
    /// The loop was ended early: all is of the time until then, without the requests that were under way.
    pub interrupted: bool,
}

impl Tally {
    fn fail(&mut self, kind: impl Into<String>) {
        *self.failures.entry(kind.into()).or_default() += 1;
    }

    fn record(&mut self, latency: Duration) {
        self.latencies.saturating_record((latency.as_micros() as u64).max(1));
    }

    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }

    /// A thread had no time left: these are the limits of the generator, not of the server.
    pub fn generator_bound(&self) -> bool {
        self.computing >= 0.95
    }
}

/// Sends the requests that `make` gives for 0, 1, 2, ... The queue in which requests of an open loop wait for a
/// connection has no end but time: 5 s after the end, those that are not answered or not sent are counted as failures.
/// It is an error if connections cannot be made at the beginning.
pub async fn run<M>(base: &Base, load: &Load, make: M) -> Result<Tally>
where
    M: Fn(u64) -> Request<Full<Bytes>> + Send + Sync + 'static,
{
    let rate = load.offer.map_or(1.0, |offer| offer.rate);
    ensure!(rate.is_finite() && rate > 0.0, "a rate of {rate} requests a second is impossible");
    let mut streams = Vec::new();
    for number in 0..load.connections {
        let stream = tokio::net::TcpStream::connect(base.address).await.map_err(|cause| match number {
            0 => anyhow!("{base} does not answer any more: is the server still there? ({cause})"),
            _ => anyhow!("no more than {number} of {} connections can be made: give fewer ({cause})", load.connections),
        })?;
        streams.push(stream.into_std()?);
    }
    let tally = Tally {
        requests: 0,
        bytes: 0,
        seconds: 0.0,
        latencies: Histogram::new_with_bounds(1, LONGEST, 3)?,
        failures: BTreeMap::new(),
        reopened: 0,
        computing: 0.0,
        waiting: None,
        interrupted: false,
    };
    let (start, numbers, tally) = (Instant::now(), AtomicU64::new(0), Mutex::new(tally));
    let (base, load, end) = (base.clone(), load.clone(), start + load.length);
    let threads = load.threads.clamp(1, load.connections.max(1));
    let generator = Arc::new(Generator { base, load, start, end, make, numbers, tally });
    let running: FuturesUnordered<_> = (0..threads)
        .map(|thread| {
            let streams = streams.split_off(streams.len() - streams.len().div_ceil(threads - thread));
            let generator = generator.clone();
            tokio::task::spawn_blocking(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(generator.thread(streams, (thread, threads)))
            })
        })
        .collect();
    running.map_err(Error::from).try_for_each(async |done| done).await?;
    Ok(generator.tally().clone())
}

/// The intended times that wait for a connection.
type Queue = tokio::sync::Mutex<UnboundedReceiver<Instant>>;

/// What all threads of a loop share.
struct Generator<M> {
    base: Base,
    load: Load,
    start: Instant,
    end: Instant,
    make: M,
    numbers: AtomicU64,
    tally: Mutex<Tally>,
}

impl<M: Fn(u64) -> Request<Full<Bytes>>> Generator<M> {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn thread(&self, streams: Vec<TcpStream>, thread: (usize, usize)) -> Result<()> {
        let stopwatch = stopwatch();
        let (start, length) = (self.start, self.load.length.as_secs_f64());
        let times = self.load.offer.map(|offer| schedule(offer, thread)).transpose()?.map(|times| {
            let times = times.take_while(move |at| *at < length).map(move |at| start + Duration::from_secs_f64(at));
            tokio::sync::Mutex::new(pace(times))
        });
        let all: FuturesUnordered<_> = streams.into_iter().map(|stream| self.connection(stream, &times)).collect();
        let mut shares = None;
        let at_the_end = async {
            sleep_until(self.end.into()).await;
            // The drain afterwards is no time in which load is made.
            shares = Some(stopwatch());
            std::future::pending::<()>().await;
        };
        let interrupted = tokio::select! {
            done = all.try_collect::<()>() => done.map(|()| false)?,
            () = at_the_end => false,
            () = self.load.stop.asked() => true,
        };
        let (computing, waiting) = shares.unwrap_or_else(stopwatch);
        let length = if interrupted { self.start.elapsed().min(self.load.length) } else { self.load.length };
        let mut tally = self.tally();
        tally.seconds = tally.seconds.max(length.as_secs_f64());
        tally.computing = tally.computing.max(computing);
        tally.waiting = tally.waiting.into_iter().chain(waiting).reduce(f64::max);
        tally.interrupted |= interrupted;
        Ok(())
    }

    /// One connection until there is nothing left to send.
    async fn connection(&self, stream: TcpStream, times: &Option<Queue>) -> Result<()> {
        let give_up = self.end + DRAIN;
        let mut connection =
            Connection::new(&self.base, tokio::net::TcpStream::from_std(stream)?).await.map_err(Error::msg)?;
        loop {
            let request = (self.make)(self.numbers.fetch_add(1, Ordering::Relaxed));
            let due = match times {
                // A free connection takes the time that has waited longest, or waits for the next one.
                Some(queue) => queue.lock().await.recv().await,
                None => Some(Instant::now()).filter(|now| *now < self.end),
            };
            let Some(due) = due else { return Ok(()) };
            if Instant::now() >= give_up {
                self.tally().record(due.elapsed());
                self.tally().fail("not sent");
                continue;
            }
            let outcome = timeout_at(give_up.into(), connection.exchange(request)).await;
            let now = Instant::now();
            let refused = matches!(outcome, Ok(Err(NO_CONNECTION)));
            self.count(outcome.ok(), now - due, now <= self.end);
            self.tally().reopened += std::mem::take(&mut connection.reopened);
            if refused {
                sleep(PAUSE).await;
            }
        }
    }

    fn count(&self, outcome: Option<Result<(StatusCode, u64), &'static str>>, latency: Duration, in_time: bool) {
        let mut tally = self.tally();
        match outcome {
            Some(Ok((status, bytes))) if status.is_success() => {
                tally.record(latency);
                tally.requests += u64::from(in_time);
                tally.bytes += if in_time { bytes } else { 0 };
                self.load.bar.inc(1);
            }
            Some(Ok((status, _))) => tally.fail(format!("status {}", status.as_u16())),
            Some(Err(kind)) => tally.fail(kind),
            None => {
                tally.record(latency);
                tally.fail("not answered");
            }
        }
    }
}

/// The intended times of an open loop: the receiver has each as soon as it is due.
///
/// Tokio's timers have a resolution of a millisecond, which is longer than many latencies, and a thread that spins
/// would take a core from the server. A sleeping thread wakes within some tens of microseconds.
fn pace(times: impl Iterator<Item = Instant> + Send + 'static) -> UnboundedReceiver<Instant> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        // The kernel may be 50 us late otherwise, to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        for at in times {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if sender.send(at).is_err() {
                return;
            }
        }
    });
    receiver
}

/// When thread `number` of `threads` sends, in seconds. Random streams of a part of the rate are together one of the
/// whole rate; even ones take turns.
fn schedule(
    Offer { arrivals, rate, seed }: Offer,
    (number, threads): (usize, usize),
) -> Result<Box<dyn Iterator<Item = f64> + Send>> {
    Ok(match arrivals {
        // Gaps are not added up: their rounding errors would be, too.
        Arrivals::Constant => Box::new((number..).step_by(threads).map(move |n| n as f64 / rate)),
        Arrivals::Poisson => {
            let gaps = Exp::new(rate / threads as f64)?;
            let gaps = gaps.sample_iter(StdRng::seed_from_u64(seed.wrapping_add(number as u64)));
            Box::new(gaps.scan(0.0, |last, gap| {
                *last += gap;
                Some(*last)
            }))
        }
    })
}

/// Measures the shares of this thread's time, 0 to 1, in which it computed, and in which it had work but no core.
fn stopwatch() -> impl Fn() -> (f64, Option<f64>) {
    let computed = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    // The second number of `schedstat`: nanoseconds on the run queue (Documentation/scheduler/sched-stats.rst).
    let waited = || {
        let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        line.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    let (started, before) = (Instant::now(), (computed(), waited()));
    move || {
        let share = |now: Duration, then| now.saturating_sub(then).div_duration_f64(started.elapsed());
        (share(computed(), before.0), waited().zip(before.1).map(|(now, then)| share(now, then)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use std::sync::OnceLock;

    use axum::Router;
    use hyper::{Method, Uri};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::server::client::request;
    use crate::server::test_server::TestServer;

    const SHORT: Duration = Duration::from_millis(300);

    fn closed(connections: usize, length: Duration) -> Load {
        Load { threads: 2, ..Load::closed(connections, length, &Stop(watch::channel(false).1)) }
    }

    fn open(connections: usize, rate: f64, millis: u64) -> Load {
        let offer = Some(Offer { arrivals: Arrivals::Constant, rate, seed: 1 });
        Load { offer, ..closed(connections, Duration::from_millis(millis)) }
    }

    async fn load(base: &Base, load: &Load) -> Result<Tally> {
        run(base, load, |n| request(Method::GET, format!("/{n}"), Bytes::new())).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_request_is_counted_once_and_errors_by_kind() {
        let asked = Arc::new(AtomicU64::new(0));
        let counting = asked.clone();
        // Every fourth request by number is refused, every tenth closes its connection.
        let routes = Router::new().fallback(async move |uri: Uri| {
            counting.fetch_add(1, Ordering::Relaxed);
            let number: u64 = uri.path()[1..].parse().unwrap();
            let status = if number % 4 == 3 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            (status, [("connection", if number.is_multiple_of(10) { "close" } else { "keep-alive" })], "four")
        });
        let found = load(&TestServer::start(routes).await.base(), &closed(6, SHORT)).await.unwrap();
        let (asked, refused) = (asked.load(Ordering::Relaxed), found.failures["status 503"]);
        assert_eq!((found.latencies.len() + refused, found.failures.len()), (asked, 1));
        assert!(refused.abs_diff(asked / 4) <= 6 && found.reopened.abs_diff(asked / 10) <= 6, "{found:?}");
        assert_eq!((found.bytes, found.interrupted), (found.requests * 4, false));
        assert!(found.computing + found.waiting.unwrap_or_default() > 0.01 && found.computing < 1.1, "{found:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_breaks_and_a_server_that_goes_away_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = Base::at(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut listener = Some(listener);
            for left in [2, 1, 0] {
                let (mut stream, _) = listener.as_ref().unwrap().accept().await.unwrap();
                // Before the last answer breaks off, or the next connection could wait in its queue.
                listener.take_if(|_| left == 0);
                // Of ten bytes that are promised, four come.
                assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfour").await.unwrap();
            }
        });
        let found = load(&base, &closed(1, SHORT)).await.unwrap();
        assert_eq!((found.requests, found.failures["connection broken"]), (0, 3));
        // At most one in 20 ms, for what is left of the time.
        assert!((1..=16).contains(&found.failures["no connection"]), "{:?}", found.failures);
        let error = load(&base, &closed(1, SHORT)).await.unwrap_err();
        assert!(error.to_string().contains("does not answer any more"), "{error:#}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_requests_that_are_due_in_a_stall_see_it() {
        // 500 requests a second: those of the first 200 of the 300 ms wait for 100 ms or longer, which are 100. From
        // the actual sending, as many as there are connections would be found, as in a closed loop.
        for (load_of, expected) in [(open(4, 500.0, 1_500), 60..200), (closed(4, SHORT * 5), 1..40)] {
            let (asked, until) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
            let routes = Router::new().fallback(async move || {
                if asked.fetch_add(1, Ordering::Relaxed) >= 200 {
                    sleep_until((*until.get_or_init(|| Instant::now() + SHORT)).into()).await;
                }
            });
            let found = load(&TestServer::start(routes).await.base(), &load_of).await.unwrap();
            let slow = found.latencies.len() - found.latencies.count_between(0, 100_000);
            assert!(expected.contains(&slow) && found.failures.is_empty(), "{slow}");
            assert!(load_of.offer.is_none() || found.latencies.len() == 750, "{}", found.latencies.len());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_without_an_answer_are_errors_and_have_their_waiting_time() {
        let server = TestServer::start(Router::new().fallback(std::future::pending::<()>)).await;
        let base = server.base();
        // Ten requests in half a second: two are sent on two connections, eight never get one.
        let found = load(&base, &open(2, 20.0, 500)).await.unwrap();
        let expected = BTreeMap::from([("not answered".to_owned(), 2), ("not sent".to_owned(), 8)]);
        assert_eq!((found.requests, &found.failures, found.latencies.len()), (0, &expected, 10));
        // All of them have waited for the 5 s of grace at least, and the threads have slept.
        assert!(found.latencies.min() > 4_990_000 && found.computing < 0.5, "{found:?}");
        assert!(load(&base, &open(1, f64::NAN, 1)).await.is_err());
    }

    #[tokio::test]
    async fn times_are_even_or_random_and_never_early() {
        let times = |arrivals, rate, seed, thread| {
            let times = schedule(Offer { arrivals, rate, seed }, thread).unwrap();
            times.take_while(|at| *at < 100.0).collect::<Vec<_>>()
        };
        assert_eq!(times(Arrivals::Constant, 4.0, 0, (0, 2))[..3], [0.0, 0.5, 1.0]);
        assert_eq!(times(Arrivals::Constant, 4.0, 0, (1, 2))[..3], [0.25, 0.75, 1.25]);
        let random = |seed, thread| times(Arrivals::Poisson, 1000.0, seed, thread);
        assert!(random(7, (0, 1)) == random(7, (0, 1)) && random(7, (0, 1)) != random(8, (0, 1)));
        // A Poisson count of 100,000 has a standard deviation of 316: five of them.
        let (all, both) = (random(7, (0, 1)), random(7, (0, 2)).len() + random(7, (1, 2)).len());
        assert!(all.is_sorted() && all.len().abs_diff(100_000) < 1_581 && both.abs_diff(100_000) < 1_581, "{both}");
        // Gaps of an exponential distribution are longer than their mean in 1 of e cases.
        let long = all.windows(2).filter(|pair| pair[1] - pair[0] > 0.001).count();
        assert!((0.35..0.39).contains(&(long as f64 / all.len() as f64)), "{long}");

        let start = Instant::now();
        let due: Vec<_> = (0..100).map(|n| start + Duration::from_micros(500 * n)).collect();
        let mut times = pace(due.clone().into_iter());
        for due in due {
            assert!(times.recv().await == Some(due) && Instant::now() >= due);
        }
        assert_eq!(times.recv().await, None);
    }
}
