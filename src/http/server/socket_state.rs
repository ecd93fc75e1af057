//! What is known of the socket of an HTTP/2 connection, for its requests and for what ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What is known of the bytes of a connection.
#[derive(Default)]
pub struct SocketState {
    unsent: AtomicBool,
    flooded: AtomicBool,
    is_paused: AtomicBool,
    pauses: Mutex<Pauses>,
}

#[derive(Default)]
struct Pauses {
    /// All that have ended.
    ended: Duration,
    /// The start of the present one.
    since: Option<Instant>,
}

impl SocketState {
    pub fn set_unsent(&self, is_unsent: bool) {
        self.unsent.store(is_unsent, Ordering::Relaxed);
    }

    /// Sets whether the server does not read what the client sends.
    pub fn set_paused(&self, is_paused: bool) {
        // Most reads are not paused: they need no lock.
        if self.is_paused.swap(is_paused, Ordering::Relaxed) == is_paused {
            return;
        }
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        if is_paused {
            pauses.since = Some(Instant::now());
        } else if let Some(since) = pauses.since.take() {
            pauses.ended += since.elapsed();
        }
    }

    pub fn set_flooded(&self) {
        self.flooded.store(true, Ordering::Relaxed);
    }

    /// Whether there was a write since the last complete flush.
    pub fn is_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// For how long, in all, the server has not read what the client sends: for want of memory for its frames.
    pub fn paused_for(&self) -> Duration {
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.ended + pauses.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether the client has sent too many control frames, or more of others than there was memory for.
    pub fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }
}
