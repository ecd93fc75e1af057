//! Taking connections from the system, which may have none to give: then it waits, ever longer, and says so now and
//! then.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::slots::Slots;

/// How long to wait when the system has no socket to give: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// How often it is logged at most.
const TOLD: Duration = Duration::from_secs(10);

/// How accepting goes.
#[derive(Default)]
pub struct Trouble {
    /// Accepting goes on then.
    until: Option<Instant>,
    pause: Duration,
    told: Option<Instant>,
    /// Failures since it was told.
    failed: u64,
}

/// The next connection. It may be dropped and called again at any time.
pub async fn accept(listener: &TcpListener, slots: &Slots, trouble: &mut Trouble) -> (TcpStream, SocketAddr) {
    loop {
        if let Some(until) = trouble.until {
            sleep_until(until).await;
            trouble.until = None;
        }
        match listener.accept().await {
            Ok(taken) => {
                trouble.pause = Duration::ZERO;
                return taken;
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                trouble.meet(&error);
                // Most often it is handles that lack, and an idle connection has one.
                slots.make_room();
            }
        }
    }
}

/// The client has left before it was taken.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

impl Trouble {
    fn meet(&mut self, error: &io::Error) {
        let [first, most] = PAUSE;
        self.pause = (self.pause * 2).clamp(first, most);
        self.until = Some(Instant::now() + self.pause);
        self.failed += 1;
        if self.told.is_none_or(|told| told.elapsed() >= TOLD) {
            tracing::error!(%error, times = self.failed, "connections cannot be accepted: clients wait");
            self.told = Some(Instant::now());
            self.failed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_ever_longer_and_speaks_seldom() {
        let mut trouble = Trouble::default();
        let error = io::Error::from_raw_os_error(24);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            trouble.meet(&error);
            pauses.push(trouble.pause);
        }
        assert_eq!((pauses[0], pauses[1], pauses[11]), (PAUSE[0], PAUSE[0] * 2, PAUSE[1]));
        assert_eq!(trouble.failed, 11, "it was told once");
        assert!(is_of_the_client(&io::ErrorKind::ConnectionAborted.into()) && !is_of_the_client(&error));
    }
}
