//! What this process is working on: its own subtree operations, and scans of the records that have no owner.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::schema::OpId;

/// The operations that run in this process, and those whose commit is undecided.
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

    /// Call it before the commit of an operation. Returns true if this call has made it undecided.
    pub fn set_undecided(&self, op: OpId) -> bool {
        self.known().undecided.insert(op)
    }

    /// Call it once the outcome is known. Returns whether the operation was undecided until now.
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

/// Whether a task scans the records, and whether it has to scan them once more.
#[derive(Debug, Default)]
pub struct RecordScans(Mutex<ScanState>);

#[derive(Debug, Default)]
struct ScanState {
    running: bool,
    again: bool,
}

impl RecordScans {
    fn with<T>(&self, change: impl FnOnce(&mut ScanState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Requests a scan. Returns whether the caller has to start the task.
    pub fn request(&self) -> bool {
        self.with(|state| {
            state.again = true;
            !std::mem::replace(&mut state.running, true)
        })
    }

    /// Call it before a scan of the records: a request from now on needs another scan, since the running one may have read
    /// the record already.
    pub fn begin(&self) {
        self.with(|state| state.again = false);
    }

    /// Whether the task may end: nothing was requested since its last scan began.
    pub fn end(&self) -> bool {
        self.with(|state| {
            state.running = state.again;
            !state.again
        })
    }
}
