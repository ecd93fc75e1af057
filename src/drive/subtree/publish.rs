//! Records of operations that nobody works at: an earlier process left them, or an error ended their clean-up. They
//! are settled in the background, and tried again until they are.
//!
//! The records are the queue: nothing is kept in memory of what is to be done, and one record that cannot be settled
//! or read holds up no other.

use std::sync::{Mutex, PoisonError};

use crate::drive::background::{Pauses, pause};
use crate::drive::held::Caller;
use crate::drive::{Drive, DriveError, Result};
use crate::schema::OpId;
use crate::schema::op::{self, Phase, What};
use crate::table::{Ask, Row, RowCursor, RowKey, RowRange};

/// Whether a task settles records now, and whether there may be more since it began.
#[derive(Debug, Default)]
pub(in crate::drive) struct Settling(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    at_work: bool,
    again: bool,
}

impl Settling {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the caller is to begin a task.
    fn begin(&self) -> bool {
        self.with(|state| {
            state.again = true;
            !std::mem::replace(&mut state.at_work, true)
        })
    }

    /// Before a pass over the records: whatever is asked for from now on needs another.
    fn pass(&self) {
        self.with(|state| state.again = false);
    }

    /// Whether the task may end: nothing was asked for since its last pass.
    fn end(&self) -> bool {
        self.with(|state| {
            state.at_work = state.again;
            !state.again
        })
    }
}

impl Drive {
    /// Settles, in the background, every record that nobody in this process works at.
    pub(in crate::drive) fn settle_records(&self) {
        if !self.inner.settling.begin() {
            return;
        }
        let under_way = self.inner.background.begin();
        let closing = self.inner.background.closing();
        let mut pauses = Pauses::new(self.inner.settings.retry);
        let mut drive = self.clone();
        tokio::spawn(async move {
            let _under_way = under_way;
            loop {
                drive.inner.settling.pass();
                let all = drive.settle_all().await;
                if drive.inner.background.go_on().is_err() || (all && drive.inner.settling.end()) {
                    return;
                }
                // A drive that everybody has dropped must not be kept, and its store open, by what cannot be done.
                let weak = std::sync::Arc::downgrade(&drive.inner);
                drop(drive);
                if !all && !pause(&closing, pauses.longer()).await {
                    return;
                }
                let Some(inner) = weak.upgrade() else { return };
                drive = Self { inner, caller: Caller::default() };
            }
        });
    }

    /// One pass over the records. Whether there is none left to be tried again.
    async fn settle_all(&self) -> bool {
        let listed = self.limits().records_listed;
        let mut records = RowCursor::new(op::TABLE, RowRange::all(), Ask::cells(op::columns()), listed);
        let (mut all, mut unreadable) = (true, 0);
        loop {
            let rows = match records.next(&self.inner.tables).await {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(cause) => {
                    tracing::warn!(%cause, "records of operations cannot be listed: tried again");
                    return false;
                }
            };
            for (key, row) in &rows {
                if self.inner.background.go_on().is_err() {
                    return false;
                }
                match record(key, row) {
                    Ok(Some((id, phase, what))) if !self.inner.running.has(id) => {
                        all &= self.settle_record(id, phase, &what).await;
                    }
                    Ok(_) => {}
                    Err(cause) => {
                        unreadable += 1;
                        tracing::error!(record = %key.escape_ascii(), %cause, "a record of an operation cannot be read: it is passed by");
                    }
                }
            }
        }
        self.inner.metrics.unreadable(op::TABLE, unreadable);
        all
    }

    /// Finishes or undoes one operation. Whether that is done.
    ///
    /// The phase may be an old one: an undo looks at it again, and a committed record stays so.
    async fn settle_record(&self, id: OpId, phase: Phase, what: &What) -> bool {
        let done = match phase {
            Phase::Committed => self.finish_operation(id, what).await,
            Phase::Prepared | Phase::Aborted => self.undo_operation(id, what).await,
        };
        match done {
            Ok(()) => tracing::info!(operation = %id, from = %what.from, "settled what had been left"),
            Err(DriveError::Closing) => return false,
            Err(cause) => {
                tracing::warn!(operation = %id, from = %what.from, %cause, "an operation is not settled yet: tried again");
                return false;
            }
        }
        true
    }
}

fn record(key: &RowKey, row: &Row) -> Result<Option<(OpId, Phase, What)>> {
    let id = op::decode_key(key)?;
    Ok(op::record(row)?.map(|(phase, what)| (id, phase, what)))
}
