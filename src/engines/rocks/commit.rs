//! The commit thread: the only thread that writes, which makes checks and changes of a plan atomic, and batches syncs
//! (group commit).
//!
//! It takes the first queued plan and all others that are queued, and writes them with one sync. It needs no timer:
//! while one group is synced, the next one queues up.

use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::commit_stats::{CommitCounters, GroupStats};
use super::db::{Db, RowFamily, WriteError};
use super::group::{Group, PlanVerdict};
use crate::table::store::Result;
use crate::table::{Outcome, Plan, Refusal, StoreError};

/// Length of the queue, in plans.
const QUEUE: usize = 1_024;
/// How long a caller waits while the queue is full.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// A group is complete at this many plans, or bytes of them.
const GROUP_PLANS: usize = 1_024;
const GROUP_BYTES: usize = 4 << 20;

pub(super) struct CommitRequest {
    pub plan: Plan,
    /// Whether its checks may skip any number of tombstones.
    pub any_tombstones: bool,
    pub answer: oneshot::Sender<CommitReply>,
}

pub(super) enum CommitReply {
    Done(Result<Outcome>),
    /// Compact this family and send the plan again.
    Compact(Plan, RowFamily),
}

enum QueueMessage {
    Plan(CommitRequest),
    /// Accept no more plans, commit the queued ones, then answer.
    Stop(oneshot::Sender<()>),
}

/// The queue of the commit thread. When it is dropped the thread commits the queued plans, releases the database and
/// ends.
pub(super) struct CommitQueue {
    queue: mpsc::Sender<QueueMessage>,
    counters: Arc<CommitCounters>,
}

impl CommitQueue {
    /// `skip`: tombstones that a check may skip on the commit thread.
    pub fn start(db: Arc<Db>, skip: u64) -> Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let counters = Arc::<CommitCounters>::default();
        let worker =
            CommitThread { db, skip, queue: waiting, next_group: None, stopping: None, counters: counters.clone() };
        let started = Builder::new().name("commit".into()).spawn(move || {
            raise_priority();
            worker.run();
        });
        started.map_err(|e| StoreError::Failed(format!("no thread for commits: {e}")))?;
        Ok(Self { queue, counters })
    }

    pub fn counters(&self) -> &Arc<CommitCounters> {
        &self.counters
    }

    /// Errors: `Busy` if the queue stayed full until the timeout, `Failed` if the thread has ended.
    pub async fn send(&self, request: CommitRequest) -> Result<()> {
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

struct CommitThread {
    db: Arc<Db>,
    skip: u64,
    queue: mpsc::Receiver<QueueMessage>,
    /// The first plan of the next group.
    next_group: Option<CommitRequest>,
    stopping: Option<oneshot::Sender<()>>,
    counters: Arc<CommitCounters>,
}

impl CommitThread {
    fn run(mut self) {
        while let Some(first) = self.first() {
            let start = Instant::now();
            let (mut group, mut tally) = (GroupReplies::default(), GroupStats::default());
            let written = self.gather(first, &mut group, &mut tally);
            // Count before the answers, so that the counters include a plan once its caller has the answer.
            self.counters.add(&tally, start.elapsed());
            group.send(written);
        }
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

    /// Fills a group and writes it.
    fn gather(
        &mut self,
        first: CommitRequest,
        answers: &mut GroupReplies,
        tally: &mut GroupStats,
    ) -> std::result::Result<(), WriteError> {
        let db = self.db.clone();
        let mut group = Group::new(&db, self.skip);
        // One look at the folder for the group: it stops the writes if the folder was moved.
        let _writable = db.writable();
        let mut next = Some(first);
        while let Some(request) = next {
            let (changes, bytes) = (request.plan.changes(), request.plan.bytes());
            let verdict = match db.check_stopped() {
                Ok(()) => group.add(&request.plan, request.any_tombstones),
                Err(stopped) => PlanVerdict::Failed(stopped),
            };
            match &verdict {
                PlanVerdict::Refused(refusal) => self.counters.refused(refusal),
                PlanVerdict::Compact(_) => self.counters.sent_back(),
                _ => {}
            }
            if !answers.note(request, verdict, &mut self.next_group) {
                break;
            }
            tally.add(changes, bytes);
            next = if tally.plans < GROUP_PLANS && tally.bytes < GROUP_BYTES { self.next_queued() } else { None };
        }
        if group.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let written = group.write();
        tally.synced = Some(start.elapsed());
        written
    }
}

/// The callers to answer once the group is written.
#[derive(Default)]
struct GroupReplies {
    accepted: Vec<CommitRequest>,
    refused: Vec<(CommitRequest, Refusal)>,
}

impl GroupReplies {
    /// Returns false if the plan must wait for the next group.
    fn note(&mut self, request: CommitRequest, verdict: PlanVerdict, next_group: &mut Option<CommitRequest>) -> bool {
        match verdict {
            PlanVerdict::Accepted => self.accepted.push(request),
            PlanVerdict::Refused(refusal) => self.refused.push((request, refusal)),
            PlanVerdict::AfterThisGroup => {
                *next_group = Some(request);
                return false;
            }
            PlanVerdict::Compact(place) => answer(request.answer, CommitReply::Compact(request.plan, place)),
            PlanVerdict::Failed(error) => answer(request.answer, CommitReply::Done(Err(error))),
        }
        true
    }

    /// IMPORTANT: call it after the write, for refused plans too: another plan of this group may be the reason for the
    /// refusal.
    fn send(self, written: std::result::Result<(), WriteError>) {
        for request in self.accepted {
            let outcome = match &written {
                Ok(()) => Ok(Outcome::Committed),
                Err(WriteError { cause, full }) => Err(StoreError::Unknown { cause: cause.clone(), full: *full }),
            };
            answer(request.answer, CommitReply::Done(outcome));
        }
        for (request, refusal) in self.refused {
            let outcome = match &written {
                Ok(()) => Ok(Outcome::Refused(refusal)),
                // Nothing of the plan was written. But the plan that is the reason for its refusal may not be
                // committed.
                Err(WriteError { cause, full: true }) => Err(StoreError::Full(cause.clone())),
                Err(WriteError { cause, full: false }) => Err(StoreError::Failed(cause.clone())),
            };
            answer(request.answer, CommitReply::Done(outcome));
        }
    }
}

fn answer(to: oneshot::Sender<CommitReply>, answer: CommitReply) {
    // A cancelled caller needs no answer.
    let _gone = to.send(answer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Check, Column};

    fn request() -> (CommitRequest, oneshot::Receiver<CommitReply>) {
        let (answer, answered) = oneshot::channel();
        let request = CommitRequest { plan: Plan::default(), any_tombstones: false, answer };
        (request, answered)
    }

    /// The answers to an accepted and to a refused plan of one group.
    fn outcomes(written: std::result::Result<(), WriteError>) -> [Result<Outcome>; 2] {
        let ((accepted, one), (refused, other)) = (request(), request());
        let check = Check::Absent(Column::new("a", "q"));
        let refusal = Refusal { table: "t", row: "row".into(), check, current: None, prepared: false };
        let (mut answers, mut next_group) = (GroupReplies::default(), None);
        assert!(answers.note(accepted, PlanVerdict::Accepted, &mut next_group));
        assert!(answers.note(refused, PlanVerdict::Refused(refusal), &mut next_group));
        answers.send(written);
        [one, other].map(|mut answered| match answered.try_recv().unwrap() {
            CommitReply::Done(outcome) => outcome,
            CommitReply::Compact(..) => panic!("nothing to compact"),
        })
    }

    #[test]
    fn after_a_failed_write_accepted_plans_are_unknown_and_refused_plans_unwritten() {
        let failed = |full| outcomes(Err(WriteError { cause: "why".into(), full }));
        assert!(matches!(outcomes(Ok(())), [Ok(Outcome::Committed), Ok(Outcome::Refused(_))]));
        assert!(matches!(failed(false), [Err(StoreError::Unknown { full: false, .. }), Err(StoreError::Failed(_))]));
        assert!(matches!(failed(true), [Err(StoreError::Unknown { full: true, .. }), Err(StoreError::Full(_))]));
    }

    #[tokio::test]
    async fn a_full_queue_is_busy_after_a_timeout() {
        let (queue, mut waiting) = mpsc::channel(1);
        let committer = CommitQueue { queue, counters: Arc::default() };
        committer.send(request().0).await.unwrap();
        let start = Instant::now();
        assert!(matches!(committer.send(request().0).await, Err(StoreError::Busy)));
        assert!(start.elapsed() >= QUEUE_TIMEOUT);
        let (sent, ()) = tokio::join!(committer.send(request().0), async {
            waiting.recv().await.unwrap();
        });
        sent.unwrap();
    }
}
