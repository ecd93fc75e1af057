//! File-system operations on the two tables: the only place that knows the order of changes over several
//! rows.
//!
//! Whatever makes something goes bottom-up (content, file row, hints, the name last), whatever unmakes it
//! top-down (the name first): a crash leaves at most rows that no name reaches. Each operation has one commit
//! point, guarded by checks on what it was decided upon; *refused* means to look again and decide anew.
//!
//! - [`ask`], [`error`]: what callers ask and get
//! - `spot`: what a directory row says of one name; stat; `ground`: a path's parents, found or to be made
//! - `put`, `mkdir`, `remove`, `relocate`, `copy`: one file an operation
//! - `subtree`: moving and deleting whole directories; `held`: the rows that such an operation holds
//! - `list`, `open`: reading; `query`: files by time and by name, over `settle`, `walk` and `arrivals`
//! - `background`: clean-up that nobody waits for, tried again until it is done
//! - `cleanup`: content files that no name reaches; what an earlier process left
//! - `settings`: how long it waits, and how much it does at a time
//! - `metrics`: what operators see of all this

mod arrivals;
pub mod ask;
mod background;
mod cleanup;
mod copy;
pub mod error;
mod ground;
mod held;
mod list;
mod metrics;
mod mkdir;
mod open;
mod put;
mod query;
mod relocate;
mod remove;
mod settings;
mod settle;
mod spot;
mod subtree;
mod walk;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

pub use ask::{
    Condition, Copied, FilesAsk, FindAsk, Found, Kind, ListAsk, Listing, Made, MimeFilter, Node, Opened, PutOptions,
    Versions,
};
use prometheus_client::registry::Registry;
use tokio::sync::{RwLock, Semaphore};

use arrivals::Arrivals;
use background::Background;
pub use background::Retry;
use cleanup::Unlinker;
pub use error::{DriveError, Result, StoreError};
use held::{Caller, Running};
use metrics::Metrics;
pub use settings::{Settings, Thresholds};
use subtree::Settling;
use walk::{Moves, Walks};

use crate::budget::Budget;
use crate::content::disk::{Disk, Local};
use crate::content::{Content, Kept, Upload};
use crate::schema::{DrivePath, FileId};
use crate::table::{Change, Plan, RowChange, Tables};

/// How often an operation decides anew before it gives up.
const TRIES: usize = 8;

/// The drive. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Drive {
    inner: Arc<Inner>,
    caller: Caller,
}

struct Inner {
    tables: Tables,
    content: Content,
    memory: Budget,
    walks: Walks,
    /// Moves of files. Those of directories are counted by `walks`.
    file_moves: Arc<Moves>,
    arrivals: Arc<Arrivals>,
    /// Turns of those who copy folders.
    folder_copies: Arc<Semaphore>,
    unlinker: Arc<Unlinker>,
    running: Arc<Running>,
    background: Background,
    settling: Settling,
    metrics: Metrics,
    settings: Settings,
    /// Held for reading by every change that is under way; false once the drive is closed.
    open: RwLock<bool>,
}

impl Drive {
    /// Opens a drive on a store that [`migrate::up`](crate::migrate::up) has brought up to date. What an earlier
    /// process left unfinished is settled in the background.
    pub async fn open(tables: Tables, content_dir: &Path) -> Result<Self> {
        Self::open_with(tables, content_dir, Settings::default()).await
    }

    /// As [`open`](Self::open), with settings of the caller's.
    pub async fn open_with(tables: Tables, content_dir: &Path, settings: Settings) -> Result<Self> {
        Self::open_on(Arc::new(Local), tables, content_dir, settings).await
    }

    /// As [`open_with`](Self::open_with), with its content on another disk.
    pub async fn open_on(disk: Arc<dyn Disk>, tables: Tables, content_dir: &Path, settings: Settings) -> Result<Self> {
        let (content, unsettled) = Content::open_on(disk, content_dir).await?;
        let content = content.with_reserve(settings.reserve);
        let drive = Self::over(tables, content, Some(unsettled), settings);
        drive.settle_records();
        Ok(drive)
    }

    /// Opens a drive on a store that takes no writes: nothing that an earlier process left is settled or removed.
    pub fn open_as_it_is(tables: Tables, content_dir: &Path, settings: Settings) -> Result<Self> {
        Ok(Self::over(tables, Content::as_it_is(content_dir)?, None, settings))
    }

    /// `unsettled`: none if nothing is to be settled or removed.
    fn over(tables: Tables, content: Content, unsettled: Option<Vec<FileId>>, settings: Settings) -> Self {
        let memory = Budget::new(settings.memory);
        let content = content.with_memory(memory.clone());
        let metrics = Metrics::default();
        let unlinker = Unlinker::start(tables.clone(), content.clone(), unsettled, metrics.clone(), settings);
        let walks = Walks::new(tables.clone(), settings.paths_bytes());
        let inner = Arc::new(Inner {
            tables,
            content,
            memory,
            walks,
            file_moves: Arc::default(),
            arrivals: Arc::default(),
            folder_copies: Arc::new(Semaphore::new(copy::folders_at_a_time(settings.memory))),
            unlinker: Arc::new(unlinker),
            running: Arc::default(),
            background: Background::default(),
            settling: Settling::default(),
            metrics,
            settings,
            open: RwLock::new(true),
        });
        let drive = Self { inner, caller: Caller::default() };
        // For the metrics.
        let _known = drive.writable();
        drive
    }

    /// The same drive, through another handle of its store: for whoever watches what this one does.
    pub fn beside(&self, tables: Tables) -> Self {
        let Inner { content, memory, walks, file_moves, arrivals, folder_copies, .. } = &*self.inner;
        let Inner { unlinker, running, metrics, settings, .. } = &*self.inner;
        let inner = Inner {
            walks: walks.sharing(tables.clone(), settings.paths_bytes()),
            file_moves: file_moves.clone(),
            arrivals: arrivals.clone(),
            folder_copies: folder_copies.clone(),
            tables,
            content: content.clone(),
            memory: memory.clone(),
            unlinker: unlinker.clone(),
            running: running.clone(),
            background: Background::default(),
            settling: Settling::default(),
            metrics: metrics.clone(),
            settings: *settings,
            open: RwLock::new(true),
        };
        Self { inner: Arc::new(inner), caller: Caller::default() }
    }

    fn limits(&self) -> &Thresholds {
        &self.inner.settings.limits
    }

    /// Adds what operators see of the drive, under `rowdrive_drive_`.
    pub fn register(&self, registry: &mut Registry) {
        self.inner.metrics.register(registry, &self.inner.walks.seen);
        self.inner.memory.register(registry);
    }

    /// The memory of requests: whoever needs a buffer for one takes a permit first.
    pub fn memory(&self) -> &Budget {
        &self.inner.memory
    }

    /// Takes the body of an upload, before it is known whether it will be stored.
    pub fn upload(&self) -> Upload {
        self.inner.content.upload()
    }

    /// Keeps every content file, deleted ones too, until what it gives is dropped.
    pub async fn keep_content(&self) -> Kept {
        self.inner.content.keep_all().await
    }

    /// Whether the store answers.
    pub async fn ready(&self) -> Result<()> {
        self.stat(&DrivePath::root()).await.map(|_| ())
    }

    /// Whether changes are taken at all: an error stays until another process opens the drive.
    pub fn writable(&self) -> Result<()> {
        let inner = &self.inner;
        let writable = inner.tables.writable().map_err(DriveError::from);
        let writable = writable.and_then(|()| Ok(inner.content.writable()?));
        inner.metrics.writable.set(writable.is_ok().into());
        writable
    }

    /// Whether changes are taken at this moment: as [`writable`](Self::writable), and an error that passes while the
    /// store waits for room. For those who watch.
    pub fn works(&self) -> Result<()> {
        let works = self.writable().and_then(|()| Ok(self.inner.tables.works()?));
        self.inner.metrics.writable.set(works.is_ok().into());
        works
    }

    /// Waits for changes that are under way. Changes begun after it are refused. Clean-up stops at its next piece:
    /// rows name what is left of it, and the next start goes on with it.
    pub async fn close(&self) {
        self.inner.background.close();
        *self.inner.open.write().await = false;
        self.inner.background.ended().await;
        self.inner.unlinker.close().await;
    }

    /// Waits until all clean-up is done: of changes that are under way, and of what an earlier process left.
    pub async fn idle(&self) {
        drop(self.inner.open.write().await);
        self.inner.background.ended().await;
        self.inner.unlinker.at_rest().await;
    }

    /// Runs a change to its end, whether or not its caller waits for it: a plan that was sent may happen, so
    /// what belongs to it (staged content, the undoing of a refused try) must not end with a client's patience. But
    /// it waits for no other operation any more once the caller has left.
    async fn to_the_end<T, F>(&self, change: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let caller = Caller::default();
        let _leaves = caller.leaves();
        let drive = Self { caller, ..self.clone() };
        let change = change(drive.clone());
        let task = tokio::spawn(async move {
            let open = drive.inner.open.read().await;
            drive.writable()?;
            if *open { change.await } else { Err(DriveError::Closing) }
        });
        task.await.unwrap_or_else(|ended| {
            let cause = format!("a change ended early: {ended}");
            Err(StoreError::Unknown { cause, full: false }.into())
        })
    }

    /// Removes what a refused plan may have written. Only for a plan that was *refused*: what became of an
    /// unknown one is not known, and its rows may be linked by now.
    async fn undo(&self, prepared: Vec<RowChange>) {
        if prepared.is_empty() {
            return;
        }
        let finish = prepared.into_iter().map(unmake).collect();
        if let Err(error) = self.inner.tables.commit(Plan { finish, ..Plan::default() }).await {
            tracing::warn!(%error, "rows of an operation that did not happen may be left over");
        }
    }
}

/// The removal of the cells that a row of `prepare` puts.
fn unmake(row: RowChange) -> RowChange {
    let gone = |change| match change {
        Change::Put { family, qualifier, .. } => Change::Delete { family, qualifier },
        other => other,
    };
    RowChange { changes: row.changes.into_iter().map(gone).collect(), ..row }
}
