//! Subtree operations that are not finished: their locks in a writer's way, and what an earlier process left.
//!
//! An operation that has a record in the `op` table is either finished or aborted, by its owner or by anybody else once
//! the owner is gone. Both are made of steps that may be done twice.
//!
//! - [`locks`]: gets locks out of a writer's way
//! - [`finish`]: what a committed operation leaves to be done; [`abort`]: the same of one that will never be committed
//! - [`complete`]: finishes an operation now, or after the answer
//! - [`at_start`]: records that nobody works on
//! - [`batch`], [`locked_dir`]: changes of many rows; the children of a locked row
//! - [`active`]: what this process is working on

pub mod abort;
pub mod active;
pub mod at_start;
pub mod batch;
pub mod complete;
pub mod finish;
pub mod locked_dir;
pub mod locks;

use std::sync::Arc;

use super::background::{Background, Backoff};
use super::gc::ContentGc;
use super::metrics::Metrics;
use super::namespace::Namespace;
use active::{ActiveOps, RecordPasses};

/// What finishing and aborting take. The background ends when this is dropped.
pub struct Recovery {
    pub namespace: Namespace,
    pub active: Arc<ActiveOps>,
    pub gc: Arc<ContentGc>,
    pub background: Background,
    pub metrics: Metrics,
    pub backoff: Backoff,
    pub passes: RecordPasses,
}
