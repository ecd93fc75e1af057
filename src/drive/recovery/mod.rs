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

use super::background::{Background, Backoff};
use super::gc::ContentGc;
use super::metrics::DriveMetrics;
use super::namespace::Namespace;
use crate::schema::OpId;
use active::{ActiveOps, RecordPasses};

/// What the finish and the abort of operations need. The background tasks end when this is dropped.
pub struct Recovery {
    pub namespace: Namespace,
    pub active: Arc<ActiveOps>,
    pub gc: Arc<ContentGc>,
    pub background: Background,
    pub metrics: DriveMetrics,
    pub backoff: Backoff,
    pub passes: RecordPasses,
}

impl Recovery {
    /// Ends the move of an operation whose commit had an unknown outcome: paths are cached again.
    ///
    /// IMPORTANT: only after its record was read as committed, or was set to aborted. Before that its commit may yet happen.
    fn end_undecided(&self, id: OpId) {
        if self.active.set_decided(id) {
            self.namespace.dir_paths.moves.end();
        }
    }
}
