//! Runs reads that may wait for the disk, on threads that may block.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::db::Db;
use crate::table::StoreError;
use crate::table::store::Result;

/// Enough to keep a disk busy; more would only cost memory and processor time.
const THREADS: usize = 16;
/// The most threads for long jobs, so that reads of single rows do not queue behind scans.
const LONG: usize = THREADS / 2;

pub(super) struct BlockingPool {
    db: Arc<Db>,
    permits: Arc<Semaphore>,
    long: Semaphore,
}

impl BlockingPool {
    pub fn new(db: Arc<Db>) -> Self {
        Self { db, permits: Arc::new(Semaphore::new(THREADS)), long: Semaphore::new(LONG) }
    }

    /// As [`run`](Self::run), for a long job: all long jobs share half of the threads.
    pub async fn run_long<T: Send + 'static>(&self, job: impl FnOnce(&Db) -> Result<T> + Send + 'static) -> Result<T> {
        let turn = self.long.acquire().await;
        let _turn = turn.map_err(|e| StoreError::Failed(format!("a read did not end: {e}")))?;
        self.run(job).await
    }

    /// Runs the job on a thread that may block. Cancelling the caller does not stop the job.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce(&Db) -> Result<T> + Send + 'static) -> Result<T> {
        let gone = |e: &dyn std::fmt::Display| StoreError::Failed(format!("a read did not end: {e}"));
        let permit = self.permits.clone().acquire_owned().await.map_err(|e| gone(&e))?;
        let db = self.db.clone();
        let job = move || {
            let answer = job(&db);
            // The thread has the permit, not the caller: otherwise more threads than permits could run after callers
            // were cancelled.
            drop(permit);
            answer
        };
        tokio::task::spawn_blocking(job).await.unwrap_or_else(|e| Err(gone(&e)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::engines::rocks::tests::open;

    #[tokio::test]
    async fn long_jobs_leave_threads_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let (begun, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Barrier::new(LONG + 1)));
        let job = || {
            let (begun, go) = (begun.clone(), go.clone());
            move |_: &Db| {
                begun.fetch_add(1, Ordering::SeqCst);
                go.wait();
                Ok(())
            }
        };
        let long = futures_util::future::join_all((0..2 * LONG).map(|_| rocks.pool.run_long(job())));
        let others = async {
            while begun.load(Ordering::SeqCst) < LONG {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for _ in 0..2 * THREADS {
                rocks.pool.run(|_| Ok(())).await.unwrap();
            }
            // No other long job has started meanwhile.
            assert_eq!(begun.load(Ordering::SeqCst), LONG);
            let go = go.clone();
            // Once for each half of the long jobs.
            tokio::task::spawn_blocking(move || [go.wait(), go.wait()].len()).await.unwrap()
        };
        let (long, _) = tokio::join!(long, others);
        assert!(long.into_iter().all(|answer| answer.is_ok()));
    }

    #[tokio::test]
    async fn no_more_threads_than_permits_run_even_if_callers_are_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let job = || {
            let (now, most) = (now.clone(), most.clone());
            move |_: &Db| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        };
        for _ in 0..3 {
            let jobs = futures_util::future::join_all((0..40).map(|_| rocks.pool.run(job())));
            let gone = tokio::time::timeout(Duration::from_millis(5), jobs).await;
            assert!(gone.is_err());
        }
        let jobs = futures_util::future::join_all((0..40).map(|_| rocks.pool.run(job())));
        assert!(jobs.await.into_iter().all(|answer| answer.is_ok()));
        assert_eq!(most.load(Ordering::SeqCst), THREADS);
    }
}
