//! The socket, and how serving ends.

use std::io;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Options, router};
use crate::drive::Drive;

/// How long requests in flight may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves until `shutdown` ends, then finishes the requests in flight, for at most 30 seconds. Connections are
/// no longer accepted meanwhile.
pub async fn serve(
    listener: TcpListener,
    drive: Drive,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Small answers must not wait for the client's delayed acknowledgement.
    let listener = listener.tap_io(|socket| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
    });
    let (stopping, stopped) = oneshot::channel::<()>();
    let drain = async move {
        shutdown.await;
        drop(stopping);
    };
    let deadline = async move {
        let _ = stopped.await; // ends when the other half is dropped
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        done = axum::serve(listener, router(drive, options)).with_graceful_shutdown(drain) => done,
        () = deadline => {
            tracing::warn!("requests were still running after {} s and are cut", DRAIN.as_secs());
            Ok(())
        }
    }
}
