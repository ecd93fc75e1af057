//! The gate that every change passes: whether the drive takes changes, and that each one runs to its end.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::RwLock;

use super::attempts::Caller;
use super::error::{DriveError, Result};
use super::metrics::Metrics;
use crate::content::Content;
use crate::table::Tables;

pub struct Gate {
    tables: Tables,
    content: Content,
    metrics: Metrics,
    /// Held for reading by every running change; false once the drive is closed.
    open: RwLock<bool>,
}

impl Gate {
    pub fn new(tables: Tables, content: Content, metrics: Metrics) -> Self {
        Self { tables, content, metrics, open: RwLock::new(true) }
    }

    /// Whether changes are taken at all: an error stays until another process opens the drive.
    pub fn writable(&self) -> Result<()> {
        let writable = self.tables.writable().map_err(DriveError::from);
        let writable = writable.and_then(|()| Ok(self.content.writable()?));
        self.metrics.writable.set(writable.is_ok().into());
        writable
    }

    /// Whether changes are taken at this moment: as [`writable`](Self::writable), and an error that passes while the
    /// store waits for room.
    pub fn works(&self) -> Result<()> {
        let works = self.writable().and_then(|()| Ok(self.tables.ready()?));
        self.metrics.writable.set(works.is_ok().into());
        works
    }

    /// Waits for the changes that are running. Later ones are refused.
    pub async fn close(&self) {
        *self.open.write().await = false;
    }

    /// Waits for the changes that are running.
    pub async fn wait_for_changes(&self) {
        drop(self.open.write().await);
    }

    /// Runs a change to its end in a task of its own, even if its caller leaves: a plan that was sent may happen, so
    /// what belongs to it (staged content, the rows of a refused plan) must not be dropped with the request. The
    /// change learns by its [`Caller`] when to stop waiting for others.
    pub async fn run_to_end<T, F>(self: &Arc<Self>, change: impl FnOnce(Caller) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let caller = Caller::default();
        let _guard = caller.guard();
        let (gate, change) = (self.clone(), change(caller));
        let task = tokio::spawn(async move {
            let open = gate.open.read().await;
            gate.writable()?;
            if *open { change.await } else { Err(DriveError::Closing) }
        });
        task.await.unwrap_or_else(|ended| {
            let cause = format!("a change ended early: {ended}");
            Err(DriveError::Unknown { cause, full: false })
        })
    }
}
