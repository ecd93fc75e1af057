//! The server's edge: sockets are taken, watched and let go here, and nothing of a request's meaning is known.
//!
//! - here: the loop over connections, and how serving ends; [`accept`]: sockets from the system
//! - [`slots`]: how many connections there may be, and which goes when there is no room for another
//! - [`connection`]: one connection, from its first byte to its last
//! - [`socket`]: its bytes; [`framing`]: where one request ends and the next begins
//! - [`last_word`]: what a client is told outside of any answer
//! - [`pace`]: bodies that come too slowly

mod accept;
mod connection;
mod framing;
mod last_word;
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
use accept::{Trouble, accept};
use last_word::LastWords;
use pace::Patience;
use slots::Slots;

/// How long requests in flight may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Sockets at a time that are read for a moment after a last word. They come on top of
/// [`Limits::connections`](super::Limits); with more, the last word is sent and the socket closed at once.
const LINGERING: usize = 32;

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
    let server = Arc::new(Server {
        limits,
        slots: Slots::new(limits.connections, limits.connections_of_address),
        seen,
        memory,
        words: LastWords::new(LINGERING),
    });
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut trouble = Trouble::default();
    tokio::pin!(shutdown);
    let at_once = loop {
        tokio::select! {
            at_once = &mut shutdown => break at_once,
            (stream, from) = accept(&listener, &server.slots, &mut trouble) => {
                connections.spawn(server.clone().run(stream, from.ip(), app.clone(), ended.clone()));
            }
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

struct Server {
    limits: Limits,
    slots: Arc<Slots>,
    seen: Connections,
    memory: Budget,
    words: LastWords,
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
                if let Some(why) = connection::serve(stream, app, slot, (self.patience(), &self.words), ended).await {
                    self.seen.closed(why);
                }
                self.seen.open.dec();
            }
            None => {
                self.seen.closed("no-room");
                self.words.refuse(stream).await;
            }
        }
    }
}
