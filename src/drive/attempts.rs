//! How long a change retries.
//!
//! A writer waits for the locks of subtree operations, and decides again after a refusal. Both end when the time is up,
//! or when the caller has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::error::{DriveError, Result};
use super::settings::TRIES;
use crate::schema::OpId;

/// The first and the longest pause between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// The request that waits for the answer to a change.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<AtomicBool>);

/// Records that the caller has left, when it is dropped: the caller's future owns it.
pub struct CallerGuard(Caller);

impl Caller {
    pub fn guard(&self) -> CallerGuard {
        CallerGuard(self.clone())
    }

    fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// The attempts and the time that a change has left, over all rows that it waits for.
pub struct Attempts {
    until: Instant,
    caller: Caller,
    /// Attempts left that start without a pause.
    at_once: usize,
    pause: Duration,
    /// The subtree operation that makes the attempts, if one does: it aborts itself instead of waiting for an older
    /// operation.
    op: Option<OpId>,
}

impl Attempts {
    /// The time starts now and lasts for `lock_wait`.
    pub fn new(caller: &Caller, lock_wait: Duration) -> Self {
        let until = Instant::now() + lock_wait;
        Self { until, caller: caller.clone(), at_once: TRIES, pause: PAUSES[0], op: None }
    }

    pub fn of_op(self, op: OpId) -> Self {
        Self { op: Some(op), ..self }
    }

    /// Call it before each attempt. The first ones start at once, later ones after a pause.
    ///
    /// Errors: [`DriveError::Contended`] if no attempt is left.
    pub async fn next(&mut self) -> Result<()> {
        match self.at_once.checked_sub(1) {
            None => self.wait().await,
            Some(left) => {
                // The first attempt always starts, even if the caller has left by now.
                let first = self.at_once == TRIES;
                self.at_once = left;
                if first || !self.caller.has_left() { Ok(()) } else { Err(DriveError::Contended) }
            }
        }
    }

    /// Waits a little for another operation. An operation never waits for an older one: of two operations that need
    /// each other's rows, the younger one aborts itself and starts again. Otherwise both would wait until their time is
    /// up.
    pub async fn wait_for(&mut self, other: OpId) -> Result<()> {
        if self.op.is_some_and(|op| other < op) {
            return Err(DriveError::Contended);
        }
        self.wait().await
    }

    /// Waits a little, longer each time.
    ///
    /// Errors: [`DriveError::Contended`] if the time is up or the caller has left. A caller that left may have sent the
    /// same change again and have its answer: a late success here could undo what others did after that answer.
    pub async fn wait(&mut self) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(DriveError::Contended);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        if self.caller.has_left() { Err(DriveError::Contended) } else { Ok(()) }
    }
}
