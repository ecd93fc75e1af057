//! File-system operations on the two tables: the only place that knows the order of changes over several
//! rows.
//!
//! Whatever creates something goes bottom-up (content, file row, index rows, the name last), whatever removes it goes
//! top-down (the name first): a crash leaves at most rows that no name reaches. Each operation has one commit point,
//! guarded by checks on what it was decided by; *refused* means to read again and decide anew.
//!
//! From the bottom up, roughly (`docs/architecture.md` says which module uses which):
//!
//! - [`model`], [`error`], [`settings`]: what callers ask and get; `attempts`: how long a change goes on trying
//! - `namespace`: reading directories as callers see them
//! - `refusals`: refusals of changes, each of one instant
//! - `rights`: what a requester may change and see; `authorized`: lookups and lists as he sees them; `granted`: the directories
//!   that rights are bound to; `watch`: content that is sent as long as he may read it
//! - `file_rows`, `index_changes`: the rows of a version; changes of the indexes that queries have to know of
//! - `folder_keys`: which index rows are those of the files below a folder
//! - `background`, `gc`: work that nobody waits for; content files that no name reaches
//! - `gate`: whether changes are taken, and that each runs to its end
//! - `recovery`: unfinished operations on subtrees, in a writer's way or left by an earlier process
//! - `commit`: operations that are one plan; `open`: content
//! - `subtree`: moving and deleting whole directories
//! - `query`: files by time and by name
//! - `metrics`: what operators see of all this
//! - `rooms`: what all handles of a drive share; `user_drive`: the operations, for one requester
//!
//! [`Drive`] itself has no operation on files and directories: [`Drive::for_requester`] says first who asks.

mod attempts;
mod authorized;
mod background;
mod by_share;
mod commit;
pub mod error;
mod file_rows;
mod folder_keys;
mod gate;
mod gc;
mod granted;
mod index_changes;
mod metrics;
pub mod model;
mod namespace;
mod open;
mod query;
mod recovery;
mod refusals;
mod rights;
mod rooms;
pub mod settings;
mod subtree;
mod user_drive;
mod watch;

use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

pub use background::Backoff;
pub use commit::new_user::Home;
pub use commit::put::ReceivedUpload;
pub use error::{DriveError, PutError, Result};
pub use model::{
    Condition, CopyStats, EntryRef, FilePage, ListQuery, Listing, MimeFilter, NameQuery, Node, NodeKind, NodeRef,
    OpenFile, PutOptions, StoredListing, TimeQuery, Versions, Written, whole_body,
};
pub use query::stored::{StoredFiles, TimePage};
pub use settings::{Settings, Thresholds};
pub use user_drive::UserDrive;
pub use watch::WatchedContent;

use background::Background;
use commit::Committer;
use commit::copy::{Copier, folders_at_a_time};
use folder_keys::FolderKeys;
use gate::Gate;
use gc::ContentGc;
use metrics::DriveMetrics;
use namespace::Namespace;
use namespace::dir_paths::DirPathCache;
use namespace::live_dirs::LiveDirs;
use query::source::QuerySource;
use recovery::Recovery;
use recovery::active::RecordScans;
use rooms::{Parts, Rooms};

use crate::auth::Requester;
use crate::budget::Budget;
use crate::client_net::ClientNet;
use crate::content::disk::{Disk, LocalDisk};
use crate::content::{Content, RemovalPause};
use crate::schema::{DrivePath, FileId};
use crate::table::Tables;

/// The drive. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Drive {
    rooms: Arc<Rooms>,
}

impl Drive {
    /// Opens a drive on a store that [`migrate::up`](crate::migrate::up) has brought up to date. What an earlier
    /// process left unfinished is finished or removed in the background.
    pub async fn open(tables: Tables, content_dir: &Path) -> Result<Self> {
        Self::open_with(tables, content_dir, Settings::default()).await
    }

    /// As [`open`](Self::open), with settings of the caller's.
    pub async fn open_with(tables: Tables, content_dir: &Path, settings: Settings) -> Result<Self> {
        Self::open_on(Arc::new(LocalDisk), tables, content_dir, settings).await
    }

    /// As [`open_with`](Self::open_with), with its content on another disk.
    pub async fn open_on(disk: Arc<dyn Disk>, tables: Tables, content_dir: &Path, settings: Settings) -> Result<Self> {
        let (content, staged) = Content::open_on(disk, content_dir).await?;
        let store = tables.clone();
        let content = content.leaving_free(Box::new(move |free| store.background_space(free)));
        let drive = Self::start(tables, content, Some(staged), settings);
        recovery::at_start::resume(&drive.rooms.committer.recovery);
        Ok(drive)
    }

    /// Opens a drive on a store that takes no writes: nothing that an earlier process left is finished or removed.
    pub fn open_read_only(tables: Tables, content_dir: &Path, settings: Settings) -> Result<Self> {
        Ok(Self::start(tables, Content::open_read_only(content_dir)?, None, settings))
    }

    /// `staged`: content files that an earlier process left in `new/`; none if nothing is ever to be removed.
    fn start(tables: Tables, content: Content, staged: Option<Vec<FileId>>, settings: Settings) -> Self {
        let memory = Budget::new(settings.memory);
        let content = content.with_memory(memory.clone());
        let metrics = DriveMetrics::default();
        let gc = ContentGc::start(tables.clone(), content.clone(), staged, metrics.clone(), settings);
        let dir_paths = DirPathCache::new(tables.clone(), settings.paths_bytes());
        let folder_keys = Arc::new(FolderKeys::new(dir_paths.moves.clone(), settings.folder_keys));
        let parts = Parts {
            content,
            memory,
            active: Arc::default(),
            gc: Arc::new(gc),
            index_changes: Arc::default(),
            file_moves: Arc::default(),
            removals: Arc::default(),
            folder_keys,
            under_way: Arc::default(),
            folder_copies: Arc::new(Semaphore::new(folders_at_a_time(settings.memory))),
            metrics,
            settings,
        };
        let drive = Self::build(tables, dir_paths, parts);
        // Sets the gauge of the metrics.
        let _known = drive.writable();
        drive
    }

    /// The same drive through another handle of its store: tests watch through it what this one does.
    pub fn with_tables(&self, tables: Tables) -> Self {
        let Parts { settings, .. } = &self.rooms.parts;
        let dir_paths = self.namespace().dir_paths.sharing(tables.clone(), settings.paths_bytes());
        Self::build(tables, dir_paths, self.rooms.parts.clone())
    }

    fn build(tables: Tables, dir_paths: DirPathCache, parts: Parts) -> Self {
        let Parts { content, memory, active, gc, index_changes, file_moves, removals, .. } = parts.clone();
        let Parts { folder_keys, under_way, folder_copies, metrics, settings, .. } = parts.clone();
        let live_dirs = LiveDirs::new(dir_paths.moves.clone(), removals, settings.live_dirs_bytes());
        let namespace = Namespace {
            tables: tables.clone(),
            dir_paths: Arc::new(dir_paths),
            live_dirs: Arc::new(live_dirs),
            limits: settings.limits,
        };
        let recovery = Recovery {
            namespace: namespace.clone(),
            active,
            gc: gc.clone(),
            background: Background::default(),
            metrics: metrics.clone(),
            backoff: settings.retry,
            record_scans: RecordScans::default(),
        };
        let queries = QuerySource {
            namespace: namespace.clone(),
            index_changes: index_changes.clone(),
            file_moves: file_moves.clone(),
            folder_keys: folder_keys.clone(),
            rows_per_step: settings.rows_per_step,
            cells_per_query: settings.cells_per_query,
        };
        let committer = Arc::new(Committer {
            namespace,
            recovery: Arc::new(recovery),
            gate: Arc::new(Gate::new(tables, content.clone(), metrics.clone())),
            content,
            gc,
            index_changes,
            file_moves,
            folder_keys,
            under_way,
            metrics,
            clock: settings.clock,
            lock_wait: settings.lock_wait,
        });
        let copier = Copier::new(committer.clone(), memory, folder_copies);
        Self { rooms: Arc::new(Rooms { committer, copier, queries, parts }) }
    }

    fn namespace(&self) -> &Namespace {
        &self.rooms.committer.namespace
    }

    /// The drive as this requester sees it: all operations on files and directories are his.
    pub fn for_requester(&self, requester: Requester) -> UserDrive {
        UserDrive { rooms: self.rooms.clone(), requester, client: ClientNet::NONE }
    }

    /// The drive for the work of the server itself, and for tests. No request has it: [`Auth::nobody`](crate::auth::Auth)
    /// is who asks on a drive without users.
    pub fn unrestricted(&self) -> UserDrive {
        self.for_requester(Requester::unrestricted())
    }

    /// Adds what operators see of the drive, under `rowdrive_drive_`.
    pub fn register(&self, registry: &mut Registry) {
        self.rooms.parts.metrics.register(registry, &self.namespace().dir_paths.counts);
        self.rooms.parts.memory.register(registry);
    }

    /// The memory of requests: a permit of it is taken before each of their buffers.
    pub fn memory(&self) -> &Budget {
        &self.rooms.parts.memory
    }

    /// Keeps every content file, deleted ones too, until what it returns is dropped.
    pub async fn keep_content(&self) -> RemovalPause {
        self.rooms.parts.content.pause_removal().await
    }

    /// Whether the store answers.
    pub async fn ready(&self) -> Result<()> {
        namespace::lookup::stat(self.namespace(), &DrivePath::root()).await.map(|_| ())
    }

    /// Whether changes are taken at all: an error stays until another process opens the drive.
    pub fn writable(&self) -> Result<()> {
        self.rooms.committer.gate.writable()
    }

    /// Whether changes are taken at this moment: as [`writable`](Self::writable), and an error that passes while the
    /// store waits for room.
    pub fn works(&self) -> Result<()> {
        self.rooms.committer.gate.works()
    }

    /// Waits for the changes that are running; later ones are refused. Clean-up stops at its next piece: rows name what
    /// is left of it, and the next start goes on with it.
    pub async fn close(&self) {
        let Committer { recovery, gate, gc, .. } = &*self.rooms.committer;
        recovery.background.close();
        gate.close().await;
        recovery.background.ended().await;
        gc.close().await;
    }

    /// Waits until all clean-up is done: of changes that are running, and of what an earlier process left.
    pub async fn idle(&self) {
        let Committer { recovery, gate, gc, .. } = &*self.rooms.committer;
        gate.wait_for_changes().await;
        recovery.background.ended().await;
        gc.at_rest().await;
    }
}
