//! One connection of a loop: sends a request, and counts what becomes of it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::task::JoinSet;

use super::client::{Connection, Failure};
use super::generator::Stopwatch;
use super::tally::Loop;
use super::{Control, stopping};

/// How long requests may take that are under way or due when the time is over.
pub const DRAIN: Duration = Duration::from_secs(5);

/// How long a connection that could not be made is left alone: else a server that went away would be asked, and
/// errors counted, as fast as the kernel can refuse.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread's part of a loop: its time, and what its connections count together. They are tasks of one thread, so the
/// count needs no lock.
#[derive(Debug)]
pub struct Part {
    pub start: Instant,
    pub end: Instant,
    give_up: Instant,
    found: RefCell<Loop>,
    control: Control,
    watch: Stopwatch,
}

impl Part {
    /// Its time begins now.
    pub fn begin(length: Duration, control: Control) -> anyhow::Result<Rc<Self>> {
        let start = Instant::now();
        let end = start + length;
        let found = RefCell::new(Loop::new()?);
        Ok(Rc::new(Self { start, end, give_up: end + DRAIN, found, control, watch: Stopwatch::start() }))
    }

    /// Waits until all workers are done or it is ended early, and gives what they have found.
    pub async fn finish(&self, mut workers: JoinSet<()>) -> anyhow::Result<Loop> {
        let (mut shares, mut failed) = (None, None);
        let interrupted = {
            let all = async {
                while let Some(done) = workers.join_next().await {
                    if let Err(error) = done {
                        failed = Some(error);
                        break;
                    }
                }
            };
            let over = async {
                tokio::time::sleep_until(self.end.into()).await;
                // Whatever is still to be waited for is not the time in which load was made.
                shares = Some(self.watch.shares());
                std::future::pending().await
            };
            tokio::select! {
                () = all => false,
                () = over => false,
                () = stopping(self.control.stop.clone()) => true,
            }
        };
        workers.shutdown().await;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let mut found = self.found.borrow().clone();
        let length = if interrupted { self.end.min(Instant::now()) } else { self.end };
        found.seconds = length.duration_since(self.start).as_secs_f64();
        found.generator = shares.unwrap_or_else(|| self.watch.shares());
        found.interrupted = interrupted;
        Ok(found)
    }

    /// Sends a request on `connection` and counts its answer; its latency is since `from`.
    pub async fn exchange(&self, connection: &mut Connection, request: Request<Full<Bytes>>, from: Instant) {
        let before = connection.reopened;
        let outcome = tokio::time::timeout_at(self.give_up.into(), connection.exchange(request)).await;
        let now = Instant::now();
        let refused = matches!(outcome, Ok(Err(Failure::Connect(_))));
        {
            let mut found = self.found.borrow_mut();
            found.reopened += connection.reopened - before;
            match outcome {
                Ok(Ok(answer)) if answer.status.is_success() => {
                    found.answered(now - from, answer.bytes, now <= self.end);
                    self.control.answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Ok(answer)) => found.refused(answer.status),
                Ok(Err(failure)) => found.failed(&failure),
                Err(_) => found.unanswered(now - from),
            }
        }
        if refused {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Counts a request that was to be sent at `due`, if it is too late for that.
    pub fn too_late(&self, due: Instant) -> bool {
        let now = Instant::now();
        if now < self.give_up {
            return false;
        }
        self.found.borrow_mut().unsent(now.saturating_duration_since(due));
        true
    }
}

/// So many connections, each open.
pub async fn connect(address: SocketAddr, count: usize) -> anyhow::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let mut connection = Connection::new(address);
        connection.open().await.map_err(|cause| match number {
            0 => anyhow::anyhow!("{address} does not answer any more: is the server still there? ({cause})"),
            _ => anyhow::anyhow!("no more than {number} of {count} connections can be made: give fewer ({cause})"),
        })?;
        connections.push(connection);
    }
    Ok(connections)
}
