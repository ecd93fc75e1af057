//! What no name reaches any more: content files of dropped versions, and what an earlier process left.

use std::sync::Mutex;
use std::sync::PoisonError;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::{Result, Thresholds};
use crate::content::Content;
use crate::schema::file::{self, Location};
use crate::schema::{CF, FileId, unlink};
use crate::table::{Ask, Plan, RowCursor, RowRange, Tables};

enum Job {
    /// A committed plan has put its `unlink` row.
    Unlink(FileId),
    /// Found where uploads are staged when the process began.
    Unsettled(FileId),
}

/// Removes content files in the background.
pub(super) struct Unlinker {
    jobs: Mutex<Option<UnboundedSender<Job>>>,
    task: Mutex<Option<JoinHandle<()>>>,
    waiting: Gauge,
}

impl Unlinker {
    /// `waiting` shows how many content files are still to be looked at.
    pub fn start(tables: Tables, content: Content, waiting: Gauge, limits: Thresholds) -> Self {
        let (jobs, queue) = unbounded_channel();
        let task = tokio::spawn(run(tables, content, queue, waiting.clone(), limits.unlinks_at_a_time));
        Self { jobs: Mutex::new(Some(jobs)), task: Mutex::new(Some(task)), waiting }
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed queue loses nothing: the `unlink` row is there, and the next start reads it.
        if let Some(jobs) = jobs.as_ref()
            && jobs.send(job).is_ok()
        {
            self.waiting.inc();
        }
    }

    pub fn unlink(&self, id: FileId) {
        self.send(Job::Unlink(id));
    }

    /// Takes over what an earlier process left: listed before the first request, so that nothing of this
    /// process is among it.
    pub fn settle(&self, unsettled: Vec<FileId>, dropped: Vec<FileId>) {
        unsettled.into_iter().for_each(|id| self.send(Job::Unsettled(id)));
        dropped.into_iter().for_each(|id| self.send(Job::Unlink(id)));
    }

    /// Does what is queued, then ends.
    pub async fn close(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "clean-up ended early");
        }
    }
}

/// The files whose content is to be removed, as the `unlink` rows say.
pub(super) async fn dropped(tables: &Tables, listed: usize) -> Result<Vec<FileId>> {
    let rows = RowCursor::new(unlink::TABLE, RowRange::all(), Ask::families(&[CF]), listed).rest(tables).await?;
    rows.iter().map(|(key, _)| Ok(unlink::decode_key(key)?)).collect()
}

async fn run(tables: Tables, content: Content, mut queue: UnboundedReceiver<Job>, waiting: Gauge, at_a_time: usize) {
    let mut jobs = Vec::new();
    while queue.recv_many(&mut jobs, at_a_time).await > 0 {
        let mut gone = Vec::new();
        let taken = jobs.len();
        for job in jobs.drain(..) {
            match job {
                Job::Unlink(id) => gone.push(id),
                Job::Unsettled(id) => {
                    if let Err(error) = unsettled(&tables, &content, id).await {
                        tracing::warn!(%error, file = %id, "staged content could not be settled");
                    }
                }
            }
        }
        if let Err(error) = remove(&tables, &content, &gone).await {
            tracing::warn!(%error, files = gone.len(), "content of dropped files stays until the next start");
        }
        waiting.dec_by(i64::try_from(taken).unwrap_or(i64::MAX));
    }
}

/// Staged content of a process that ended: a file row tells whether it was committed.
async fn unsettled(tables: &Tables, content: &Content, id: FileId) -> Result<()> {
    let value = tables.cell(file::TABLE, id.0.as_bytes(), CF, file::CONTENT).await?;
    match value.map(|value| Location::decode(&value)).transpose()? {
        Some(Location::Large) => Ok(content.settle(id).await?),
        Some(Location::Inline) | None => Ok(content.remove(&[id]).await?),
    }
}

/// First the files, durably, then the rows that name them.
async fn remove(tables: &Tables, content: &Content, ids: &[FileId]) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    content.remove(ids).await?;
    let finish = ids.iter().map(|id| unlink::removal(*id)).collect();
    tables.commit(Plan { finish, ..Plan::default() }).await?;
    Ok(())
}
