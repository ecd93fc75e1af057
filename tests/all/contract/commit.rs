//! `commit`: the only call that writes.

use bytes::Bytes;
use rowdrive::table::limits::{CELL_BYTES, GUARDED_ROWS, PLAN_BYTES};
use rowdrive::table::{Check, Column, Plan, RowQuery, Tables};

use super::engines::EngineUnderTest;
use super::plans::{
    absent, all, always, columns, delete, delete_family, dir, done, equals, finish, guard, guarded, open, prepare, put,
    refused, row, scan, text,
};

/// A plan with rows in all parts: a file row, two index cells of which one is older, a directory entry and a work row.
fn everything(check: Check) -> Plan {
    Plan {
        prepare: vec![
            row("file", "f", vec![put("cf", "size", "1"), put("c", "data", "x")]),
            row("index", "h", vec![put("cf", "new", "v")]),
        ],
        guarded: vec![
            guard("dir", "a", vec![always()], vec![put("sub", "f", "f")]),
            guard("dir", "b", vec![check], vec![put("sub", "f", "f"), delete("cf", "old")]),
        ],
        finish: vec![row("index", "h", vec![delete("cf", "old")]), row("todo", "t", vec![put("cf", "q", "v")])],
        ..Plan::default()
    }
}

async fn before_everything(engine: &dyn EngineUnderTest) -> Tables {
    let tables = open(engine).await;
    let index_row = prepare(vec![row("index", "h", vec![put("cf", "old", "v")])]);
    done(&tables, index_row).await;
    done(&tables, guarded(vec![dir("b", vec![put("cf", "old", "v")])])).await;
    tables
}

async fn cells(tables: &Tables, table: &'static str, key: &str, families: &[&'static str]) -> Vec<String> {
    text(&tables.get(table, key.as_bytes(), &RowQuery::families(families)).await.unwrap())
}

pub async fn commit_writes_all_parts_of_a_plan(engine: &dyn EngineUnderTest) {
    let tables = before_everything(engine).await;
    done(&tables, everything(equals("cf", "old", "v"))).await;
    assert_eq!(cells(&tables, "file", "f", &["cf", "c"]).await, ["c:data=x", "cf:size=1"]);
    assert_eq!(all(&tables, b"a").await, ["sub:f=f"]);
    assert_eq!(all(&tables, b"b").await, ["sub:f=f"]);
    assert_eq!(cells(&tables, "index", "h", &["cf"]).await, ["cf:new=v"]);
    assert_eq!(cells(&tables, "todo", "t", &["cf"]).await, ["cf:q=v"]);
}

pub async fn commit_refused_changes_no_guarded_and_no_finish_row(engine: &dyn EngineUnderTest) {
    let tables = before_everything(engine).await;
    refused(&tables, everything(absent("cf", "old"))).await;
    assert!(all(&tables, b"a").await.is_empty());
    assert_eq!(all(&tables, b"b").await, ["cf:old=v"]);
    assert!(cells(&tables, "index", "h", &["cf"]).await.contains(&"cf:old=v".to_owned()));
    assert!(cells(&tables, "todo", "t", &["cf"]).await.is_empty());
}

pub async fn commit_refused_leaves_prepare_harmless(engine: &dyn EngineUnderTest) {
    let tables = before_everything(engine).await;
    let refusal = refused(&tables, everything(absent("cf", "old"))).await;
    // Each prepared row is complete or absent; absent if the refusal says so.
    let file = cells(&tables, "file", "f", &["cf", "c"]).await;
    assert!(file.is_empty() || file == ["c:data=x", "cf:size=1"], "{file:?}");
    assert!(file.is_empty() || refusal.prepared, "{file:?}");
    // The same rows, byte for byte, may be committed again.
    done(&tables, everything(equals("cf", "old", "v"))).await;
    assert_eq!(cells(&tables, "file", "f", &["cf", "c"]).await, ["c:data=x", "cf:size=1"]);

    // A caller that gives up removes them by a plan with only `finish` rows, whether or not they exist.
    let second = |check| Plan {
        prepare: vec![row("file", "g", vec![put("cf", "size", "2")]), row("index", "g", vec![put("cf", "new", "v")])],
        guarded: vec![guard("dir", "b", vec![check], vec![put("sub", "g", "g")])],
        finish: Vec::new(),
        ..Plan::default()
    };
    refused(&tables, second(equals("cf", "old", "v"))).await;
    let gone = [row("file", "g", vec![delete_family("cf")]), row("index", "g", vec![delete("cf", "new")])];
    done(&tables, finish(gone.to_vec())).await;
    assert!(cells(&tables, "file", "g", &["cf", "c"]).await.is_empty());
    assert!(cells(&tables, "index", "g", &["cf"]).await.is_empty());
    assert_eq!(all(&tables, b"b").await, ["sub:f=f"]);
}

/// A row with `cf:q=one` and `sub:q=two`.
async fn checked(engine: &dyn EngineUnderTest) -> Tables {
    let tables = open(engine).await;
    let noise = |key| dir(key, vec![put("cf", "p", "no"), put("sub", "p", "no")]);
    let cells = vec![put("cf", "q", "one"), put("sub", "q", "two")];
    done(&tables, guarded(vec![dir("r", cells), noise("q"), noise("r\0"), noise("r\x01"), noise("s")])).await;
    tables
}

/// Commits a check of a row: `None` if it holds, otherwise the value in the refusal.
async fn tried(tables: &Tables, key: &'static str, check: Check) -> Option<Option<Bytes>> {
    let plan = guarded(vec![guard("dir", key, vec![check.clone()], vec![put("sub", "try", "v")])]);
    match tables.commit(plan).await.unwrap() {
        rowdrive::table::Outcome::Committed => {
            done(tables, guarded(vec![dir(key, vec![delete("sub", "try")])])).await;
            None
        }
        rowdrive::table::Outcome::Refused(refusal) => {
            assert_eq!((refusal.table, refusal.row, refusal.check), ("dir", key.into(), check));
            assert!(tables.cell("dir", key.as_bytes(), "sub", b"try").await.unwrap().is_none());
            Some(refusal.current)
        }
    }
}

pub async fn commit_checks_that_a_cell_is_absent(engine: &dyn EngineUnderTest) {
    let tables = checked(engine).await;
    assert_eq!(tried(&tables, "r", absent("cf", "q")).await, Some(Some("one".into())));
    assert_eq!(tried(&tables, "r", absent("sub", "q")).await, Some(Some("two".into())));
    for holds in ["p", "q\0", "r"] {
        assert_eq!(tried(&tables, "r", absent("cf", holds)).await, None, "{holds:?}");
    }
    assert_eq!(tried(&tables, "none", absent("cf", "q")).await, None);
    done(&tables, guarded(vec![dir("r", vec![delete("cf", "q")])])).await;
    assert_eq!(tried(&tables, "r", absent("cf", "q")).await, None);
}

pub async fn commit_checks_that_a_cell_equals(engine: &dyn EngineUnderTest) {
    let tables = checked(engine).await;
    assert_eq!(tried(&tables, "r", equals("cf", "q", "one")).await, None);
    for wrong in ["on", "one\0", "One", "two", "o"] {
        assert_eq!(tried(&tables, "r", equals("cf", "q", wrong)).await, Some(Some("one".into())), "{wrong:?}");
    }
    // An absent cell equals no value.
    for (key, qualifier) in [("r", "p"), ("none", "q"), ("s", "q")] {
        assert_eq!(tried(&tables, key, equals("cf", qualifier, "one")).await, Some(None));
    }
    done(&tables, guarded(vec![dir("r", vec![put("cf", "q", "changed")])])).await;
    assert_eq!(tried(&tables, "r", equals("cf", "q", "one")).await, Some(Some("changed".into())));
    assert_eq!(tried(&tables, "r", equals("cf", "q", "changed")).await, None);
}

pub async fn commit_checks_that_a_family_is_empty(engine: &dyn EngineUnderTest) {
    let tables = checked(engine).await;
    let empty = || Check::FamilyEmpty("sub");
    // A failed check of a whole family has no single cell to report.
    assert_eq!(tried(&tables, "r", empty()).await, Some(None));
    assert_eq!(tried(&tables, "none", empty()).await, None);
    done(&tables, guarded(vec![dir("r", vec![delete("sub", "q")])])).await;
    assert_eq!(tried(&tables, "r", empty()).await, None, "the other family does not count");
    assert_eq!(tried(&tables, "r", Check::FamilyEmpty("cf")).await, Some(None));
    done(&tables, guarded(vec![dir("r", vec![put("sub", "z", "v")])])).await;
    assert_eq!(tried(&tables, "r", empty()).await, Some(None));
    done(&tables, guarded(vec![dir("r", vec![delete_family("sub")])])).await;
    assert_eq!(tried(&tables, "r", empty()).await, None);
}

pub async fn commit_reports_the_first_failed_check(engine: &dyn EngineUnderTest) {
    let tables = checked(engine).await;
    let (holds, fails) = (equals("cf", "q", "one"), equals("sub", "q", "other"));
    // The first failed check in the order of the plan, which differs from the order of the keys.
    let plan = |first: Vec<Check>, second: Vec<Check>| {
        guarded(vec![guard("dir", "s", first, vec![put("cf", "x", "v")]), guard("dir", "r", second, vec![])])
    };
    let refusal = refused(&tables, plan(vec![always(), Check::FamilyEmpty("cf")], vec![fails.clone()])).await;
    assert_eq!(
        (refusal.row.as_ref(), refusal.check, refusal.current),
        (b"s".as_slice(), Check::FamilyEmpty("cf"), None)
    );

    let checks = vec![holds.clone(), fails.clone(), absent("cf", "q")];
    let refusal = refused(&tables, plan(vec![always()], checks)).await;
    assert_eq!((refusal.table, refusal.row.as_ref()), ("dir", b"r".as_slice()));
    assert_eq!((refusal.check, refusal.current), (fails.clone(), Some("two".into())));

    let refusal = refused(&tables, plan(vec![always()], vec![absent("cf", "q"), fails])).await;
    assert_eq!((refusal.check, refusal.current), (absent("cf", "q"), Some("one".into())));
    assert!(tables.cell("dir", b"s", "cf", b"x").await.unwrap().is_none());
}

pub async fn commit_checks_see_earlier_plans(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let step = |checks, changes| guarded(vec![guard("dir", "r", checks, changes)]);
    done(&tables, step(vec![absent("cf", "q")], vec![put("cf", "q", "1")])).await;
    assert_eq!(refused(&tables, step(vec![absent("cf", "q")], vec![])).await.current, Some("1".into()));
    done(&tables, step(vec![equals("cf", "q", "1")], vec![put("cf", "q", "2"), put("sub", "q", "v")])).await;
    assert_eq!(refused(&tables, step(vec![equals("cf", "q", "1")], vec![])).await.current, Some("2".into()));
    refused(&tables, step(vec![Check::FamilyEmpty("sub")], vec![])).await;
    done(&tables, step(vec![equals("cf", "q", "2")], vec![delete_family("sub"), delete_family("cf")])).await;
    done(&tables, step(vec![absent("cf", "q"), Check::FamilyEmpty("sub")], vec![put("cf", "q", "3")])).await;
    assert_eq!(all(&tables, b"r").await, ["cf:q=3"]);
}

pub async fn commit_checks_see_no_change_of_their_own_plan(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let plan = Plan {
        prepare: vec![row("file", "f", vec![put("cf", "q", "v")])],
        guarded: vec![
            guard("dir", "a", vec![absent("cf", "q")], vec![put("cf", "q", "v")]),
            guard("dir", "b", vec![absent("cf", "q"), Check::FamilyEmpty("cf")], vec![put("cf", "q", "v")]),
        ],
        finish: Vec::new(),
        ..Plan::default()
    };
    done(&tables, plan).await;
    let swap = |key, from, to| guard("dir", key, vec![equals("cf", "q", from)], vec![put("cf", "q", to)]);
    done(&tables, guarded(vec![swap("a", "v", "w"), swap("b", "v", "w")])).await;
    let refusal = refused(&tables, guarded(vec![swap("a", "w", "x"), swap("b", "x", "y")])).await;
    assert_eq!((refusal.row.as_ref(), refusal.current), (b"b".as_slice(), Some("w".into())));
    assert_eq!(all(&tables, b"a").await, ["cf:q=w"]);
}

pub async fn commit_of_checks_alone_changes_nothing(engine: &dyn EngineUnderTest) {
    let tables = checked(engine).await;
    let check_only =
        |check| guarded(vec![guard("dir", "r", vec![check], vec![]), guard("dir", "none", vec![always()], vec![])]);
    done(&tables, check_only(equals("cf", "q", "one"))).await;
    refused(&tables, check_only(absent("cf", "q"))).await;
    assert_eq!(all(&tables, b"r").await, ["cf:q=one", "sub:q=two"]);
    assert_eq!(tables.scan(&scan(&["cf", "sub"], 10)).await.unwrap().len(), 5);
}

pub async fn commit_of_nothing_is_committed(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, Plan::default()).await;
    assert!(tables.scan(&scan(&["cf", "sub"], 10)).await.unwrap().is_empty());
}

/// Incompressible bytes, different for each seed.
fn noise(len: usize, seed: u32) -> Bytes {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect::<Vec<u8>>().into()
}

pub async fn commit_accepts_cells_of_one_mebibyte(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let value = noise(CELL_BYTES, 1);
    done(&tables, prepare(vec![row("file", "f", vec![put("c", "data", value.clone())])])).await;
    assert!(tables.cell("file", b"f", "c", b"data").await.unwrap().unwrap() == value);
    // A value of this size can also be compared in a check, and reported in a refusal.
    done(&tables, guarded(vec![dir("r", vec![put("cf", "q", value.clone())])])).await;
    let check = |value| guarded(vec![guard("dir", "r", vec![equals("cf", "q", value)], vec![])]);
    done(&tables, check(value.clone())).await;
    let mut other = value.to_vec();
    other[CELL_BYTES - 1] ^= 1;
    assert!(refused(&tables, check(other.into())).await.current == Some(value));
}

pub async fn commit_accepts_a_plan_of_four_mebibytes(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let big = |n: u32| (format!("{n}"), noise(CELL_BYTES - 2, n));
    let cells: Vec<_> = (0..4).map(big).collect();
    let changes = cells.iter().map(|(q, value)| put("c", q.clone(), value.clone())).collect();
    let plan = prepare(vec![row("file", "file", changes)]);
    assert_eq!(plan.bytes(), PLAN_BYTES);
    done(&tables, plan).await;
    let found = tables.get("file", b"file", &RowQuery::families(&["c"])).await.unwrap();
    assert_eq!(found.len(), 4);
    assert!(cells.iter().all(|(q, value)| found.get("c", q.as_bytes()) == Some(value)));
}

pub async fn commit_accepts_as_many_guarded_rows_as_there_may_be(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let rows = |last: Check| {
        let row = |n: usize| {
            let check = if n == GUARDED_ROWS - 1 { last.clone() } else { absent("cf", "q") };
            guard("dir", format!("{n:03}"), vec![check], vec![put("cf", "q", "v")])
        };
        guarded((0..GUARDED_ROWS).map(row).collect())
    };
    assert_eq!(refused(&tables, rows(equals("cf", "q", "v"))).await.row, (GUARDED_ROWS - 1).to_string());
    assert!(tables.scan(&scan(&["cf"], 200)).await.unwrap().is_empty());
    done(&tables, rows(absent("cf", "q"))).await;
    assert_eq!(tables.scan(&scan(&["cf"], 200)).await.unwrap().len(), GUARDED_ROWS);
}

pub async fn commit_carries_unique_id_rows_through_their_life_cycle(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    // Prepared, or created in guarded rows; changed later; removed in guarded rows or in `finish`.
    done(&tables, prepare(vec![row("file", "f", vec![put("cf", "place", "1"), put("cf", "size", "9")])])).await;
    let made = vec![put("cf", "place", "1"), put("c", "data", "x")];
    done(&tables, guarded(vec![guard("file", "g", vec![absent("cf", "place")], made)])).await;
    for key in ["f", "g"] {
        let changed = guard("file", key, vec![equals("cf", "place", "1")], vec![put("cf", "place", "2")]);
        done(&tables, guarded(vec![changed])).await;
    }
    assert_eq!(cells(&tables, "file", "f", &["cf", "c"]).await, ["cf:place=2", "cf:size=9"]);
    done(&tables, finish(vec![row("file", "f", vec![delete_family("cf"), delete_family("c")])])).await;
    let removed = vec![delete_family("cf"), delete_family("c")];
    done(&tables, guarded(vec![guard("file", "g", vec![equals("cf", "place", "2")], removed)])).await;
    assert!(
        tables.scan(&rowdrive::table::ScanQuery { table: "file", ..scan(&["cf", "c"], 9) }).await.unwrap().is_empty()
    );
}

pub async fn commit_carries_immutable_cells_through_their_life_cycle(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    // Two cells of one row in one plan: each is created and removed independently.
    done(&tables, prepare(vec![row("index", "h", vec![put("cf", "1", "a")])])).await;
    let moved = Plan {
        prepare: vec![row("index", "h", vec![put("cf", "2", "b")])],
        guarded: Vec::new(),
        finish: vec![row("index", "h", vec![delete("cf", "1")])],
        ..Plan::default()
    };
    done(&tables, moved).await;
    assert_eq!(cells(&tables, "index", "h", &["cf"]).await, ["cf:2=b"]);

    // Cells of a `ImmutableLate` table: created and removed in `finish`.
    done(&tables, finish(vec![row("todo", "t", vec![put("cf", "q", "v")])])).await;
    done(&tables, finish(vec![row("todo", "t", vec![delete_family("cf")])])).await;
    let found = tables.get("todo", b"t", &RowQuery::cells(vec![Column::new("cf", "q")])).await.unwrap();
    assert!(found.is_empty());
    assert!(tables.get("index", b"h", &RowQuery::cells(columns(&[("cf", "1")]))).await.unwrap().is_empty());
}
