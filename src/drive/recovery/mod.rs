//! Subtree operations that are not complete: their locks, and the records that an earlier process left.
//!
//! An operation that has a record in the `op` table is either finished or aborted: by its owner, or by any task of the
//! process if it has no owner. Each step of both may be repeated, so two tasks may work on one operation.
//!
//! - [`locks`]: clears locks for a writer
//! - [`finish`]: completes a committed operation; [`abort`]: rolls back one that will not commit
//! - [`complete`]: finishes an operation before its answer, or after it
//! - [`at_start`]: records without an owner
//! - [`batch`], [`locked_dir`]: changes of many rows; the children of a locked row
//! - [`dropped`]: the files of deleted directories
//! - [`active`]: what this process is working on

pub mod abort;
pub mod active;
pub mod at_start;
pub mod batch;
pub mod complete;
pub mod dropped;
pub mod finish;
pub mod locked_dir;
pub mod locks;

use std::sync::Arc;

use super::background::{Background, Backoff, Pauses, pause};
use super::gc::ContentGc;
use super::metrics::DriveMetrics;
use super::namespace::Namespace;
use super::namespace::dir_paths::MoveEpoch;
use crate::schema::OpId;
use crate::table::StoreError;
use active::{ActiveOps, RecordScans};

/// What the finish and the abort of operations need. The background tasks end when this is dropped.
pub struct Recovery {
    pub namespace: Namespace,
    pub active: Arc<ActiveOps>,
    pub gc: Arc<ContentGc>,
    pub background: Background,
    pub metrics: DriveMetrics,
    pub backoff: Backoff,
    pub record_scans: RecordScans,
}

impl Recovery {
    /// Begins the move of an operation in the move epoch. Call it before each attempt at its commit.
    pub fn begin_undecided(&self, id: OpId) {
        if self.active.set_undecided(id) {
            self.namespace.dir_paths.moves.begin();
        }
    }

    /// Ends the move of an operation whose commit was undecided: paths are cached again.
    ///
    /// IMPORTANT: only after the outcome of its commit is known, or its record was read as committed, or was set to
    /// aborted. Before that its commit may yet happen.
    pub fn end_undecided(&self, id: OpId) {
        if self.active.set_decided(id) {
            self.namespace.dir_paths.moves.end();
        }
    }

    /// Ends, in the background, a move of unknown outcome that has no record, such as that of a file. Use it only if the
    /// disk was full: once the store is ready again, the move has happened, or it never will
    /// ([`StoreError::Unknown`]). One task ends all waiting moves that are counted together.
    pub fn end_once_ready(self: &Arc<Self>, moves: Arc<MoveEpoch>) {
        if !moves.add_waiting() {
            return;
        }
        let task_guard = self.background.begin();
        let closing = self.background.closing();
        let mut pauses = Pauses::new(self.backoff);
        // As in `at_start::resume`: the wait must not keep the store open.
        let recovery = Arc::downgrade(self);
        tokio::spawn(async move {
            let _task_guard = task_guard;
            while pause(&closing, pauses.longer()).await {
                let Some(recovery) = recovery.upgrade() else { return };
                // IMPORTANT: before the store is asked. A move that waits only since then may yet happen.
                let waiting = moves.waiting();
                match recovery.namespace.tables.ready() {
                    Ok(()) if moves.end_waiting(waiting) => return,
                    Ok(()) => pauses.reset(),
                    Err(StoreError::Stopped(_)) => return,
                    Err(_) => {}
                }
            }
        });
    }
}
