//! Clean-up that nobody waits for: it is tried again until it is done, and stops at its next piece when the drive is
//! closed. What is left then is named by rows of the store (`op`, `unlink`), and the next start goes on with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{DriveError, Result};

/// How long to wait before something is tried again: longer each time.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    pub first: Duration,
    pub longest: Duration,
}

/// The pauses between tries of one piece of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    retry: Retry,
    next: Duration,
}

impl Pauses {
    pub fn new(retry: Retry) -> Self {
        Self { retry, next: retry.first }
    }

    /// The pause after one more failure.
    pub fn longer(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.retry.longest);
        pause
    }

    /// Something worked.
    pub fn reset(&mut self) {
        self.next = self.retry.first;
    }
}

/// The clean-up that is under way.
#[derive(Debug)]
pub(super) struct Background {
    closing: watch::Sender<bool>,
    under_way: Arc<watch::Sender<usize>>,
}

/// One piece of clean-up is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<watch::Sender<usize>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Default for Background {
    fn default() -> Self {
        Self { closing: watch::Sender::new(false), under_way: Arc::new(watch::Sender::new(0)) }
    }
}

impl Background {
    /// To be called before the task is spawned, so that who waits for the end cannot miss it.
    pub fn begin(&self) -> UnderWay {
        self.under_way.send_modify(|count| *count += 1);
        UnderWay(self.under_way.clone())
    }

    /// Asks clean-up to stop at its next piece.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// To be asked between pieces.
    pub fn go_on(&self) -> Result<()> {
        if *self.closing.borrow() { Err(DriveError::Closing) } else { Ok(()) }
    }

    pub fn watch(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Waits until none is under way.
    pub async fn ended(&self) {
        // It fails if the sender is gone only, and it is here.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Waits that long. False if the drive is closed meanwhile, or gone.
pub(super) async fn pause(closing: &mut watch::Receiver<bool>, pause: Duration) -> bool {
    tokio::time::timeout(pause, closing.wait_for(|closing| *closing)).await.is_err()
}
