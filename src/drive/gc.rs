//! Removes content files that no name reaches: those of dropped versions, and those that an earlier process left.
//!
//! The rows of the `unlink` table are the durable queue. The plan that drops a version puts a row, and the row is
//! deleted after its content file. The queue in memory only saves reading these rows. It is bounded: an id that does
//! not fit, a file that could not be removed, and the work of an earlier process are listed from the store. A file
//! that cannot be removed delays no other file; the collector tries again, after longer and longer pauses.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::background::{Pauses, Signal};
use super::error::Result;
use super::metrics::DriveMetrics;
use super::settings::Settings;
use crate::content::Content;
use crate::schema::{CF, FileId, file, file_row, pending_unlink};
use crate::table::{Plan, RowCursor, RowQuery, RowRange, Tables};

/// Removes content files in the background.
pub struct ContentGc {
    shared: Arc<GcShared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct GcShared {
    queue: Mutex<GcQueue>,
    wake: Notify,
    /// There is no work, now or at a known later time.
    at_rest: Signal<bool>,
    metrics: DriveMetrics,
    settings: Settings,
}

#[derive(Default)]
struct GcQueue {
    /// Content files whose `unlink` rows were put by committed plans.
    dropped: VecDeque<FileId>,
    /// Staged files that are not verified against their file rows yet.
    unverified: Vec<StagedFile>,
    /// The files in `unverified` are due now. Set once in each round: a file that fails would be tried without a
    /// pause otherwise.
    verify_now: bool,
    /// The store has `unlink` rows that are not in `dropped`.
    needs_list: bool,
    /// Files of the last round that have to be tried again.
    failed: usize,
    /// When failed work is tried again.
    retry_at: Option<Instant>,
    closed: bool,
}

/// Staged content. A file row links it if its plan was committed.
#[derive(Clone, Copy)]
struct StagedFile {
    id: FileId,
    /// Its plan has an unknown outcome, because the disk was full. Until the store works again, a missing file row
    /// proves nothing: the plan may yet happen.
    outcome_unknown: bool,
}

enum GcTask {
    RemoveDropped(Vec<FileId>),
    VerifyStaged(Vec<StagedFile>),
    RemoveListed,
    /// No work before this time; if none, no work until a request queues some.
    Wait(Option<Instant>),
    End,
}

impl GcShared {
    fn with<T>(&self, change: impl FnOnce(&mut GcQueue) -> T) -> T {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut queue);
        let waiting = queue.dropped.len() + queue.unverified.len() + queue.failed;
        self.metrics.cleanup.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        done
    }

    /// The next task.
    fn next(&self) -> GcTask {
        let now = Instant::now();
        self.with(|queue| {
            if queue.closed {
                return GcTask::End;
            }
            if queue.retry_at.is_some_and(|at| at <= now) {
                queue.retry_at = None;
                queue.verify_now = true;
                queue.needs_list = true;
            }
            if !queue.dropped.is_empty() {
                let count = self.settings.limits.unlinks_at_a_time.min(queue.dropped.len());
                return GcTask::RemoveDropped(queue.dropped.drain(..count).collect());
            }
            // Once in a round, whether or not it succeeds: the listing is next.
            if mem::take(&mut queue.verify_now) && !queue.unverified.is_empty() {
                return GcTask::VerifyStaged(queue.unverified.clone());
            }
            if mem::take(&mut queue.needs_list) {
                queue.failed = 0;
                return GcTask::RemoveListed;
            }
            let rests = queue.retry_at.is_none();
            self.at_rest.change(|at_rest| *at_rest = rests);
            GcTask::Wait(queue.retry_at)
        })
    }

    fn is_closed(&self) -> bool {
        self.with(|queue| queue.closed)
    }

    /// All `unlink` rows were read, and their files are removed. The pauses restart unless other work is to be tried
    /// again: a listing that succeeds must not shorten the pauses of a staged file that cannot be verified.
    fn list_done(&self, pauses: &mut Pauses) {
        if self.with(|queue| queue.retry_at.is_none()) {
            pauses.reset();
        }
    }

    /// Schedules another attempt at so many files or rows.
    fn retry(&self, count: usize, pauses: &mut Pauses) {
        self.with(|queue| {
            queue.failed += count;
            if queue.retry_at.is_none() {
                queue.retry_at = Some(Instant::now() + pauses.longer());
            }
        });
    }
}

impl ContentGc {
    /// Starts the collector. It also takes over the staged files of an earlier process: `unverified` was listed before
    /// the first request, so it has no file of this process. None for a drive that is open for reading only: the
    /// collector removes nothing.
    pub fn start(
        tables: Tables,
        content: Content,
        unverified: Option<Vec<FileId>>,
        metrics: DriveMetrics,
        settings: Settings,
    ) -> Self {
        let closed = unverified.is_none();
        let found = |id| StagedFile { id, outcome_unknown: false };
        let unverified = unverified.unwrap_or_default().into_iter().map(found).collect();
        let queue = GcQueue { unverified, verify_now: true, needs_list: true, closed, ..GcQueue::default() };
        let (queue, wake, at_rest) = (Mutex::new(queue), Notify::new(), Signal::new(closed));
        let shared = Arc::new(GcShared { queue, wake, at_rest, metrics, settings });
        let task = tokio::spawn(GcWorker { tables, content, shared: shared.clone() }.run());
        Self { shared, task: Mutex::new(Some(task)) }
    }

    /// Queues the content file of a dropped version. Its `unlink` row is committed.
    pub fn unlink(&self, id: FileId) {
        self.shared.with(|queue| {
            self.shared.at_rest.change(|at_rest| *at_rest = false);
            if queue.dropped.len() < self.shared.settings.limits.unlinks_listed {
                queue.dropped.push_back(id);
            } else {
                queue.needs_list = true;
            }
        });
        self.shared.wake.notify_one();
    }

    /// Queues staged content whose plan has an unknown outcome because the disk was full.
    pub fn verify_staged(&self, id: FileId) {
        self.shared.with(|queue| {
            self.shared.at_rest.change(|at_rest| *at_rest = false);
            queue.unverified.push(StagedFile { id, outcome_unknown: true });
            queue.retry_at.get_or_insert_with(|| Instant::now() + self.shared.settings.retry.first);
        });
        self.shared.wake.notify_one();
    }

    /// Waits until there is no work left, failed work included.
    pub async fn at_rest(&self) {
        self.shared.at_rest.until(|at_rest| *at_rest).await;
    }

    /// Ends after the files of the current task. The `unlink` rows keep the rest, and the next start reads them.
    pub async fn close(&self) {
        self.end();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "clean-up ended early");
        }
    }

    fn end(&self) {
        self.shared.with(|queue| queue.closed = true);
        self.shared.wake.notify_one();
    }
}

impl Drop for ContentGc {
    fn drop(&mut self) {
        self.end();
    }
}

struct GcWorker {
    tables: Tables,
    content: Content,
    shared: Arc<GcShared>,
}

impl GcWorker {
    async fn run(self) {
        let mut pauses = Pauses::new(self.shared.settings.retry);
        loop {
            match self.shared.next() {
                GcTask::End => return,
                GcTask::RemoveDropped(ids) => self.remove_dropped(&ids, &mut pauses).await,
                GcTask::VerifyStaged(files) => self.verify_staged(files, &mut pauses).await,
                GcTask::RemoveListed => self.remove_listed(&mut pauses).await,
                GcTask::Wait(None) => self.shared.wake.notified().await,
                GcTask::Wait(Some(at)) => drop(tokio::time::timeout_at(at, self.shared.wake.notified()).await),
            }
        }
    }

    /// Removes the content files of all `unlink` rows, page by page.
    async fn remove_listed(&self, pauses: &mut Pauses) {
        let limits = &self.shared.settings.limits;
        let mut rows =
            RowCursor::new(pending_unlink::TABLE, RowRange::all(), RowQuery::families(&[CF]), limits.unlinks_listed);
        let (mut unreadable, mut failed) = (0, 0);
        loop {
            let page = match rows.next(&self.tables).await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "content files to be removed cannot be listed: tried again");
                    return self.shared.retry(1, pauses);
                }
            };
            let mut ids = Vec::with_capacity(page.len());
            for (key, _) in &page {
                match pending_unlink::decode_key(key) {
                    Ok(id) => ids.push(id),
                    Err(error) => {
                        unreadable += 1;
                        tracing::error!(row = %key.escape_ascii(), %error, "a row of content to be removed cannot be read: it is skipped");
                    }
                }
            }
            for ids in ids.chunks(limits.unlinks_at_a_time) {
                if self.shared.is_closed() {
                    return;
                }
                failed += self.remove(ids).await;
            }
        }
        self.shared.metrics.unreadable(pending_unlink::TABLE, unreadable);
        match failed {
            0 => self.shared.list_done(pauses),
            failed => self.shared.retry(failed, pauses),
        }
    }

    async fn remove_dropped(&self, ids: &[FileId], pauses: &mut Pauses) {
        let failed = self.remove(ids).await;
        if failed > 0 {
            self.shared.retry(failed, pauses);
        }
    }

    async fn verify_staged(&self, staged: Vec<StagedFile>, pauses: &mut Pauses) {
        let (tried, mut verified) = (staged.len(), HashSet::new());
        for StagedFile { id, outcome_unknown } in staged {
            if self.shared.is_closed() {
                return;
            }
            // Checked for each file: the store may have stopped working since the last one.
            if outcome_unknown && self.tables.ready().is_err() {
                continue;
            }
            match promote_or_remove(&self.tables, &self.content, id).await {
                Ok(()) => drop(verified.insert(id)),
                Err(error) => {
                    tracing::warn!(%error, file = %id, "staged content could not be promoted or removed: tried again");
                }
            }
        }
        // Requests may have queued other files meanwhile.
        self.shared.with(|queue| queue.unverified.retain(|staged| !verified.contains(&staged.id)));
        if verified.len() < tried {
            // The metric counts these files in `unverified`.
            self.shared.retry(0, pauses);
        }
    }

    /// Removes these files together, so that they share the syncs of their folders; if that fails, each alone. Returns
    /// how many could not be removed.
    async fn remove(&self, ids: &[FileId]) -> usize {
        if remove(&self.tables, &self.content, ids).await.is_ok() {
            return 0;
        }
        let mut failed = 0;
        for id in ids {
            if self.shared.is_closed() {
                return failed;
            }
            if let Err(error) = remove(&self.tables, &self.content, &[*id]).await {
                tracing::warn!(%error, file = %id, "content of a dropped file could not be removed: tried again");
                failed += 1;
            }
        }
        failed
    }
}

/// Promotes staged content that a file row links, or may link, and removes it otherwise. No upload owns this content any
/// more, so no later plan can link it.
async fn promote_or_remove(tables: &Tables, content: &Content, id: FileId) -> Result<()> {
    let query = RowQuery::cells(file_row::location_columns());
    if file_row::may_name_content(&tables.get(file::TABLE, id.0.as_bytes(), &query).await?) {
        return Ok(content.promote(id).await?);
    }
    tables.writable()?;
    Ok(content.remove(&[id]).await?)
}

/// Removes content files, then their `unlink` rows.
///
/// IMPORTANT: in this order. A file whose row is deleted first would never be removed after a crash in between.
async fn remove(tables: &Tables, content: &Content, ids: &[FileId]) -> Result<()> {
    // It also fails if the data folder was moved away: then the paths may lead to the content files of another drive.
    tables.writable()?;
    content.remove(ids).await?;
    let finish = ids.iter().map(|id| pending_unlink::delete(*id)).collect();
    tables.commit(Plan { finish, ..Plan::default() }).await?;
    Ok(())
}
