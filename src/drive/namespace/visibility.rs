//! Rows that an operation on a subtree holds: how a reader takes them, and how a writer gets past them.
//!
//! A row with `cf:state` is read by the phase of its operation, which is looked up *after* the row:
//!
//! | phase | closed | staged |
//! |---|---|---|
//! | prepared, aborted | live | absent |
//! | committed | absent | live, as a second read has it |
//! | no record | live, if a second read finds the mark still there | absent, likewise |
//!
//! Readers never wait. Writers wait for a prepared operation whose owner is at work, undo one that has no owner,
//! and take the mark off the one row they want otherwise.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Drive, DriveError, Result, TRIES};
use crate::schema::dir::{self, State};
use crate::schema::op::{self, Phase, What};
use crate::schema::{CF, DrivePath, OpId};
use crate::table::{Ask, Refusal, Row, RowKey};

const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// The operations that are at work in this process: only their owners undo them and remove their records.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<HashSet<OpId>>);

/// Says that an operation is at work, until it is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    running: Arc<Running>,
    pub op: OpId,
}

impl Running {
    pub fn own(self: &Arc<Self>, op: OpId) -> Owner {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(op);
        Owner { running: self.clone(), op }
    }

    pub fn has(&self, op: OpId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&op)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.running.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.op);
    }
}

/// Whoever waits for the answer to a change.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(Arc<AtomicBool>);

/// Says, when it is dropped, that the caller has left.
pub(super) struct Leaves(Caller);

impl Caller {
    pub fn leaves(&self) -> Leaves {
        Leaves(self.clone())
    }

    fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// What is left of a writer's patience, over all rows that it meets.
pub(super) struct Patience {
    until: Instant,
    caller: Caller,
    /// Tries that are made without a pause.
    tries: usize,
    pause: Duration,
    /// The operation that waits itself: it gives way to older ones instead.
    own: Option<OpId>,
}

impl Patience {
    fn new(drive: &Drive, own: Option<OpId>) -> Self {
        let until = Instant::now() + drive.inner.settings.patience;
        Self { until, caller: drive.caller.clone(), tries: TRIES, pause: PAUSES[0], own }
    }

    /// To be asked before each try: the first ones come at once, later ones after a pause. Others change what each of
    /// them was decided by.
    pub async fn again(&mut self) -> Result<()> {
        match self.tries.checked_sub(1) {
            None => self.wait().await,
            Some(left) => {
                // The first one is for whoever has just come.
                let first = self.tries == TRIES;
                self.tries = left;
                if first || !self.caller.has_left() { Ok(()) } else { Err(DriveError::Contended) }
            }
        }
    }

    /// Waits a little, or not at all for an older operation if it is one itself: of two that cross, one gives way.
    async fn wait_for(&mut self, op: OpId) -> Result<()> {
        if self.own.is_some_and(|own| op < own) {
            return Err(DriveError::Contended);
        }
        self.wait().await
    }

    /// Waits a little, longer each time; not for a caller who has left. He may have sent the same again and have an
    /// answer to that: what was done for him later could undo what others did on the strength of it.
    pub async fn wait(&mut self) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(DriveError::Contended);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        if self.caller.has_left() { Err(DriveError::Contended) } else { Ok(()) }
    }
}

/// The mark in a directory row that was asked for its state.
fn mark(row: &Row) -> Option<&Bytes> {
    row.get(CF, dir::STATE)
}

impl Drive {
    pub(super) fn patience(&self) -> Patience {
        Patience::new(self, None)
    }

    pub(super) fn patience_of(&self, op: OpId) -> Patience {
        Patience::new(self, Some(op))
    }

    /// A directory row as readers take it; without cells if it is absent. `ask` includes `cf:id` and `cf:state`.
    pub(super) async fn row(&self, path: &DrivePath, ask: &Ask) -> Result<Row> {
        let row = self.inner.tables.get(dir::TABLE, path.as_str().as_bytes(), ask).await?;
        if mark(&row).is_none() { Ok(row) } else { self.held_row(path.as_str().as_bytes(), row, ask).await }
    }

    /// Many rows, as [`Self::row`] each.
    pub(super) async fn rows_of(&self, asks: &[(RowKey, Ask)]) -> Result<Vec<Row>> {
        let mut rows = self.inner.tables.get_many(dir::TABLE, asks).await?;
        for (row, (key, ask)) in rows.iter_mut().zip(asks) {
            if mark(row).is_some() {
                *row = self.held_row(key, std::mem::take(row), ask).await?;
            }
        }
        Ok(rows)
    }

    async fn held_row(&self, key: &[u8], mut row: Row, ask: &Ask) -> Result<Row> {
        for _ in 0..TRIES {
            let Some(held) = mark(&row).cloned() else { return Ok(row) };
            let reading = self.reading(&held).await?;
            if let Reading::Absent = reading {
                return Ok(Row::default());
            }
            if let Reading::Live = reading {
                return Ok(row);
            }
            row = self.inner.tables.get(dir::TABLE, key, ask).await?;
            if mark(&row) == Some(&held) {
                return Ok(if reading == Reading::LiveIfStill { row } else { Row::default() });
            }
        }
        Err(DriveError::Contended)
    }

    /// How a row with this mark reads, by the record as it is now.
    pub(super) async fn reading(&self, mark: &Bytes) -> Result<Reading> {
        let state = State::decode(mark)?;
        let phase = self.record(state.op()).await?.map(|(phase, _)| phase);
        let live = state.is_live(phase.unwrap_or(Phase::Aborted));
        Ok(match (phase, live, state) {
            // Perhaps it was half staged when it was read.
            (Some(_), true, State::Staged(_)) | (None, true, _) => Reading::LiveIfStill,
            (None, false, _) => Reading::AbsentIfStill,
            (Some(_), true, State::Closed(_)) => Reading::Live,
            (Some(_), false, _) => Reading::Absent,
        })
    }

    pub(super) async fn record(&self, op: OpId) -> Result<Option<(Phase, What)>> {
        let row = self.inner.tables.get(op::TABLE, op.0.as_bytes(), &Ask::cells(op::columns())).await?;
        Ok(op::record(&row)?)
    }

    /// Gets a mark out of a writer's way. When it returns, the row is to be read again: it may be free, gone, or
    /// held by another.
    pub(super) async fn make_way(&self, path: &DrivePath, mark: &Bytes, patience: &mut Patience) -> Result<()> {
        let state = State::decode(mark)?;
        match self.record(state.op()).await? {
            Some((Phase::Prepared, _)) if self.inner.running.has(state.op()) => patience.wait_for(state.op()).await,
            Some((Phase::Prepared, _)) => self.abort(state.op()).await.map(|_| ()),
            Some((Phase::Committed, what)) => self.finish_row(state, &what, path, patience).await,
            Some((Phase::Aborted, _)) | None => self.clear(path, state).await,
        }
    }

    /// Gets the mark out of the way that may be why a row of directories refused a plan.
    pub(super) async fn make_way_for(&self, refusal: &Refusal, patience: &mut Patience) -> Result<()> {
        if refusal.table != dir::TABLE {
            return Ok(());
        }
        let path = DrivePath::from_key(&refusal.row)?;
        while self.make_way_at(&path, patience).await? {}
        Ok(())
    }

    /// As [`Self::make_way`], for a row that may have no mark: whether it had one.
    pub(super) async fn make_way_at(&self, path: &DrivePath, patience: &mut Patience) -> Result<bool> {
        let ask = Ask::cells(vec![dir::state_column()]);
        let row = self.inner.tables.get(dir::TABLE, path.as_str().as_bytes(), &ask).await?;
        match mark(&row) {
            None => Ok(false),
            Some(mark) => self.make_way(path, mark, patience).await.map(|()| true),
        }
    }
}

/// How a held row reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Live,
    Absent,
    /// If a second read finds the mark still there, by what that read found; else to be read anew.
    LiveIfStill,
    AbsentIfStill,
}
