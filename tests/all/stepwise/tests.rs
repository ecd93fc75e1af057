use std::sync::atomic::{AtomicUsize, Ordering};

use rowdrive::engines::memory::Memory;
use rowdrive::table::spec::FamilySpec;
use rowdrive::table::{Change, Check, Column, KeyLifecycle, RowChange, RowRange, Tables, counter};

use super::*;

fn spec(name: &str, lifecycle: KeyLifecycle) -> TableSpec {
    let family = |name: &str| FamilySpec {
        name: name.to_owned(),
        compression: Default::default(),
        bloom: false,
        cells: Default::default(),
    };
    TableSpec { name: name.to_owned(), lifecycle, families: vec![family("cf"), family("sub")] }
}

/// A stepwise store over memory with one table for each life cycle, and a handle to it.
async fn store() -> (Arc<Stepwise>, Tables) {
    let stepwise = Stepwise::new(Arc::new(Memory::default()));
    let tables = Tables::new(stepwise.clone());
    for (name, lifecycle) in [
        ("dir", KeyLifecycle::Reusable),
        ("file", KeyLifecycle::UniqueId),
        ("index", KeyLifecycle::Immutable),
        ("todo", KeyLifecycle::ImmutableLate),
    ] {
        tables.create(&spec(name, lifecycle)).await.unwrap();
    }
    (stepwise, tables)
}

fn change(table: &'static str, row: &'static str, changes: Vec<Change>) -> RowChange {
    RowChange { table, row: row.into(), changes }
}

fn put(qualifier: &'static str) -> Change {
    Change::put("cf", qualifier, "v")
}

fn delete(qualifier: &'static str) -> Change {
    Change::delete("cf", qualifier)
}

fn absent(row: &'static str, changes: Vec<Change>) -> ConditionalRow {
    ConditionalRow { table: "dir", row: row.into(), checks: vec![Check::Absent(Column::new("cf", "q"))], changes }
}

fn finish(row: RowChange) -> Plan {
    Plan { finish: vec![row], ..Plan::default() }
}

fn guarded(row: ConditionalRow) -> Plan {
    Plan { guarded: vec![row], ..Plan::default() }
}

/// Six steps: a file row, two index cells, two guarded rows at once, a removed index cell, and a work row.
fn six() -> Plan {
    Plan {
        prepare: vec![change("file", "f", vec![put("q"), put("r")]), change("index", "h", vec![put("q"), put("r")])],
        guarded: vec![absent("a", vec![put("q")]), absent("b", vec![put("q")])],
        finish: vec![change("index", "old", vec![delete("q")]), change("todo", "t", vec![put("q")])],
        ..Plan::default()
    }
}

/// The cells after the first steps of [`six`].
fn after(steps: usize) -> Vec<&'static str> {
    let all = [(1, "file f:q"), (1, "file f:r"), (2, "index h:q"), (3, "index h:r"), (4, "dir a:q"), (4, "dir b:q")];
    let mut cells: Vec<_> = all.iter().filter(|(step, _)| *step <= steps).map(|(_, cell)| *cell).collect();
    cells.extend((steps < 5).then_some("index old:q"));
    cells.extend((steps >= 6).then_some("todo t:q"));
    cells.sort_unstable();
    cells
}

async fn cells(store: &Arc<dyn Store>) -> Vec<String> {
    let mut cells = Vec::new();
    for table in ["dir", "file", "index", "todo"] {
        let query = RowQuery::families(&["cf", "sub"]);
        let query = ScanQuery { table, range: RowRange::all(), row_query: query, limit: 100, reverse: false };
        for (row, found) in store.scan(&query).await.unwrap() {
            let name = |q: &Bytes| format!("{table} {}:{}", row.escape_ascii(), q.escape_ascii());
            cells.extend(found.cells().iter().map(|(_, cell)| name(&cell.qualifier)));
        }
    }
    cells.sort_unstable();
    cells
}

/// A store that already has the index cell that [`six`] removes; writing it was step 1.
async fn with_old_index_cell() -> (Arc<Stepwise>, Tables) {
    let (stepwise, tables) = store().await;
    let old = Plan { prepare: vec![change("index", "old", vec![put("q")])], ..Plan::default() };
    assert_eq!(tables.commit(old).await.unwrap(), Outcome::Committed);
    assert_eq!(stepwise.steps(), 1);
    (stepwise, tables)
}

fn is_unknown<T: std::fmt::Debug>(answer: Result<T>) -> bool {
    matches!(answer, Err(StoreError::Unknown { .. }))
}

#[tokio::test]
async fn a_plan_runs_step_by_step_and_logs_each_step() {
    let (stepwise, tables) = with_old_index_cell().await;
    assert_eq!(tables.commit(six()).await.unwrap(), Outcome::Committed);
    assert_eq!(stepwise.steps(), 1 + 6);
    assert_eq!(cells(&stepwise.inner()).await, after(6));
    let log = stepwise.log();
    assert_eq!(log.len(), 7, "{log:?}");
    assert_eq!(log[1], "step 2, plan 2, Prepare: file f: put cf:q (1 bytes), put cf:r (1 bytes): done");
    assert_eq!(log[3], "step 4, plan 2, Prepare: index h: put cf:r (1 bytes): done");
    assert!(log[4].contains("ConditionalRow: dir a: if absent cf:q, put cf:q (1 bytes); dir b:"), "{}", log[4]);
    assert_eq!(log[6], "step 7, plan 2, Finish: todo t: put cf:q (1 bytes): done");
}

#[tokio::test]
async fn a_stop_before_a_step_loses_it_and_all_later_steps() {
    for step in 1..=6 {
        let (stepwise, tables) = with_old_index_cell().await;
        stepwise.at(1 + step, Fault::Stop);
        assert!(is_unknown(tables.commit(six()).await), "step {step}");
        let failed = tables.cell("dir", b"a", "cf", b"q").await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        assert!(matches!(tables.commit(six()).await, Err(StoreError::Failed(_))));
        stepwise.revive();
        assert_eq!(stepwise.deliver().await, 0);
        assert_eq!(cells(&stepwise.inner()).await, after(step - 1), "stopped before step {step}");
        tables.cell("dir", b"a", "cf", b"q").await.unwrap();
    }
}

#[tokio::test]
async fn a_stop_after_a_step_keeps_it_but_does_not_acknowledge_it() {
    for step in 1..=6 {
        let (stepwise, tables) = with_old_index_cell().await;
        stepwise.at(1 + step, Fault::StopAfter);
        assert!(is_unknown(tables.commit(six()).await), "step {step}");
        assert!(tables.cell("dir", b"a", "cf", b"q").await.is_err());
        assert_eq!(cells(&stepwise.inner()).await, after(step), "stopped after step {step}");
    }
}

#[tokio::test]
async fn a_lost_step_or_answer_leaves_the_store_alive() {
    for (fault, done) in [(Fault::Lose, 3), (Fault::LoseAnswer, 4)] {
        let (stepwise, tables) = with_old_index_cell().await;
        stepwise.at(1 + 4, fault);
        assert!(is_unknown(tables.commit(six()).await), "{fault:?}");
        let there = tables.cell("dir", b"a", "cf", b"q").await.unwrap();
        assert_eq!(there.is_some(), done == 4, "{fault:?}");
        assert_eq!(cells(&stepwise.inner()).await, after(done), "{fault:?}");
    }
}

#[tokio::test]
async fn a_refused_plan_keeps_its_prepare_rows_and_writes_no_finish_rows() {
    let (stepwise, tables) = with_old_index_cell().await;
    tables.commit(guarded(absent("b", vec![put("q")]))).await.unwrap();
    let Outcome::Refused(refusal) = tables.commit(six()).await.unwrap() else { panic!("committed") };
    assert_eq!(refusal.row, "b");
    let mut expected = after(3);
    expected.insert(0, "dir b:q");
    assert_eq!(cells(&stepwise.inner()).await, expected);
}

#[tokio::test]
async fn a_delayed_finish_step_is_acknowledged_and_arrives_on_demand() {
    let (stepwise, tables) = with_old_index_cell().await;
    stepwise.at(1 + 5, Fault::Delay);
    assert_eq!(tables.commit(six()).await.unwrap(), Outcome::Committed);
    let mut expected = after(6);
    expected.push("index old:q");
    expected.sort_unstable();
    assert_eq!(cells(&stepwise.inner()).await, expected);
    assert_eq!(stepwise.delayed()[0].number, 6);
    stepwise.deliver_step(6).await;
    assert_eq!(cells(&stepwise.inner()).await, after(6));
    assert!(stepwise.delayed().is_empty());
}

#[tokio::test]
async fn a_finish_step_can_arrive_late_or_twice() {
    for (mode, now) in [(Finish::Delayed, 4), (Finish::Twice, 6)] {
        let (stepwise, tables) = with_old_index_cell().await;
        stepwise.set_finish(mode);
        assert_eq!(tables.commit(six()).await.unwrap(), Outcome::Committed);
        assert_eq!(cells(&stepwise.inner()).await, after(now), "{mode:?}");
        assert_eq!(stepwise.delayed().iter().map(|step| step.number).collect::<Vec<_>>(), [6, 7]);
        // The second copy of a removal also removes a value that was written meanwhile.
        let copy =
            Plan { finish: vec![change("file", "f", vec![Change::DeleteFamily { family: "cf" }])], ..Plan::default() };
        tables.commit(copy).await.unwrap();
        assert_eq!(stepwise.deliver().await, 3, "{mode:?}");
        let gone: Vec<_> = after(6).into_iter().filter(|cell| !cell.starts_with("file")).collect();
        assert_eq!(cells(&stepwise.inner()).await, gone, "{mode:?}");
        assert_eq!(stepwise.steps(), 1 + 6 + 1, "late steps are not counted");
        assert!(stepwise.log().last().unwrap().contains("(late)"));
    }
}

#[tokio::test]
async fn a_removal_can_arrive_twice() {
    let (stepwise, tables) = store().await;
    stepwise.set_finish(Finish::Twice);
    tables.commit(finish(change("file", "f", vec![Change::DeleteFamily { family: "cf" }]))).await.unwrap();
    let made = Plan { prepare: vec![change("file", "f", vec![put("q")])], ..Plan::default() };
    tables.commit(made).await.unwrap();
    stepwise.deliver().await;
    assert!(cells(&stepwise.inner()).await.is_empty());
}

#[tokio::test]
async fn a_delayed_prepare_step_is_not_acknowledged_and_arrives_after_the_stop() {
    for (fault, stops) in [(Fault::Delay, false), (Fault::DelayAndStop, true)] {
        let (stepwise, tables) = with_old_index_cell().await;
        stepwise.at(1 + 3, fault);
        assert!(is_unknown(tables.commit(six()).await), "{fault:?}");
        assert_eq!(tables.cell("dir", b"a", "cf", b"q").await.is_err(), stops, "{fault:?}");
        assert_eq!(cells(&stepwise.inner()).await, after(2), "{fault:?}");
        stepwise.deliver().await;
        assert_eq!(cells(&stepwise.inner()).await, after(3), "{fault:?}");
    }
}

#[tokio::test]
async fn a_delayed_write_of_a_rewritable_cell_arrives_only_at_untouched_rows() {
    for touched in [false, true] {
        let (stepwise, tables) = store().await;
        let made = Plan { prepare: vec![change("file", "f", vec![put("q")])], ..Plan::default() };
        let placed = guarded(absent("a", vec![put("q")]));
        stepwise.at(1, Fault::Delay);
        stepwise.at(2, Fault::Delay);
        assert!(is_unknown(tables.commit(made).await));
        assert!(is_unknown(tables.commit(placed).await));
        if touched {
            // The row is empty afterwards, but it was written meanwhile.
            tables.commit(finish(change("file", "f", vec![Change::DeleteFamily { family: "cf" }]))).await.unwrap();
            tables.commit(guarded(absent("a", vec![put("r")]))).await.unwrap();
            tables.commit(guarded(absent("a", vec![delete("r")]))).await.unwrap();
        }
        stepwise.deliver().await;
        let arrived: &[&str] = if touched { &[] } else { &["dir a:q", "file f:q"] };
        assert_eq!(cells(&stepwise.inner()).await, arrived);
    }
}

#[tokio::test]
async fn guarded_rows_whose_checks_fail_are_never_delayed() {
    let (stepwise, tables) = store().await;
    tables.commit(guarded(absent("a", vec![put("q")]))).await.unwrap();
    stepwise.at(2, Fault::Delay);
    let answer = tables.commit(guarded(absent("a", vec![put("r")]))).await.unwrap();
    assert!(matches!(answer, Outcome::Refused(_)));
    assert!(stepwise.delayed().is_empty());
}

#[tokio::test]
async fn guarded_steps_and_rows_with_unique_ids_never_arrive_twice() {
    let (stepwise, tables) = store().await;
    for step in 1..=4 {
        stepwise.at(step, Fault::Twice);
    }
    let prepare = vec![change("file", "f", vec![put("q")]), change("index", "h", vec![put("q"), put("r")])];
    tables.commit(Plan { prepare, guarded: vec![absent("a", vec![put("q")])], ..Plan::default() }).await.unwrap();
    assert_eq!(stepwise.delayed().iter().map(|step| step.number).collect::<Vec<_>>(), [2, 3]);
}

/// Adds 5 to a counter, if the sum is then at most 9.
fn five() -> Plan {
    let checks = vec![Check::fits(Column::new("cf", "n"), 5, 9)];
    let changes = vec![Change::add("cf", "n", 5)];
    let guarded = vec![ConditionalRow { table: "dir", row: "a".into(), checks, changes }];
    Plan { prepare: vec![change("file", "f", vec![put("q")])], guarded, ..Plan::default() }
}

async fn sum(stepwise: &Stepwise) -> i64 {
    let query = RowQuery::cells(vec![Column::new("cf", "n")]);
    let row = stepwise.inner().get("dir", b"a", &query).await.unwrap();
    counter::decode(row.get("cf", b"n").map(AsRef::as_ref)).unwrap()
}

#[tokio::test]
async fn an_addition_of_unknown_outcome_counts_once_or_never() {
    let faults = [
        (Fault::Stop, 0, 0),
        (Fault::StopAfter, 5, 5),
        (Fault::Lose, 0, 0),
        (Fault::LoseAnswer, 5, 5),
        (Fault::Delay, 0, 5),
        (Fault::DelayAndStop, 0, 5),
    ];
    for (fault, now, later) in faults {
        let (stepwise, tables) = store().await;
        stepwise.at(2, fault);
        assert!(is_unknown(tables.commit(five()).await), "{fault:?}");
        assert_eq!(sum(&stepwise).await, now, "{fault:?}");
        assert!(stepwise.log()[1].contains("dir a: if cf:n at most 4, add 5 to cf:n"), "{:?}", stepwise.log());
        stepwise.deliver().await;
        assert_eq!(sum(&stepwise).await, later, "{fault:?}");
    }
}

#[tokio::test]
async fn an_addition_that_is_late_does_not_follow_another_one() {
    let (stepwise, tables) = store().await;
    stepwise.at(2, Fault::Delay);
    assert!(is_unknown(tables.commit(five()).await));
    assert_eq!(tables.commit(five()).await.unwrap(), Outcome::Committed);
    stepwise.deliver().await;
    assert_eq!(sum(&stepwise).await, 5, "the late one would pass the limit");
    assert!(matches!(tables.commit(five()).await.unwrap(), Outcome::Refused(_)));
}

#[tokio::test]
async fn a_bad_counter_is_an_unknown_outcome_once_rows_are_prepared() {
    for (prepare, unknown) in [(vec![change("file", "f", vec![put("q")])], true), (vec![], false)] {
        let (stepwise, tables) = store().await;
        let row = absent("a", vec![Change::add("cf", "n", -1)]);
        let failed = tables.commit(Plan { prepare, guarded: vec![row], ..Plan::default() }).await;
        match failed {
            Err(StoreError::Unknown { cause, full: false }) if unknown => {
                assert!(cause.contains("a counter is wrong"), "{cause}");
            }
            Err(StoreError::BadCounter(_)) if !unknown => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(cells(&stepwise.inner()).await, if unknown { vec!["file f:q"] } else { vec![] });
    }
}

#[tokio::test]
async fn a_removed_immutable_cell_stays_removed() {
    let (stepwise, tables) = store().await;
    let prepare = |changes| Plan { prepare: vec![change("index", "h", changes)], ..Plan::default() };
    tables.commit(prepare(vec![put("q")])).await.unwrap();
    tables.commit(finish(change("index", "h", vec![delete("q"), delete("early")]))).await.unwrap();
    stepwise.stop();
    stepwise.revive();
    tables.commit(prepare(vec![put("q"), put("r"), put("early")])).await.unwrap();
    assert_eq!(cells(&stepwise.inner()).await, ["index h:r"]);
    assert!(stepwise.log().iter().any(|line| line.contains("swallowed")));

    tables.commit(finish(change("todo", "t", vec![put("q")]))).await.unwrap();
    tables.commit(finish(change("todo", "t", vec![Change::DeleteFamily { family: "cf" }]))).await.unwrap();
    tables.commit(finish(change("todo", "t", vec![put("q"), Change::put("sub", "q", "v")]))).await.unwrap();
    assert_eq!(cells(&stepwise.inner()).await, ["index h:r", "todo t:q"], "sub:q alone");

    for changes in [vec![put("q")], vec![delete("q")], vec![put("q")]] {
        let checks = vec![Check::FamilyEmpty("sub")];
        tables.commit(guarded(ConditionalRow { table: "dir", row: "a".into(), checks, changes })).await.unwrap();
    }
    assert_eq!(cells(&stepwise.inner()).await, ["dir a:q", "index h:r", "todo t:q"], "rows of other classes return");
}

#[tokio::test]
async fn the_observer_sees_the_store_after_every_step() {
    let (stepwise, tables) = with_old_index_cell().await;
    let inner = stepwise.inner();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    stepwise.after(move |step| {
        let (inner, count) = (Arc::clone(&inner), Arc::clone(&count));
        async move {
            assert_eq!(cells(&inner).await, after(step.number - 1), "{step}");
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    tables.commit(six()).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn a_hook_can_run_other_operations_between_two_steps() {
    let (stepwise, tables) = with_old_index_cell().await;
    let steps: Arc<Mutex<Vec<(usize, PlanPart)>>> = Arc::default();
    let recorded = Arc::clone(&steps);
    stepwise.before(move |step| {
        recorded.lock().unwrap().push((step.number, step.part));
        async {}
    });
    let rival = tables.clone();
    // Before the guarded step of the six, another caller writes the second row of that step.
    stepwise.once_before(1 + 4, |_| async move {
        assert_eq!(rival.commit(guarded(absent("b", vec![put("q")]))).await.unwrap(), Outcome::Committed);
    });
    let Outcome::Refused(refusal) = tables.commit(six()).await.unwrap() else { panic!("committed") };
    assert_eq!(refusal.row, "b");
    let recorded = steps.lock().unwrap().clone();
    assert_eq!(
        recorded,
        [
            (2, PlanPart::Prepare),
            (3, PlanPart::Prepare),
            (4, PlanPart::Prepare),
            (5, PlanPart::ConditionalRow),
            (6, PlanPart::ConditionalRow)
        ]
    );
}

#[tokio::test]
async fn a_plan_does_not_continue_after_a_restart() {
    let (stepwise, tables) = with_old_index_cell().await;
    let crash = Arc::clone(&stepwise);
    stepwise.once_before(1 + 3, |_| async move {
        crash.stop();
        crash.revive();
    });
    assert!(is_unknown(tables.commit(six()).await));
    assert_eq!(cells(&stepwise.inner()).await, after(2));
    tables.cell("dir", b"a", "cf", b"q").await.unwrap();
}

#[tokio::test]
async fn reads_can_be_interleaved_row_by_row() {
    let (stepwise, tables) = store().await;
    for row in ["a", "b", "c"] {
        tables.commit(guarded(absent(row, vec![put("q")]))).await.unwrap();
    }
    let query = |reverse, limit| ScanQuery {
        table: "dir",
        range: RowRange::all(),
        row_query: RowQuery::families(&["cf"]),
        limit,
        reverse,
    };
    let plain = [tables.scan(&query(false, 2)).await.unwrap(), tables.scan(&query(true, 100)).await.unwrap()];
    let reads: Arc<Mutex<Vec<Read>>> = Arc::default();
    let recorded = Arc::clone(&reads);
    stepwise.reading(move |read| {
        recorded.lock().unwrap().push(read);
        async {}
    });
    assert_eq!([tables.scan(&query(false, 2)).await.unwrap(), tables.scan(&query(true, 100)).await.unwrap()], plain);
    let queries: Vec<_> = ["a", "b"].iter().map(|row| (RowKey::from(*row), RowQuery::families(&["cf"]))).collect();
    reads.lock().unwrap().clear();
    tables.get_many("dir", &queries).await.unwrap();
    let read = |row: &'static str| Read { call: "get_many", table: "dir", row: row.into() };
    assert_eq!(*reads.lock().unwrap(), [read("a"), read("b")]);

    // A read returns what its hook has written.
    let rival = tables.clone();
    stepwise.reading(move |_| {
        let rival = rival.clone();
        async move {
            let _ = rival.commit(guarded(absent("d", vec![put("q")]))).await.unwrap();
        }
    });
    assert!(tables.cell("dir", b"d", "cf", b"q").await.unwrap().is_some());
}

#[tokio::test]
async fn a_read_during_a_stop_fails() {
    let (stepwise, tables) = store().await;
    let crash = Arc::clone(&stepwise);
    stepwise.reading(move |_| {
        crash.stop();
        crash.revive();
        async {}
    });
    assert!(matches!(tables.cell("dir", b"a", "cf", b"q").await, Err(StoreError::Failed(_))));
}

#[tokio::test]
async fn each_step_and_each_read_can_fail_be_slow_or_follow_a_hook() {
    let (stepwise, tables) = store().await;
    stepwise.scan_row_by_row();
    for row in ["a", "b"] {
        tables.commit(guarded(absent(row, vec![put("q")]))).await.unwrap();
    }
    assert_eq!((stepwise.steps(), stepwise.calls()), (2, 2));
    let scan = ScanQuery {
        table: "dir",
        range: RowRange::all(),
        row_query: RowQuery::families(&["cf"]),
        limit: 10,
        reverse: false,
    };
    let found = tables.scan(&scan).await.unwrap();
    assert_eq!((found.len(), stepwise.calls()), (2, 5), "a call for each row, and one that finds no more");
    for (fault, answers) in [(Fault::Slow, true), (Fault::Lose, false)] {
        stepwise.at_call(stepwise.calls() + 2, fault);
        assert!(tables.cell("dir", b"a", "cf", b"q").await.is_ok());
        assert_eq!(tables.cell("dir", b"a", "cf", b"q").await.is_ok(), answers, "{fault:?}");
        stepwise.at_call(stepwise.calls() + 1, fault);
        let done = tables.commit(guarded(absent("c", vec![delete("q")]))).await;
        assert_eq!(done.is_ok(), answers, "{fault:?}");
    }
    // A read returns what a rival writes just before it.
    let rival = tables.clone();
    stepwise.once_before_call(stepwise.calls() + 2, move || async move {
        rival.commit(guarded(absent("d", vec![put("q")]))).await.unwrap();
    });
    assert!(tables.cell("dir", b"d", "cf", b"q").await.unwrap().is_none());
    assert!(tables.cell("dir", b"d", "cf", b"q").await.unwrap().is_some());
    stepwise.at_call(stepwise.calls() + 1, Fault::Stop);
    assert!(matches!(tables.cell("dir", b"a", "cf", b"q").await, Err(StoreError::Failed(_))));
    assert!(tables.cell("dir", b"a", "cf", b"q").await.is_err());
    stepwise.revive();
    assert!(tables.cell("dir", b"a", "cf", b"q").await.is_ok());
}
