//! The metrics of the drive: subtree operations, stored content, and content files that wait for their removal.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::namespace::dir_paths::PathCacheCounts;
use crate::schema::file::{Attributes, ContentLocation};
use crate::schema::subtree_op::{OpRecord, SubtreeOpKind};

#[derive(Clone, Debug, Default)]
pub struct DriveMetrics {
    in_stage: Family<StageLabels, Gauge>,
    ended: Family<EndedLabels, Counter>,
    stored: Family<LocationLabels, Counter>,
    stored_bytes: Family<LocationLabels, Counter>,
    /// 0 once changes are refused until the next start, and while the store cannot write.
    pub writable: Gauge,
    /// Content files of dropped versions that are not removed yet.
    pub cleanup: Gauge,
    unreadable: Family<TableLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabels {
    table: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    operation: &'static str,
    how: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LocationLabels {
    location: &'static str,
}

/// Counts an operation in its stage until it is dropped.
pub struct StageGuard(Gauge);

impl Drop for StageGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl DriveMetrics {
    pub fn register(&self, registry: &mut Registry, path_counts: &PathCacheCounts) {
        let registry = registry.sub_registry_with_prefix("rowdrive_drive");
        let help = "Moves and deletes of directories under way: not yet visible, or visible and being cleaned up after";
        registry.register("operations", help, self.in_stage.clone());
        let help = "Moves and deletes of directories that ended, those that an earlier process had left included";
        registry.register("operations_ended", help, self.ended.clone());
        registry.register("files_stored", "Versions of files stored, in their rows or as files", self.stored.clone());
        registry.register("stored_bytes", "Bytes of their content", self.stored_bytes.clone());
        let help = "0 once changes are refused until the next start, and while the store waits for room";
        registry.register("writable", help, self.writable.clone());
        let help = "Paths of folders that queries took from memory";
        registry.register("paths_kept", help, path_counts.cached.clone());
        registry.register("paths_read", "Paths of folders that queries read from rows", path_counts.read.clone());
        let help = "Rows of work to be done that cannot be read, and are passed by";
        registry.register("cleanup_unreadable", help, self.unreadable.clone());
        registry.register("cleanup_waiting", "Content files that wait to be removed", self.cleanup.clone());
    }

    /// Before the commit: readers do not see the operation.
    pub fn preparing(&self) -> StageGuard {
        self.stage("preparing")
    }

    /// After the commit: readers see it, and its old rows are being removed.
    pub fn finishing(&self) -> StageGuard {
        self.stage("finishing")
    }

    fn stage(&self, stage: &'static str) -> StageGuard {
        let gauge = self.in_stage.get_or_create_owned(&StageLabels { stage });
        gauge.inc();
        StageGuard(gauge)
    }

    pub fn ended(&self, what: &OpRecord, done: bool) {
        let operation = match what.kind {
            SubtreeOpKind::Move { .. } => "move",
            SubtreeOpKind::Delete => "delete",
        };
        let how = if done { "done" } else { "undone" };
        self.ended.get_or_create(&EndedLabels { operation, how }).inc();
    }

    /// Sets how many unreadable rows the last pass over this table has skipped.
    pub fn unreadable(&self, table: &'static str, rows: i64) {
        self.unreadable.get_or_create(&TableLabels { table }).set(rows);
    }

    pub fn stored(&self, attributes: &Attributes) {
        let location = match attributes.location {
            ContentLocation::Inline => "row",
            ContentLocation::Large => "file",
        };
        self.stored.get_or_create(&LocationLabels { location }).inc();
        self.stored_bytes.get_or_create(&LocationLabels { location }).inc_by(attributes.size);
    }
}
