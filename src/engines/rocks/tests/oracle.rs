//! Random plans and queries: the answers equal those of the memory engine.

use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::engines::memory::Memory;
use crate::engines::rocks::read_tier::ReadTier;
use crate::engines::rocks::{RowFamily, is_family_empty};
use crate::table::{PageQuery, RowRange, ScanQuery, counter};

const FAMILIES: [&str; 3] = ["a", "b", "c"];

fn family() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&FAMILIES[..])
}

/// Row keys and qualifiers with the bytes that the encoding treats specially.
fn name() -> impl Strategy<Value = Bytes> {
    let byte = proptest::sample::select(&[0u8, 1, 2, b'a', 0xff][..]);
    proptest::collection::vec(byte, 1..3).prop_map(Bytes::from)
}

fn bound() -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![Just(Bound::Unbounded), name().prop_map(Bound::Included), name().prop_map(Bound::Excluded)]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (family(), name(), name()).prop_map(|(f, q, v)| Change::put(f, q, v)),
        2 => (family(), name()).prop_map(|(f, q)| Change::delete(f, q)),
        1 => family().prop_map(|family| Change::DeleteFamily { family }),
    ]
}

/// A row with a counter: no other row of these plans has its key.
fn counted() -> impl Strategy<Value = ConditionalRow> {
    let change = prop_oneof![
        12 => (-3..4_i64).prop_map(|amount| Change::add("a", "n", amount)),
        1 => Just(Change::put("a", "n", counter::encode(i64::MAX - 1))),
        1 => Just(Change::put("a", "n", "text")),
        1 => Just(Change::delete("a", "n")),
        1 => Just(Change::DeleteFamily { family: "a" }),
    ];
    (0..2_u8, proptest::option::of(-1..6_i64), change).prop_map(|(row, limit, change)| {
        let checks = limit.map(|limit| Check::AtMost(Column::new("a", "n"), limit)).into_iter().collect();
        ConditionalRow { table: "t", row: vec![b'n', row].into(), checks, changes: vec![change] }
    })
}

fn check() -> impl Strategy<Value = Check> {
    prop_oneof![
        4 => (family(), name()).prop_map(|(f, q)| Check::Absent(Column::new(f, q))),
        1 => (family(), name(), name()).prop_map(|(f, q, v)| Check::Equals(Column::new(f, q), v)),
        1 => family().prop_map(Check::FamilyEmpty),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let changes = || proptest::collection::vec(change(), 1..6);
    let row = (name(), changes()).prop_map(|(row, changes)| RowChange { table: "t", row, changes });
    let guard = (name(), proptest::collection::vec(check(), 0..2), changes())
        .prop_map(|(row, checks, changes)| ConditionalRow { table: "t", row, checks, changes });
    let guarded = (proptest::collection::vec(guard, 0..3), proptest::option::of(counted()))
        .prop_map(|(guarded, counted)| guarded.into_iter().chain(counted).collect::<Vec<_>>());
    (guarded, proptest::collection::vec(row, 0..3)).prop_map(|(guarded, finish)| Plan {
        guarded,
        finish,
        ..Plan::default()
    })
}

fn query() -> impl Strategy<Value = RowQuery> {
    let column = (family(), name()).prop_map(|(f, q)| Column::new(f, q));
    (proptest::collection::vec(column, 0..4), proptest::collection::vec(family(), 0..3))
        .prop_map(|(cells, families)| RowQuery { cells, families })
}

fn scan() -> impl Strategy<Value = ScanQuery> {
    (bound(), bound(), query(), 0..12usize, any::<bool>()).prop_map(|(from, to, query, limit, reverse)| ScanQuery {
        table: "t",
        range: RowRange { from, to },
        row_query: query,
        limit,
        reverse,
    })
}

fn page() -> impl Strategy<Value = PageQuery> {
    let unchanged = proptest::collection::vec((family(), name()).prop_map(|(f, q)| Column::new(f, q)), 0..3);
    (name(), family(), bound(), bound(), 0..6usize, unchanged).prop_map(|(row, family, from, to, limit, unchanged)| {
        PageQuery { table: "t", row, family, from, to, limit, unchanged }
    })
}

#[derive(Clone, Debug)]
enum OracleStep {
    /// Plans that are sent at once and in this order, so that they share groups.
    Commit(Vec<Plan>),
    Get(Bytes, RowQuery),
    Page(PageQuery),
    Scan(ScanQuery),
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = OracleStep> {
    prop_oneof![
        8 => proptest::collection::vec(plan(), 1..8).prop_map(OracleStep::Commit),
        3 => (name(), query()).prop_map(|(row, query)| OracleStep::Get(row, query)),
        4 => page().prop_map(OracleStep::Page),
        8 => scan().prop_map(OracleStep::Scan),
        1 => Just(OracleStep::Flush),
        1 => Just(OracleStep::Reopen),
    ]
}

/// Reads the checked families into memory. Otherwise the pool would check them, and later plans would overtake the
/// plan.
fn warm(rocks: &Rocks, plans: &[Plan]) {
    rocks.wait_for_compactions();
    for guarded in plans.iter().flat_map(|plan| &plan.guarded) {
        for family in FAMILIES {
            let row = guarded.row.clone();
            is_family_empty(&rocks.db, ReadTier::Disk, &RowFamily { table: "t", family, row }, None).unwrap();
        }
    }
}

/// None if a counter is wrong.
fn ending(answer: Result<Outcome, StoreError>) -> Option<Outcome> {
    match answer {
        Ok(outcome) => Some(outcome),
        Err(StoreError::BadCounter(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Reads what plans may have changed, so that it is kept, if rows are, and read again after the next plans.
async fn same_rows(rocks: &Rocks, memory: &Memory, plans: &[Plan]) {
    let rows = |plan: &Plan| {
        let unguarded = plan.prepare.iter().chain(&plan.finish).map(|row| row.row.clone());
        unguarded.chain(plan.guarded.iter().map(|row| row.row.clone())).collect::<Vec<_>>()
    };
    for row in plans.iter().flat_map(rows) {
        let cells = FAMILIES.iter().flat_map(|family| [column(family, "a"), column(family, "n")]).collect();
        let single = RowQuery::cells(vec![column("a", "a")]);
        for query in [RowQuery::families(&["a"]), RowQuery::families(&FAMILIES), RowQuery::cells(cells), single] {
            assert_eq!(rocks.get("t", &row, &query).await.unwrap(), memory.get("t", &row, &query).await.unwrap());
        }
    }
}

async fn same(steps: Vec<OracleStep>, options: RocksOptions) {
    let dir = tempfile::tempdir().unwrap();
    let mut rocks = Some(open_keeping(dir.path(), options).await);
    let memory = Memory::default();
    for step in steps {
        let store = rocks.as_ref().unwrap();
        match step {
            OracleStep::Commit(plans) => {
                warm(store, &plans);
                // In one task futures are polled in order, so plans enter the queue in order.
                let sent = futures_util::future::join_all(plans.iter().map(|plan| store.commit(plan.clone())));
                for (answer, plan) in sent.await.into_iter().zip(&plans) {
                    assert_eq!(ending(answer), ending(memory.commit(plan.clone()).await), "{plan:?}");
                }
                same_rows(store, &memory, &plans).await;
            }
            OracleStep::Get(row, query) => {
                assert_eq!(store.get("t", &row, &query).await.unwrap(), memory.get("t", &row, &query).await.unwrap());
                let many = [(row.clone(), query.clone()), (row, query)];
                assert_eq!(store.get_many("t", &many).await.unwrap(), memory.get_many("t", &many).await.unwrap());
            }
            OracleStep::Page(query) => {
                assert_eq!(store.page(&query).await.unwrap(), memory.page(&query).await.unwrap(), "{query:?}");
            }
            OracleStep::Scan(query) => {
                assert_eq!(store.scan(&query).await.unwrap(), memory.scan(&query).await.unwrap(), "{query:?}");
            }
            OracleStep::Flush => store.flush(),
            OracleStep::Reopen => {
                rocks = None;
                rocks.replace(open_keeping(dir.path(), options).await);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_the_oracle(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(same(steps.clone(), options()));
        runtime.block_on(same(steps, keeping()));
    }
}
