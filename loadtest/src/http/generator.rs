//! The threads that make the load, and what they do with their time.
//!
//! They do nothing else: a thread that computes all the time has no time left, and what is measured is its own limit.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::tally::Loop;

/// Shares of a thread's time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    pub computing: f64,
    /// It had work and no core: others had them all. Known on Linux.
    pub waiting: Option<f64>,
}

impl Shares {
    /// The one that computes more, with the longer waiting of the two.
    pub(super) fn busier(self, other: Self) -> Self {
        Self {
            computing: self.computing.max(other.computing),
            waiting: self.waiting.into_iter().chain(other.waiting).reduce(f64::max),
        }
    }
}

/// Measures the shares of the thread it was started on.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    computed: Duration,
    waited: Option<Duration>,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { started: Instant::now(), computed: computed(), waited: waited() }
    }

    pub fn shares(&self) -> Shares {
        let wall = self.started.elapsed().as_secs_f64().max(1e-9);
        let waiting = waited().zip(self.waited).map(|(now, then)| now.saturating_sub(then).as_secs_f64() / wall);
        Shares { computing: computed().saturating_sub(self.computed).as_secs_f64() / wall, waiting }
    }
}

fn computed() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The second number of `schedstat`: nanoseconds on the run queue (Documentation/scheduler/sched-stats.rst).
fn waited() -> Option<Duration> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    line.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Runs `job` once on each of so many threads of its own, and puts together what they found.
///
/// # Errors
///
/// If a thread cannot be started, or any job fails; the others go on to their end then, unheard.
pub async fn on_threads<F>(threads: usize, job: impl Fn(usize) -> F + Clone + Send + 'static) -> anyhow::Result<Loop>
where
    F: Future<Output = anyhow::Result<Loop>>,
{
    let mut running = Vec::new();
    for number in 0..threads {
        let (tell, told) = oneshot::channel();
        let job = job.clone();
        let body = move || {
            let found = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting a generator thread")
                .and_then(|runtime| LocalSet::new().block_on(&runtime, job(number)));
            let _ = tell.send(found);
        };
        std::thread::Builder::new().name(format!("generator-{number}")).spawn(body)?;
        running.push(told);
    }
    let mut parts = Vec::new();
    for told in running {
        parts.push(told.await.context("a generator thread ended without a result")??);
    }
    Loop::merge(parts)
}

/// How many of `whole` fall on thread `number`, so that all threads have as even a share as can be.
pub fn part(whole: usize, threads: usize, number: usize) -> usize {
    whole / threads + usize::from(number < whole % threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_add_up() {
        assert_eq!((0..3).map(|number| part(64, 3, number)).collect::<Vec<_>>(), [22, 21, 21]);
        assert_eq!(part(5, 1, 0), 5);
    }

    #[test]
    fn a_sleeping_thread_does_not_compute() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(50));
        let idle = watch.shares().computing;
        assert!(idle < 0.5, "{idle}");
        let watch = Stopwatch::start();
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {}
        // However little of a core it got, it computed or waited for one.
        let busy = watch.shares();
        assert!(busy.computing + busy.waiting.unwrap_or_default() > 0.5, "{busy:?}");
    }
}
