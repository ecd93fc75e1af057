//! Connections: accepting, limits, time-outs, and the shutdown. Nothing here knows the meaning of a request.
//!
//! - here: the loop over connections, and the shutdown; [`mod@accept`]: the listener
//! - [`connection_limit`]: how many connections there may be, and which is evicted for a new one
//! - [`write_timeout`]: the socket of a connection; [`handshake`]: TLS on it; [`tls`]: the certificate
//! - [`connection`]: a connection of HTTP/1.1, from its first byte to its last; [`framed_stream`]: its bytes;
//!   [`framing`]: requests whose end two programs may see differently
//! - [`http2`]: a connection of HTTP/2; [`streams`]: its requests; [`stream_task`]: their tasks; [`http2_body`]: their
//!   responses; [`received_body`]: the bodies of requests; [`http2_socket`]: its bytes; [`socket_state`]: what is known
//!   of them; [`http2_frames`]: the frames in them
//! - [`connection_memory`]: what a connection of HTTP/2 keeps beside content, and the memory for it; [`read_buffers`]:
//!   the memory that it is read into; [`hpack_table`]: its table of header fields
//! - [`peer`]: the address that a request comes from
//! - [`slow_client`]: which clients are too slow; [`body_timeout`]: bodies that arrive too slowly; [`drain`]: the
//!   unread rest of a body
//! - [`final_response`]: a response outside of any request

mod accept;
pub(super) mod body_timeout;
mod connection;
mod connection_limit;
mod connection_memory;
pub(super) mod drain;
mod final_response;
mod framed_stream;
mod framing;
mod handshake;
mod hpack_table;
mod http2;
mod http2_body;
mod http2_frames;
mod http2_socket;
mod peer;
mod places;
mod read_buffers;
mod received_body;
mod slow_client;
mod socket_state;
mod stream_task;
mod streams;
pub(super) mod tls;
mod write_timeout;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub(super) use body_timeout::BodyWaiter;
pub(super) use connection::{AmbiguousFraming, App, Secure};
pub use peer::Peer;
pub(super) use places::UserRequest;
pub(super) use streams::RunningStream;

use crate::api::problem::ProblemKind;
use crate::budget::Budget;
use crate::client_net::ClientNet;
use crate::http::metrics::{CloseReason, ConnectionMetrics};
use crate::http::options::{Limits, ProxyNet};
use accept::{AcceptBackoff, accept};
use connection::ConnectionContext;
use connection_limit::{ConnectionLimit, ConnectionSlot};
use final_response::FinalResponses;
use handshake::{HandshakeError, is_http2, shake_hands};
use peer::WithPeer;
use places::Places;
use slow_client::Timeouts;
use tls::Tls;
use write_timeout::ClientSocket;

/// How long requests in flight may take after a shutdown has begun.
const SHUTDOWN: Duration = Duration::from_secs(30);
/// How long connections may take to end after they were aborted.
const ABORT: Duration = Duration::from_secs(1);
/// How often the loop wakes up while there are connections. Whoever sets a timer that ends before all others wakes the
/// thread that waits for events, which takes longer than a small read. With this timer, time-outs of requests end
/// later.
const TICK: Duration = Duration::from_millis(250);
/// What clients of HTTP/2 may make the server keep is the memory of requests divided by this.
const PLACES_DIVISOR: usize = 4;
/// Sockets that may wait at a time for their clients to read a final response. They do not count towards
/// [`Limits::connections`](crate::http::Limits). Beyond this number the socket is closed right after the response.
const FINAL_RESPONSES: usize = 32;

/// Serves until `shutdown` ends, by TLS if there is a certificate. Then it accepts no more connections and finishes the
/// requests in flight, for at most 30 seconds or until the future that `shutdown` returned ends too.
pub async fn serve<F, A: App>(
    (listener, tls): (TcpListener, Option<Arc<Tls>>),
    app: A,
    (limits, proxies): (Limits, Vec<ProxyNet>),
    metrics: ConnectionMetrics,
    memory: Budget,
    shutdown: impl Future<Output = F> + Send,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send,
{
    let places = memory.bytes() / PLACES_DIVISOR / http2::STREAM_BYTES;
    let server = Arc::new(ConnectionServer {
        // A request that runs alone needs none.
        places: Places::new(places, http2::STREAMS as usize - 1, &metrics),
        limits,
        proxies,
        slots: ConnectionLimit::new(limits.connections, limits.connections_of_address),
        metrics,
        memory,
        responses: FinalResponses::new(FINAL_RESPONSES),
        tls: tls.clone(),
    });
    let mut following = JoinSet::new();
    if let Some(tls) = tls {
        following.spawn(tls.follow());
    }
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
                let app = WithPeer::new(app.clone(), from.ip());
                connections.spawn(server.clone().run(stream, from.ip(), app, ended.clone()));
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
    // A connection whose thread is in the middle of a write ends with that write. The close of the drive waits for it
    // too, and knows how long.
    let _ended = tokio::time::timeout(ABORT, connections.shutdown()).await;
    Ok(())
}

struct ConnectionServer {
    limits: Limits,
    /// Those that the operator has named.
    proxies: Vec<ProxyNet>,
    slots: Arc<ConnectionLimit>,
    metrics: ConnectionMetrics,
    memory: Budget,
    responses: FinalResponses,
    tls: Option<Arc<Tls>>,
    /// Places for requests of HTTP/2: what their clients may make the server keep is a quarter of the memory for
    /// requests at most.
    places: Arc<Places>,
}

impl ConnectionServer {
    async fn run(self: Arc<Self>, stream: TcpStream, from: IpAddr, app: impl App, ended: watch::Receiver<bool>) {
        self.metrics.accepted.inc();
        // Small answers must not wait for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(slot) = self.slots.acquire(from) else {
            self.metrics.closed(CloseReason::NoRoom);
            // A client of TLS could not read it.
            if self.tls.is_none() {
                self.responses.refuse(stream).await;
            }
            return;
        };
        self.metrics.open.inc();
        let is_proxy = self.proxies.iter().any(|proxy| proxy.contains(from));
        let address = Some(ClientNet::new(from)).filter(|_| !is_proxy);
        if let Some(why) = self.serve(stream, (Arc::new(slot), address), app, ended).await {
            self.metrics.closed(why);
        }
        self.metrics.open.dec();
    }

    /// Serves a connection to its end. Returns why the server closed it, if it did. `address`: of a proxy none.
    async fn serve(
        &self,
        stream: TcpStream,
        (slot, address): (Arc<ConnectionSlot>, Option<ClientNet>),
        app: impl App,
        mut ended: watch::Receiver<bool>,
    ) -> Option<CloseReason> {
        let timeouts = Timeouts::new(self.limits, &self.memory, address);
        let socket = ClientSocket::new(stream, slot.clone(), timeouts.clone());
        let (is_secure, responses) = (self.tls.is_some(), &self.responses);
        let context = ConnectionContext { slot: slot.clone(), timeouts, responses, is_secure };
        let Some(tls) = &self.tls else {
            return connection::serve(socket, app, context, ended).await;
        };
        let shaken = tokio::select! {
            biased;
            () = slot.evicted() => return Some(CloseReason::MadeRoom),
            shaken = shake_hands(tls, socket, self.limits.head) => shaken,
            _ = ended.wait_for(|ended| *ended) => return None,
        };
        match shaken {
            Ok(stream) if is_http2(&stream) => {
                let places = self.places.for_connection(address);
                http2::serve(stream, app, (context, places), ended).await
            }
            Ok(stream) => connection::serve(stream, app, context, ended).await,
            Err(HandshakeError::Slow) => Some(CloseReason::SlowHandshake),
            Err(HandshakeError::NoTls(socket)) => {
                let detail = "This server speaks https: begin its address with https://.";
                responses.send(socket, ProblemKind::Malformed, detail).await;
                Some(CloseReason::NoTls)
            }
            Err(HandshakeError::Failed(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        }
    }
}
