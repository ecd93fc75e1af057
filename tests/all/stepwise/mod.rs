//! A store that executes a plan step by step, as an engine without transactions does, and that fails where a test says
//! so.
//!
//! [`Stepwise`] wraps any store and splits a plan into **steps**, each durable alone: a row of `prepare`, then all rows
//! of `guarded` at one instant, then a row of `finish`. In a table with immutable cells, every change is a step. Steps
//! are numbered from 1 over the whole life of the store, so a test runs an operation once to count its steps, then once
//! for every step with a [`Fault`] there.
//!
//! It imitates HBase: a removed immutable cell stays removed for ever, even if it is written again later (its delete
//! has the timestamp 2^63 - 2).

use std::future::Future;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rowdrive::table::store::Result;
use rowdrive::table::{
    ConditionalRow, Outcome, Page, PageQuery, Plan, Refusal, Row, RowKey, RowQuery, ScanQuery, Store, StoreError,
    TableSpec,
};

mod not_atomic;
mod state;
mod step;
mod tests;

pub use not_atomic::NotAtomic;
use state::{Begun, CommitRun, DelayedStep, State, stopped, unknown};
pub use step::{Fault, Finish, PlanPart, Read, Step};

/// A store that executes the plans of another store step by step. Without a fault or a hook it keeps the whole contract
/// of [`Store`]; only `prepare` rows of a refused plan stay, as the contract allows.
pub struct Stepwise {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
    /// Whether a plan is a single step, and a scan a single read.
    atomic: bool,
    /// Steps reach the inner store one at a time, so that the sets of removed cells and the counts of writes agree with
    /// it.
    order: tokio::sync::Mutex<()>,
}

impl Stepwise {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::with(inner, false)
    }

    /// A store of which each plan is one step, and each scan one read: as an engine with transactions and snapshots.
    pub fn atomic(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::with(inner, true)
    }

    fn with(inner: Arc<dyn Store>, atomic: bool) -> Arc<Self> {
        Arc::new(Self { inner, state: Mutex::default(), atomic, order: tokio::sync::Mutex::default() })
    }

    /// The inner store: its reads and writes are no steps, run no hook, and work while this store is stopped.
    pub fn inner(&self) -> Arc<dyn Store> {
        Arc::clone(&self.inner)
    }

    /// The number of steps begun so far.
    pub fn steps(&self) -> usize {
        self.lock().steps
    }

    /// One line for every step that was begun, with its result.
    pub fn log(&self) -> Vec<String> {
        self.lock().log.clone()
    }

    /// Plans a fault at the step of this number, which must be greater than [`Stepwise::steps`].
    pub fn at(&self, step: usize, fault: Fault) {
        self.lock().faults.insert(step, fault);
    }

    /// The number of calls begun so far: steps, and rows read.
    pub fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Plans a fault at the call of this number, a step or a read.
    pub fn at_call(&self, call: usize, fault: Fault) {
        self.lock().call_faults.insert(call, fault);
    }

    /// Runs `hook` once, before the call of this number, a step or a read. The hook can run another operation between a
    /// read and the write that depends on it.
    pub fn once_before_call<F: Future<Output = ()> + Send + 'static>(
        &self,
        call: usize,
        hook: impl FnOnce() -> F + Send + 'static,
    ) {
        self.lock().once_call.insert(call, Box::new(move || Box::pin(hook())));
    }

    /// From now on every row of a scan is a separate call: each row is read at a different instant.
    pub fn scan_row_by_row(&self) {
        self.lock().by_row = true;
    }

    /// From this step on the disk is full: plans that need disk space are refused before their first step. `None` ends
    /// it.
    pub fn full_from(&self, step: Option<usize>) {
        self.lock().full_from = step;
    }

    /// From now on this many bytes of disk space are free.
    pub fn set_free(&self, bytes: u64) {
        self.lock().free = Some(bytes);
    }

    /// Frees disk space after [`Fault::Fill`].
    pub fn free_space(&self) {
        self.lock().waits_for_room = false;
    }

    pub fn set_finish(&self, finish: Finish) {
        self.lock().finish = finish;
    }

    /// Runs `hook` before every step. A hook that commits to this same store is called again.
    pub fn before<F: Future<Output = ()> + Send + 'static>(&self, hook: impl Fn(Step) -> F + Send + Sync + 'static) {
        self.lock().before = Some(Arc::new(move |step| Box::pin(hook(step))));
    }

    /// Runs `hook` once, before the step of this number. The hook can run another operation there.
    pub fn once_before<F: Future<Output = ()> + Send + 'static>(
        &self,
        step: usize,
        hook: impl FnOnce(Step) -> F + Send + 'static,
    ) {
        self.lock().once.insert(step, Box::new(move |step| Box::pin(hook(step))));
    }

    /// Runs `hook` after every step that reached the inner store, late ones included, before the caller gets the
    /// answer. The hook can check what must hold after every step.
    pub fn after<F: Future<Output = ()> + Send + 'static>(&self, hook: impl Fn(Step) -> F + Send + Sync + 'static) {
        self.lock().after = Some(Arc::new(move |step| Box::pin(hook(step))));
    }

    /// Runs `hook` before every row is read. Scans then read row by row. If the hook reads from this same store, it
    /// runs again.
    pub fn reading<F: Future<Output = ()> + Send + 'static>(&self, hook: impl Fn(Read) -> F + Send + Sync + 'static) {
        self.lock().reading = Some(Arc::new(move |read| Box::pin(hook(read))));
    }

    /// Stops the store: steps in flight are lost, callers get `Unknown`, later calls fail.
    pub fn stop(&self) {
        self.lock().stop();
    }

    /// Restarts the store. Unfinished steps are lost, except delayed ones; faults and hooks stay.
    pub fn revive(&self) {
        let mut state = self.lock();
        state.stopped = false;
        state.writes_ended = false;
    }

    /// Forgets the planned faults that did not happen.
    pub fn forget_faults(&self) {
        let mut state = self.lock();
        state.faults.clear();
        state.call_faults.clear();
    }

    /// The delayed steps, oldest first.
    pub fn delayed(&self) -> Vec<Step> {
        self.lock().delayed.iter().map(|delayed| delayed.step.clone()).collect()
    }

    /// Executes every delayed step now, oldest first, even while the store is stopped. Returns their number.
    pub async fn deliver(&self) -> usize {
        let delayed = std::mem::take(&mut self.lock().delayed);
        let count = delayed.len();
        for delayed in delayed {
            self.arrive(delayed).await;
        }
        count
    }

    /// Executes the delayed step of this number now.
    pub async fn deliver_step(&self, number: usize) {
        let delayed = {
            let mut state = self.lock();
            let at = state.delayed.iter().position(|delayed| delayed.step.number == number);
            state.delayed.remove(at.expect("a delayed step of this number"))
        };
        self.arrive(delayed).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Executes a plan with a single part at one instant, except puts of cells that are removed for ever.
    async fn apply(&self, step: &Step, mut write: Plan, as_of: Option<&[usize]>) -> Result<Outcome> {
        let order = self.order.lock().await;
        {
            let mut state = self.lock();
            if as_of.is_some_and(|as_of| as_of != state.written(step)) {
                state.note(step, "its rows have changed: never done");
                return Ok(Outcome::Committed);
            }
            state.bury(&mut write);
        }
        let swallowed = write == Plan::default();
        let outcome = if swallowed { Ok(Outcome::Committed) } else { self.inner.commit(write).await };
        {
            let mut state = self.lock();
            match &outcome {
                Ok(Outcome::Committed) => {
                    state.note(step, if swallowed { "swallowed" } else { "done" });
                    for row in &step.rows {
                        *state.written.entry(row.clone()).or_default() += 1;
                    }
                }
                Ok(Outcome::Refused(refusal)) => state.note(step, &format!("refused: {refusal:?}")),
                Err(error) => state.note(step, &format!("failed: {error}")),
            }
        }
        drop(order);
        let after = self.lock().after.clone();
        if let Some(after) = after {
            after(step.clone()).await;
        }
        outcome
    }

    async fn arrive(&self, mut delayed: DelayedStep) {
        delayed.step.late = true;
        self.apply(&delayed.step, delayed.write, delayed.as_of.as_deref()).await.expect("a late step is done");
    }

    /// Delays a step. An engine sends no write whose checks fail.
    async fn delay_step(&self, step: &Step, write: Plan) -> Result<Outcome> {
        let unchanged = |g: &ConditionalRow| ConditionalRow { changes: Vec::new(), ..g.clone() };
        let checks = Plan { guarded: write.guarded.iter().map(unchanged).collect(), ..Plan::default() };
        if step.part == PlanPart::ConditionalRow
            && let Outcome::Refused(refusal) = self.inner.commit(checks).await?
        {
            return Ok(Outcome::Refused(refusal));
        }
        let mut state = self.lock();
        let as_of = (!state.comes_late_anyway(step)).then(|| state.written(step));
        state.delayed.push(DelayedStep { step: step.clone(), write, as_of });
        state.note(step, "delayed");
        Ok(Outcome::Committed)
    }

    /// Executes one step of a plan, or its fault instead.
    async fn step(&self, run: &mut CommitRun, part: PlanPart, write: Plan) -> Result<Outcome> {
        let Begun { step, before, once, call } = self.lock().begin(run, part, &write)?;
        if let Some(before) = before {
            before(step.clone()).await;
        }
        if let Some(once) = once {
            once(step.clone()).await;
        }
        let called = call.begin().await;
        let fault = self.lock().fault(run, &step, called)?;
        let answer = match fault {
            Some(Fault::Stop | Fault::Lose | Fault::Fill) => {
                self.lock().note(&step, "lost");
                Ok(Outcome::Committed)
            }
            Some(Fault::Delay | Fault::DelayAndStop) => self.delay_step(&step, write).await,
            Some(Fault::Twice) => {
                let again = DelayedStep { step: step.clone(), write: write.clone(), as_of: None };
                let answer = self.apply(&step, write, None).await;
                self.lock().delayed.push(again);
                answer
            }
            Some(Fault::StopAfter | Fault::LoseAnswer | Fault::EndWrites | Fault::Slow) | None => {
                self.apply(&step, write, None).await
            }
        };
        let mut state = self.lock();
        match fault {
            Some(Fault::Stop | Fault::StopAfter | Fault::DelayAndStop) => state.stop(),
            Some(Fault::EndWrites) => {
                state.writes_ended = true;
                return Err(unknown(&format!("{fault:?} at {step}")));
            }
            Some(Fault::Lose | Fault::LoseAnswer) => return Err(unknown(&format!("{fault:?} at {step}"))),
            Some(Fault::Fill) => {
                state.waits_for_room = true;
                return Err(StoreError::Unknown { cause: format!("no disk space at {step}"), full: true });
            }
            Some(Fault::Delay) if part != PlanPart::Finish && matches!(answer, Ok(Outcome::Committed)) => {
                return Err(unknown(&format!("{fault:?} at {step}")));
            }
            _ => {}
        }
        if state.lives != run.life || state.stopped {
            return Err(unknown(&format!("the store stopped at {step}")));
        }
        match answer {
            Err(error) if run.begun => Err(StoreError::Unknown {
                full: matches!(error, StoreError::Full(_) | StoreError::Unknown { full: true, .. }),
                cause: format!("{error} at {step}"),
            }),
            answer => {
                run.begun = true;
                answer
            }
        }
    }

    async fn run(&self, plan: Plan) -> Result<Outcome> {
        let mut run = self.lock().run()?;
        if plan.needs_space() && self.lock().is_full() {
            return Err(StoreError::Full("as a test wants it".to_owned()));
        }
        if self.atomic {
            return self.step(&mut run, PlanPart::ConditionalRow, plan).await;
        }
        let prepared = !plan.prepare.is_empty();
        for row in plan.prepare {
            let pieces = self.lock().pieces(row);
            for row in pieces {
                let write = Plan { prepare: vec![row], ..Plan::default() };
                self.step(&mut run, PlanPart::Prepare, write).await?;
            }
        }
        if !plan.guarded.is_empty() {
            let write = Plan { guarded: plan.guarded, ..Plan::default() };
            if let Outcome::Refused(refusal) = self.step(&mut run, PlanPart::ConditionalRow, write).await? {
                return Ok(Outcome::Refused(Refusal { prepared, ..refusal }));
            }
        }
        for row in plan.finish {
            let pieces = self.lock().pieces(row);
            for row in pieces {
                let write = Plan { finish: vec![row], ..Plan::default() };
                self.step(&mut run, PlanPart::Finish, write).await?;
            }
        }
        Ok(Outcome::Committed)
    }

    /// Runs a read, unless the store stops before or during it.
    async fn read<'a, T>(&self, read: Read, read_inner: impl FnOnce() -> BoxFuture<'a, Result<T>>) -> Result<T> {
        let (life, call, hook) = {
            let mut state = self.lock();
            (state.life()?, state.call(), state.reading.clone())
        };
        let fault = call.begin().await;
        if let Some(hook) = hook {
            hook(read.clone()).await;
        }
        match fault {
            Some(Fault::Stop | Fault::StopAfter | Fault::DelayAndStop) => self.stop(),
            Some(Fault::Lose | Fault::LoseAnswer | Fault::Delay) => {
                return Err(StoreError::Failed(format!("lost: {read:?}")));
            }
            Some(Fault::Twice | Fault::Slow | Fault::Fill | Fault::EndWrites) | None => {}
        }
        let answer = read_inner().await;
        if self.lock().life()? == life { answer } else { Err(stopped()) }
    }

    /// A scan row by row, so that hooks run in between: each row is read at a different instant.
    async fn scan_by_row(&self, query: &ScanQuery) -> Result<Vec<(RowKey, Row)>> {
        let mut found: Vec<(RowKey, Row)> = Vec::new();
        let mut next = ScanQuery { limit: 1, ..query.clone() };
        while found.len() < query.limit {
            let last = found.last().map(|(key, _)| key.clone());
            if let Some(key) = &last {
                let edge = if query.reverse { &mut next.range.to } else { &mut next.range.from };
                *edge = Bound::Excluded(key.clone());
            }
            let read = Read { call: "scan", table: query.table, row: last.unwrap_or_default() };
            match self.read(read, || self.inner.scan(&next)).await?.pop() {
                Some(row) => found.push(row),
                None => break,
            }
        }
        Ok(found)
    }
}

impl Store for Stepwise {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.lock().life()?;
            self.inner.create(spec).await?;
            self.lock().classes.insert(spec.name.clone(), spec.lifecycle);
            Ok(())
        })
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>> {
        let read = Read { call: "get", table, row: Bytes::copy_from_slice(row) };
        Box::pin(self.read(read, move || self.inner.get(table, row, query)))
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>> {
        let read = Read { call: "page", table: query.table, row: query.row.clone() };
        Box::pin(self.read(read, || self.inner.page(query)))
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let mut rows = Vec::with_capacity(queries.len());
            for (row, query) in queries {
                let read = Read { call: "get_many", table, row: row.clone() };
                rows.push(self.read(read, || self.inner.get(table, row, query)).await?);
            }
            Ok(rows)
        })
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        Box::pin(async move {
            let by_row = {
                let state = self.lock();
                state.by_row || state.reading.is_some()
            };
            if by_row && !self.atomic {
                return self.scan_by_row(query).await;
            }
            let read = Read { call: "scan", table: query.table, row: RowKey::new() };
            self.read(read, || self.inner.scan(query)).await
        })
    }

    fn is_atomic(&self) -> bool {
        self.atomic
    }

    fn writable(&self) -> Result<()> {
        self.lock().writable()
    }

    fn ready(&self) -> Result<()> {
        let waits = self.lock().waits_for_room;
        if waits { Err(StoreError::Full("as a test wants it".to_owned())) } else { Ok(()) }
    }

    fn has_space_for(&self, bytes: u64) -> BoxFuture<'_, Result<()>> {
        let is_full = self.lock().free.is_some_and(|free| free < bytes);
        let has_space = if is_full { Err(StoreError::Full("as a test wants it".to_owned())) } else { Ok(()) };
        Box::pin(std::future::ready(has_space))
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(self.run(plan))
    }
}
