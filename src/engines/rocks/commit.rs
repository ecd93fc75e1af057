//! Writes plans, one group at a time, which makes checks and changes of a plan atomic, and batches syncs (group commit).
//!
//! The commit thread takes the first queued plan and all others that are queued, and writes them with one sync. It needs
//! no timer: while one group is synced, the next one queues up.
//!
//! A plan that comes alone is written by its caller: with the commit thread, two threads would have to wake up. The lock
//! of [`GroupWriter`] lets one of them write at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{block_in_place, yield_now};

use super::commit_stats::CommitCounters;
use super::db::Db;
use super::group_writer::{CommitRequest, GroupWriter, PANICKED};
use crate::table::StoreError;
use crate::table::store::Result;

/// Length of the queue, in plans.
const QUEUE: usize = 1_024;
/// How long a caller waits while the queue is full.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

enum QueueMessage {
    Plan(CommitRequest),
    /// Accept no more plans, commit the queued ones, then answer.
    Stop(oneshot::Sender<()>),
}

/// The queue of the commit thread. When it is dropped the thread commits the queued plans, releases the database and
/// ends.
pub(super) struct CommitQueue {
    queue: mpsc::Sender<QueueMessage>,
    writer: Arc<Mutex<GroupWriter>>,
    counters: Arc<CommitCounters>,
    /// Callers that have a plan, and no answer to it yet.
    callers: AtomicUsize,
}

/// A caller that waits for its answer, until this is dropped.
pub(super) struct WaitingCaller<'a>(&'a AtomicUsize);

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CommitQueue {
    /// `skip`: tombstones that a check may skip on the commit thread.
    pub fn start(db: Arc<Db>, skip: u64) -> Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let counters = Arc::<CommitCounters>::default();
        let writer = GroupWriter { db, skip, counters: counters.clone() };
        let writer = Arc::new(Mutex::new(writer));
        let worker = CommitThread { writer: writer.clone(), queue: waiting, next_group: None, stopping: None };
        let started = Builder::new().name("commit".into()).spawn(move || {
            raise_priority();
            worker.run();
        });
        started.map_err(|e| StoreError::Failed(format!("no thread for commits: {e}")))?;
        Ok(Self { queue, writer, counters, callers: AtomicUsize::new(0) })
    }

    pub fn counters(&self) -> &Arc<CommitCounters> {
        &self.counters
    }

    /// Call it before [`send`](Self::send), and keep the result until the plan is answered.
    pub fn caller(&self) -> WaitingCaller<'_> {
        self.callers.fetch_add(1, Ordering::Relaxed);
        WaitingCaller(&self.callers)
    }

    /// Writes the plan, or queues it. Errors: `Busy` if the queue stayed full until the timeout, `Failed` if the thread
    /// has ended.
    pub async fn send(&self, request: CommitRequest) -> Result<()> {
        let request = if self.may_write_here().await { self.write_here(request) } else { Some(request) };
        let Some(request) = request else { return Ok(()) };
        let ended = || StoreError::Failed("the store was closed".into());
        let message = match self.queue.try_send(QueueMessage::Plan(request)) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ended()),
            Err(mpsc::error::TrySendError::Full(message)) => message,
        };
        self.queue.send_timeout(message, QUEUE_TIMEOUT).await.map_err(|e| match e {
            mpsc::error::SendTimeoutError::Timeout(_) => StoreError::Busy,
            mpsc::error::SendTimeoutError::Closed(_) => ended(),
        })
    }

    /// Whether nobody else has a plan that could share the sync, or that would have to wait for it.
    async fn may_write_here(&self) -> bool {
        // Elsewhere nobody could run the other tasks of this thread meanwhile.
        let may_block = Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
        let is_alone = || self.callers.load(Ordering::Relaxed) <= 1;
        if !may_block || !is_alone() {
            return false;
        }
        // Other plans of this task, as of a `join!`, come now.
        yield_now().await;
        is_alone()
    }

    /// Writes the plan on this thread; returns it if another thread writes, or once the queue is closed.
    fn write_here(&self, request: CommitRequest) -> Option<CommitRequest> {
        // IMPORTANT: lock inside. If no thread can be had that runs the other tasks, `block_in_place` panics: nobody may
        // have the lock then.
        block_in_place(|| {
            let Ok(mut writer) = self.writer.try_lock() else { return Some(request) };
            // IMPORTANT: with the lock. The commit thread closes the queue, and then waits for the lock before it ends.
            if self.queue.is_closed() {
                return Some(request);
            }
            let written = writer.write(request, || None);
            drop(writer);
            written.answer()
        })
    }

    /// Refuses further plans, and waits until the queued ones are committed.
    pub async fn stop(&self) {
        let (done, ended) = oneshot::channel();
        if self.queue.send(QueueMessage::Stop(done)).await.is_ok() {
            let _ended = ended.await;
        }
    }
}

/// Every write waits for this thread, so it should not wait for a processor. A negative nice value needs a privilege;
/// without it nothing changes.
///
/// `SCHED_RR` would be better, but rustix has no call for it, and that of libc is unsafe.
fn raise_priority() {
    // On Linux "no process" means the calling thread alone.
    let _allowed = rustix::process::setpriority_process(None, -10);
}

/// The lock of the writer. After a panic in a write the store accepts no more writes.
fn lock(writer: &Mutex<GroupWriter>) -> MutexGuard<'_, GroupWriter> {
    writer.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
        let writer = poisoned.into_inner();
        writer.db.stop_writes(PANICKED);
        writer
    })
}

struct CommitThread {
    writer: Arc<Mutex<GroupWriter>>,
    queue: mpsc::Receiver<QueueMessage>,
    /// The first plan of the next group.
    next_group: Option<CommitRequest>,
    stopping: Option<oneshot::Sender<()>>,
}

impl CommitThread {
    fn run(mut self) {
        while let Some(first) = self.first() {
            let writer = self.writer.clone();
            let mut writer = lock(&writer);
            let written = writer.write(first, || self.next_queued());
            drop(writer);
            self.next_group = written.answer();
        }
        // The queue is closed: who has the lock now is the last one to write without it.
        drop(lock(&self.writer));
        if let Some(stopping) = self.stopping {
            let _waiting = stopping.send(());
        }
    }

    /// Waits for a plan. None once the queue is closed and empty.
    fn first(&mut self) -> Option<CommitRequest> {
        if let Some(next_group) = self.next_group.take() {
            return Some(next_group);
        }
        loop {
            match self.queue.blocking_recv()? {
                QueueMessage::Plan(request) => return Some(request),
                QueueMessage::Stop(done) => self.stop(done),
            }
        }
    }

    /// A queued plan; none if the queue is empty now.
    fn next_queued(&mut self) -> Option<CommitRequest> {
        loop {
            match self.queue.try_recv().ok()? {
                QueueMessage::Plan(request) => return Some(request),
                QueueMessage::Stop(done) => self.stop(done),
            }
        }
    }

    fn stop(&mut self, done: oneshot::Sender<()>) {
        // Queued plans can still be received.
        self.queue.close();
        self.stopping = Some(done);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::engines::rocks::Rocks;
    use crate::engines::rocks::group_writer::CommitReply;
    use crate::engines::rocks::tests::{checked, column, count, open, put, request};
    use crate::table::{Check, Outcome, Plan, Store};

    /// A queue that no thread reads.
    fn without_thread(rocks: &Rocks, queue: mpsc::Sender<QueueMessage>) -> CommitQueue {
        let (writer, callers) = (rocks.committer.writer.clone(), AtomicUsize::new(0));
        CommitQueue { queue, writer, counters: Arc::default(), callers }
    }

    /// A plan that gives a row a cell if it has none.
    fn claim(row: &str) -> Plan {
        checked(row, vec![Check::Absent(column("a", "q"))], vec![put("a", "q", "v")])
    }

    async fn is_there(rocks: &Rocks, row: &str) -> bool {
        count(rocks, row, "a").await == 1
    }

    #[tokio::test]
    async fn a_full_queue_is_busy_after_a_timeout() {
        let (queue, mut waiting) = mpsc::channel(1);
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let committer = without_thread(&rocks, queue);
        committer.send(request(Plan::default()).0).await.unwrap();
        let start = Instant::now();
        assert!(matches!(committer.send(request(Plan::default()).0).await, Err(StoreError::Busy)));
        assert!(start.elapsed() >= QUEUE_TIMEOUT);
        let (sent, ()) = tokio::join!(committer.send(request(Plan::default()).0), async {
            waiting.recv().await.unwrap();
        });
        sent.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_plan_alone_is_written_by_its_caller() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let (queue, waiting) = mpsc::channel(QUEUE);
        let committer = without_thread(&rocks, queue);
        for (n, committed) in [true, false].into_iter().enumerate() {
            let (request, mut answered) = request(claim("one"));
            committer.send(request).await.unwrap();
            match answered.try_recv().unwrap() {
                CommitReply::Done(Ok(outcome)) => assert_eq!(outcome == Outcome::Committed, committed, "{n}"),
                _ => panic!("neither committed nor refused"),
            }
        }
        assert!(is_there(&rocks, "one").await);
        assert_eq!(waiting.len(), 0);
    }

    /// A thread that has the lock of the writer, until the sender is dropped.
    fn busy_writer(rocks: &Rocks) -> std::sync::mpsc::Sender<()> {
        let (writer, (go, gone)) = (rocks.committer.writer.clone(), std::sync::mpsc::channel());
        let (locked, is_locked) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _writing = writer.lock();
            locked.send(()).unwrap();
            gone.recv()
        });
        is_locked.recv().unwrap();
        go
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_plan_is_queued_while_others_have_one() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let (queue, mut waiting) = mpsc::channel(QUEUE);
        let committer = without_thread(&rocks, queue);
        let mut is_queued = async |row| {
            let (request, mut answered) = request(claim(row));
            let _caller = committer.caller();
            committer.send(request).await.unwrap();
            let in_queue = waiting.try_recv().is_ok();
            assert_eq!(answered.try_recv().is_err(), in_queue);
            in_queue
        };
        assert!(!is_queued("alone").await);
        let other = committer.caller();
        assert!(is_queued("with another").await);
        drop(other);
        let writes = busy_writer(&rocks);
        assert!(is_queued("while another thread writes").await);
        drop(writes);
        drop(rocks.committer.writer.lock().unwrap());
        assert!(!is_queued("alone again").await);
        for (row, expected) in [("alone", true), ("with another", false), ("alone again", true)] {
            assert_eq!(is_there(&rocks, row).await, expected, "{row}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn plans_of_one_task_share_a_sync() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let plans = ["1", "2", "3", "4", "5", "6", "7", "8"].map(|row| rocks.commit(claim(row)));
        assert!(futures_util::future::join_all(plans).await.iter().all(|done| matches!(done, Ok(Outcome::Committed))));
        assert!(rocks.commit_stats().most_plans_of_group > 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_written_once_the_queue_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        // A caller that writes now ends before the queue is closed for good.
        let writes = busy_writer(&rocks);
        let mut stop = std::pin::pin!(rocks.committer.stop());
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut stop).await.is_err());
        drop(writes);
        stop.await;
        let (request, _answered) = request(claim("one"));
        assert!(matches!(rocks.committer.send(request).await, Err(StoreError::Failed(_))));
        assert!(!is_there(&rocks, "one").await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn where_no_caller_may_write_the_store_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        // Here `block_in_place` panics.
        let local = tokio::task::LocalSet::new();
        let here = std::panic::AssertUnwindSafe(local.run_until(rocks.commit(claim("one"))));
        let _panic = futures_util::FutureExt::catch_unwind(here).await;
        assert_eq!(rocks.commit(claim("two")).await.unwrap(), Outcome::Committed);
    }

    #[tokio::test]
    async fn a_panic_in_a_write_stops_the_writes_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let (request, mut answered) = request(claim("one"));
        let written = rocks.committer.writer.lock().unwrap().write(request, || panic!("on purpose"));
        assert!(matches!(rocks.writable(), Err(StoreError::Stopped(_))));
        assert!(matches!(rocks.ready(), Err(StoreError::Stopped(_))));
        assert!(written.answer().is_none());
        let answer = answered.try_recv().unwrap();
        assert!(matches!(answer, CommitReply::Done(Err(StoreError::Unknown { full: false, .. }))));
        assert!(matches!(rocks.commit(claim("two")).await, Err(StoreError::Stopped(_))));
        assert!(!is_there(&rocks, "one").await);
    }

    #[tokio::test]
    async fn after_a_panic_in_a_write_there_are_no_more_writes() {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let writer = rocks.committer.writer.clone();
        let panicked = std::thread::spawn(move || {
            let _writing = writer.lock();
            panic!("on purpose")
        });
        assert!(panicked.join().is_err());
        assert!(matches!(rocks.commit(claim("one")).await, Err(StoreError::Stopped(_))));
        assert!(matches!(rocks.writable(), Err(StoreError::Stopped(_))));
    }
}
