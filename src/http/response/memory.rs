//! Memory for a request: a permit of the requester's budget for each buffer, or 503 if none is free for a while.

use super::problem::{Problem, Result};
use crate::budget::{Budget, Permit, WAIT};

pub async fn take(memory: &Budget, bytes: usize) -> Result<Permit> {
    match memory.try_take(bytes) {
        Some(permit) => Ok(permit),
        None => within(memory, memory.take(bytes)).await,
    }
}

/// The result of a future that may wait for this memory.
pub async fn within<T>(memory: &Budget, waits: impl Future<Output = T>) -> Result<T> {
    if memory.is_crowded() {
        return Err(Problem::no_memory());
    }
    tokio::time::timeout(WAIT, waits).await.map_err(|_| Problem::no_memory())
}
