//! Serves the drive on a listener.

use std::io;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::metrics::{ConnectionMetrics, HttpMetrics};
use super::options::{Limits, Options};
use super::router::Routes;
use super::server;
use super::server::tls::Tls;
use crate::auth::Auth;
use crate::budget::Budget;
use crate::drive::Drive;

/// The HTTP API of a drive, ready to be served.
pub struct Service {
    routes: Routes,
    limits: Limits,
    connections: ConnectionMetrics,
    memory: Budget,
    tls: Option<Arc<Tls>>,
}

impl Service {
    /// `auth`: of the same store. `registry` holds further metrics for `/metrics`.
    pub fn new(drive: Drive, auth: Auth, options: Options, mut registry: Registry) -> Self {
        let limits = options.limits;
        let metrics = HttpMetrics::register(&mut registry);
        let connections = metrics.connections.clone();
        let memory = drive.memory().clone();
        Self { routes: Routes::new(drive, auth, options, metrics, registry), limits, connections, memory, tls: None }
    }

    /// The same service by TLS alone, over HTTP/1.1 and HTTP/2.
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(Arc::new(tls)), ..self }
    }

    /// Serves until `shutdown` ends. Then it accepts no more connections and finishes the requests in flight, for at
    /// most 30 seconds or until the future that `shutdown` returned ends too.
    pub async fn serve<F>(self, listener: TcpListener, shutdown: impl Future<Output = F> + Send) -> io::Result<()>
    where
        F: Future<Output = ()> + Send,
    {
        server::serve((listener, self.tls), self.routes, self.limits, self.connections, self.memory, shutdown).await
    }
}
