//! Serves the drive on a listener.

use std::io;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::metrics::{ConnectionMetrics, HttpMetrics};
use super::options::{Limits, Options, ProxyNet};
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
    proxies: Vec<ProxyNet>,
    connections: ConnectionMetrics,
    memory: Budget,
    tls: Option<Arc<Tls>>,
}

impl Service {
    /// `auth`: of the same store. `registry` holds further metrics for `/metrics`.
    pub fn new(drive: Drive, auth: Auth, options: Options, mut registry: Registry) -> Self {
        let (limits, proxies) = (options.limits, options.proxies.clone());
        let metrics = HttpMetrics::register(&mut registry);
        let connections = metrics.connections.clone();
        let memory = drive.memory().clone();
        let routes = Routes::new(drive, auth, options, metrics, registry);
        Self { routes, limits, proxies, connections, memory, tls: None }
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
        let limits = (self.limits, self.proxies);
        server::serve((listener, self.tls), self.routes, limits, self.connections, self.memory, shutdown).await
    }
}
