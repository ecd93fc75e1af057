//! Directory moves and recursive deletes: steps 1 to 4, as their owner executes them.

use std::collections::VecDeque;

use crate::bugs::Bug;
use crate::io::{ActorResult, Io, Outcome, Reply, StepsOutcome, Stop};
use crate::locks::{LockOutcome, clear_lock, finish, finish_rows, read_unlocked, resolve};
use crate::rights;
use crate::store::{
    Change, Check, Guarded, Key, Meaning, OpId, Placement, Plan, Record, Refusal, Row, RowLock, guarded, plan,
};
use crate::tree::{Children, Id, Kind, Path, ROOT, Request, Resolved};

/// An operation in progress.
struct Attempt {
    op: OpId,
    request: Request,
    found: Resolved,
    /// The row of the moved directory in `dirid`, as it was read.
    placed: Placement,
    /// What the right to the request was decided on.
    right: Vec<Guarded>,
}

/// A move or a delete, from its request to its answer.
pub fn run_operation(io: &mut Io<'_>, op: OpId, request: Request) -> ActorResult<Reply> {
    let verdict = io.part(|io| {
        let attempt = match prepare(io, op, request) {
            Err(Stop::End(reply)) => return Ok(StepsOutcome::Ended(reply)),
            attempt => attempt?,
        };
        match attempt.run_steps(io) {
            Ok(()) => Ok(StepsOutcome::Committed),
            Err(Stop::End(reply)) => Ok(StepsOutcome::RollBack(reply)),
            Err(stop) => Err(stop),
        }
    })?;
    match verdict {
        StepsOutcome::Ended(reply) => Ok(reply),
        StepsOutcome::Committed => match finish(io, op) {
            // A write of unknown outcome stops the clean-up: start-up continues it.
            Ok(()) | Err(Stop::End(_)) => Ok(Reply::Done),
            Err(stop) => Err(stop),
        },
        StepsOutcome::RollBack(reply) => match resolve(io, op)? {
            Record::Committed => Ok(Reply::Done),
            Record::Missing if !io.bug(Bug::MissingIsRefused) => Ok(Reply::Busy),
            _ => Ok(reply),
        },
    }
}

/// Reads the directories of the request. There is no record yet, so this waits like any writer.
fn prepare(io: &mut Io<'_>, op: OpId, request: Request) -> ActorResult<Attempt> {
    let refused = || Stop::End(Reply::Refused);
    let right = rights::decide(io, request)?.ok_or_else(refused)?;
    let at = request.at();
    let parent = read_unlocked(io, at.parent())?.ok_or_else(refused)?;
    let id = *parent.sub.get(&(Kind::Dir, at.name())).ok_or_else(refused)?;
    let mut target = parent.clone();
    if let Some(to) = request.to() {
        if to.is_within(at) {
            return Err(refused());
        }
        if to.parent() != at.parent() {
            target = read_unlocked(io, to.parent())?.ok_or_else(refused)?;
        }
        if [Kind::Dir, Kind::File].iter().any(|kind| target.sub.contains_key(&(*kind, to.name()))) {
            return Err(refused());
        }
    }
    let placed = match request.to() {
        Some(_) => io.dirid(id)?.ok_or(Stop::End(Reply::Busy))?,
        None => Placement { dir: ROOT, name: 0, by: 0 },
    };
    Ok(Attempt { op, request, found: Resolved { parent: parent.id, target: target.id, id }, placed, right })
}

/// Live(D): the directory with this id, not locked.
pub fn live(io: &Io<'_>, id: Id) -> Vec<Check> {
    if io.bug(Bug::NoIdCheck) {
        vec![Check::Lock(RowLock::Unlocked)]
    } else {
        vec![Check::Id(id), Check::Lock(RowLock::Unlocked)]
    }
}

impl Attempt {
    /// Steps 1 to 4. However they end early, [`resolve`] follows.
    fn run_steps(&self, io: &mut Io<'_>) -> ActorResult<()> {
        let record = guarded(Key::Op(self.op), &[Check::Record(Record::Missing)], &[Change::Record(Record::Prepared)]);
        if !io.bug(Bug::LockBeforeRecord) {
            self.commit_step(io, plan(vec![record.clone()]), io.bug(Bug::RecordAgain))?;
        }
        let rows = self.lock_rows(io)?;
        if io.bug(Bug::LockBeforeRecord) {
            self.commit_step(io, plan(vec![record]), false)?;
        }
        if let Request::Move(from, to) = self.request {
            for (at, row) in rows {
                self.copy_row(io, at.rebase(from, to), row)?;
            }
        }
        self.publish(io)
    }

    /// Commits a plan of steps 1 to 3, with retries. IMPORTANT: no retry after an unknown outcome, which ends the
    /// attempt. `again`: a seeded bug.
    fn commit_step(&self, io: &mut Io<'_>, write: Plan, again: bool) -> ActorResult<()> {
        io.until(|io| match io.commit(write.clone())? {
            Outcome::Done => Ok(Some(())),
            Outcome::Unknown if again => Ok(None),
            Outcome::Unknown | Outcome::Full | Outcome::Failed => Err(Stop::End(Reply::Busy)),
            Outcome::Refused(refusal) if again && self.is_own(refusal) => Ok(Some(())),
            Outcome::Refused(refusal) => self.clear_refusal(io, refusal).map(|()| None),
        })
    }

    /// Whether this operation itself has changed the row.
    fn is_own(&self, refusal: Refusal) -> bool {
        refusal.key == Key::Op(self.op) || refusal.lock.op() == Some(self.op)
    }

    /// A check has failed. `Ok` if the caller can try again.
    fn clear_refusal(&self, io: &mut Io<'_>, refusal: Refusal) -> ActorResult<()> {
        let Key::Dir(at) = refusal.key else {
            return Err(Stop::End(if io.bug(Bug::MissingIsRefused) { Reply::Refused } else { Reply::Busy }));
        };
        let root = self.request.at();
        // Rows with this operation's lock have changed: its lease had ended. This is no reason to refuse the request.
        let has_own_lock = (at != root && at.is_within(root)) || refusal.check == Check::Lock(RowLock::Copy(self.op));
        let reply = if has_own_lock && !io.bug(Bug::LostLeaseIsRefused) { Reply::Busy } else { Reply::Refused };
        if refusal.lock == RowLock::Unlocked {
            return Err(Stop::End(reply));
        }
        match (clear_lock(io, at, refusal.lock, Some(self.op))?, refusal.lock) {
            (LockOutcome::Again, _) => Ok(()),
            (LockOutcome::Gone, RowLock::Source(op)) if refusal.check == Check::AbsentRow => finish_rows(io, op, &[at]),
            (LockOutcome::Gone, _) => Err(Stop::End(reply)),
        }
    }

    /// Step 2: locks the rows top-down. Returns them as they are once no other actor can change them.
    fn lock_rows(&self, io: &mut Io<'_>) -> ActorResult<Vec<(Path, Row)>> {
        let mut rows = Vec::new();
        let mut next = VecDeque::from([(self.request.at(), self.found.id)]);
        while let Some((at, id)) = next.pop_front() {
            let early = if io.bug(Bug::ListBeforeLock) { io.get(at)? } else { None };
            let checks = if io.bug(Bug::LockUnguarded) { vec![] } else { live(io, id) };
            let lock = guarded(Key::Dir(at), &checks, &[Change::Lock(RowLock::Source(self.op))]);
            self.commit_step(io, plan(vec![lock]), io.bug(Bug::LockAgain))?;
            // IMPORTANT: locked before its children are listed.
            let row = if early.is_some() { early } else { io.get(at)? };
            let row = row.ok_or(Stop::End(Reply::Busy))?;
            let dirs = row.sub.iter().filter(|((kind, _), _)| *kind == Kind::Dir);
            next.extend(dirs.map(|((_, name), id)| (at.join(*name), *id)));
            rows.push((at, row));
        }
        Ok(rows)
    }

    /// Step 3 for one row: in one plan, or in two.
    fn copy_row(&self, io: &mut Io<'_>, at: Path, row: Row) -> ActorResult<()> {
        let later: Children = row.sub.iter().skip(1).filter(|_| io.scene.halves).map(|(k, v)| (*k, *v)).collect();
        let first: Children = row.sub.into_iter().filter(|(key, _)| !later.contains_key(key)).collect();
        let lock = RowLock::Copy(self.op);
        let again = io.bug(Bug::CopyAgain);
        let absent: &[Check] = if io.bug(Bug::CopyUnguarded) { &[] } else { &[Check::AbsentRow] };
        let put = guarded(Key::Dir(at), absent, &[Change::Put(Row { id: row.id, lock, sub: first })]);
        self.commit_step(io, plan(vec![put]), again)?;
        if !later.is_empty() {
            let links = later.iter().map(|((kind, name), id)| Change::Link(*kind, *name, *id));
            let check: &[Check] = if io.bug(Bug::CopyMoreUnguarded) { &[] } else { &[Check::Lock(lock)] };
            self.commit_step(io, plan(vec![guarded(Key::Dir(at), check, &links.collect::<Vec<_>>())]), again)?;
        }
        Ok(())
    }

    /// Step 4. After an unknown outcome it repeats the same commit: the check of the record distinguishes the outcomes.
    fn publish(&self, io: &mut Io<'_>) -> ActorResult<()> {
        let write = self.commit(io);
        io.until(|io| match io.commit(write.clone())? {
            Outcome::Done => Ok(Some(())),
            Outcome::Unknown if io.bug(Bug::UnknownIsRefused) => Err(Stop::End(Reply::Refused)),
            Outcome::Unknown => Ok(None),
            Outcome::Full | Outcome::Failed => Err(Stop::End(Reply::Busy)),
            Outcome::Refused(refusal) => self.clear_refusal(io, refusal).map(|()| None),
        })
    }

    fn commit(&self, io: &Io<'_>) -> Plan {
        let Self { op, request, found, placed, right } = self;
        let at = request.at();
        let mut rows = Vec::new();
        let prepared: &[Check] =
            if io.bug(Bug::CommitWithoutRecord) { &[] } else { &[Check::Record(Record::Prepared)] };
        rows.push(guarded(Key::Op(*op), prepared, &[Change::Record(Record::Committed)]));
        let mut source = if io.bug(Bug::SourceNotLive) { vec![] } else { live(io, found.parent) };
        if !io.bug(Bug::SourceEntryUnchecked) {
            source.push(Check::Entry(Kind::Dir, at.name(), found.id));
        }
        rows.push(guarded(Key::Dir(at.parent()), &source, &[Change::Unlink(Kind::Dir, at.name())]));
        if let Some(to) = request.to() {
            let mut target = if io.bug(Bug::TargetNotLive) { vec![] } else { live(io, found.target) };
            if !io.bug(Bug::TargetDirUnchecked) {
                target.push(Check::Free(Kind::Dir, to.name()));
            }
            if !io.bug(Bug::TargetFileUnchecked) {
                target.push(Check::Free(Kind::File, to.name()));
            }
            rows.push(guarded(Key::Dir(to.parent()), &target, &[Change::Link(Kind::Dir, to.name(), found.id)]));
            let placement = Placement { dir: found.target, name: to.name(), by: *op };
            if !io.bug(Bug::DirIdNotMoved) {
                rows.push(guarded(Key::DirId(found.id), &[Check::Placed(*placed)], &[Change::Place(placement)]));
            }
        }
        if !io.bug(Bug::RightBeforeLocksOnly) {
            rows.extend(right.iter().cloned());
        }
        Plan { rows, effect: Some(io.effect(Meaning::Tree(*request, *found))) }
    }
}
