//! Evaluates and writes groups of plans, and answers their callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::commit_stats::{CommitCounters, GroupStats};
use super::db::{Db, RowFamily};
use super::group::{Group, PlanVerdict};
use super::write_error::WriteError;
use crate::table::store::Result;
use crate::table::{Outcome, Plan, StoreError};

/// A group is complete at this many plans, or bytes of them.
const GROUP_PLANS: usize = 1_024;
const GROUP_BYTES: usize = 4 << 20;
/// Why the writes are stopped after a panic.
pub(super) const PANICKED: &str = "a write panicked";

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

/// Writes groups. Who has its lock writes.
pub(super) struct GroupWriter {
    pub db: Arc<Db>,
    /// Tombstones that a check may skip.
    pub skip: u64,
    pub counters: Arc<CommitCounters>,
}

impl GroupWriter {
    /// Fills a group, with `first` and the plans of `next`, and writes it.
    ///
    /// A panic stops the writes at once, on any thread: the WAL may hold the group, so its outcome is unknown.
    pub fn write(&mut self, first: CommitRequest, next: impl FnMut() -> Option<CommitRequest>) -> WrittenGroup {
        let start = Instant::now();
        let (mut replies, mut stats) = (GroupReplies::default(), GroupStats::default());
        let gather = AssertUnwindSafe(|| self.gather(first, next, &mut replies, &mut stats));
        let written = catch_unwind(gather).unwrap_or_else(|_panic| {
            self.db.stop_writes(PANICKED);
            Err(WriteError::Sent { cause: PANICKED.to_owned(), full: false })
        });
        // Count before the answers, so that the counters include a plan once its caller has the answer.
        self.counters.add(&stats, start.elapsed());
        WrittenGroup { replies, written }
    }

    fn gather(
        &self,
        first: CommitRequest,
        mut next_queued: impl FnMut() -> Option<CommitRequest>,
        replies: &mut GroupReplies,
        stats: &mut GroupStats,
    ) -> std::result::Result<(), WriteError> {
        let mut group = Group::new(&self.db, self.skip);
        // One look at the folder for the group: it stops the writes if the folder was moved.
        let _writable = self.db.writable();
        let mut next = Some(first);
        while let Some(request) = next {
            let (changes, bytes) = (request.plan.changes(), request.plan.bytes());
            let verdict = match self.db.check_stopped() {
                Ok(()) => group.add(&request.plan, request.any_tombstones),
                Err(stopped) => PlanVerdict::Failed(stopped),
            };
            match &verdict {
                PlanVerdict::Refused(refusal) => self.counters.refused(refusal),
                PlanVerdict::Compact(_) => self.counters.sent_back(),
                _ => {}
            }
            if !replies.note(request, verdict) {
                break;
            }
            stats.add(changes, bytes);
            next = if stats.plans < GROUP_PLANS && stats.bytes < GROUP_BYTES { next_queued() } else { None };
        }
        if group.is_empty() {
            return Ok(());
        }
        group.wait_for_backlog()?;
        let start = Instant::now();
        let written = group.write();
        stats.synced = Some(start.elapsed());
        written
    }
}

/// A group after the write, whose callers wait for their answers.
pub(super) struct WrittenGroup {
    replies: GroupReplies,
    written: std::result::Result<(), WriteError>,
}

impl WrittenGroup {
    /// Answers the callers; returns the first plan of the next group, if there is one.
    pub fn answer(self) -> Option<CommitRequest> {
        self.replies.send(self.written)
    }
}

/// The callers to answer once the group is written.
#[derive(Default)]
struct GroupReplies {
    accepted: Vec<CommitRequest>,
    /// Plans that change nothing because of the cells that they found.
    declined: Vec<(CommitRequest, Result<Outcome>)>,
    /// A plan that must be in another group.
    next_group: Option<CommitRequest>,
}

impl GroupReplies {
    /// Returns false if the plan must wait for the next group.
    fn note(&mut self, request: CommitRequest, verdict: PlanVerdict) -> bool {
        match verdict {
            PlanVerdict::Accepted => self.accepted.push(request),
            PlanVerdict::Refused(refusal) => self.declined.push((request, Ok(Outcome::Refused(refusal)))),
            PlanVerdict::Failed(error @ StoreError::BadCounter(_)) => self.declined.push((request, Err(error))),
            PlanVerdict::AfterThisGroup => {
                self.next_group = Some(request);
                return false;
            }
            PlanVerdict::Compact(place) => answer(request.answer, CommitReply::Compact(request.plan, place)),
            PlanVerdict::Failed(error) => answer(request.answer, CommitReply::Done(Err(error))),
        }
        true
    }

    /// Answers the callers; returns the plan that must be in another group.
    ///
    /// IMPORTANT: call it after the write, for declined plans too: another plan of this group may have made the cells
    /// that are the reason.
    fn send(self, written: std::result::Result<(), WriteError>) -> Option<CommitRequest> {
        for request in self.accepted {
            let outcome = match &written {
                Ok(()) => Ok(Outcome::Committed),
                Err(error) => Err(error.of_accepted()),
            };
            answer(request.answer, CommitReply::Done(outcome));
        }
        for (request, declined) in self.declined {
            let outcome = match &written {
                Ok(()) => declined,
                // Nothing of the plan was written. But the plan that is the reason for that may not be committed.
                Err(error) => Err(error.of_declined()),
            };
            answer(request.answer, CommitReply::Done(outcome));
        }
        self.next_group
    }
}

fn answer(to: oneshot::Sender<CommitReply>, answer: CommitReply) {
    // A cancelled caller needs no answer.
    let _gone = to.send(answer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::rocks::tests::request;
    use crate::table::{Check, Column, Refusal};

    /// The answers to an accepted plan, a refused one, and one with a bad counter, all of one group.
    fn outcomes(written: std::result::Result<(), WriteError>) -> [Result<Outcome>; 3] {
        let [(accepted, one), (refused, other), (bad, third)] = [(); 3].map(|()| request(Plan::default()));
        let check = Check::Absent(Column::new("a", "q"));
        let refusal = Refusal { table: "t", row: "row".into(), check, current: None, prepared: false };
        let mut replies = GroupReplies::default();
        assert!(replies.note(accepted, PlanVerdict::Accepted));
        assert!(replies.note(refused, PlanVerdict::Refused(refusal)));
        assert!(replies.note(bad, PlanVerdict::Failed(StoreError::BadCounter("why".into()))));
        replies.send(written);
        [one, other, third].map(|mut answered| match answered.try_recv().unwrap() {
            CommitReply::Done(outcome) => outcome,
            CommitReply::Compact(..) => panic!("nothing to compact"),
        })
    }

    #[test]
    fn after_a_failed_write_accepted_plans_are_unknown_and_declined_plans_unwritten() {
        use StoreError::{BadCounter, Failed, Full, Stopped, Unknown};
        let failed = |full| outcomes(Err(WriteError::Sent { cause: "why".into(), full }));
        let not_sent = |error| outcomes(Err(WriteError::not_sent(error)));
        let written = outcomes(Ok(()));
        assert!(matches!(written, [Ok(Outcome::Committed), Ok(Outcome::Refused(_)), Err(BadCounter(_))]));
        assert!(matches!(failed(false), [Err(Unknown { full: false, .. }), Err(Failed(_)), Err(Failed(_))]));
        assert!(matches!(failed(true), [Err(Unknown { full: true, .. }), Err(Full(_)), Err(Full(_))]));
        assert!(matches!(not_sent(Failed("why".into())), [Err(Failed(_)), Err(Failed(_)), Err(Failed(_))]));
        assert!(matches!(not_sent(Full("why".into())), [Err(Full(_)), Err(Full(_)), Err(Full(_))]));
        assert!(matches!(not_sent(Stopped("why".into())), [Err(Stopped(_)), Err(Stopped(_)), Err(Stopped(_))]));
    }
}
