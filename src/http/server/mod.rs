//! Connections: accepting, limits, time-outs, and the shutdown. Nothing here knows the meaning of a request.
//!
//! - here: the loop over connections, and the shutdown; [`mod@accept`]: the listener
//! - [`connection_limit`]: how many connections there may be, and which is evicted for a new one
//! - [`connection`]: one connection, from its first byte to its last
//! - [`write_timeout`]: its socket; [`framing`]: requests whose end two programs may see differently
//! - [`body_timeout`]: bodies that arrive too slowly; [`drain`]: the unread rest of a body
//! - [`final_response`]: a response outside of any request

mod accept;
pub(super) mod body_timeout;
mod connection;
mod connection_limit;
pub(super) mod drain;
mod final_response;
mod framing;
mod write_timeout;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub(super) use connection::{AmbiguousFraming, App};

use crate::budget::Budget;
use crate::http::metrics::ConnectionMetrics;
use crate::http::options::Limits;
use accept::{AcceptBackoff, accept};
use body_timeout::Timeouts;
use connection_limit::ConnectionLimit;
use final_response::FinalResponses;

/// How long requests in flight may take after a shutdown has begun.
const SHUTDOWN: Duration = Duration::from_secs(30);
/// How long connections may take to end after they were aborted.
const ABORT: Duration = Duration::from_secs(1);
/// How often the loop wakes up while there are connections. Whoever sets a timer that ends before all others wakes the
/// thread that waits for events, which takes longer than a small read. With this timer, time-outs of requests end later.
const TICK: Duration = Duration::from_millis(250);
/// Sockets that may wait at a time for their clients to read a final response. They do not count towards
/// [`Limits::connections`](crate::http::Limits). Beyond this number the socket is closed right after the response.
const FINAL_RESPONSES: usize = 32;

/// Serves until `shutdown` ends. Then it accepts no more connections and finishes the requests in flight, for at most
/// 30 seconds or until the future that `shutdown` returned ends too.
pub async fn serve<F, A: App>(
    listener: TcpListener,
    app: A,
    limits: Limits,
    metrics: ConnectionMetrics,
    memory: Budget,
    shutdown: impl Future<Output = F> + Send,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send,
{
    let server = Arc::new(ConnectionServer {
        limits,
        slots: ConnectionLimit::new(limits.connections, limits.connections_of_address),
        metrics,
        memory,
        responses: FinalResponses::new(FINAL_RESPONSES),
    });
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut backoff = AcceptBackoff::default();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(shutdown);
    let at_once = loop {
        tokio::select! {
            at_once = &mut shutdown => break at_once,
            (stream, from) = accept(&listener, &server.slots, &mut backoff) => {
                connections.spawn(server.clone().run(stream, from.ip(), app.clone(), ended.clone()));
            }
            Some(_) = connections.join_next() => {}
            _ = tick.tick(), if !connections.is_empty() => {}
        }
    };
    drop(listener);
    let _ = ending.send(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = finished => return Ok(()),
        () = tokio::time::sleep(SHUTDOWN) => {
            tracing::warn!("requests were still running after {} s and are cut", SHUTDOWN.as_secs());
        }
        () = at_once => tracing::warn!("a second signal to stop: requests in flight are cut"),
    }
    // A connection whose thread is in the middle of a write ends with that write. The close of the drive waits for it too,
    // and knows how long.
    let _ended = tokio::time::timeout(ABORT, connections.shutdown()).await;
    Ok(())
}

struct ConnectionServer {
    limits: Limits,
    slots: Arc<ConnectionLimit>,
    metrics: ConnectionMetrics,
    memory: Budget,
    responses: FinalResponses,
}

impl ConnectionServer {
    fn timeouts(&self) -> Timeouts {
        Timeouts { limits: self.limits, memory: self.memory.clone() }
    }

    async fn run(self: Arc<Self>, stream: TcpStream, from: IpAddr, app: impl App, ended: watch::Receiver<bool>) {
        self.metrics.accepted.inc();
        // Small answers must not wait for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        match self.slots.acquire(from) {
            Some(slot) => {
                self.metrics.open.inc();
                if let Some(why) = connection::serve(stream, app, slot, (self.timeouts(), &self.responses), ended).await
                {
                    self.metrics.closed(why);
                }
                self.metrics.open.dec();
            }
            None => {
                self.metrics.closed("no-room");
                self.responses.refuse(stream).await;
            }
        }
    }
}
