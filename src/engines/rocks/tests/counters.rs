//! Counters: plans of one group, and the replay of the log.

use std::fs;

use super::wal_check::{crash, logs};
use super::*;
use crate::engines::rocks::group::{Group, PlanVerdict};
use crate::table::counter;

/// Adds to the counter of a row if the sum is then at most the limit.
fn take(row: &str, amount: i64, limit: i64) -> Plan {
    checked(row, vec![Check::fits(column("a", "n"), amount, limit)], vec![Change::add("a", "n", amount)])
}

async fn number(rocks: &Rocks, row: &str) -> i64 {
    counter::decode(value(rocks, row, "a", "n").await.as_deref()).unwrap()
}

#[tokio::test]
async fn later_plans_of_a_group_see_sums() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, take("row", 1, 10)).await;
    let mut group = Group::new(&rocks.db, MAX_TOMBSTONES);
    for _ in 0..3 {
        assert!(matches!(group.add(&take("row", 3, 10), false), PlanVerdict::Accepted));
    }
    match group.add(&take("row", 1, 10), false) {
        PlanVerdict::Refused(refusal) => {
            assert_eq!(refusal.check, Check::AtMost(column("a", "n"), 9));
            assert_eq!(refusal.current, Some(counter::encode(10)));
        }
        _ => panic!("10 and 1 are above the limit"),
    }
    assert!(matches!(group.add(&take("row", -4, 10), false), PlanVerdict::Accepted));
    assert!(matches!(group.add(&take("row", 4, 10), false), PlanVerdict::Accepted));
    // An emptied row counts from zero.
    let empty = checked("row", vec![], vec![Change::DeleteFamily { family: "a" }]);
    assert!(matches!(group.add(&empty, false), PlanVerdict::Accepted));
    assert!(matches!(group.add(&take("row", 7, 10), false), PlanVerdict::Accepted));
    assert_eq!(number(&rocks, "row").await, 1, "the group is not written");
    group.write().unwrap();
    assert_eq!(number(&rocks, "row").await, 7);
}

#[tokio::test]
async fn a_bad_counter_puts_nothing_of_its_plan_into_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let mut group = Group::new(&rocks.db, MAX_TOMBSTONES);
    assert!(matches!(group.add(&take("row", i64::MAX, i64::MAX), false), PlanVerdict::Accepted));
    let plan = |amount| Plan {
        prepare: vec![changed("before", vec![put("a", "q", "v")])],
        guarded: vec![
            guarded("one", vec![], vec![Change::add("a", "n", 1)]),
            guarded("row", vec![], vec![Change::add("a", "n", amount)]),
            guarded("two", vec![], vec![Change::add("a", "n", 1)]),
        ],
        finish: vec![changed("after", vec![put("a", "q", "v")])],
        ..Plan::default()
    };
    for amount in [1, i64::MAX, i64::MIN] {
        match group.add(&plan(amount), false) {
            PlanVerdict::Failed(StoreError::BadCounter(said)) => {
                assert!(said.contains("t row \"row\", cell a:n"), "{said}");
            }
            _ => panic!("{amount} leaves the range"),
        }
    }
    assert!(matches!(group.add(&take("row", -i64::MAX, 0), false), PlanVerdict::Accepted));
    assert!(matches!(group.add(&take("row", 2, 2), false), PlanVerdict::Accepted));
    group.write().unwrap();
    assert_eq!(number(&rocks, "row").await, 2);
    for row in ["before", "one", "two", "after"] {
        assert_eq!(count(&rocks, row, "a").await, 0, "{row}");
    }
}

#[tokio::test]
async fn a_log_cut_anywhere_replays_each_addition_once() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let rocks = open(dir.path()).await;
    let mut ends = Vec::new();
    for n in 1..=12 {
        commit(&rocks, take("row", n, i64::MAX)).await;
        ends.push(logs(dir.path())[0].metadata().unwrap().len());
    }
    assert_eq!(logs(dir.path()).len(), 1);
    drop(rocks);
    crash(dir.path());
    let log = logs(dir.path()).remove(0);
    let sound = fs::read(&log).unwrap();
    for (n, end) in ends.iter().enumerate() {
        for (cut, whole) in [(*end, n + 1), (*end - 1, n)] {
            let copy = tempfile::tempdir().unwrap();
            for file in fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
                fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
            }
            fs::write(copy.path().join(log.file_name().unwrap()), &sound[..cut as usize]).unwrap();
            let sum: usize = (1..=whole).sum();
            // The second start replays what the first one has left.
            for _ in 0..2 {
                let rocks = open(copy.path()).await;
                assert_eq!(number(&rocks, "row").await, sum as i64, "cut at {cut}");
            }
        }
    }
}
