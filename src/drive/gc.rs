//! What no name reaches any more: content files of dropped versions, and what an earlier process left.
//!
//! The rows of the `unlink` table are the queue: a row is put with the very plan that drops a version, and goes when
//! the content is gone. What is kept in memory only saves reading them: it is bounded, and whatever overflows, fails
//! or was left by an earlier process is listed from the store. A file that cannot be removed holds up no other; it is
//! tried again, with longer and longer pauses.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::background::{Pauses, Signal};
use super::error::Result;
use super::metrics::Metrics;
use super::settings::Settings;
use crate::content::Content;
use crate::schema::file::{self, ContentLocation};
use crate::schema::{CF, FileId, pending_unlink};
use crate::table::{Plan, RowCursor, RowQuery, RowRange, Tables};

/// Removes content files in the background.
pub struct ContentGc {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Notify,
    /// Nothing is to be done, now or later.
    at_rest: Signal<bool>,
    metrics: Metrics,
    settings: Settings,
}

#[derive(Default)]
struct Queue {
    /// Committed plans have put their `unlink` rows.
    dropped: VecDeque<FileId>,
    /// Where uploads are staged, and not settled yet.
    unsettled: Vec<StagedFile>,
    /// What is in `unsettled` is to be tried now: once in each round, or a file that fails is tried without a pause.
    settle: bool,
    /// There are rows in the store that are not in `dropped`.
    list: bool,
    /// Files that were tried last and are to be tried again.
    failed: usize,
    /// What failed is tried again at this time.
    again: Option<Instant>,
    closed: bool,
}

/// Staged content of which a file row tells whether it was committed.
#[derive(Clone, Copy)]
struct StagedFile {
    id: FileId,
    /// The disk was too full for its plan. The row tells nothing before the store works again.
    in_doubt: bool,
}

enum GcTask {
    Unlink(Vec<FileId>),
    Settle(Vec<StagedFile>),
    List,
    /// Nothing now, but perhaps at this time.
    Wait(Option<Instant>),
    End,
}

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut queue);
        let waiting = queue.dropped.len() + queue.unsettled.len() + queue.failed;
        self.metrics.cleanup.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        done
    }

    /// What is to be done next.
    fn next(&self) -> GcTask {
        let now = Instant::now();
        self.with(|queue| {
            if queue.closed {
                return GcTask::End;
            }
            if queue.again.is_some_and(|at| at <= now) {
                queue.again = None;
                queue.settle = true;
                queue.list = true;
            }
            if !queue.dropped.is_empty() {
                let count = self.settings.limits.unlinks_at_a_time.min(queue.dropped.len());
                return GcTask::Unlink(queue.dropped.drain(..count).collect());
            }
            // Once a round, whatever comes of it: the rows are listed next.
            if mem::take(&mut queue.settle) && !queue.unsettled.is_empty() {
                return GcTask::Settle(queue.unsettled.clone());
            }
            if mem::take(&mut queue.list) {
                queue.failed = 0;
                return GcTask::List;
            }
            let rests = queue.again.is_none();
            self.at_rest.change(|at_rest| *at_rest = rests);
            GcTask::Wait(queue.again)
        })
    }

    fn is_closed(&self) -> bool {
        self.with(|queue| queue.closed)
    }

    /// All rows were read, and what they name is gone. The pauses start anew unless something else is to be tried
    /// again: a list that works must not shorten the pauses of a file that cannot be settled.
    fn listed(&self, pauses: &mut Pauses) {
        if self.with(|queue| queue.again.is_none()) {
            pauses.reset();
        }
    }

    /// So many files, or rows, are to be tried again.
    fn failed(&self, count: usize, pauses: &mut Pauses) {
        self.with(|queue| {
            queue.failed += count;
            if queue.again.is_none() {
                queue.again = Some(Instant::now() + pauses.longer());
            }
        });
    }
}

impl ContentGc {
    /// Takes over what an earlier process left, too: `unsettled` was listed before the first request, so that nothing
    /// of this process is among it. None: nothing is ever removed.
    pub fn start(
        tables: Tables,
        content: Content,
        unsettled: Option<Vec<FileId>>,
        metrics: Metrics,
        settings: Settings,
    ) -> Self {
        let closed = unsettled.is_none();
        let found = |id| StagedFile { id, in_doubt: false };
        let unsettled = unsettled.unwrap_or_default().into_iter().map(found).collect();
        let queue = Queue { unsettled, settle: true, list: true, closed, ..Queue::default() };
        let (queue, wake, at_rest) = (Mutex::new(queue), Notify::new(), Signal::new(closed));
        let shared = Arc::new(Shared { queue, wake, at_rest, metrics, settings });
        let task = tokio::spawn(Worker { tables, content, shared: shared.clone() }.run());
        Self { shared, task: Mutex::new(Some(task)) }
    }

    pub fn unlink(&self, id: FileId) {
        self.shared.with(|queue| {
            self.shared.at_rest.change(|at_rest| *at_rest = false);
            if queue.dropped.len() < self.shared.settings.limits.unlinks_listed {
                queue.dropped.push_back(id);
            } else {
                queue.list = true;
            }
        });
        self.shared.wake.notify_one();
    }

    /// Staged content whose plan may have been written, or not, on a full disk.
    pub fn settle(&self, id: FileId) {
        self.shared.with(|queue| {
            self.shared.at_rest.change(|at_rest| *at_rest = false);
            queue.unsettled.push(StagedFile { id, in_doubt: true });
            queue.again.get_or_insert_with(|| Instant::now() + self.shared.settings.retry.first);
        });
        self.shared.wake.notify_one();
    }

    /// Waits until nothing is to be done, what failed included.
    pub async fn at_rest(&self) {
        self.shared.at_rest.until(|at_rest| *at_rest).await;
    }

    /// Ends after the files at hand. What is left is in the rows, and the next start reads them.
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

struct Worker {
    tables: Tables,
    content: Content,
    shared: Arc<Shared>,
}

impl Worker {
    async fn run(self) {
        let mut pauses = Pauses::new(self.shared.settings.retry);
        loop {
            match self.shared.next() {
                GcTask::End => return,
                GcTask::Unlink(ids) => self.unlink(&ids, &mut pauses).await,
                GcTask::Settle(ids) => self.settle(ids, &mut pauses).await,
                GcTask::List => self.list(&mut pauses).await,
                GcTask::Wait(None) => self.shared.wake.notified().await,
                GcTask::Wait(Some(at)) => drop(tokio::time::timeout_at(at, self.shared.wake.notified()).await),
            }
        }
    }

    /// Removes what all rows name, page by page.
    async fn list(&self, pauses: &mut Pauses) {
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
                    return self.shared.failed(1, pauses);
                }
            };
            let mut ids = Vec::with_capacity(page.len());
            for (key, _) in &page {
                match pending_unlink::decode_key(key) {
                    Ok(id) => ids.push(id),
                    Err(error) => {
                        unreadable += 1;
                        tracing::error!(row = %key.escape_ascii(), %error, "a row of content to be removed cannot be read: it is passed by");
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
            0 => self.shared.listed(pauses),
            failed => self.shared.failed(failed, pauses),
        }
    }

    async fn unlink(&self, ids: &[FileId], pauses: &mut Pauses) {
        let failed = self.remove(ids).await;
        if failed > 0 {
            self.shared.failed(failed, pauses);
        }
    }

    async fn settle(&self, staged: Vec<StagedFile>, pauses: &mut Pauses) {
        let (tried, mut settled) = (staged.len(), HashSet::new());
        for StagedFile { id, in_doubt } in staged {
            if self.shared.is_closed() {
                return;
            }
            // Asked for each: it may have stopped working since the last one.
            if in_doubt && self.tables.ready().is_err() {
                continue;
            }
            match unsettled(&self.tables, &self.content, id).await {
                Ok(()) => drop(settled.insert(id)),
                Err(error) => tracing::warn!(%error, file = %id, "staged content could not be settled: tried again"),
            }
        }
        // Others may have come meanwhile.
        self.shared.with(|queue| queue.unsettled.retain(|staged| !settled.contains(&staged.id)));
        if settled.len() < tried {
            // They are counted where they wait.
            self.shared.failed(0, pauses);
        }
    }

    /// Removes these files together, so that they share the syncs of their folders; if that fails, each alone. How
    /// many are still to be removed.
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

/// Staged content that nobody is at work on: a file row tells whether it was committed.
async fn unsettled(tables: &Tables, content: &Content, id: FileId) -> Result<()> {
    let value = tables.cell(file::TABLE, id.0.as_bytes(), CF, file::CONTENT).await?;
    match value.map(|value| ContentLocation::decode(&value)).transpose()? {
        Some(ContentLocation::Large) => Ok(content.promote(id).await?),
        Some(ContentLocation::Inline) | None => {
            tables.writable()?;
            Ok(content.remove(&[id]).await?)
        }
    }
}

/// First the files, durably, then the rows that name them.
async fn remove(tables: &Tables, content: &Content, ids: &[FileId]) -> Result<()> {
    // Also told by this: that the drive's folder was moved away, and its paths lead to the files of another one.
    tables.writable()?;
    content.remove(ids).await?;
    let finish = ids.iter().map(|id| pending_unlink::delete(*id)).collect();
    tables.commit(Plan { finish, ..Plan::default() }).await?;
    Ok(())
}
