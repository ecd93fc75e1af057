//! The counters of the commits.

use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::engines::rocks::CommitStats;
use crate::engines::rocks::commit_stats::{CommitCounters, GroupStats};

fn absent(qualifier: &str) -> Check {
    Check::Absent(column("a", qualifier))
}

/// The numbers that are the same on every machine.
fn counts(commits: CommitStats) -> [u64; 5] {
    [commits.groups, commits.syncs, commits.plans, commits.changes, commits.bytes]
}

fn largest(commits: CommitStats) -> [u64; 5] {
    let CommitStats { most_changes_of_plan, most_bytes_of_plan, most_plans_of_group, .. } = commits;
    let CommitStats { most_changes_of_group, most_bytes_of_group, .. } = commits;
    [most_changes_of_plan, most_bytes_of_plan, most_plans_of_group, most_changes_of_group, most_bytes_of_group]
}

#[tokio::test]
async fn every_plan_is_counted_before_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    assert_eq!(rocks.commit_stats(), CommitStats::default());
    // Row 3 bytes, qualifiers 1 each, values 2 each.
    let two = vec![put("a", "p", "vv"), put("b", "q", "vv")];
    commit(&rocks, changes(vec![changed("row", two)])).await;
    assert_eq!(counts(rocks.commit_stats()), [1, 1, 1, 2, 9]);
    // Refused: there is nothing to write. Its check has a byte, its change 2.
    let refused = rocks.commit(checked("row", vec![absent("p")], vec![put("a", "p", "v")])).await.unwrap();
    assert!(matches!(refused, Outcome::Refused(_)));
    assert_eq!(counts(rocks.commit_stats()), [2, 1, 2, 3, 15]);
    let parts = Plan {
        prepare: vec![changed("new", vec![put("a", "q", "")])],
        guarded: vec![guarded("one", vec![absent("q")], vec![put("a", "q", ""), Change::delete("b", "q")])],
        finish: vec![changed("row", vec![Change::DeleteFamily { family: "a" }])],
        ..Plan::default()
    };
    commit(&rocks, parts).await;
    let commits = rocks.commit_stats();
    assert_eq!(counts(commits), [3, 2, 3, 7, 28]);
    assert_eq!(largest(commits), [4, 13, 1, 4, 13]);
    let CommitStats { busy, longest_group, synced, longest_sync, .. } = commits;
    assert!(
        busy > longest_group && longest_group > longest_sync && busy > synced && synced > longest_sync,
        "{commits:?}"
    );
    assert!(longest_sync > Duration::ZERO);
}

#[tokio::test]
async fn concurrent_plans_are_counted_as_a_group() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let rows: Vec<_> = (10..74).map(|row| row.to_string()).collect();
    // One thread polls them one after the other: while the first is synced the others are queued.
    let commits = rows.iter().map(|row| rocks.commit(changes(vec![changed(row, vec![put("a", "q", "v")])])));
    join_all(commits).await.into_iter().for_each(|done| assert_eq!(done.unwrap(), Outcome::Committed));
    let commits = rocks.commit_stats();
    assert_eq!([commits.plans, commits.changes, commits.bytes], [64, 64, 256]);
    assert_eq!([commits.most_changes_of_plan, commits.most_bytes_of_plan], [1, 4]);
    let most = commits.most_plans_of_group;
    assert_eq!([commits.most_changes_of_group, commits.most_bytes_of_group], [most, 4 * most]);
    assert!(most * commits.groups >= 64 && commits.syncs == commits.groups, "{commits:?}");
}

#[test]
fn sums_and_maxima_are_kept_apart() {
    let counters = CommitCounters::default();
    let mut one = GroupStats::default();
    one.add(3, 500);
    one.add(5, 100);
    one.synced = Some(Duration::from_millis(2));
    counters.add(&one, Duration::from_millis(7));
    let mut other = GroupStats::default();
    other.add(4, 50);
    counters.add(&other, Duration::from_millis(1));
    let commits = counters.read();
    assert_eq!(counts(commits), [2, 1, 3, 12, 650]);
    assert_eq!(largest(commits), [5, 500, 2, 8, 600]);
    let CommitStats { busy, longest_group, synced, longest_sync, .. } = commits;
    assert_eq!([busy, longest_group, synced, longest_sync], [8, 7, 2, 2].map(Duration::from_millis));
}
