//! The gate that every change passes: it refuses changes while the drive takes none, and runs each change to its end.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
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
        let task = tokio::spawn(self.clone().admit(change(caller)));
        task.await.unwrap_or_else(|ended| Err(ended_early(&ended)))
    }

    /// As [`run_to_end`](Self::run_to_end), without a task of its own unless the caller leaves: a hand-over between tasks
    /// may be one between threads.
    ///
    /// IMPORTANT: the caller must poll it until it ends, or drop it. A change that nobody polls keeps its locks.
    pub async fn run_here<T, F>(self: &Arc<Self>, change: impl FnOnce(Caller) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let caller = Caller::default();
        let _guard = caller.guard();
        let change = AssertUnwindSafe(self.clone().admit(change(caller))).catch_unwind();
        PolledHere::new(change.boxed()).await.unwrap_or_else(|_panic| Err(ended_early(&"it panicked")))
    }

    async fn admit<T>(self: Arc<Self>, change: impl Future<Output = Result<T>>) -> Result<T> {
        let open = self.open.read().await;
        self.tables.known_writable()?;
        self.content.writable()?;
        if *open { change.await } else { Err(DriveError::Closing) }
    }
}

fn ended_early(why: &dyn std::fmt::Display) -> DriveError {
    DriveError::Unknown { cause: format!("a change ended early: {why}"), full: false }
}

/// The output of a change, or of its panic.
type Caught<T> = std::result::Result<T, Box<dyn Any + Send>>;

/// A change that its caller polls. If it is dropped before the end, the rest runs in a task of its own.
struct PolledHere<T: Send + 'static> {
    change: Option<BoxFuture<'static, Caught<T>>>,
    /// Where the rest runs: it may be dropped elsewhere.
    runtime: Handle,
}

impl<T: Send + 'static> PolledHere<T> {
    fn new(change: BoxFuture<'static, Caught<T>>) -> Self {
        Self { change: Some(change), runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for PolledHere<T> {
    type Output = Caught<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(change) = &mut self.change else { return Poll::Pending };
        let polled = change.as_mut().poll(context);
        if polled.is_ready() {
            self.change = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for PolledHere<T> {
    fn drop(&mut self) {
        if let Some(rest) = self.change.take() {
            drop(self.runtime.spawn(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    /// A change that ends when it is told to, and sets a flag.
    fn change() -> (PolledHere<()>, oneshot::Sender<()>, Arc<AtomicBool>) {
        let (go, gone) = oneshot::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let change = async move {
            gone.await.unwrap();
            flag.store(true, Ordering::SeqCst);
        };
        (PolledHere::new(AssertUnwindSafe(change).catch_unwind().boxed()), go, ended)
    }

    #[tokio::test]
    async fn a_change_runs_to_its_end_although_its_caller_left() {
        for polled in [false, true] {
            let (mut change, go, ended) = change();
            if polled {
                assert!(tokio::time::timeout(Duration::from_millis(1), &mut change).await.is_err());
            }
            drop(change);
            go.send(()).unwrap();
            while !ended.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[test]
    fn a_change_dropped_outside_its_runtime_runs_to_its_end() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (mut change, go, ended) = runtime.block_on(async { change() });
        runtime.block_on(async { tokio::time::timeout(Duration::from_millis(1), &mut change).await.unwrap_err() });
        drop(change);
        go.send(()).unwrap();
        while !ended.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_change_whose_caller_stays_ends_with_it() {
        let (change, go, ended) = change();
        go.send(()).unwrap();
        change.await.unwrap();
        assert!(ended.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_panic_of_a_change_is_an_error_of_it_alone() {
        let (change, go, _) = change();
        drop(go);
        assert!(change.await.is_err());
    }
}
