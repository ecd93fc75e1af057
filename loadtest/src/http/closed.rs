//! The closed loop: each connection sends its next request when the last one is answered.
//!
//! It finds how much the server can do. Its latencies are those of a server that nobody waits for: while it stalls,
//! requests that would have been sent are not, and are missing from the count. `open` tells what those would have
//! seen.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::task::JoinSet;

use super::Control;
use super::generator::{on_threads, part};
use super::tally::Loop;
use super::worker::{Part, connect};

/// Keeps `connections` busy for so long, with the requests that `make` gives for 0, 1, 2, ... A request is done when
/// its answer has come whole, and well done if its status is 2xx.
///
/// # Errors
///
/// If the connections cannot be made at the beginning. What fails later is counted.
pub async fn closed_loop(
    address: SocketAddr,
    connections: usize,
    threads: usize,
    duration: Duration,
    make: impl Fn(u64) -> Request<Full<Bytes>> + Send + Sync + Clone + 'static,
) -> anyhow::Result<Loop> {
    run(address, connections, threads, duration, make, Control::unwatched()).await
}

/// As [`closed_loop`], shown and ended early through `control`.
pub async fn run(
    address: SocketAddr,
    connections: usize,
    threads: usize,
    duration: Duration,
    make: impl Fn(u64) -> Request<Full<Bytes>> + Send + Sync + Clone + 'static,
    control: Control,
) -> anyhow::Result<Loop> {
    let threads = threads.clamp(1, connections.max(1));
    let numbers = Arc::new(AtomicU64::new(0));
    on_threads(threads, move |thread| {
        let (make, control, numbers) = (make.clone(), control.clone(), numbers.clone());
        async move {
            let connections = connect(address, part(connections, threads, thread)).await?;
            let part = Part::begin(duration, control)?;
            let mut workers = JoinSet::new();
            for mut connection in connections {
                let (part, make, numbers) = (Rc::clone(&part), make.clone(), numbers.clone());
                workers.spawn_local(async move {
                    while Instant::now() < part.end {
                        let request = make(numbers.fetch_add(1, Ordering::Relaxed));
                        part.exchange(&mut connection, request, Instant::now()).await;
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
    use hyper::{Method, Response};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::watch;

    use super::*;
    use crate::http::base::Base;
    use crate::http::test_server::{TestServer, answer};

    fn get(address: SocketAddr) -> impl Fn(u64) -> Request<Full<Bytes>> + Send + Sync + Clone + 'static {
        let base = Base::at(address);
        move |n| base.request(Method::GET, format!("/{n}"), Bytes::new())
    }

    const SHORT: Duration = Duration::from_millis(300);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_request_is_counted_once_and_errors_are_told_apart() {
        let asked = Arc::new(AtomicU64::new(0));
        let counting = asked.clone();
        // Every fourth request by number is refused.
        let server = TestServer::start(move |_, target| {
            counting.fetch_add(1, Ordering::Relaxed);
            let number: u64 = target.trim_start_matches('/').parse().unwrap();
            async move { if number % 4 == 3 { answer(503, "busy") } else { answer(200, "fine") } }
        })
        .await;
        let found = closed_loop(server.address, 6, 2, SHORT, get(server.address)).await.unwrap();
        let (well, refused) = (found.requests + found.late, found.failures.statuses[&503]);
        assert_eq!(well + refused, asked.load(Ordering::Relaxed));
        assert_eq!(refused, (well + refused) / 4);
        assert_eq!(found.errors(), refused);
        assert_eq!(found.histogram.len(), well);
        assert_eq!((found.reopened, found.interrupted), (0, false));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_was_closed_in_between_is_opened_again_and_counted() {
        let server = TestServer::start(|_, _| async {
            Response::builder().header("connection", "close").body(Full::new(Bytes::new())).unwrap()
        })
        .await;
        let found = closed_loop(server.address, 2, 1, SHORT, get(server.address)).await.unwrap();
        assert_eq!(found.errors(), 0);
        // Each of the two connections is opened once before the time begins.
        assert_eq!(found.reopened, found.requests + found.late - 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_breaks_in_an_answer_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let broken = Arc::new(AtomicU64::new(0));
        let counting = broken.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // Of ten bytes that are promised, four come.
                if stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfour").await.unwrap();
                    counting.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let found = closed_loop(address, 1, 1, SHORT, get(address)).await.unwrap();
        assert_eq!((found.requests, found.late), (0, 0));
        assert_eq!(found.failures.broken, broken.load(Ordering::Relaxed));
        assert!(found.failures.broken > 0);
        assert_eq!(found.errors(), found.failures.broken);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_server_that_goes_away_is_counted_not_hidden() {
        let server = TestServer::start(|_, _| async {
            Response::builder().header("connection", "close").body(Full::new(Bytes::new())).unwrap()
        })
        .await;
        let address = server.address;
        tokio::spawn(async move {
            tokio::time::sleep(SHORT / 2).await;
            drop(server);
        });
        let found = closed_loop(address, 2, 1, SHORT, get(address)).await.unwrap();
        assert!(found.requests > 0);
        // At most one in 20 ms on each connection, for what is left of the time, and the last ones.
        assert!((1..=32).contains(&found.failures.refused), "{:?}", found.failures);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_early_end_gives_what_there_is() {
        let server = TestServer::start(|_, target| async move {
            // The first two answers never come: they are under way at the end.
            if target == "/0" || target == "/1" {
                std::future::pending::<()>().await;
            }
            answer(200, "fine")
        })
        .await;
        let (tell, stop) = watch::channel(false);
        let hour = Duration::from_secs(3600);
        let control = Control::new(stop);
        let answered = control.answered.clone();
        tokio::spawn(async move {
            while answered.load(Ordering::Relaxed) < 50 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tell.send(true).unwrap();
        });
        let found = run(server.address, 4, 2, hour, get(server.address), control).await.unwrap();
        assert!(found.interrupted);
        assert!(found.requests >= 50 && found.histogram.len() == found.requests);
        assert_eq!(found.errors(), 0);
        assert!(found.seconds < 3600.0 && found.per_second() > 0.0);
    }
}
