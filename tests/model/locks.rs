//! Locked rows: how a reader sees them, how a writer clears them, and how records are resolved.

use crate::bugs::Bug;
use crate::io::{ActorResult, Io, Outcome, Reply, Stop};
use crate::scenario::Form;
use crate::store::{Change, Check, Guarded, Key, OpId, Plan, Record, Row, RowLock, guarded, plan};
use crate::tree::{Kind, Path, Request};

/// Reads a row that may be locked: returns it if it is live.
pub fn read(io: &mut Io<'_>, at: Path) -> ActorResult<Option<Row>> {
    let early = if io.bug(Bug::RecordFromBefore) { Some(io.records()?) } else { None };
    io.until(|io| {
        let Some(row) = io.get(at)? else { return Ok(Some(None)) };
        let Some(op) = row.lock.op() else { return Ok(Some(Some(row))) };
        // IMPORTANT: the record is read after the row.
        let record = match &early {
            Some(records) => records.get(&op).copied().unwrap_or(Record::Missing),
            None => io.seen(op)?.record,
        };
        let is_source = matches!(row.lock, RowLock::Source(_));
        match record {
            Record::Prepared | Record::Aborted => Ok(Some(is_source.then_some(row))),
            Record::Committed if is_source => Ok(Some(None)),
            Record::Committed if io.bug(Bug::CopyReadOnce) => Ok(Some(Some(row))),
            Record::Missing if io.bug(Bug::MissingIsCommitted) => Ok(Some((!is_source).then_some(row))),
            Record::Missing if early.is_some() || io.bug(Bug::MissingReadOnce) => Ok(Some(is_source.then_some(row))),
            Record::Committed | Record::Missing => {
                let again = io.get(at)?;
                if again.as_ref().map(|again| again.lock) != Some(row.lock) {
                    return Ok(None); // start over
                }
                Ok(Some(if is_source || record == Record::Committed { again } else { None }))
            }
        }
    })
}

/// The result of clearing a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LockOutcome {
    /// The caller reads the row again: the lock is cleared, or another operation clears it.
    Again,
    /// The row reads as absent: its operation has committed.
    Gone,
}

/// A writer found a lock, and clears it if it can. `own`: the caller's operation, once it has a record.
pub fn clear_lock(io: &mut Io<'_>, at: Path, lock: RowLock, own: Option<OpId>) -> ActorResult<LockOutcome> {
    let op = lock.op().expect("a locked row");
    let seen = io.seen(op)?;
    match (seen.record, lock) {
        (_, RowLock::Source(_)) if io.bug(Bug::SourceIsGone) => return Ok(LockOutcome::Gone),
        (Record::Prepared, _) if io.bug(Bug::UnlockPrepared) => unlock(io, at, lock)?,
        (Record::Prepared, _) if seen.over => abort(io, op)?,
        (Record::Prepared, _) if seen.waited => return Err(Stop::End(Reply::Busy)),
        (Record::Prepared, _) => {
            let yields = own.is_some_and(|own| op < own);
            if yields && !io.bug(Bug::NeverYield) {
                return Err(Stop::End(Reply::Busy));
            }
        }
        (Record::Committed, RowLock::Source(_)) => return Ok(LockOutcome::Gone),
        (Record::Committed, _) if io.bug(Bug::VisitorRemovesCopy) => remove_copy(io, at, op)?,
        (Record::Committed, _) | (_, RowLock::Source(_)) => unlock(io, at, lock)?,
        (_, _) if io.bug(Bug::VisitorUnlocksCopy) => unlock(io, at, lock)?,
        (_, _) => remove_copy(io, at, op)?,
    }
    if io.bug(Bug::VisitorRemovesRecord) && matches!(seen.record, Record::Aborted | Record::Committed) {
        commit_until_done(io, plan(vec![guarded(Key::Op(op), &[], &[Change::Remove])]))?;
    }
    Ok(LockOutcome::Again)
}

/// The row at this path if it is live, once it has no lock; `None` if it reads as absent.
pub fn read_unlocked(io: &mut Io<'_>, at: Path) -> ActorResult<Option<Row>> {
    io.until(|io| {
        let Some(row) = io.get(at)? else { return Ok(Some(None)) };
        if row.lock == RowLock::Unlocked {
            return Ok(Some(Some(row)));
        }
        match clear_lock(io, at, row.lock, None)? {
            LockOutcome::Again => Ok(None),
            LockOutcome::Gone => Ok(Some(None)),
        }
    })
}

/// Commits a plan of clean-up. It stops at a write of unknown outcome, and waits while the disk is full.
fn commit_until_done(io: &mut Io<'_>, write: Plan) -> ActorResult<Outcome> {
    io.until(|io| match io.commit(write.clone())? {
        Outcome::Unknown if io.bug(Bug::PastUnknown) => Ok(Some(Outcome::Done)),
        Outcome::Unknown | Outcome::Failed => Err(Stop::End(Reply::Busy)),
        Outcome::Full if io.bug(Bug::PastFull) => Ok(Some(Outcome::Done)),
        Outcome::Full if io.bug(Bug::GivesUpOnFull) => Err(Stop::End(Reply::Busy)),
        Outcome::Full => Ok(None),
        outcome => Ok(Some(outcome)),
    })
}

fn unlock(io: &mut Io<'_>, at: Path, lock: RowLock) -> ActorResult<()> {
    commit_until_done(io, plan(vec![unlock_row(io, at, lock)])).map(drop)
}

fn unlock_row(io: &Io<'_>, at: Path, lock: RowLock) -> Guarded {
    let check: &[Check] = if io.bug(Bug::UnlockUnchecked) { &[] } else { &[Check::Lock(lock)] };
    guarded(Key::Dir(at), check, &[Change::Lock(RowLock::Unlocked)])
}

fn remove_row(io: &Io<'_>, at: Path, lock: RowLock) -> Guarded {
    let check: &[Check] = if io.bug(Bug::RemoveUnchecked) { &[] } else { &[Check::Lock(lock)] };
    guarded(Key::Dir(at), check, &[Change::Remove])
}

fn remove_copy(io: &mut Io<'_>, at: Path, op: OpId) -> ActorResult<()> {
    commit_until_done(io, plan(vec![remove_row(io, at, RowLock::Copy(op))])).map(drop)
}

fn abort(io: &mut Io<'_>, op: OpId) -> ActorResult<()> {
    let check: &[Check] = if io.bug(Bug::AbortUnguarded) { &[] } else { &[Check::Record(Record::Prepared)] };
    commit_until_done(io, plan(vec![guarded(Key::Op(op), check, &[Change::Record(Record::Aborted)])])).map(drop)
}

/// Completes or rolls back an operation in any phase, for its owner or for start-up. Returns the phase in its record.
pub fn resolve(io: &mut Io<'_>, op: OpId) -> ActorResult<Record> {
    io.until(|io| {
        let record = io.seen(op)?.record;
        match record {
            Record::Prepared => {
                abort(io, op)?;
                return Ok(None);
            }
            Record::Committed => finish(io, op)?,
            Record::Aborted | Record::Missing => roll_back(io, op)?,
        }
        Ok(Some(record))
    })
}

/// Rolls back steps 2 and 3 of an operation that has not committed and never will.
fn roll_back(io: &mut Io<'_>, op: OpId) -> ActorResult<()> {
    let request = io.request(op);
    if io.bug(Bug::RecordFirstInRollback) {
        remove_record(io, op)?;
    }
    // IMPORTANT: both trees by key. A traversal by listings misses rows that were unlinked meanwhile.
    let mut trees = vec![request.at()];
    trees.extend(request.to().filter(|_| !io.bug(Bug::RollbackForgetsNew)));
    let mut after = None;
    while let Some(at) = next_in_rollback(io, op, &trees, after)? {
        match request.to() {
            Some(to) if at.is_within(to) => remove_copy(io, at, op)?,
            _ => unlock(io, at, RowLock::Source(op))?,
        }
        after = Some(at);
    }
    remove_record(io, op)
}

fn next_in_rollback(io: &mut Io<'_>, op: OpId, trees: &[Path], after: Option<Path>) -> ActorResult<Option<Path>> {
    if !io.bug(Bug::RollbackByListings) {
        let locks = [RowLock::Source(op), RowLock::Copy(op)];
        return Ok(io.locked_rows(trees, &locks, after, 1)?.first().copied());
    }
    // Seeded bug: a traversal by listings, as far as the old tree is still connected.
    let root = trees[0];
    let linked = io.get(root)?.map_or(vec![], |row| row.sub.keys().filter(|k| k.0 == Kind::Dir).map(|k| k.1).collect());
    let old = [root].into_iter().chain(linked.into_iter().map(|name| root.join(name)));
    let all = old.flat_map(|at| trees.iter().map(move |tree| at.rebase(root, *tree)));
    Ok(all.filter(|at| after.is_none_or(|after| *at > after)).min())
}

fn remove_record(io: &mut Io<'_>, op: OpId) -> ActorResult<()> {
    commit_until_done(io, plan(vec![guarded(Key::Op(op), &[], &[Change::Remove])])).map(drop)
}

/// Step 5: the locked rows of the old tree by key, some rows at a time.
pub fn finish(io: &mut Io<'_>, op: OpId) -> ActorResult<()> {
    let from = io.request(op).at();
    let mut after = None;
    if io.bug(Bug::RecordFirst) {
        remove_record(io, op)?;
    }
    loop {
        let rows = io.locked_rows(&[from], &[RowLock::Source(op)], after, io.scene.batch)?;
        let Some(last) = rows.last() else { break };
        after = Some(*last);
        finish_rows(io, op, &rows)?;
    }
    remove_record(io, op)
}

/// Step 5 for these rows only: also for a writer that needs the path of a removed row.
pub fn finish_rows(io: &mut Io<'_>, op: OpId, rows: &[Path]) -> ActorResult<()> {
    let old: Vec<Guarded> = rows.iter().map(|at| remove_row(io, *at, RowLock::Source(op))).collect();
    let old_first = io.bug(Bug::OldBeforeNew);
    if old_first {
        commit_all(io, &old)?;
    }
    // IMPORTANT: first the new row, or the files of the old one; only after that answer, the old row.
    match io.request(op) {
        Request::Move(from, to) => {
            let new: Vec<Guarded> =
                rows.iter().map(|at| unlock_row(io, at.rebase(from, to), RowLock::Copy(op))).collect();
            if !io.bug(Bug::NewRowNotUnlocked) {
                commit_all(io, &new)?;
            }
        }
        _ => {
            for at in rows {
                remove_files_and_id(io, op, *at)?;
            }
        }
    }
    if old_first { Ok(()) } else { commit_all(io, &old) }
}

/// Commits all rows in one plan. If it is refused, another actor has finished one of the rows: then each row alone.
fn commit_all(io: &mut Io<'_>, rows: &[Guarded]) -> ActorResult<()> {
    let outcome = commit_until_done(io, plan(rows.to_vec()))?;
    if matches!(outcome, Outcome::Refused(_)) && rows.len() > 1 && !io.bug(Bug::BatchRefusedPassed) {
        for row in rows {
            commit_until_done(io, plan(vec![row.clone()]))?;
        }
    }
    Ok(())
}

/// Removes the files of a deleted directory, and its id.
fn remove_files_and_id(io: &mut Io<'_>, op: OpId, at: Path) -> ActorResult<()> {
    let Some(row) = io.get(at)?.filter(|row| row.lock == RowLock::Source(op)) else { return Ok(()) };
    let files = row.sub.iter().filter(|((kind, _), _)| *kind == Kind::File && !io.bug(Bug::FilesLeft));
    let mut gone: Vec<Guarded> = files.map(|(_, id)| guarded(Key::File(*id), &[], &[Change::Remove])).collect();
    if !io.bug(Bug::DirIdLeft) {
        gone.push(guarded(Key::DirId(row.id), &[], &[Change::Remove]));
    }
    commit_until_done(io, plan(gone)).map(drop)
}

/// Start-up. Embedded: all records belong to earlier processes. With leases: resolves only committed operations.
pub fn start_up(io: &mut Io<'_>) -> ActorResult<Reply> {
    let found = io.records()?;
    let all = io.scene.form == Form::Embedded || io.bug(Bug::StartUpTakesAll);
    for op in found.iter().filter(|(_, record)| all || **record == Record::Committed).map(|(op, _)| *op) {
        resolve(io, op)?;
    }
    Ok(Reply::Done)
}
