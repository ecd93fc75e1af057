//! The open loop: requests are sent at times that do not depend on the answers.
//!
//! Latency is since the time at which a request was to be sent, also if it had to wait for a connection: a server that
//! stalls for a second is seen so by all who would have asked it in that second, not just by those whose requests it
//! had. To measure from the actual sending is known as coordinated omission (Gil Tene, "How NOT to Measure Latency";
//! `wrk2`, <https://github.com/giltene/wrk2>).

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::Control;
use super::generator::{on_threads, part};
use super::pacer::pace;
use super::schedule::{Arrivals, Schedule};
use super::tally::Loop;
use super::worker::{Part, connect};

/// A load that is offered whatever becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub arrivals: Arrivals,
    /// Requests a second of all connections together.
    pub rate: f64,
    /// How long requests are sent.
    pub duration: Duration,
    pub seed: u64,
}

/// Sends requests that `make` gives for 0, 1, 2, ... at the times of the offer. The queue in which they wait for a
/// connection has no end but time: 5 s after the last one was to be sent, those not answered or not sent yet are
/// counted as errors.
///
/// # Errors
///
/// If the rate is not a positive number, or connections cannot be made at the beginning. What fails later is counted.
pub async fn run(
    address: SocketAddr,
    connections: usize,
    threads: usize,
    offer: Offer,
    make: impl Fn(u64) -> Request<Full<Bytes>> + Send + Sync + Clone + 'static,
    control: Control,
) -> anyhow::Result<Loop> {
    let threads = threads.clamp(1, connections.max(1));
    let numbers = Arc::new(AtomicU64::new(0));
    on_threads(threads, move |thread| {
        let (make, control, numbers) = (make.clone(), control.clone(), numbers.clone());
        async move {
            let Offer { arrivals, rate, duration, seed } = offer;
            let schedule = Schedule::new(arrivals, rate, duration, seed, (thread, threads))?;
            let connections = connect(address, part(connections, threads, thread)).await?;
            let part = Part::begin(duration, control)?;
            // The queue: a connection that is free takes the time that has waited longest, or waits for the next one.
            let queue = Rc::new(Mutex::new(pace(schedule, part.start)?));
            let mut workers = JoinSet::new();
            for mut connection in connections {
                let (part, make, numbers, queue) = (Rc::clone(&part), make.clone(), numbers.clone(), Rc::clone(&queue));
                workers.spawn_local(async move {
                    loop {
                        let Some(due) = queue.lock().await.recv().await else { return };
                        if !part.too_late(due) {
                            let request = make(numbers.fetch_add(1, Ordering::Relaxed));
                            part.exchange(&mut connection, request, due).await;
                        }
                    }
                });
            }
            part.finish(workers).await
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use hyper::Method;

    use super::*;
    use crate::http::base::Base;
    use crate::http::closed;
    use crate::http::test_server::{TestServer, answer, unused_port};

    const CONNECTIONS: usize = 4;

    fn get(address: SocketAddr) -> impl Fn(u64) -> Request<Full<Bytes>> + Send + Sync + Clone + 'static {
        let base = Base::at(address);
        move |n| base.request(Method::GET, format!("/{n}"), Bytes::new())
    }

    fn constant(rate: f64, millis: u64) -> Offer {
        Offer { arrivals: Arrivals::Constant, rate, duration: Duration::from_millis(millis), seed: 1 }
    }

    /// Answers at once, but stands still for 300 ms from the 200th request on.
    async fn stalling() -> TestServer {
        let asked = Arc::new(AtomicU64::new(0));
        let until = Arc::new(std::sync::OnceLock::new());
        TestServer::start(move |_, _| {
            if asked.fetch_add(1, Ordering::Relaxed) == 200 {
                until.get_or_init(|| Instant::now() + Duration::from_millis(300));
            }
            let until = until.get().copied();
            async move {
                if let Some(until) = until {
                    tokio::time::sleep_until(until.into()).await;
                }
                answer(200, "ok")
            }
        })
        .await
    }

    fn slower_than_100_ms(found: &Loop) -> u64 {
        found.histogram.len() - found.histogram.count_between(0, 100_000)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stall_is_seen_by_all_who_would_have_asked_meanwhile() {
        // 500 requests a second: of the 300 ms, those of the first 200 wait for 100 ms or longer, which are 100. To
        // measure from the actual sending would find as many as there are connections.
        let server = stalling().await;
        let make = get(server.address);
        let open =
            run(server.address, CONNECTIONS, 1, constant(500.0, 1_500), make, Control::unwatched()).await.unwrap();
        assert_eq!((open.requests + open.late, open.errors()), (750, 0));
        assert!((60..200).contains(&slower_than_100_ms(&open)), "{}", slower_than_100_ms(&open));

        let server = stalling().await;
        let make = get(server.address);
        let length = Duration::from_millis(1_500);
        let closed = closed::closed_loop(server.address, CONNECTIONS, 1, length, make).await.unwrap();
        assert!(closed.requests > 200);
        assert!((1..40).contains(&slower_than_100_ms(&closed)), "{}", slower_than_100_ms(&closed));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_load_is_offered_in_full_by_several_threads() {
        let server = TestServer::start(|_, _| async { answer(200, "four") }).await;
        let found =
            run(server.address, 5, 2, constant(400.0, 500), get(server.address), Control::unwatched()).await.unwrap();
        assert_eq!((found.requests + found.late, found.errors()), (200, 0));
        assert_eq!(found.bytes, found.requests * 4);
        assert_eq!(found.histogram.len(), 200);
        assert!((found.seconds - 0.5).abs() < 1e-9);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_never_answered_is_an_error_and_has_its_waiting_time() {
        let server = TestServer::start(|_, _| async {
            std::future::pending::<()>().await;
            answer(200, "")
        })
        .await;
        // Ten requests in half a second: two are sent on two connections, eight never get one.
        let found =
            run(server.address, 2, 1, constant(20.0, 500), get(server.address), Control::unwatched()).await.unwrap();
        assert_eq!((found.requests, found.failures.unanswered, found.failures.unsent), (0, 2, 8));
        // All of them have waited for the 5 s of grace at least.
        assert_eq!(found.histogram.len(), 10);
        assert!(found.histogram.min() > 4_990_000, "{}", found.histogram.min());
    }

    #[tokio::test]
    async fn a_server_that_takes_no_connection_is_an_error() {
        let address = SocketAddr::from(([127, 0, 0, 1], unused_port().await));
        let error = run(address, 2, 1, constant(20.0, 100), get(address), Control::unwatched()).await.unwrap_err();
        assert!(error.to_string().contains("does not answer any more"), "{error:#}");
    }
}
