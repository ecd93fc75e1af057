//! The drive on a socket.

use std::io;

use axum::Router;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::metrics::Metrics;
use super::{Options, edge, router};
use crate::drive::Drive;

/// Serves until `shutdown` ends, then finishes the requests in flight, for at most 30 seconds or until the future
/// that it gave ends too. Connections are no longer accepted meanwhile. `registry`: what `/metrics` tells besides.
pub async fn serve<F>(
    listener: TcpListener,
    drive: Drive,
    options: Options,
    registry: Registry,
    shutdown: impl Future<Output = F> + Send,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send,
{
    serve_beside(listener, drive, options, registry, Router::new(), shutdown).await
}

/// As [`serve`], with further routes that none of the drive's checks stand before: for whoever measures what the
/// drive costs on the same connections.
pub async fn serve_beside<F>(
    listener: TcpListener,
    drive: Drive,
    options: Options,
    mut registry: Registry,
    beside: Router,
    shutdown: impl Future<Output = F> + Send,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send,
{
    let limits = options.limits;
    let metrics = Metrics::register(&mut registry);
    let connections = metrics.connections.clone();
    let memory = drive.memory().clone();
    let app = router::routes(drive, options, metrics, registry).merge(beside);
    edge::serve(listener, app, limits, connections, memory, shutdown).await
}
