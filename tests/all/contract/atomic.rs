//! The promises of an engine that says that it is atomic.

use rowdrive::table::{Change, Outcome, Plan, RowQuery, RowRange, ScanQuery, StoreError, Tables};

use super::engines::EngineUnderTest;
use super::plans::{always, delete, done, equals, guard, open, prepare, put, row, while_writing};

/// Rows that never change, between the two that do: more than any engine reads at once from memory.
const BETWEEN: usize = 300;

/// A plan prepares two rows of an index, changes a row of `dir`, and removes the index rows of the plan before. A scan of
/// the index finds the two rows of one plan, whether it goes forwards or backwards.
pub async fn a_plan_is_seen_whole_by_any_scan(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    assert!(tables.is_atomic());
    let between = (0..BETWEEN).map(|n| row("index", format!("m{n:04}"), vec![put("cf", "q", "v")]));
    done(&tables, prepare(between.collect())).await;
    let rows = |n: usize| ["a", "z"].map(|end| format!("{end}{n:08}"));
    let write = move |n: usize| Plan {
        prepare: rows(n).map(|key| row("index", key, vec![put("cf", "q", n.to_string())])).into(),
        guarded: vec![guard("dir", "r", vec![always()], vec![put("cf", "n", n.to_string())])],
        finish: rows(n - 1).map(|key| row("index", key, vec![delete("cf", "q")])).into(),
        ..Plan::default()
    };
    done(&tables, write(1)).await;
    let mut reverse = false;
    while_writing(
        &tables,
        move |n| write(n + 1),
        async || {
            reverse = !reverse;
            let (range, row_query) = (RowRange::all(), RowQuery::families(&["cf"]));
            let scan = ScanQuery { table: "index", range, row_query, limit: 1_000, reverse };
            let mut found = tables.scan(&scan).await.unwrap();
            assert_eq!(found.len(), BETWEEN + 2);
            found.retain(|(key, _)| !key.starts_with(b"m"));
            let values: Vec<_> = found.iter().map(|(_, row)| row.get("cf", b"q").unwrap().clone()).collect();
            assert_eq!(values[0], values[1], "{found:?}");
        },
    )
    .await;
}

/// A refused plan changes nothing: what it would prepare is not there, and what it would remove is.
pub async fn a_refused_plan_changes_nothing(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, prepare(vec![row("index", "j", vec![put("cf", "q", "v")])])).await;
    let plan = Plan {
        prepare: vec![row("index", "i", vec![put("cf", "q", "v")])],
        guarded: vec![guard("dir", "r", vec![equals("cf", "n", "1")], vec![put("cf", "n", "2")])],
        finish: vec![row("index", "j", vec![delete("cf", "q")])],
        ..Plan::default()
    };
    assert!(matches!(tables.commit(plan).await.unwrap(), Outcome::Refused(_)));
    assert_eq!(index_rows(&tables).await, ["j"]);
}

/// As a refused plan.
pub async fn a_plan_with_a_bad_counter_changes_nothing(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, prepare(vec![row("index", "j", vec![put("cf", "q", "v")])])).await;
    let plan = Plan {
        prepare: vec![row("index", "i", vec![put("cf", "q", "v")])],
        guarded: vec![guard("dir", "r", vec![always()], vec![Change::add("cf", "n", -1)])],
        finish: vec![row("index", "j", vec![delete("cf", "q")])],
        ..Plan::default()
    };
    let failed = tables.commit(plan).await;
    assert!(matches!(failed, Err(StoreError::BadCounter(_))), "{failed:?}");
    assert_eq!(index_rows(&tables).await, ["j"]);
}

async fn index_rows(tables: &Tables) -> Vec<String> {
    let (range, row_query) = (RowRange::all(), RowQuery::families(&["cf"]));
    let scan = ScanQuery { table: "index", range, row_query, limit: 10, reverse: false };
    let found = tables.scan(&scan).await.unwrap();
    found.iter().map(|(key, _)| key.escape_ascii().to_string()).collect()
}
