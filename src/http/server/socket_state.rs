//! What is known of the socket of an HTTP/2 connection, for its requests and for what ends it.

use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of the bytes of a connection.
#[derive(Default)]
pub struct SocketState {
    unsent: AtomicBool,
    flooded: AtomicBool,
    paused: AtomicBool,
}

impl SocketState {
    pub fn set_unsent(&self, is_unsent: bool) {
        self.unsent.store(is_unsent, Ordering::Relaxed);
    }

    pub fn set_paused(&self, is_paused: bool) {
        self.paused.store(is_paused, Ordering::Relaxed);
    }

    pub fn set_flooded(&self) {
        self.flooded.store(true, Ordering::Relaxed);
    }

    /// Whether there was a write since the last complete flush.
    pub fn is_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Whether the server does not read what the client sends.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Whether the client has sent too many control frames, or more of others than there was memory for.
    pub fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }
}
