//! The drive on a socket.

use std::io;

use tokio::net::TcpListener;

use super::{Options, edge, router};
use crate::drive::Drive;

/// Serves until `shutdown` ends, then finishes the requests in flight, for at most 30 seconds or until the future
/// that it gave ends too. Connections are no longer accepted meanwhile.
pub async fn serve<F>(
    listener: TcpListener,
    drive: Drive,
    options: Options,
    shutdown: impl Future<Output = F> + Send,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send,
{
    let limits = options.limits;
    edge::serve(listener, router(drive, options), limits, shutdown).await
}
