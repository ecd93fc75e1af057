//! The store: every plan takes effect as a whole or not at all, at some instant between its call and its answer.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use rowdrive::engines::memory::Memory;
use rowdrive::table::store::Result;
use rowdrive::table::{
    Outcome, Page, PageQuery, Plan, Refusal, Row, RowKey, RowQuery, ScanQuery, Store, StoreError, TableSpec,
};

use super::scheduler::Simulation;

pub struct SimStore {
    simulation: Arc<Simulation>,
    pub memory: Memory,
    /// Whether it is atomic, in all lives of the process and in those that watch it.
    pub atomic: bool,
    plans: Mutex<Plans>,
}

#[derive(Default)]
struct Plans {
    sent: u64,
    /// Sent plans that have not taken effect yet.
    under_way: BTreeMap<u64, Plan>,
    /// Plans with a lost answer that may still take effect.
    late: Vec<Plan>,
}

/// The fate of a plan.
enum PlanFate {
    Done,
    Busy,
    Full,
    /// Its answer is lost; the plan takes effect now, never, or later.
    Unknown(ApplyTime),
}

enum ApplyTime {
    Now,
    Never,
    Later,
}

impl SimStore {
    pub fn new(simulation: Arc<Simulation>, memory: Memory, atomic: bool) -> Arc<Self> {
        Arc::new(Self { simulation, memory, atomic, plans: Mutex::default() })
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap()
    }

    /// The process has stopped: each plan in flight takes effect or is lost, in any order.
    pub async fn stop(&self) {
        let under_way = std::mem::take(&mut self.plans().under_way);
        self.plans().late.extend(under_way.into_values());
        self.end_late().await;
    }

    /// Each late plan takes effect now or never.
    pub async fn end_late(&self) {
        let mut plans = std::mem::take(&mut self.plans().late);
        while !plans.is_empty() {
            let plan = plans.swap_remove(self.simulation.below(plans.len() as u64) as usize);
            if self.simulation.below(2) == 0 {
                self.simulation.note(|| format!("done after all: {}", named(&plan)));
                self.memory.commit(plan).await.unwrap();
            }
        }
    }

    fn fate(&self, plan: &Plan) -> PlanFate {
        let faults = self.simulation.faults();
        if !faults.store || !self.simulation.chance(40) {
            return PlanFate::Done;
        }
        match self.simulation.below(5) {
            0 => PlanFate::Busy,
            1 if plan.needs_space() => PlanFate::Full,
            1 | 2 => PlanFate::Unknown(ApplyTime::Now),
            3 if faults.late => PlanFate::Unknown(ApplyTime::Later),
            _ => PlanFate::Unknown(ApplyTime::Never),
        }
    }

    async fn run(&self, plan: Plan) -> Result<Outcome> {
        let number = {
            let mut plans = self.plans();
            plans.sent += 1;
            let number = plans.sent;
            plans.under_way.insert(number, plan.clone());
            number
        };
        self.simulation.pass("commit", || named(&plan)).await;
        let fate = self.fate(&plan);
        let unknown = |cause: &str| Err(StoreError::Unknown { cause: cause.to_owned(), full: false });
        self.plans().under_way.remove(&number);
        let answer = match fate {
            PlanFate::Busy => Err(StoreError::Busy),
            PlanFate::Full => Err(StoreError::Full("as the seed wants it".to_owned())),
            PlanFate::Unknown(ApplyTime::Never) => unknown("it was lost"),
            PlanFate::Unknown(ApplyTime::Later) => {
                self.plans().late.push(plan);
                unknown("it may happen later")
            }
            PlanFate::Unknown(ApplyTime::Now) => {
                self.apply(plan).await?;
                unknown("its answer was lost")
            }
            PlanFate::Done => self.apply(plan).await,
        };
        self.simulation.note(|| format!("{answer:?}"));
        self.simulation.pass("committed", String::new).await;
        answer
    }

    async fn apply(&self, plan: Plan) -> Result<Outcome> {
        let prepare = plan.prepare.clone();
        self.simulation.note(|| named(&plan));
        let leaves = self.simulation.faults().leaves;
        let Outcome::Refused(refusal) = self.memory.commit(plan).await? else { return Ok(Outcome::Committed) };
        if leaves && self.simulation.chance(500) {
            self.memory.commit(Plan { prepare, ..Plan::default() }).await?;
        }
        Ok(Outcome::Refused(Refusal { prepared: leaves, ..refusal }))
    }

    /// Lets plans with a lost answer take effect, at any time from then on.
    pub async fn deliver(&self) {
        loop {
            self.simulation.pass("late", String::new).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let late = self.plans().late.len();
            if late > 0 && self.simulation.chance(200) {
                let plan = self.plans().late.swap_remove(self.simulation.below(late as u64) as usize);
                self.simulation.note(|| format!("late: {}", named(&plan)));
                self.memory.commit(plan).await.unwrap();
            }
        }
    }

    /// A read: it returns the state at some instant between the call and its return.
    async fn read<'a, T>(
        &'a self,
        what: &str,
        row: &[u8],
        answer: impl FnOnce() -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let detail = || row.escape_ascii().to_string();
        if self.simulation.chance(500) {
            self.simulation.pass(what, detail).await;
            return answer().await;
        }
        let answer = answer().await;
        self.simulation.pass(what, detail).await;
        answer
    }
}

/// The rows of a plan, for the report of a failed run.
fn named(plan: &Plan) -> String {
    let key = |table: &str, row: &[u8]| match std::str::from_utf8(row) {
        Ok(text) if table == "dir" => format!("{table}:{text}"),
        _ => format!("{table}:{:02x?}", &row[..row.len().min(2)]),
    };
    let changes = |rows: &[rowdrive::table::RowChange]| {
        rows.iter().map(|row| key(row.table, &row.row)).collect::<Vec<_>>().join(" ")
    };
    let guarded = plan.guarded.iter().map(|row| key(row.table, &row.row)).collect::<Vec<_>>().join(" ");
    format!("[{}] [{guarded}] [{}]", changes(&plan.prepare), changes(&plan.finish))
}

impl Store for SimStore {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        self.memory.create(spec)
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>> {
        Box::pin(self.read(table, row, move || self.memory.get(table, row, query)))
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.read("page", &query.row, || self.memory.page(query)))
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let mut rows = Vec::with_capacity(queries.len());
            for (row, query) in queries {
                rows.push(self.read("get_many", row, || self.memory.get(table, row, query)).await?);
            }
            Ok(rows)
        })
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        Box::pin(async move {
            if self.is_atomic() {
                return self.read("scan", query.table.as_bytes(), || self.scan_memory(query.clone())).await;
            }
            let mut found: Vec<(RowKey, Row)> = Vec::new();
            let mut next = query.clone();
            loop {
                let some = if self.simulation.chance(300) { 1 } else { 1_000 };
                next.limit = some.min(query.limit - found.len());
                let rows = self.read("scan", query.table.as_bytes(), || self.scan_memory(next.clone())).await?;
                let ended = rows.len() < next.limit;
                found.extend(rows);
                if ended || found.len() >= query.limit {
                    return Ok(found);
                }
                let last = found.last().map(|(key, _)| key.clone()).unwrap_or_default();
                let edge = if query.reverse { &mut next.range.to } else { &mut next.range.from };
                *edge = Bound::Excluded(last);
            }
        })
    }

    fn is_atomic(&self) -> bool {
        self.atomic
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(self.run(plan))
    }
}

impl SimStore {
    fn scan_memory(&self, query: ScanQuery) -> BoxFuture<'_, Result<Vec<(RowKey, Row)>>> {
        Box::pin(async move { self.memory.scan(&query).await })
    }
}
