//! The state of a stepwise store: its steps so far, its planned faults, its delayed steps and its removed cells.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rowdrive::table::store::Result;
use rowdrive::table::{Change, KeyLifecycle, Plan, RowChange, RowKey, StoreError};

use super::step::{self, Fault, Finish, PlanPart, Read, Step};

pub type Hook<T> = Arc<dyn Fn(T) -> BoxFuture<'static, ()> + Send + Sync>;
pub type Once = Box<dyn FnOnce(Step) -> BoxFuture<'static, ()> + Send>;
pub type OnceCall = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;
/// An immutable cell, or the whole family of a row, that is removed for ever.
pub type RemovedForever = (&'static str, RowKey, &'static str, Option<Bytes>);

/// Long enough for other operations to continue.
const DELAY: Duration = Duration::from_millis(3);

/// A step that a test executes late, or a second time.
pub struct DelayedStep {
    pub step: Step,
    pub write: Plan,
    /// The write count of each row at the time of the step, where the step must find its rows unchanged.
    pub as_of: Option<Vec<usize>>,
}

#[derive(Default)]
pub struct State {
    pub classes: HashMap<String, KeyLifecycle>,
    /// The number of stops: a call from before a stop never continues.
    pub lives: usize,
    pub stopped: bool,
    pub steps: usize,
    /// Steps and rows read, counted together.
    pub calls: usize,
    pub plans: usize,
    pub finish: Finish,
    pub faults: HashMap<usize, Fault>,
    pub once: HashMap<usize, Once>,
    /// By the number of the call.
    pub call_faults: HashMap<usize, Fault>,
    pub once_call: HashMap<usize, OnceCall>,
    pub by_row: bool,
    pub before: Option<Hook<Step>>,
    pub after: Option<Hook<Step>>,
    pub reading: Option<Hook<Read>>,
    /// See [`super::Stepwise::full_from`].
    pub full_from: Option<usize>,
    /// See [`super::Stepwise::free_space`].
    pub waits_for_room: bool,
    /// See [`super::Stepwise::set_free`].
    pub free: Option<u64>,
    /// Set by [`Fault::EndWrites`].
    pub writes_ended: bool,
    pub removed: HashSet<RemovedForever>,
    pub written: HashMap<(&'static str, RowKey), usize>,
    pub delayed: Vec<DelayedStep>,
    pub log: Vec<String>,
}

/// A numbered call: the hooks before it, and its fault.
#[derive(Default)]
pub struct Call {
    pub once: Option<OnceCall>,
    pub fault: Option<Fault>,
}

impl Call {
    /// Runs the hooks before the call. Returns the fault of the call itself.
    pub async fn begin(self) -> Option<Fault> {
        if let Some(once) = self.once {
            once().await;
        }
        if self.fault == Some(Fault::Slow) {
            tokio::time::sleep(DELAY).await;
        }
        self.fault.filter(|fault| *fault != Fault::Slow)
    }
}

/// A numbered step, and the hooks before it.
pub struct Begun {
    pub step: Step,
    pub before: Option<Hook<Step>>,
    pub once: Option<Once>,
    pub call: Call,
}

/// One call of `commit` in progress.
pub struct CommitRun {
    pub life: usize,
    pub plan: usize,
    pub begun: bool,
}

impl State {
    pub fn is_full(&self) -> bool {
        self.full_from.is_some_and(|step| self.steps >= step)
    }

    pub fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            self.lives += 1;
        }
    }

    pub fn life(&self) -> Result<usize> {
        if self.stopped { Err(stopped()) } else { Ok(self.lives) }
    }

    pub fn writable(&self) -> Result<()> {
        if self.writes_ended { Err(StoreError::Stopped("as a test wants it".to_owned())) } else { Ok(()) }
    }

    pub fn run(&mut self) -> Result<CommitRun> {
        let life = self.life()?;
        self.writable()?;
        self.plans += 1;
        Ok(CommitRun { life, plan: self.plans, begun: false })
    }

    /// Assigns the next number to a call.
    pub fn call(&mut self) -> Call {
        self.calls += 1;
        Call { once: self.once_call.remove(&self.calls), fault: self.call_faults.remove(&self.calls) }
    }

    pub fn note(&mut self, step: &Step, fate: &str) {
        self.log.push(format!("{step}: {fate}"));
    }

    pub fn is_write_once(&self, table: &str) -> bool {
        matches!(self.classes.get(table), Some(KeyLifecycle::Immutable | KeyLifecycle::ImmutableLate))
    }

    /// The pieces in which a row is written: each change alone in a table with immutable cells.
    pub fn pieces(&self, row: RowChange) -> Vec<RowChange> {
        if !self.is_write_once(row.table) {
            return vec![row];
        }
        let alone = |change| RowChange { table: row.table, row: row.row.clone(), changes: vec![change] };
        row.changes.iter().cloned().map(alone).collect()
    }

    /// Whether a late copy of this step takes effect even if its row has changed since.
    pub fn comes_late_anyway(&self, step: &Step) -> bool {
        let write_once = step.rows.iter().all(|(table, _)| self.is_write_once(table));
        step.part == PlanPart::Finish || (step.part == PlanPart::Prepare && write_once)
    }

    pub fn written(&self, step: &Step) -> Vec<usize> {
        step.rows.iter().map(|row| self.written.get(row).copied().unwrap_or_default()).collect()
    }

    /// Assigns the next number to a step, unless the store was stopped since its plan began.
    pub fn begin(&mut self, run: &CommitRun, part: PlanPart, write: &Plan) -> Result<Begun> {
        if self.stopped || run.life != self.lives {
            return Err(unknown("the store stopped"));
        }
        self.steps += 1;
        let (rows, what) = step::described(write);
        let step = Step { number: self.steps, plan: run.plan, part, rows, what, late: false };
        Ok(Begun { step, before: self.before.clone(), once: self.once.remove(&self.steps), call: self.call() })
    }

    /// The fault of a step after its hooks, unless the store was stopped since its plan began.
    pub fn fault(&mut self, run: &CommitRun, step: &Step, call: Option<Fault>) -> Result<Option<Fault>> {
        if self.stopped || run.life != self.lives {
            self.note(step, "lost");
            return Err(unknown(&format!("the store stopped before {step}")));
        }
        let fault = self.faults.remove(&step.number).or(call).or(match self.finish {
            Finish::Twice if step.part == PlanPart::Finish => Some(Fault::Twice),
            Finish::Delayed if step.part == PlanPart::Finish => Some(Fault::Delay),
            _ => None,
        });
        Ok(fault.filter(|fault| *fault != Fault::Twice || self.comes_late_anyway(step)))
    }

    /// Removes puts of cells that are removed for ever from a write, and records the removals in it.
    pub fn bury(&mut self, write: &mut Plan) {
        for row in write.prepare.iter_mut().chain(&mut write.finish) {
            if !self.is_write_once(row.table) {
                continue;
            }
            let name = |family: &'static str, qualifier| (row.table, row.row.clone(), family, qualifier);
            row.changes.retain(|change| match change {
                Change::Put { family, qualifier, .. } => {
                    !self.removed.contains(&name(family, None))
                        && !self.removed.contains(&name(family, Some(qualifier.clone())))
                }
                // Validation keeps additions out of these parts.
                Change::Add { .. } => true,
                Change::Delete { .. } | Change::DeleteFamily { .. } => {
                    self.removed.insert(name(change.family(), change.qualifier().cloned()));
                    true
                }
            });
        }
        write.prepare.retain(|row| !row.changes.is_empty());
        write.finish.retain(|row| !row.changes.is_empty());
    }
}

pub fn stopped() -> StoreError {
    StoreError::Failed("the store is stopped".to_owned())
}

pub fn unknown(cause: &str) -> StoreError {
    StoreError::Unknown { cause: cause.to_owned(), full: false }
}
