//! A case: a seed, and what is left out of its workload. It runs from the first call to the last check.

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowdrive::drive::{Drive, Settings};
use rowdrive::engines::memory::Memory;
use rowdrive::migrate;
use rowdrive::schema::{Timestamp, ids};
use rowdrive::table::Tables;
use tokio::runtime::{Builder, Runtime};

use super::client::Clients;
use super::disk::SimDisk;
use super::history::{self, Verdict};
use super::scheduler::{Faults, Simulation};
use super::store::SimStore;
use super::view::{DATA, ViewResult, after_a_start, idle, text, view};
use super::workload::{ClientOp, Work};
use crate::drive::model::View;

/// The case to run. As text: the seed, the schedule, the faults left out and the requests kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimCase {
    pub seed: u64,
    /// Selects another order of the same calls.
    pub schedule: u64,
    /// By their number in [`without`].
    pub left_out: u8,
    /// The numbers of the requests to send; `None`: all.
    pub kept: Option<Vec<usize>>,
}

/// The number of faults that can be left out.
pub const FAULTS: u8 = 7;

impl SimCase {
    pub fn from_seed(seed: u64) -> Self {
        Self { seed, schedule: 0, left_out: 0, kept: None }
    }

    pub fn work(&self) -> Work {
        let mut work = Work::new(self.seed);
        for fault in (0..FAULTS).filter(|fault| self.left_out & (1 << fault) != 0) {
            without(&mut work, fault);
        }
        work
    }

    /// The requests to send.
    pub fn ops(&self, work: &Work) -> Vec<(usize, ClientOp)> {
        let all = work.ops.iter().enumerate();
        all.filter(|(at, _)| self.kept.as_ref().is_none_or(|kept| kept.contains(at))).map(|(_, op)| *op).collect()
    }
}

fn without(work: &mut Work, fault: u8) {
    let Faults { stops, store, late, leaves, disk, leave, .. } = &mut work.faults;
    match fault {
        0 => *stops = 0,
        1 => *store = false,
        2 => *late = false,
        3 => *leaves = false,
        4 => *disk = false,
        5 => *leave = false,
        _ => work.ends_well = true,
    }
}

impl fmt::Display for SimCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        if *self != Self::from_seed(self.seed) {
            write!(f, "/{}/{}", self.schedule, self.left_out)?;
        }
        if let Some(kept) = &self.kept {
            let kept: Vec<_> = kept.iter().map(ToString::to_string).collect();
            write!(f, "/{}", kept.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for SimCase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: Option<&str>| part.map_or(Ok(0), |part| part.parse::<u64>().map_err(|e| e.to_string()));
        let mut parts = text.split('/');
        let (seed, schedule, left_out) = (number(parts.next())?, number(parts.next())?, number(parts.next())?);
        let kept = parts.next().map(|list| list.split(',').filter(|at| !at.is_empty()).map(str::parse).collect());
        let kept = kept.transpose().map_err(|e: std::num::ParseIntError| e.to_string())?;
        Ok(Self { seed, schedule, left_out: left_out as u8, kept })
    }
}

/// The result of a case that ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub calls: u64,
    pub trace: u64,
    /// Histories that were too complex for the search.
    pub gave_up: u64,
}

pub struct Failure {
    pub what: String,
    /// Every call, if logging was requested.
    pub log: Vec<String>,
}

thread_local! {
    static NOW: Cell<i64> = const { Cell::new(0) };
}

/// Two versions may have the same time.
fn clock() -> Timestamp {
    NOW.set(NOW.get() + 1);
    Timestamp::from_ms(1_700_000_000_000 + NOW.get() / 2)
}

/// A process: dropping it loses its memory.
fn process() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// Runs a case; with `log`, every call is recorded.
pub fn run(case: &SimCase, log: bool) -> Result<Ended, Failure> {
    let work = case.work();
    ids::seed(Some(case.seed));
    NOW.set(0);
    let simulation = Arc::new(Simulation::new(case.seed ^ case.schedule.wrapping_mul(0x9e37_79b9), work.faults, log));
    let mut run = CaseRun::new(simulation.clone(), work, case);
    let done = run.all();
    ids::seed(None);
    match done.and_then(|()| simulation.verdict()) {
        Ok(()) => {
            let (calls, trace) = simulation.trace();
            Ok(Ended { calls, trace, gave_up: run.gave_up })
        }
        Err(what) => Err(Failure { what, log: simulation.log() }),
    }
}

struct CaseRun {
    simulation: Arc<Simulation>,
    work: Work,
    store: Arc<SimStore>,
    tables: Tables,
    disk: SimDisk,
    /// The requests that are left, by client.
    left: Arc<Mutex<Vec<Vec<ClientOp>>>>,
    /// The view when the current life began.
    seen: View,
    gave_up: u64,
}

impl CaseRun {
    fn new(simulation: Arc<Simulation>, work: Work, case: &SimCase) -> Self {
        let mut left = vec![Vec::new(); work.clients];
        case.ops(&work).into_iter().rev().for_each(|(client, op)| left[client].push(op));
        let store = SimStore::new(simulation.clone(), Memory::default(), work.faults.is_atomic());
        let tables = Tables::new(store.clone());
        let disk = SimDisk::new(simulation.clone(), Path::new(DATA));
        Self {
            simulation,
            work,
            store,
            tables,
            disk,
            left: Arc::new(Mutex::new(left)),
            seen: View::default(),
            gave_up: 0,
        }
    }

    fn settings(&self) -> Settings {
        let (patience, limits) = (Duration::from_millis(self.work.patience), self.work.limits);
        Settings { clock, lock_wait: patience, limits, rows_per_step: 2, ..Settings::default() }
    }

    async fn open(&self) -> rowdrive::drive::Result<Drive> {
        let content = Path::new(DATA).join("content");
        Drive::open_on(Arc::new(self.disk.clone()), self.tables.clone(), &content, self.settings()).await
    }

    fn all(&mut self) -> ViewResult<()> {
        process().block_on(self.set_up())?;
        for stops in (0..=self.work.faults.stops).rev() {
            let clients = self.life(stops > 0)?;
            // After a failed disk call the drive may need a restart.
            let ends_well = !self.simulation.is_dead() && self.work.ends_well && !self.work.faults.disk;
            self.simulation.verdict()?;
            self.after(clients, ends_well)?;
        }
        Ok(())
    }

    async fn set_up(&mut self) -> ViewResult<()> {
        migrate::up(&self.tables).await.map_err(text)?;
        let drive = self.open().await.map_err(text)?;
        let clients = Clients::new(self.simulation.clone(), drive);
        for change in self.work.set_up.clone() {
            clients.run(0, ClientOp::Change(change)).await;
            self.seen = self.seen.after(change).map_err(text)?;
        }
        clients.drive.close().await;
        Ok(())
    }

    /// Runs the process until its clients have finished, or until it stops.
    fn life(&mut self, stops: bool) -> ViewResult<EndedLife> {
        let process = process();
        self.simulation.begin_life(stops);
        let lived = process.block_on(async {
            let opened = tokio::select! {
                biased;
                () = self.simulation.stopped.notified() => return Ok(None),
                opened = self.open() => opened,
            };
            let drive = match opened {
                Ok(drive) => drive,
                // The process starts again, as a supervisor would do.
                Err(_) if self.work.faults.disk => return Ok(None),
                Err(error) => return Err(format!("it does not start: {error:?}")),
            };
            let clients = Arc::new(Clients::new(self.simulation.clone(), drive));
            tokio::select! {
                biased;
                () = self.simulation.stopped.notified() => {}
                () = self.work_off(&clients) => {}
            }
            Ok(Some(clients))
        })?;
        Ok(EndedLife { process, clients: lived })
    }

    async fn work_off(&self, clients: &Arc<Clients>) {
        let store = self.store.clone();
        let late = tokio::spawn(async move { store.deliver().await });
        let numbers = 0..self.left.lock().unwrap().len();
        let all = numbers.map(|number| {
            let (clients, left) = (clients.clone(), self.left.clone());
            tokio::spawn(async move {
                loop {
                    let next = left.lock().unwrap()[number].pop();
                    let Some(op) = next else { return };
                    clients.run(number, op).await;
                }
            })
        });
        for client in all.collect::<Vec<_>>() {
            if let Err(ended) = client.await {
                self.simulation.wrong(format!("a client ended early: {ended}"));
            }
        }
        late.abort();
    }

    /// Compares the history of a life with the view after it.
    fn after(&mut self, lived: EndedLife, ends_well: bool) -> ViewResult<()> {
        let EndedLife { process, clients } = lived;
        let mut before_the_end = None;
        if let Some(clients) = clients.as_ref().filter(|_| ends_well) {
            self.simulation.disable_faults();
            before_the_end = Some(process.block_on(async {
                self.store.end_late().await;
                idle(&clients.drive).await?;
                let view = view(&clients.drive).await;
                clients.drive.close().await;
                view
            })?);
        }
        let history = clients.map(|clients| clients.take_history()).unwrap_or_default();
        self.simulation.die();
        drop(process);
        self.simulation.disable_faults();
        let next = self::process();
        next.block_on(self.store.stop());
        self.disk.stop();
        let view = next.block_on(self.fork())?;
        if let Some(before) = before_the_end.filter(|before| *before != view) {
            return Err(format!("before it was stopped {before:?} was seen, after it {view:?}"));
        }
        match history::explain(&self.seen, &history, &view) {
            Verdict::Explained => {}
            Verdict::GaveUp => self.gave_up += 1,
            Verdict::Contradiction => {
                let mut report = format!("no order explains the answers of the clients:\nat first {:?}\n", self.seen);
                for entry in &history {
                    report += &format!("{:4} to {:4?}: {:?}\n", entry.called, entry.answered, entry.what);
                }
                return Err(format!("{report}at last {view:?}"));
            }
        }
        self.seen = view;
        Ok(())
    }

    /// The view after a start on a copy of store and disk, which leaves the originals unchanged.
    async fn fork(&self) -> ViewResult<View> {
        let calm = Arc::new(Simulation::new(0, Faults::NONE, self.simulation.logs()));
        let disk = self.disk.fork(calm.clone());
        let tables = Tables::new(SimStore::new(calm.clone(), self.store.memory.clone(), self.store.atomic));
        migrate::open(&tables).await.map_err(text)?;
        let view = after_a_start(&tables, &disk, self.settings(), self.work.faults).await;
        if view.is_err() {
            calm.log().into_iter().for_each(|line| self.simulation.note(|| format!("a start: {line}")));
        }
        view
    }
}

/// A life that has ended, with its memory.
struct EndedLife {
    process: Runtime,
    /// None if the start failed or was interrupted.
    clients: Option<Arc<Clients>>,
}
