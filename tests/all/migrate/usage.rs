//! Migration 7 counts what each user has created, also what a delete that was interrupted has not cleared away.

use std::sync::Arc;

use rowdrive::drive::Drive;
use rowdrive::migrate;
use rowdrive::schema::account::{self, BYTES, FILES, Usage};
use rowdrive::schema::{CF, meta};
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, Outcome, Plan, RowCursor, RowQuery, RowRange, Store, Tables, counter,
};

use crate::drive::fixture::{Fixture, SETTINGS, run};
use crate::drive::model::Op;
use crate::drive::usage::{change, counters, recounted};
use crate::stepwise::{Fault, Stepwise};

const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Put("/a/c/h", 7), Op::Mkdir("/b"), Op::Put("/x", 8)];

async fn commit(tables: &Tables, guarded: Vec<ConditionalRow>) {
    let outcome = tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
    assert_eq!(outcome, Outcome::Committed);
}

/// The store as a program of schema 6 has it: nothing is counted. Of an interrupted run there are some sums, and some of
/// them are wrong by now.
async fn without_sums(store: &Arc<dyn Store>) {
    let tables = Tables::new(store.clone());
    migrate::up(&tables).await.unwrap();
    let all =
        RowCursor::new(account::TABLE, RowRange::all(), RowQuery::families(&[CF]), 100).rest(&tables).await.unwrap();
    let never = || vec![Check::Absent(Column::new(CF, b"never".as_slice()))];
    let row = |key: &[u8], changes| ConditionalRow {
        table: account::TABLE,
        row: key.to_vec().into(),
        checks: never(),
        changes,
    };
    let delete = || [BYTES, FILES].map(|cell| Change::delete(CF, cell)).to_vec();
    let mut rows: Vec<_> = all.iter().filter(|(key, _)| *key != "tom").map(|(key, _)| row(key, delete())).collect();
    for name in ["tom", "zoe"] {
        rows.push(row(name.as_bytes(), vec![Change::put(CF, BYTES, counter::encode(1_000))]));
    }
    let version = Change::put(CF, meta::VALUE, meta::encode_version(6));
    rows.push(ConditionalRow { table: meta::TABLE, row: meta::SCHEMA.into(), checks: never(), changes: vec![version] });
    commit(&tables, rows).await;
}

/// A store whose process has stopped at this step of an operation; none if there is no such step.
async fn stopped(op: Op, step: usize) -> Option<Fixture> {
    let fixture = Fixture::new(SET_UP).await;
    change(&fixture.drive, Op::Put("/a/c/of-tom", 100), "tom").await;
    change(&fixture.drive, Op::Mkdir("/a/d"), "tom").await;
    change(&fixture.drive, Op::Put("/anyone", 200), "anonymous").await;
    fixture.idle().await;
    let begun = fixture.store.steps();
    fixture.store.at(begun + step, Fault::Stop);
    let _answer = run(&fixture.drive, op).await;
    fixture.drive.close().await;
    let has_stopped = fixture.store.steps() >= begun + step;
    fixture.store.revive();
    has_stopped.then_some(fixture)
}

/// The sums are right, and stay so when the start after the migration ends what is under way.
async fn is_counted(fixture: &Fixture, store: Arc<Stepwise>, what: &str) {
    let (summary, findings) = fixture.check(false).await;
    assert_eq!(summary.wrong, 0, "{what}: {findings:#?}");
    let tables = Tables::new(store);
    migrate::open(&tables).await.unwrap();
    let drive = Drive::open_with(tables.clone(), &fixture.data.path().join("content"), SETTINGS).await.unwrap();
    fixture.wait_until_no_records().await;
    drive.idle().await;
    assert_eq!(counters(&tables).await, recounted(&drive).await, "{what}");
    assert_eq!(counters(&tables).await.get("zoe"), None);
    drive.close().await;
}

#[tokio::test]
async fn the_usage_of_a_store_that_is_there_is_counted() {
    for op in [Op::Remove("/a"), Op::Move("/a", "/b/a", false)] {
        let (mut steps, mut pending) = (0, 0);
        while let Some(fixture) = stopped(op, steps + 1).await {
            steps += 1;
            without_sums(&fixture.store.inner()).await;
            pending += fixture.count(rowdrive::schema::subtree_op::TABLE, "cf").await;
            migrate::up(&Tables::new(fixture.store.clone())).await.unwrap();
            is_counted(&fixture, fixture.store.clone(), &format!("{op:?} stopped at step {steps}")).await;
        }
        assert!(steps > 8 && pending > 8, "{steps} {pending}");
    }
}

#[tokio::test]
async fn counting_that_was_interrupted_at_any_step_is_repeated() {
    let op = Op::Remove("/a");
    let clean = stopped(op, 9).await.unwrap();
    without_sums(&clean.store.inner()).await;
    let begun = clean.store.calls();
    migrate::up(&Tables::new(clean.store.clone())).await.unwrap();
    let calls = clean.store.calls() - begun;
    assert!(calls > 8, "{calls}");
    for call in 1..=calls {
        for fault in [Fault::Stop, Fault::StopAfter, Fault::Lose, Fault::LoseAnswer, Fault::DelayAndStop] {
            let fixture = stopped(op, 9).await.unwrap();
            without_sums(&fixture.store.inner()).await;
            fixture.store.at_call(fixture.store.calls() + call, fault);
            let _interrupted = migrate::up(&Tables::new(fixture.store.clone())).await;
            fixture.store.revive();
            migrate::up(&Tables::new(fixture.store.clone())).await.unwrap();
            fixture.store.deliver().await;
            is_counted(&fixture, fixture.store.clone(), &format!("{fault:?} at call {call}")).await;
        }
    }
}

/// The root counts for nobody.
#[tokio::test]
async fn a_new_store_has_no_sums() {
    let fixture = Fixture::new(&[]).await;
    assert_eq!(counters(&fixture.tables).await.len(), 0);
    fixture.run(Op::Put("/f", 5)).await.unwrap();
    assert_eq!(counters(&fixture.tables).await["eva"], Usage { bytes: 5, files: 1 });
}
