//! The scheduler: when each call of the store and the disk runs, which fault it gets, and where the process stops.
//!
//! One generator draws all choices, in the order of the calls. Everything runs on one thread, with a clock that jumps
//! to the next timer, so a case runs in the same way every time.

use std::future::pending;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;

/// The faults of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The number of stops of the process.
    pub stops: u32,
    /// Plans are refused because the disk or the queue is full, and answers are lost.
    pub store: bool,
    /// Plans with a lost answer may also take effect later.
    pub late: bool,
    /// A refused plan may leave its prepared rows, as in an engine without transactions.
    pub leaves: bool,
    /// Each row of a scan is read at another instant, as in an engine without snapshots.
    pub by_row: bool,
    /// Disk calls fail, and the disk is full.
    pub disk: bool,
    /// Clients disconnect in the middle of a request.
    pub leave: bool,
}

impl Faults {
    pub const NONE: Self =
        Self { stops: 0, store: false, late: false, leaves: false, by_row: false, disk: false, leave: false };

    /// Whether the store is atomic: its queries then take index rows as they stand.
    pub fn is_atomic(&self) -> bool {
        !self.leaves && !self.by_row
    }
}

/// One simulation: it lasts over all lives of the process.
pub struct Simulation {
    state: Mutex<State>,
    /// Notified when the process has stopped.
    pub stopped: Notify,
}

struct State {
    rng: StdRng,
    faults: Faults,
    /// Whether calls wait and fail: not before the clients begin, nor after they have finished.
    awake: bool,
    /// The upper limit of most waits, in ms.
    pace: u64,
    calls: u64,
    /// The number of the call at which the process stops.
    stop_at: Option<u64>,
    dead: bool,
    /// The number of requests and answers of clients so far.
    events: u64,
    /// A digest of all calls: equal for equal runs.
    trace: DefaultHasher,
    log: Option<Vec<String>>,
    /// The first error that was found.
    wrong: Option<String>,
}

enum Wait {
    No,
    Yield,
    Sleep(u64),
    ForEver,
}

impl Simulation {
    pub fn new(seed: u64, faults: Faults, log: bool) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let pace = [1, 4, 12][rng.random_range(0..3)];
        let state = State {
            rng,
            faults,
            awake: false,
            pace,
            calls: 0,
            stop_at: None,
            dead: false,
            events: 0,
            trace: DefaultHasher::new(),
            log: log.then(Vec::new),
            wrong: None,
        };
        Self { state: Mutex::new(state), stopped: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Starts a life of the process; if `stops`, it stops at one of the next calls.
    pub fn begin_life(&self, stops: bool) {
        let _notified_before = self.stopped.notified().now_or_never();
        let mut state = self.lock();
        let at = state.calls + state.rng.random_range(1..500);
        state.stop_at = stops.then_some(at);
        state.awake = true;
        state.dead = false;
    }

    /// Ends the process: its pending calls never run.
    pub fn die(&self) {
        self.lock().dead = true;
    }

    /// From now on calls neither wait nor fail.
    pub fn disable_faults(&self) {
        let mut state = self.lock();
        state.awake = false;
        state.dead = false;
        state.stop_at = None;
    }

    pub fn is_dead(&self) -> bool {
        self.lock().dead
    }

    pub fn faults(&self) -> Faults {
        self.lock().faults
    }

    /// Returns true with this probability per mille, while faults are enabled.
    pub fn chance(&self, per_mille: u32) -> bool {
        let mut state = self.lock();
        state.awake && state.rng.random_range(0..1000) < per_mille
    }

    pub fn below(&self, end: u64) -> u64 {
        self.lock().rng.random_range(0..end)
    }

    /// Every call passes here, before it runs or before its answer is delivered.
    pub async fn pass(&self, what: &str, detail: impl FnOnce() -> String) {
        match self.wait(what, detail) {
            Wait::No => return,
            Wait::Yield => tokio::task::yield_now().await,
            Wait::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Wait::ForEver => pending().await,
        }
        if self.is_dead() {
            pending::<()>().await;
        }
    }

    fn wait(&self, what: &str, detail: impl FnOnce() -> String) -> Wait {
        let mut state = self.lock();
        if state.dead {
            return Wait::ForEver;
        }
        state.calls += u64::from(state.awake);
        let calls = state.calls;
        if let Some(log) = &mut state.log {
            let detail = detail();
            log.push(format!("{calls:5} {what} {detail}"));
        }
        if !state.awake {
            return Wait::No;
        }
        what.hash(&mut state.trace);
        if state.stop_at.is_some_and(|at| at <= calls) {
            state.dead = true;
            self.stopped.notify_one();
            return Wait::ForEver;
        }
        let pace = state.pace;
        match state.rng.random_range(0..100) {
            0..25 => Wait::Yield,
            25..90 => Wait::Sleep(1 + state.rng.random_range(0..pace)),
            90..99 => Wait::Sleep(state.rng.random_range(10..60)),
            _ => Wait::Sleep(state.rng.random_range(60..400)),
        }
    }

    /// Records an event for the report of a failed run.
    pub fn note(&self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.lock().log {
            log.push(format!("      {}", what()));
        }
    }

    /// The number of a request or an answer.
    pub fn event(&self) -> u64 {
        let mut state = self.lock();
        state.events += 1;
        state.events
    }

    pub fn wrong(&self, what: String) {
        self.note(|| format!("WRONG: {what}"));
        self.lock().wrong.get_or_insert(what);
    }

    pub fn verdict(&self) -> Result<(), String> {
        self.lock().wrong.clone().map_or(Ok(()), Err)
    }

    pub fn logs(&self) -> bool {
        self.lock().log.is_some()
    }

    pub fn log(&self) -> Vec<String> {
        self.lock().log.clone().unwrap_or_default()
    }

    /// The number of calls so far, and the digest of them.
    pub fn trace(&self) -> (u64, u64) {
        let mut state = self.lock();
        let next: u64 = state.rng.random();
        next.hash(&mut state.trace);
        (state.calls, state.trace.finish())
    }
}
