//! What all handles of one drive have in common.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::commit::Committer;
use super::commit::copy::Copier;
use super::commit::reserved::UnderWay;
use super::folder_keys::FolderKeys;
use super::gc::ContentGc;
use super::index_changes::IndexChanges;
use super::metrics::DriveMetrics;
use super::namespace::dir_paths::MoveEpoch;
use super::query::source::QuerySource;
use super::recovery::active::ActiveOps;
use super::settings::Settings;
use crate::budget::Budget;
use crate::content::Content;

/// What all operations need.
pub struct Rooms {
    pub committer: Arc<Committer>,
    pub copier: Copier,
    pub queries: QuerySource,
    pub parts: Parts,
}

/// What all handles of one drive have in common, whichever handle of the store they use.
#[derive(Clone)]
pub struct Parts {
    pub content: Content,
    pub memory: Budget,
    pub active: Arc<ActiveOps>,
    pub gc: Arc<ContentGc>,
    pub index_changes: Arc<IndexChanges>,
    pub file_moves: Arc<MoveEpoch>,
    pub removals: Arc<MoveEpoch>,
    pub folder_keys: Arc<FolderKeys>,
    pub under_way: Arc<UnderWay>,
    pub folder_copies: Arc<Semaphore>,
    pub metrics: DriveMetrics,
    pub settings: Settings,
}
