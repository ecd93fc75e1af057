//! What this process is working on: its own subtree operations, and passes over records that have no owner.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::schema::OpId;

/// The operations that run in this process. While an operation is registered, only its owner aborts it and deletes its
/// record.
#[derive(Debug, Default)]
pub struct ActiveOps(Mutex<HashSet<OpId>>);

/// Keeps an operation registered until it is dropped.
#[derive(Debug)]
pub struct OpGuard {
    active: Arc<ActiveOps>,
    pub op: OpId,
}

impl ActiveOps {
    pub fn register(self: &Arc<Self>, op: OpId) -> OpGuard {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(op);
        OpGuard { active: self.clone(), op }
    }

    pub fn contains(&self, op: OpId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&op)
    }
}

impl Drop for OpGuard {
    fn drop(&mut self) {
        self.active.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.op);
    }
}

/// Whether a task is passing over the records, and whether it has to pass over them once more.
#[derive(Debug, Default)]
pub struct RecordPasses(Mutex<PassState>);

#[derive(Debug, Default)]
struct PassState {
    running: bool,
    again: bool,
}

impl RecordPasses {
    fn with<T>(&self, change: impl FnOnce(&mut PassState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Requests a pass. Returns whether the caller has to start the task.
    pub fn request(&self) -> bool {
        self.with(|state| {
            state.again = true;
            !std::mem::replace(&mut state.running, true)
        })
    }

    /// Call it before a pass over the records: a request from now on needs another pass, since the running one may have
    /// read the record already.
    pub fn begin(&self) {
        self.with(|state| state.again = false);
    }

    /// Whether the task may end: nothing was requested since its last pass began.
    pub fn end(&self) -> bool {
        self.with(|state| {
            state.running = state.again;
            !state.again
        })
    }
}
