//! Memory for a request: a permit of the drive's budget for each buffer, or 503 when there is none for a while.

use std::time::Duration;

use super::App;
use super::problem::{Kind, Problem, Result};
use crate::budget::Permit;

/// How long a request waits for memory.
const WAIT: Duration = Duration::from_secs(10);

pub async fn take(app: &App, bytes: usize) -> Result<Permit> {
    within(app.drive.memory().take(bytes)).await
}

/// What a future gives that may wait for memory.
pub async fn within<T>(waits: impl Future<Output = T>) -> Result<T> {
    let busy =
        || Problem::new(Kind::Busy, "The server has no memory for this now: others are being served. Try again.");
    tokio::time::timeout(WAIT, waits).await.map_err(|_| busy())
}
