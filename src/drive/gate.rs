//! The gate that every change passes: it refuses changes while the drive takes none, and runs each change to its end.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::RwLock;

use super::attempts::Caller;
use super::error::{DriveError, Result};
use super::metrics::DriveMetrics;
use crate::content::Content;
use crate::table::Tables;

pub struct Gate {
    tables: Tables,
    content: Content,
    metrics: DriveMetrics,
    /// Every running change has a read lock. False once the drive is closed.
    open: RwLock<bool>,
}

impl Gate {
    pub fn new(tables: Tables, content: Content, metrics: DriveMetrics) -> Self {
        Self { tables, content, metrics, open: RwLock::new(true) }
    }

    /// Whether the drive takes changes at all. An error is final until the next process opens the drive.
    pub fn writable(&self) -> Result<()> {
        let writable = self.tables.writable().map_err(DriveError::from);
        let writable = writable.and_then(|()| Ok(self.content.writable()?));
        self.metrics.writable.set(writable.is_ok().into());
        writable
    }

    /// Whether the drive takes changes at this moment: [`writable`](Self::writable), or an error that passes, while the
    /// store waits for disk space.
    pub fn works(&self) -> Result<()> {
        let works = self.writable().and_then(|()| Ok(self.tables.ready()?));
        self.metrics.writable.set(works.is_ok().into());
        works
    }

    /// Waits for the running changes. Later ones are refused.
    pub async fn close(&self) {
        *self.open.write().await = false;
    }

    /// Waits for the running changes.
    pub async fn wait_for_changes(&self) {
        drop(self.open.write().await);
    }

    /// Runs a change to its end in a task of its own, even if its caller leaves. A plan that was sent may happen, so its
    /// staged content, and the prepared rows of a refused plan, must not be dropped with the request. The change stops
    /// waiting for locks when its [`Caller`] has left.
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
            gate.tables.known_writable()?;
            gate.content.writable()?;
            if *open { change.await } else { Err(DriveError::Closing) }
        });
        task.await.unwrap_or_else(|ended| {
            let cause = format!("a change ended early: {ended}");
            Err(DriveError::Unknown { cause, full: false })
        })
    }
}
