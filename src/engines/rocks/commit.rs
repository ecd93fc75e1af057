//! The one thread that writes: the lock manager and the batcher of syncs at once.
//!
//! It takes the first plan that waits and all that came with it, and writes them with one sync. It waits for no
//! timer: while one group is synced the next gathers by itself.

use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::counters::{Counters, Tally};
use super::db::{Db, Place, WriteFailure};
use super::group::{Group, Verdict};
use crate::table::store::Result;
use crate::table::{Outcome, Plan, Refusal, StoreError};

/// Plans that may wait.
const QUEUE: usize = 1_024;
/// How long a caller waits for a place in the queue.
const PATIENCE: Duration = Duration::from_secs(2);
/// A group takes no more plans once it has this many, or bytes of them.
const GROUP_PLANS: usize = 1_024;
const GROUP_BYTES: usize = 4 << 20;

pub(super) struct Request {
    pub plan: Plan,
    /// To pass any number of tombstones.
    pub patient: bool,
    pub answer: oneshot::Sender<Answer>,
}

pub(super) enum Answer {
    Done(Result<Outcome>),
    /// Compact this place and send the plan again.
    Compact(Plan, Place),
}

enum Message {
    Plan(Request),
    /// Take no more plans, finish those that wait, then answer.
    Stop(oneshot::Sender<()>),
}

/// The way to the commit thread. When it is dropped the thread finishes what waits, lets go of the database and
/// ends.
pub(super) struct Committer {
    queue: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

impl Committer {
    /// `skip`: tombstones that a check may pass on the commit thread.
    pub fn start(db: Arc<Db>, skip: u64) -> Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let counters = Arc::<Counters>::default();
        let worker = Worker { db, skip, queue: waiting, held: None, stopping: None, counters: counters.clone() };
        let started = Builder::new().name("commit".into()).spawn(move || {
            ask_for_precedence();
            worker.run();
        });
        started.map_err(|e| StoreError::Failed(format!("no thread for commits: {e}")))?;
        Ok(Self { queue, counters })
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Errors: `Busy` when no place in the queue became free in time, `Failed` when the thread has ended.
    pub async fn send(&self, request: Request) -> Result<()> {
        let ended = || StoreError::Failed("the store was closed".into());
        let message = match self.queue.try_send(Message::Plan(request)) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ended()),
            Err(mpsc::error::TrySendError::Full(message)) => message,
        };
        self.queue.send_timeout(message, PATIENCE).await.map_err(|e| match e {
            mpsc::error::SendTimeoutError::Timeout(_) => StoreError::Busy,
            mpsc::error::SendTimeoutError::Closed(_) => ended(),
        })
    }

    /// Refuses further plans and waits until those that wait are done.
    pub async fn stop(&self) {
        let (done, ended) = oneshot::channel();
        if self.queue.send(Message::Stop(done)).await.is_ok() {
            let _ended = ended.await;
        }
    }
}

/// Everybody who writes waits for this thread, so it should not wait for a processor. A negative nice value
/// needs a privilege; without it the thread goes on as it is.
///
/// `SCHED_RR` would serve better, but rustix has no call for it, and the libc one is unsafe.
fn ask_for_precedence() {
    // On Linux "no process" means the calling thread alone.
    let _allowed = rustix::process::setpriority_process(None, -10);
}

struct Worker {
    db: Arc<Db>,
    skip: u64,
    queue: mpsc::Receiver<Message>,
    /// A plan that must start a new group.
    held: Option<Request>,
    stopping: Option<oneshot::Sender<()>>,
    counters: Arc<Counters>,
}

impl Worker {
    fn run(mut self) {
        while let Some(first) = self.first() {
            let start = Instant::now();
            let (mut group, mut tally) = (Answers::default(), Tally::default());
            let written = self.gather(first, &mut group, &mut tally);
            // Before the answers: who has one finds his plan counted.
            self.counters.add(&tally, start.elapsed());
            group.send(written);
        }
        if let Some(stopping) = self.stopping {
            let _waiting = stopping.send(());
        }
    }

    /// Waits for a plan. None when there will be no more.
    fn first(&mut self) -> Option<Request> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            match self.queue.blocking_recv()? {
                Message::Plan(request) => return Some(request),
                Message::Stop(done) => self.stop(done),
            }
        }
    }

    /// A plan that waits already.
    fn waiting(&mut self) -> Option<Request> {
        loop {
            match self.queue.try_recv().ok()? {
                Message::Plan(request) => return Some(request),
                Message::Stop(done) => self.stop(done),
            }
        }
    }

    fn stop(&mut self, done: oneshot::Sender<()>) {
        // What is in the queue can still be received.
        self.queue.close();
        self.stopping = Some(done);
    }

    /// Fills a group, writes it, and says whether that went well.
    fn gather(
        &mut self,
        first: Request,
        answers: &mut Answers,
        tally: &mut Tally,
    ) -> std::result::Result<(), WriteFailure> {
        let db = self.db.clone();
        let mut group = Group::new(&db, self.skip);
        let mut next = Some(first);
        while let Some(request) = next {
            let (changes, bytes) = (request.plan.changes(), request.plan.bytes());
            let verdict = match db.writable() {
                Ok(()) => group.take(&request.plan, request.patient),
                Err(stopped) => Verdict::Failed(stopped),
            };
            match &verdict {
                Verdict::Refused(refusal) => self.counters.refused(refusal),
                Verdict::Compact(_) => self.counters.sent_back(),
                _ => {}
            }
            if !answers.note(request, verdict, &mut self.held) {
                break;
            }
            tally.add(changes, bytes);
            next = if tally.plans < GROUP_PLANS && tally.bytes < GROUP_BYTES { self.waiting() } else { None };
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

/// Whom to answer once the group is written.
#[derive(Default)]
struct Answers {
    accepted: Vec<Request>,
    refused: Vec<(Request, Refusal)>,
}

impl Answers {
    /// False if the plan must wait for the next group.
    fn note(&mut self, request: Request, verdict: Verdict, held: &mut Option<Request>) -> bool {
        match verdict {
            Verdict::Accepted => self.accepted.push(request),
            Verdict::Refused(refusal) => self.refused.push((request, refusal)),
            Verdict::AfterThisGroup => {
                *held = Some(request);
                return false;
            }
            Verdict::Compact(place) => answer(request.answer, Answer::Compact(request.plan, place)),
            Verdict::Failed(error) => answer(request.answer, Answer::Done(Err(error))),
        }
        true
    }

    /// IMPORTANT: called after the write, for refused plans too: what refused them may be a plan of this group.
    fn send(self, written: std::result::Result<(), WriteFailure>) {
        for request in self.accepted {
            let outcome = match &written {
                Ok(()) => Ok(Outcome::Committed),
                Err(WriteFailure { cause, full }) => Err(StoreError::Unknown { cause: cause.clone(), full: *full }),
            };
            answer(request.answer, Answer::Done(outcome));
        }
        for (request, refusal) in self.refused {
            let outcome = match &written {
                Ok(()) => Ok(Outcome::Refused(refusal)),
                // Nothing of the plan was written, but what it was refused for may not have happened.
                Err(WriteFailure { cause, full: true }) => Err(StoreError::Full(cause.clone())),
                Err(WriteFailure { cause, full: false }) => Err(StoreError::Failed(cause.clone())),
            };
            answer(request.answer, Answer::Done(outcome));
        }
    }
}

fn answer(to: oneshot::Sender<Answer>, answer: Answer) {
    // A caller that went away needs no answer.
    let _gone = to.send(answer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Check, Column};

    fn request() -> (Request, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let request = Request { plan: Plan::default(), patient: false, answer };
        (request, answered)
    }

    /// What an accepted and a refused plan of one group are told.
    fn told(written: std::result::Result<(), WriteFailure>) -> [Result<Outcome>; 2] {
        let ((accepted, one), (refused, other)) = (request(), request());
        let refusal =
            Refusal { table: "t", row: "row".into(), check: Check::Absent(Column::new("a", "q")), current: None };
        let (mut answers, mut held) = (Answers::default(), None);
        assert!(answers.note(accepted, Verdict::Accepted, &mut held));
        assert!(answers.note(refused, Verdict::Refused(refusal), &mut held));
        answers.send(written);
        [one, other].map(|mut answered| match answered.try_recv().unwrap() {
            Answer::Done(outcome) => outcome,
            Answer::Compact(..) => panic!("nothing to compact"),
        })
    }

    #[test]
    fn a_write_that_failed_leaves_its_plans_in_doubt_and_the_refused_ones_unwritten() {
        let failed = |full| told(Err(WriteFailure { cause: "why".into(), full }));
        assert!(matches!(told(Ok(())), [Ok(Outcome::Committed), Ok(Outcome::Refused(_))]));
        assert!(matches!(failed(false), [Err(StoreError::Unknown { full: false, .. }), Err(StoreError::Failed(_))]));
        assert!(matches!(failed(true), [Err(StoreError::Unknown { full: true, .. }), Err(StoreError::Full(_))]));
    }

    #[tokio::test]
    async fn a_full_queue_is_waited_for_and_then_said() {
        let (queue, mut waiting) = mpsc::channel(1);
        let committer = Committer { queue, counters: Arc::default() };
        committer.send(request().0).await.unwrap();
        let start = Instant::now();
        assert!(matches!(committer.send(request().0).await, Err(StoreError::Busy)));
        assert!(start.elapsed() >= PATIENCE);
        let (sent, ()) = tokio::join!(committer.send(request().0), async {
            waiting.recv().await.unwrap();
        });
        sent.unwrap();
    }
}
