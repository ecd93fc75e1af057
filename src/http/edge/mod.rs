//! The server's edge: sockets are taken, watched and let go here, and nothing of a request's meaning is known.
//!
//! - here: the accept loop, and how serving ends
//! - [`slots`]: how many connections there may be, and which goes when there is no room for another
//! - [`connection`]: one connection, from its first byte to its last
//! - [`socket`]: its bytes; [`framing`]: where one request ends and the next begins
//! - [`pace`]: bodies that come too slowly

mod connection;
mod framing;
pub(super) mod pace;
mod slots;
mod socket;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(super) use connection::Ambiguous;

use super::Limits;
use super::metrics::Connections;
use crate::budget::Budget;
use pace::Patience;
use slots::Slots;

/// How long requests in flight may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(30);
/// How long to wait when the system has no socket to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` ends, then finishes the requests in flight, for at most 30 seconds or until the future
/// that it gave ends too. Connections are no longer accepted meanwhile.
pub async fn serve<F>(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    seen: Connections,
    memory: Budget,
    shutdown: impl Future<Output = F> + Send,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send,
{
    let server =
        Arc::new(Server { limits, slots: Slots::new(limits.connections, limits.connections_of_address), seen, memory });
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    let at_once = loop {
        tokio::select! {
            at_once = &mut shutdown => break at_once,
            socket = listener.accept() => match socket {
                Ok((stream, from)) => {
                    connections.spawn(server.clone().run(stream, from.ip(), app.clone(), ended.clone()));
                }
                Err(error) => refused(&error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    };
    drop(listener);
    let _ = ending.send(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = finished => return Ok(()),
        () = tokio::time::sleep(DRAIN) => {
            tracing::warn!("requests were still running after {} s and are cut", DRAIN.as_secs());
        }
        () = at_once => tracing::warn!("told again to stop: requests in flight are cut"),
    }
    connections.shutdown().await;
    Ok(())
}

/// A connection could not be taken: perhaps the client has left, perhaps there are too many files open.
async fn refused(error: &io::Error) {
    let gone = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    );
    if !gone {
        tracing::error!(%error, "a connection could not be accepted");
        tokio::time::sleep(PAUSE).await;
    }
}

struct Server {
    limits: Limits,
    slots: Arc<Slots>,
    seen: Connections,
    memory: Budget,
}

impl Server {
    fn patience(&self) -> Patience {
        Patience { limits: self.limits, memory: self.memory.clone() }
    }

    async fn run(self: Arc<Self>, stream: TcpStream, from: IpAddr, app: Router, ended: watch::Receiver<bool>) {
        self.seen.accepted.inc();
        // Small answers must not wait for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        match self.slots.take(from) {
            Some(slot) => {
                self.seen.open.inc();
                if let Some(why) = connection::serve(stream, app, slot, self.patience(), ended).await {
                    self.seen.closed(why);
                }
                self.seen.open.dec();
            }
            None => {
                self.seen.closed("no-room");
                connection::refuse(stream).await;
            }
        }
    }
}
