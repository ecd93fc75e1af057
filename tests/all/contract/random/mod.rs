//! Random plans and reads, with the same answers as the oracle.
//!
//! Sequential plans must have the same outcomes as in the oracle. Concurrent plans must have the outcomes of *some*
//! order. `PROPTEST_CASES` sets the number of runs.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult};
use rowdrive::table::store::Result;
use rowdrive::table::{Change, Outcome, Plan, Refusal, RowChange, RowKey, RowQuery, ScanQuery, StoreError, Tables};

use self::strategies::{Question, RandomStep, steps};
use super::engines::{EngineUnderTest, Memory, Rocks, Stepwise};
use super::plans::{dir, finish, guarded, open, prepare, put, qualifier, scan, tables_of};

mod strategies;

/// The oracle. It can be rebuilt, since it remembers its plans.
struct Oracle {
    tables: Tables,
    plans: Vec<Plan>,
}

impl Oracle {
    async fn from_plans(plans: &[Plan]) -> Self {
        let tables = open(&Memory::default()).await;
        for plan in plans {
            ending(tables.commit(plan.clone()).await);
        }
        Self { tables, plans: plans.to_vec() }
    }

    async fn commit(&mut self, plan: &Plan) -> Ending {
        self.plans.push(plan.clone());
        ending(self.tables.commit(plan.clone()).await)
    }

    /// The oracle after these plans, in an order that gives each plan its observed ending, if there is such an order.
    async fn after_some_order(&self, plans: &[Plan], seen: &[Ending], everything: &[Answer]) -> Option<Self> {
        for order in orders(plans.len()) {
            let mut oracle = Self::from_plans(&self.plans).await;
            let mut same = true;
            for at in order {
                same &= oracle.commit(&plans[at]).await == seen[at];
            }
            if same && all(&oracle.tables).await == everything {
                return Some(oracle);
            }
        }
        None
    }
}

/// Every order of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let inserted = |order: Vec<usize>| {
        (0..count).map(move |at| {
            let mut longer = order.clone();
            longer.insert(at, count - 1);
            longer
        })
    };
    orders(count - 1).into_iter().flat_map(inserted).collect()
}

/// Removed cells of tables with immutable cells: their life cycle allows no second creation.
#[derive(Default)]
struct RemovedCells(HashSet<(&'static str, RowKey, Option<Bytes>)>);

impl RemovedCells {
    fn note(&mut self, rows: &[RowChange]) {
        let removals = rows.iter().flat_map(|row| row.changes.iter().map(move |change| (row, change)));
        for (row, change) in removals.filter(|(_, change)| !change.is_put()) {
            self.0.insert((row.table, row.row.clone(), change.qualifier().cloned()));
        }
    }

    /// Removes changes that would create a removed cell again.
    fn respect(&self, plan: &mut Plan) {
        for rows in [&mut plan.prepare, &mut plan.finish] {
            for row in rows.iter_mut().filter(|row| matches!(row.table, "index" | "todo")) {
                row.changes.retain(|change| {
                    let gone = |qualifier| self.0.contains(&(row.table, row.row.clone(), qualifier));
                    !change.is_put() || !(gone(None) || gone(change.qualifier().cloned()))
                });
            }
            rows.retain(|row| !row.changes.is_empty());
        }
    }
}

/// The answer to a read, in one form for all reads.
type Answer = Vec<String>;

async fn answer(tables: &Tables, question: &Question) -> Answer {
    match question {
        Question::GetMany(table, queries) => {
            let rows = tables.get_many(table, queries).await.unwrap();
            for ((row, query), found) in queries.iter().zip(&rows) {
                assert_eq!(tables.get(table, row, query).await.unwrap(), *found);
            }
            rows.iter().map(|row| format!("{row:?}")).collect()
        }
        Question::Page(query) => vec![format!("{:?}", tables.page(query).await.unwrap())],
        Question::Scan(query) => tables.scan(query).await.unwrap().iter().map(|row| format!("{row:?}")).collect(),
    }
}

/// The complete content of all tables.
async fn all(tables: &Tables) -> Vec<Answer> {
    let mut all = Vec::new();
    for (table, families) in
        [("dir", &["cf", "sub"][..]), ("file", &["cf", "c"]), ("index", &["cf"]), ("todo", &["cf"])]
    {
        for reverse in [false, true] {
            let query = ScanQuery { table, row_query: RowQuery::families(families), reverse, ..scan(&[], 100) };
            all.push(answer(tables, &Question::Scan(query)).await);
        }
    }
    all
}

/// The next plan for the prepared rows of a plan that was not committed: commit them again, or remove them.
fn follow_up(plan: &Plan, again: bool) -> Plan {
    if again {
        return prepare(plan.prepare.clone());
    }
    let gone = |row: &RowChange| {
        let changes = if row.table == "file" {
            ["cf", "c"].map(|family| Change::DeleteFamily { family }).to_vec()
        } else {
            let delete = |c: &Change| Change::delete("cf", c.qualifier().cloned().unwrap_or_default());
            row.changes.iter().map(delete).collect()
        };
        RowChange { changes, ..row.clone() }
    };
    finish(plan.prepare.iter().map(gone).collect())
}

/// How a plan ends in each engine. Engines differ in whether prepared rows remain.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Committed,
    Refused(Refusal),
    BadCounter,
}

fn ending(answer: Result<Outcome>) -> Ending {
    match answer {
        Ok(Outcome::Committed) => Ending::Committed,
        Ok(Outcome::Refused(refusal)) => Ending::Refused(Refusal { prepared: false, ..refusal }),
        Err(StoreError::BadCounter(_)) => Ending::BadCounter,
        // From an engine that had written prepared rows by then.
        Err(StoreError::Unknown { cause, .. }) if cause.contains("a counter is wrong") => Ending::BadCounter,
        Err(error) => panic!("{error}"),
    }
}

async fn same(engine: &dyn EngineUnderTest, steps: Vec<RandomStep>) -> TestCaseResult {
    let mut oracle = Oracle::from_plans(&[]).await;
    let mut removed = RemovedCells::default();
    let mut tables = open(engine).await;
    for step in steps {
        match step {
            RandomStep::Commit(mut plan, again) => {
                removed.respect(&mut plan);
                let ended = ending(tables.commit(plan.clone()).await);
                prop_assert_eq!(&ended, &oracle.commit(&plan).await, "{:?}", plan);
                if ended == Ending::Committed {
                    removed.note(&plan.finish);
                } else if !plan.prepare.is_empty() {
                    let follow_up = follow_up(&plan, again);
                    let ended = ending(tables.commit(follow_up.clone()).await);
                    prop_assert_eq!(&ended, &oracle.commit(&follow_up).await, "{:?}", follow_up);
                    removed.note(&follow_up.finish);
                }
            }
            RandomStep::AtOnce(plans) => {
                let outcomes = join_all(plans.iter().map(|plan| tables.commit(plan.clone()))).await;
                let seen: Vec<Ending> = outcomes.into_iter().map(ending).collect();
                let after = oracle.after_some_order(&plans, &seen, &all(&tables).await).await;
                prop_assert!(after.is_some(), "in no order: {plans:?} ended as {seen:?}");
                oracle = after.unwrap();
            }
            RandomStep::Fill(row, cells) => {
                let cells = (0..cells).map(|n| put("sub", qualifier(n), "v")).collect();
                let plan = guarded(vec![dir(row, cells)]);
                prop_assert_eq!(ending(tables.commit(plan.clone()).await), oracle.commit(&plan).await);
            }
            RandomStep::Ask(question) => {
                prop_assert_eq!(
                    answer(&tables, &question).await,
                    answer(&oracle.tables, &question).await,
                    "{:?}",
                    question
                );
            }
            RandomStep::Restart => {
                drop(tables);
                tables = open(engine).await;
            }
            RandomStep::Kill => tables = tables_of(engine.kill()).await,
        }
    }
    prop_assert_eq!(all(&tables).await, all(&oracle.tables).await);
    Ok(())
}

fn run(engine: impl Fn() -> Box<dyn EngineUnderTest>, steps: Vec<RandomStep>) -> TestCaseResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(same(&*engine(), steps))
}

/// This many runs, unless `PROPTEST_CASES` is set.
fn cases(cases: u32) -> Config {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = Config { max_shrink_iters: 2_000, ..Config::default() };
    if asked { config } else { Config { cases, ..config } }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn stepwise_agrees_with_the_oracle(steps in steps()) {
        run(|| Box::new(Stepwise::default()), steps)?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn rocks_agrees_with_the_oracle(steps in steps()) {
        run(|| Box::new(Rocks::default()), steps)?;
    }
}
