//! What this process is working on: its own subtree operations, and passes over records that have no owner.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::schema::OpId;

/// The operations that run in this process, and those whose commit has an unknown outcome.
#[derive(Debug, Default)]
pub struct ActiveOps(Mutex<KnownOps>);

#[derive(Debug, Default)]
struct KnownOps {
    /// While an operation is registered, only its owner aborts it and deletes its record.
    registered: HashSet<OpId>,
    /// Their moves have begun in the move epoch. Each ends there once the record of the operation shows that it has
    /// committed, or cannot commit any more.
    undecided: HashSet<OpId>,
}

/// Keeps an operation registered until it is dropped.
#[derive(Debug)]
pub struct OpGuard {
    active: Arc<ActiveOps>,
    pub op: OpId,
}

impl ActiveOps {
    pub fn register(self: &Arc<Self>, op: OpId) -> OpGuard {
        self.known().registered.insert(op);
        OpGuard { active: self.clone(), op }
    }

    pub fn contains(&self, op: OpId) -> bool {
        self.known().registered.contains(&op)
    }

    /// Notes that the commit of an operation has an unknown outcome.
    pub fn set_undecided(&self, op: OpId) {
        self.known().undecided.insert(op);
    }

    /// Call it once the record of an operation has decided. Returns whether the operation was undecided until now.
    pub fn set_decided(&self, op: OpId) -> bool {
        self.known().undecided.remove(&op)
    }

    fn known(&self) -> MutexGuard<'_, KnownOps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpGuard {
    fn drop(&mut self) {
        self.active.known().registered.remove(&self.op);
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
