//! Serves the drive on a listener.

use std::io;

use axum::Router;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::metrics::HttpMetrics;
use super::options::Options;
use super::{router, server};
use crate::drive::Drive;

/// Serves until `shutdown` ends. Then it accepts no more connections and finishes the requests in flight, for at most
/// 30 seconds or until the future that `shutdown` returned ends too. `registry` has further metrics for `/metrics`.
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

/// As [`serve`], with further routes that bypass the drive and its middleware: with them the load test measures the cost
/// of the connections alone.
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
    let metrics = HttpMetrics::register(&mut registry);
    let connections = metrics.connections.clone();
    let memory = drive.memory().clone();
    let app = router::routes(drive, options, metrics, registry).merge(beside);
    server::serve(listener, app, limits, connections, memory, shutdown).await
}
