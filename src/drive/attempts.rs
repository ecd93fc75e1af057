//! How long a change goes on trying, and for whom.
//!
//! Writers wait for locks of other operations, and decide anew when others have changed what they read. Neither goes on
//! once the time is up, or once the caller has left: nothing waits for a caller who has left.

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

/// Marks the caller as gone when it is dropped: the caller's future owns it.
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

/// What is left of a change's attempts and of its time, over all rows that it has to wait for.
pub struct Attempts {
    until: Instant,
    caller: Caller,
    /// Attempts that are made without a pause.
    at_once: usize,
    pause: Duration,
    /// The subtree operation that makes the attempts: it yields to older ones instead of waiting for them.
    op: Option<OpId>,
}

impl Attempts {
    /// The time, `lock_wait`, starts now.
    pub fn new(caller: &Caller, lock_wait: Duration) -> Self {
        let until = Instant::now() + lock_wait;
        Self { until, caller: caller.clone(), at_once: TRIES, pause: PAUSES[0], op: None }
    }

    pub fn of_op(self, op: OpId) -> Self {
        Self { op: Some(op), ..self }
    }

    /// To be called before each attempt. The first ones start at once, later ones after a pause.
    ///
    /// Errors: [`DriveError::Contended`] if there is to be no further attempt.
    pub async fn next(&mut self) -> Result<()> {
        match self.at_once.checked_sub(1) {
            None => self.wait().await,
            Some(left) => {
                // The first attempt is made for every caller, one who has left already included.
                let first = self.at_once == TRIES;
                self.at_once = left;
                if first || !self.caller.has_left() { Ok(()) } else { Err(DriveError::Contended) }
            }
        }
    }

    /// Waits a little for another operation; an operation does not wait for an older one. So of two that lock each
    /// other's rows, the younger one aborts itself and starts anew.
    pub async fn wait_for(&mut self, other: OpId) -> Result<()> {
        if self.op.is_some_and(|op| other < op) {
            return Err(DriveError::Contended);
        }
        self.wait().await
    }

    /// Waits a little, longer each time, but not for a caller who has left. That caller may have sent the same change
    /// again and have an answer to it: a late success here could undo what others did after that answer.
    pub async fn wait(&mut self) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(DriveError::Contended);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        if self.caller.has_left() { Err(DriveError::Contended) } else { Ok(()) }
    }
}
