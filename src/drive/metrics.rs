//! What operators see of the drive: operations on whole directories, content that came in, and what waits to be
//! cleaned up.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::namespace::dir_paths::PathCacheCounts;
use crate::schema::file::{Attributes, ContentLocation};
use crate::schema::subtree_op::{OpRecord, SubtreeOpKind};

#[derive(Clone, Debug, Default)]
pub struct Metrics {
    under_way: Family<Stage, Gauge>,
    ended: Family<Ended, Counter>,
    stored: Family<Held, Counter>,
    stored_bytes: Family<Held, Counter>,
    /// 0 once changes are refused for good, and while the store cannot write.
    pub writable: Gauge,
    /// Content files of dropped versions that are still to be removed.
    pub cleanup: Gauge,
    unreadable: Family<Table, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Table {
    table: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    operation: &'static str,
    how: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Held {
    location: &'static str,
}

/// An operation is in this stage, until this is dropped.
pub struct UnderWay(Gauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry, walks: &PathCacheCounts) {
        let registry = registry.sub_registry_with_prefix("rowdrive_drive");
        let help = "Moves and deletes of directories under way: not yet visible, or visible and being cleaned up after";
        registry.register("operations", help, self.under_way.clone());
        let help = "Moves and deletes of directories that ended, those that an earlier process had left included";
        registry.register("operations_ended", help, self.ended.clone());
        registry.register("files_stored", "Versions of files stored, in their rows or as files", self.stored.clone());
        registry.register("stored_bytes", "Bytes of their content", self.stored_bytes.clone());
        let help = "0 once changes are refused until the next start, and while the store waits for room";
        registry.register("writable", help, self.writable.clone());
        let help = "Paths of folders that queries took from memory";
        registry.register("paths_kept", help, walks.kept.clone());
        registry.register("paths_read", "Paths of folders that queries read from rows", walks.read.clone());
        let help = "Rows of work to be done that cannot be read, and are passed by";
        registry.register("cleanup_unreadable", help, self.unreadable.clone());
        registry.register("cleanup_waiting", "Content files that wait to be removed", self.cleanup.clone());
    }

    /// Nobody sees it yet.
    pub fn preparing(&self) -> UnderWay {
        self.stage("preparing")
    }

    /// All see it, and old rows go.
    pub fn finishing(&self) -> UnderWay {
        self.stage("finishing")
    }

    fn stage(&self, stage: &'static str) -> UnderWay {
        let gauge = self.under_way.get_or_create_owned(&Stage { stage });
        gauge.inc();
        UnderWay(gauge)
    }

    pub fn ended(&self, what: &OpRecord, done: bool) {
        let operation = match what.kind {
            SubtreeOpKind::Move { .. } => "move",
            SubtreeOpKind::Delete => "delete",
        };
        let how = if done { "done" } else { "undone" };
        self.ended.get_or_create(&Ended { operation, how }).inc();
    }

    /// So many rows of this table were passed by when it was read last.
    pub fn unreadable(&self, table: &'static str, rows: i64) {
        self.unreadable.get_or_create(&Table { table }).set(rows);
    }

    pub fn stored(&self, attributes: &Attributes) {
        let location = match attributes.location {
            ContentLocation::Inline => "row",
            ContentLocation::Large => "file",
        };
        self.stored.get_or_create(&Held { location }).inc();
        self.stored_bytes.get_or_create(&Held { location }).inc_by(attributes.size);
    }
}
