//! What a stepwise store knows: its steps so far, what is to go wrong, what is held and what is removed.

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
/// A write-once cell, or the whole family of a row, that is removed for ever.
pub type RemovedForever = (&'static str, RowKey, &'static str, Option<Bytes>);

/// Long enough for others to go on.
const DELAY: Duration = Duration::from_millis(3);

/// A step that was not done, or is done once more, when a test says so.
pub struct DelayedStep {
    pub step: Step,
    pub write: Plan,
    /// How often each row had been written, where the step must find its rows as they were.
    pub as_of: Option<Vec<usize>>,
}

#[derive(Default)]
pub struct State {
    pub classes: HashMap<String, KeyLifecycle>,
    /// How often the store was stopped: a call of an earlier life never goes on.
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
    /// See [`super::Stepwise::make_room`].
    pub waits_for_room: bool,
    /// Since [`Fault::EndWrites`].
    pub writes_ended: bool,
    pub removed: HashSet<RemovedForever>,
    pub written: HashMap<(&'static str, RowKey), usize>,
    pub held: Vec<DelayedStep>,
    pub log: Vec<String>,
}

/// A call that was numbered: what comes before it, and what goes wrong at it.
#[derive(Default)]
pub struct Call {
    pub once: Option<OnceCall>,
    pub fault: Option<Fault>,
}

impl Call {
    /// Does what comes before the call. The fault that is left is the call's own.
    pub async fn begin(self) -> Option<Fault> {
        if let Some(once) = self.once {
            once().await;
        }
        if self.fault == Some(Fault::Delay) {
            tokio::time::sleep(DELAY).await;
        }
        self.fault.filter(|fault| *fault != Fault::Delay)
    }
}

/// A step that was numbered, and what comes before it.
pub struct Begun {
    pub step: Step,
    pub before: Option<Hook<Step>>,
    pub once: Option<Once>,
    pub call: Call,
}

/// One call of `commit` on its way.
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

    /// Numbers a call.
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

    /// A row as it is written: of a write-once table every change alone.
    pub fn pieces(&self, row: RowChange) -> Vec<RowChange> {
        if !self.is_write_once(row.table) {
            return vec![row];
        }
        let alone = |change| RowChange { table: row.table, row: row.row.clone(), changes: vec![change] };
        row.changes.iter().cloned().map(alone).collect()
    }

    /// Whether a late copy of this step does its work whatever happened to its row since.
    pub fn comes_late_anyway(&self, step: &Step) -> bool {
        let write_once = step.rows.iter().all(|(table, _)| self.is_write_once(table));
        step.part == PlanPart::Finish || (step.part == PlanPart::Prepare && write_once)
    }

    pub fn written(&self, step: &Step) -> Vec<usize> {
        step.rows.iter().map(|row| self.written.get(row).copied().unwrap_or_default()).collect()
    }

    /// Numbers a step, unless its plan's life is over.
    pub fn begin(&mut self, run: &CommitRun, part: PlanPart, write: &Plan) -> Result<Begun> {
        if self.stopped || run.life != self.lives {
            return Err(unknown("the store stopped"));
        }
        self.steps += 1;
        let (rows, what) = step::described(write);
        let step = Step { number: self.steps, plan: run.plan, part, rows, what, late: false };
        Ok(Begun { step, before: self.before.clone(), once: self.once.remove(&self.steps), call: self.call() })
    }

    /// The fault of a step whose hooks have run, unless its plan's life is over.
    pub fn fault(&mut self, run: &CommitRun, step: &Step, call: Option<Fault>) -> Result<Option<Fault>> {
        if self.stopped || run.life != self.lives {
            self.note(step, "lost");
            return Err(unknown(&format!("the store stopped before {step}")));
        }
        let fault = self.faults.remove(&step.number).or(call).or(match self.finish {
            Finish::Twice if step.part == PlanPart::Finish => Some(Fault::Twice),
            Finish::Held if step.part == PlanPart::Finish => Some(Fault::Hold),
            _ => None,
        });
        Ok(fault.filter(|fault| *fault != Fault::Twice || self.comes_late_anyway(step)))
    }

    /// Takes puts of write-once cells that are removed for ever out of a write, and remembers its removals.
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
