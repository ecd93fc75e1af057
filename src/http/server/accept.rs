//! Accepts connections. When the system has no file descriptor left, it pauses, longer each time, and logs the error at
//! most every 10 seconds.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::connection_limit::ConnectionLimit;

/// The pause after an error: the first, and the longest.
const PAUSE: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// The shortest time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// When to accept again, and when to log again.
#[derive(Default)]
pub struct AcceptBackoff {
    /// The end of the pause.
    until: Option<Instant>,
    pause: Duration,
    logged: Option<Instant>,
    /// Errors since the last log line.
    failed: u64,
}

/// The next connection. Cancel-safe.
pub async fn accept(
    listener: &TcpListener,
    slots: &ConnectionLimit,
    backoff: &mut AcceptBackoff,
) -> (TcpStream, SocketAddr) {
    loop {
        if let Some(until) = backoff.until {
            sleep_until(until).await;
            backoff.until = None;
        }
        match listener.accept().await {
            Ok(taken) => {
                backoff.pause = Duration::ZERO;
                return taken;
            }
            Err(error) if is_client_abort(&error) => {}
            Err(error) => {
                backoff.record(&error);
                // Most often the process has no file descriptor left: evicting a connection frees one.
                slots.evict_one();
            }
        }
    }
}

/// The client left before it was accepted.
fn is_client_abort(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

impl AcceptBackoff {
    fn record(&mut self, error: &io::Error) {
        let [first, most] = PAUSE;
        self.pause = (self.pause * 2).clamp(first, most);
        self.until = Some(Instant::now() + self.pause);
        self.failed += 1;
        if self.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            tracing::error!(%error, times = self.failed, "connections cannot be accepted: clients wait");
            self.logged = Some(Instant::now());
            self.failed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_errors_are_logged_seldom() {
        let mut backoff = AcceptBackoff::default();
        let error = io::Error::from_raw_os_error(24);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            backoff.record(&error);
            pauses.push(backoff.pause);
        }
        assert_eq!((pauses[0], pauses[1], pauses[11]), (PAUSE[0], PAUSE[0] * 2, PAUSE[1]));
        assert_eq!(backoff.failed, 11, "it was logged once");
        assert!(is_client_abort(&io::ErrorKind::ConnectionAborted.into()) && !is_client_abort(&error));
    }
}
