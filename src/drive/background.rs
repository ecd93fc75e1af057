//! Clean-up that nobody waits for: it is tried again until it is done, and stops at its next piece when the drive is
//! closed. What is left then is named by rows of the store (`op`, `unlink`), and the next start goes on with it.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::error::{DriveError, Result};

/// How long to wait before something is tried again: longer each time.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The pause before the second attempt.
    pub first: Duration,
    /// The longest pause; each is twice the one before.
    pub longest: Duration,
}

/// The pauses between tries of one piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    retry: Backoff,
    next: Duration,
}

impl Pauses {
    pub fn new(retry: Backoff) -> Self {
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

/// A value that tasks wait for. Those that wait are woken in the order in which they came: tokio's `watch` draws the
/// order at random, and a seeded run could not be replayed.
#[derive(Debug, Default)]
pub struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Signal<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
    }

    pub fn is(&self, wanted: impl FnOnce(&T) -> bool) -> bool {
        wanted(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the value is a wanted one.
    pub async fn until(&self, wanted: impl Fn(&T) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before the look, so that no change between the look and the wait is missed.
            changed.as_mut().enable();
            if self.is(&wanted) {
                return;
            }
            changed.await;
        }
    }
}

/// The clean-up that is under way.
#[derive(Debug, Default)]
pub struct Background {
    closing: Arc<Signal<bool>>,
    under_way: Arc<Signal<usize>>,
}

/// One piece of clean-up is under way, until this is dropped.
#[derive(Debug)]
pub struct UnderWay(Arc<Signal<usize>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.change(|count| *count -= 1);
    }
}

/// A drive that is gone is closed, for the tasks that outlive it.
impl Drop for Background {
    fn drop(&mut self) {
        self.close();
    }
}

impl Background {
    /// To be called before the task is spawned, so that who waits for the end cannot miss it.
    pub fn begin(&self) -> UnderWay {
        self.under_way.change(|count| *count += 1);
        UnderWay(self.under_way.clone())
    }

    /// Asks clean-up to stop at its next piece.
    pub fn close(&self) {
        self.closing.change(|closing| *closing = true);
    }

    /// To be asked between pieces.
    pub fn go_on(&self) -> Result<()> {
        if self.closing.is(|closing| *closing) { Err(DriveError::Closing) } else { Ok(()) }
    }

    pub fn closing(&self) -> Arc<Signal<bool>> {
        self.closing.clone()
    }

    /// Waits until none is under way.
    pub async fn ended(&self) {
        self.under_way.until(|count| *count == 0).await;
    }
}

/// Waits that long. False if the drive is closed meanwhile, or gone.
pub async fn pause(closing: &Signal<bool>, pause: Duration) -> bool {
    tokio::time::timeout(pause, closing.until(|closing| *closing)).await.is_err()
}
