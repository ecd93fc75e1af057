//! Plans of one group, and their effects.

use std::sync::Arc;

use super::*;
use crate::engines::rocks::group::{Group, PlanVerdict};
use crate::engines::rocks::raw::ReadError;
use crate::engines::rocks::read_tier::ReadTier;
use crate::engines::rocks::write_error::WriteError;
use crate::engines::rocks::{RowFamily, is_family_empty};

fn absent(qualifier: &str) -> Check {
    Check::Absent(column("a", qualifier))
}

fn equals(qualifier: &str, value: &str) -> Check {
    Check::Equals(column("a", qualifier), Bytes::copy_from_slice(value.as_bytes()))
}

#[tokio::test]
async fn of_two_plans_in_a_group_for_one_absent_cell_the_first_wins() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let mut group = Group::new(&rocks.db, MAX_TOMBSTONES);
    let claim = |value| checked("row", vec![absent("q")], vec![put("a", "q", value)]);
    assert!(matches!(group.add(&claim("1"), false), PlanVerdict::Accepted));
    match group.add(&claim("2"), false) {
        PlanVerdict::Refused(refusal) => {
            assert_eq!(refusal.check, absent("q"));
            assert_eq!(refusal.current.as_deref(), Some(b"1".as_ref()));
        }
        _ => panic!("both were accepted"),
    }
    // Nothing is visible before the group is written.
    assert_eq!(value(&rocks, "row", "a", "q").await, None);
    group.write().unwrap();
    assert_eq!(value(&rocks, "row", "a", "q").await.as_deref(), Some(b"1".as_ref()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_plans_for_one_absent_cell_commit_once() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    for round in 0..20 {
        let claim = |n: usize| checked(&format!("{round}"), vec![absent("q")], vec![put("a", "q", &format!("{n}"))]);
        let answers = futures_util::future::join_all((0..16).map(|n| rocks.commit(claim(n)))).await;
        let won: Vec<_> = answers.iter().map(|answer| *answer.as_ref().unwrap() == Outcome::Committed).collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        let winner = won.iter().position(|won| *won).unwrap().to_string();
        assert_eq!(value(&rocks, &format!("{round}"), "a", "q").await.unwrap(), winner);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_happen_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = Arc::new(open(dir.path()).await);
    commit(&rocks, changes(vec![changed("row", vec![put("a", "n", "0")])])).await;
    let tasks = (0..32).map(|_| {
        let rocks = rocks.clone();
        tokio::spawn(async move {
            let mut last = "0".to_owned();
            for _ in 0..25 {
                loop {
                    let next = (last.parse::<u64>().unwrap() + 1).to_string();
                    let plan = checked("row", vec![equals("n", &last)], vec![put("a", "n", &next)]);
                    match rocks.commit(plan).await.unwrap() {
                        Outcome::Committed => break last = next,
                        Outcome::Refused(refusal) => {
                            last = String::from_utf8(refusal.current.unwrap().to_vec()).unwrap();
                        }
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(value(&rocks, "row", "a", "n").await.unwrap(), "800");
}

#[tokio::test]
async fn a_refused_plan_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("old", vec![put("a", "q", "v")])])).await;
    let plan = Plan {
        prepare: vec![changed("new", vec![put("a", "q", "v")])],
        guarded: vec![
            guarded("one", vec![absent("q")], vec![put("a", "q", "v")]),
            guarded("two", vec![equals("q", "other")], vec![put("a", "q", "v")]),
        ],
        finish: vec![changed("old", vec![Change::DeleteFamily { family: "a" }])],
        ..Plan::default()
    };
    match rocks.commit(plan).await.unwrap() {
        Outcome::Refused(refusal) => assert_eq!((refusal.row.as_ref(), refusal.current), (b"two".as_ref(), None)),
        Outcome::Committed => panic!("the check does not hold"),
    }
    for (row, cells) in [("new", 0), ("one", 0), ("two", 0), ("old", 1)] {
        assert_eq!(count(&rocks, row, "a").await, cells, "{row}");
    }
}

#[tokio::test]
async fn later_plans_of_a_group_see_families_emptied_and_cells_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    fill(&rocks, "row", "a", 3).await;
    let mut group = Group::new(&rocks.db, MAX_TOMBSTONES);
    let mut take = |plan: Plan| matches!(group.add(&plan, false), PlanVerdict::Accepted);
    assert!(!take(checked("row", vec![absent("00000000")], vec![])));
    assert!(take(changes(vec![changed("row", vec![Change::delete("a", "00000000")])])));
    assert!(take(checked("row", vec![absent("00000000")], vec![])));
    assert!(!take(checked("row", vec![absent("00000001")], vec![])));
    let again = vec![Change::DeleteFamily { family: "a" }, put("a", "00000002", "new")];
    assert!(take(changes(vec![changed("row", again)])));
    assert!(take(checked("row", vec![absent("00000001"), equals("00000002", "new")], vec![])));
    group.write().unwrap();
    assert_eq!(count(&rocks, "row", "a").await, 1);
    assert_eq!(value(&rocks, "row", "a", "00000002").await.unwrap(), "new");
}

#[tokio::test]
async fn whether_a_family_is_empty_waits_for_the_group_that_changed_it() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let conditional = |row| checked(row, vec![Check::FamilyEmpty("a")], vec![put("b", "q", "v")]);
    let mut group = Group::new(&rocks.db, MAX_TOMBSTONES);
    assert!(matches!(
        group.add(&changes(vec![changed("row", vec![put("a", "q", "v")])]), false),
        PlanVerdict::Accepted
    ));
    assert!(matches!(group.add(&conditional("row"), false), PlanVerdict::AfterThisGroup));
    assert!(matches!(group.add(&conditional("other"), false), PlanVerdict::Accepted));
    group.write().unwrap();
    let mut next = Group::new(&rocks.db, MAX_TOMBSTONES);
    assert!(matches!(next.add(&conditional("row"), false), PlanVerdict::Refused(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_removal_and_a_fill_of_a_row_only_one_commits() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    for round in 0..50 {
        let row = round.to_string();
        commit(&rocks, changes(vec![changed(&row, vec![put("b", "here", "v")])])).await;
        let remove = Check::FamilyEmpty("a");
        let remove = checked(&row, vec![remove], vec![Change::delete("b", "here")]);
        let here = Check::Equals(column("b", "here"), "v".into());
        let fill = checked(&row, vec![here], vec![put("a", "child", "v")]);
        let (one, other) = tokio::join!(rocks.commit(remove), rocks.commit(fill));
        let won = [one, other].map(|answer| answer.unwrap() == Outcome::Committed);
        assert_ne!(won[0], won[1], "round {round}");
        assert_eq!(value(&rocks, &row, "b", "here").await.is_some(), won[1]);
        assert_eq!(count(&rocks, &row, "a").await == 1, won[1]);
    }
}

#[tokio::test]
async fn a_family_with_many_tombstones_is_compacted_and_then_answered() {
    // If flushed, the cells and their tombstones are in different SST files. If not, they are in one file, which in the
    // end has only tombstones, and which a compaction might move unchanged.
    many_tombstones(200_000, true).await;
    many_tombstones(10_000, false).await;
}

async fn many_tombstones(cells: usize, flushed: bool) {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open_with(dir.path(), 100).await;
    fill(&rocks, "row", "a", cells).await;
    if flushed {
        rocks.flush();
    }
    for from in (0..cells).step_by(20_000) {
        let names = (from..cells.min(from + 20_000)).map(|n| Change::delete("a", Bytes::from(format!("{n:08}"))));
        commit(&rocks, changes(vec![changed("row", names.collect())])).await;
    }
    let place = RowFamily { table: "t", family: "a", row: Bytes::from_static(b"row") };
    let conditional = checked("row", vec![Check::FamilyEmpty("a")], vec![put("b", "q", "v")]);
    assert!(matches!(is_family_empty(&rocks.db, ReadTier::Disk, &place, Some(100)), Err(ReadError::Incomplete)));
    assert!(matches!(Group::new(&rocks.db, 100).add(&conditional, false), PlanVerdict::Compact(_)));
    assert!(matches!(Group::new(&rocks.db, 100).add(&conditional, true), PlanVerdict::Accepted));
    commit(&rocks, conditional).await;
    assert!(is_family_empty(&rocks.db, ReadTier::Disk, &place, Some(100)).unwrap());
}

#[tokio::test]
async fn tombstones_that_a_snapshot_keeps_do_not_keep_a_plan_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open_with(dir.path(), 10).await;
    fill(&rocks, "row", "a", 1_000).await;
    let snapshot = rocks.db.raw.snapshot();
    let names = (0..1_000).map(|n| Change::delete("a", Bytes::from(format!("{n:08}"))));
    commit(&rocks, changes(vec![changed("row", names.collect())])).await;
    commit(&rocks, checked("row", vec![Check::FamilyEmpty("a")], vec![put("b", "q", "v")])).await;
    drop(snapshot);
}

#[tokio::test]
async fn a_family_of_any_size_is_emptied_whole_and_alone() {
    for (stored, unwritten) in [(0, 0), (1, 0), (99, 1), (100, 0), (100, 1), (101, 0), (0, 101), (5_000, 200)] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let near = ["ro", "row\u{0}", "row\u{1}", "rox"];
        for row in near {
            fill(&rocks, row, "a", 3).await;
        }
        fill(&rocks, "row", "b", 3).await;
        fill(&rocks, "row", "a", stored).await;
        let mut group = Group::new(&rocks.db, MAX_TOMBSTONES);
        let more = (0..unwritten).map(|n| put("a", &format!("unwritten {n}"), "v")).collect();
        group.add(&changes(vec![changed("row", more)]), false);
        group.add(&changes(vec![changed("row", vec![Change::DeleteFamily { family: "a" }])]), false);
        group.write().unwrap();
        assert_eq!(count(&rocks, "row", "a").await, 0, "{stored} + {unwritten}");
        assert_eq!(count(&rocks, "row", "b").await, 3);
        for row in near {
            assert_eq!(count(&rocks, row, "a").await, 3, "{row:?}");
        }
        fill(&rocks, "row", "a", 2).await;
        assert_eq!(count(&rocks, "row", "a").await, 2);
    }
}

#[tokio::test]
async fn a_family_is_emptied_of_cells_after_tombstones_too() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open_with(dir.path(), 10).await;
    fill(&rocks, "row", "a", 1_000).await;
    let names = (0..999).map(|n| Change::delete("a", Bytes::from(format!("{n:08}"))));
    commit(&rocks, changes(vec![changed("row", names.collect())])).await;
    assert_eq!(count(&rocks, "row", "a").await, 1);
    commit(&rocks, changes(vec![changed("row", vec![Change::DeleteFamily { family: "a" }])])).await;
    assert_eq!(count(&rocks, "row", "a").await, 0);
}

#[tokio::test]
async fn after_a_failed_write_reads_work_and_writes_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
    rocks.db.stop("the disk said no".into());
    let delete = changes(vec![changed("row", vec![Change::delete("a", "q")])]);
    match rocks.commit(delete).await {
        Err(StoreError::Stopped(said)) => assert!(!said.is_empty()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(rocks.writable(), Err(StoreError::Stopped(_))));
    assert_eq!(count(&rocks, "row", "a").await, 1);
}

#[tokio::test]
async fn no_write_is_tried_after_a_failed_one() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let mut batch = rocksdb::WriteBatch::default();
    batch.put_cf(&rocks.db.family("t", "c").unwrap(), b"row\0q", b"v");
    rocks.db.raw.drop_cf("t:c").unwrap();
    assert!(matches!(rocks.db.write(batch), Err(WriteError::Sent { full: false, .. })));
    let later = changes(vec![changed("row", vec![put("a", "q", "v")])]);
    match rocks.commit(later).await {
        Err(StoreError::Stopped(said)) => assert!(!said.is_empty()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(rocks.writable(), Err(StoreError::Stopped(_))));
    assert_eq!(count(&rocks, "row", "a").await, 0);
}
