//! The file system below a content folder: all calls that content makes of it.
//!
//! A job is a few calls in a row ([`Disk::is_blocking`] says how it runs). [`LocalDisk`] makes them on this machine's file
//! system. Tests have implementations that delay, refuse and lose calls.

mod local;

use std::ffi::OsString;
use std::fmt::Debug;
use std::future::{Future, pending, ready};
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
pub use local::LocalDisk;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{JoinError, JoinHandle, spawn_blocking, unconstrained};

pub use super::free_space::{FileSystemSpace, Inodes};

/// Jobs of the process that may block a thread at a time: a quarter of the blocking threads. A disk that hangs takes only
/// these threads, so that work without the disk continues.
static THREADS: Semaphore = Semaphore::const_new(128);

/// A call that is running.
pub type DiskFuture<'a, T> = BoxFuture<'a, io::Result<T>>;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name, without the folder.
    pub name: OsString,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// The calls that the content module makes of a file system.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Whether a call blocks its thread and is done when its future is first polled. Then a whole job runs on one
    /// thread of the blocking pool; else it is a task like any other.
    fn is_blocking(&self) -> bool;

    /// Makes a folder (mode 0700), not durably; an existing one is success. Its parent must exist.
    fn make_folder<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// The names in a folder, in any order.
    fn list<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, Vec<FolderEntry>>;

    /// Makes names in this folder, and removals from it, durable.
    fn sync_folder<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, ()>;

    /// Makes a file (mode 0600) that does not exist yet, and opens it for writing.
    fn create<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>>;

    /// Opens a file for reading.
    fn open<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>>;

    /// Whether a file or folder has this name.
    fn exists<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, bool>;

    /// Renames a file. Not durable before both folders are synced.
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> DiskFuture<'a, ()>;

    /// Removes a file. An open file stays readable.
    fn remove<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// The free space of a folder's file system. The call is fast and need not be part of a job.
    fn space<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, FileSystemSpace> {
        let _ = folder;
        Box::pin(ready(Err(io::ErrorKind::Unsupported.into())))
    }
}

/// A file that is open.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// The length in bytes.
    fn size(&self) -> DiskFuture<'_, u64>;

    /// Reads at an offset. Returns how many bytes were read; 0 only at the end.
    fn read_at<'a>(&'a self, buffer: &'a mut [u8], at: u64) -> DiskFuture<'a, usize>;

    /// Writes a piece that is aligned and large: past the page cache, if the file system supports it.
    fn write_direct<'a>(&'a self, data: &'a [u8], at: u64) -> DiskFuture<'a, ()>;

    /// Writes a piece that is not aligned or not large. No direct write may follow it.
    fn write<'a>(&'a self, data: &'a [u8], at: u64) -> DiskFuture<'a, ()>;

    /// Makes data and size durable, but not the name: that needs a sync of the folder.
    fn sync(&self) -> DiskFuture<'_, ()>;
}

impl dyn Disk {
    /// Starts a job. It runs to its end, even if its handle is dropped. It may wait for jobs that were started before it,
    /// and for no others: jobs get threads in the order of their start.
    pub fn start<T: Send + 'static>(&self, job: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        if self.is_blocking() { start_within(&THREADS, job) } else { tokio::spawn(job) }
    }
}

/// Runs a job on a blocking thread, as soon as a permit is free.
fn start_within<T: Send + 'static>(
    threads: &'static Semaphore,
    job: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    if let Ok(permit) = threads.try_acquire() {
        return on_thread(Some(permit), job);
    }
    // IMPORTANT: the job is in the queue when this returns, even if tokio's budget of the caller is used up. Otherwise a
    // later job could get its thread first and wait for this one for ever.
    let mut permit = Box::pin(unconstrained(threads.acquire()));
    let first = permit.as_mut().now_or_never();
    tokio::spawn(async move {
        let permit = match first {
            Some(permit) => permit,
            None => permit.await,
        };
        // The semaphore is never closed.
        match on_thread(permit.ok(), job).await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(cause)) => resume_unwind(cause),
            // The runtime is ending, and drops this task too.
            Err(Err(_)) => pending().await,
        }
    })
}

/// Runs a job on a blocking thread, which keeps the permit until the job has ended, even if its handle is dropped.
fn on_thread<T: Send + 'static>(
    permit: Option<SemaphorePermit<'static>>,
    job: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || {
        let done = Handle::current().block_on(job);
        drop(permit);
        done
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// More jobs than the runtime has blocking threads, and a disk whose calls do not return.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_disk_that_hangs_leaves_threads_for_what_does_not_need_it() {
        let hang = Arc::new((Mutex::new(true), Condvar::new()));
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let job = |hang: Arc<(Mutex<bool>, Condvar)>| async move {
            let (hangs, over) = &*hang;
            drop(over.wait_while(hangs.lock().unwrap(), |hangs| *hangs).unwrap());
        };
        let jobs: Vec<_> = (0..600).map(|_| disk.start(job(hang.clone()))).collect();
        let other = timeout(Duration::from_secs(5), spawn_blocking(|| ())).await;
        *hang.0.lock().unwrap() = false;
        hang.1.notify_all();
        // The jobs that had to wait end too.
        assert!(timeout(LONG, join_all(jobs)).await.unwrap().into_iter().all(|done| done.is_ok()));
        assert!(other.is_ok(), "no thread was left");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn dropped_jobs_run_to_their_end_and_on_no_more_threads_than_permits() {
        static PERMITS: Semaphore = Semaphore::const_new(3);
        let (now, most, done) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        for _ in 0..30 {
            let (now, most, done) = (now.clone(), most.clone(), done.clone());
            drop(start_within(&PERMITS, async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                now.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
            }));
        }
        let all = async {
            while done.load(Ordering::SeqCst) < 30 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, all).await.unwrap();
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    /// The pieces of uploads wait like this for the checksums of the piece before.
    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_that_wait_for_an_earlier_job_come_to_an_end() {
        static PERMITS: Semaphore = Semaphore::const_new(2);
        for _ in 0..50 {
            let mut jobs = Vec::new();
            let mut chains: Vec<_> = (0..4).map(|_| oneshot::channel::<()>().1).collect();
            for n in 0..12 {
                let (pass, next) = oneshot::channel();
                let before = std::mem::replace(&mut chains[n % 4], next);
                jobs.push(start_within(&PERMITS, async move {
                    let _first = before.await;
                    let _ = pass.send(());
                }));
            }
            assert!(timeout(LONG, join_all(jobs)).await.expect("they end").into_iter().all(|done| done.is_ok()));
        }
    }

    #[tokio::test]
    async fn a_panic_of_a_job_that_had_to_wait_is_reported() {
        static PERMITS: Semaphore = Semaphore::const_new(1);
        let jobs: Vec<_> = (0..3).map(|n| start_within(&PERMITS, async move { assert_ne!(n, 1) })).collect();
        let panicked: Vec<_> = join_all(jobs).await.into_iter().map(|done| done.is_err_and(|e| e.is_panic())).collect();
        assert_eq!(panicked, [false, true, false]);
    }
}
