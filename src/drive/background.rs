//! Clean-up in the background. A task retries until its work is done. When the drive is closed, the task stops between
//! two pieces of work; rows of the store (`op`, `unlink`) name the rest, and the next start continues with them.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::error::{DriveError, Result};

/// The pauses between attempts, each longer than the one before.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The pause before the second attempt.
    pub first: Duration,
    /// The longest pause; each is twice the one before.
    pub longest: Duration,
}

/// The pauses between attempts at one piece of work. By hand and not by `backon`, which also runs the work: here the
/// pause ends early when the drive closes.
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

    /// Starts again with the first pause, after a success.
    pub fn reset(&mut self) {
        self.next = self.retry.first;
    }
}

/// A value whose changes tasks wait for. Tasks are woken in the order in which they started to wait: tokio's `watch`
/// wakes them in random order, and a seeded run could not be replayed.
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

    /// Waits until `wanted` is true of the value.
    pub async fn until(&self, wanted: impl Fn(&T) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before the check, so that a change between the check and the wait is not missed.
            changed.as_mut().enable();
            if self.is(&wanted) {
                return;
            }
            changed.await;
        }
    }
}

/// The running clean-up tasks.
#[derive(Debug, Default)]
pub struct Background {
    closing: Arc<Signal<bool>>,
    running: Arc<Signal<usize>>,
}

/// Counts a clean-up task as running until it is dropped.
#[derive(Debug)]
pub struct TaskGuard(Arc<Signal<usize>>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.change(|count| *count -= 1);
    }
}

/// Tasks outlive a drive that is dropped without a close: they stop too.
impl Drop for Background {
    fn drop(&mut self) {
        self.close();
    }
}

impl Background {
    /// Counts a task. Call it before the task is spawned: a waiter for the end would miss a task that has not run yet.
    pub fn begin(&self) -> TaskGuard {
        self.running.change(|count| *count += 1);
        TaskGuard(self.running.clone())
    }

    /// Asks the tasks to stop before their next piece of work.
    pub fn close(&self) {
        self.closing.change(|closing| *closing = true);
    }

    /// Call it between two pieces of work. Errors: [`DriveError::Closing`].
    pub fn check_closing(&self) -> Result<()> {
        if self.closing.is(|closing| *closing) { Err(DriveError::Closing) } else { Ok(()) }
    }

    pub fn closing(&self) -> Arc<Signal<bool>> {
        self.closing.clone()
    }

    /// Waits until no task is running.
    pub async fn ended(&self) {
        self.running.until(|count| *count == 0).await;
    }
}

/// Waits for the pause. False if the drive is closed or dropped meanwhile.
pub async fn pause(closing: &Signal<bool>, pause: Duration) -> bool {
    tokio::time::timeout(pause, closing.until(|closing| *closing)).await.is_err()
}
