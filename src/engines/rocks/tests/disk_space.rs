//! The free space that plans leave, and the flushes that free some.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const RESERVE: u64 = 64 << 20;

/// A store of this many bytes in one family, on a disk with as many free bytes as the number says.
async fn with_free_space(dir: &Path, bytes: usize) -> (Rocks, Arc<AtomicU64>) {
    let free = Arc::new(AtomicU64::new(1 << 40));
    let seen = free.clone();
    let probe = move || Ok(FileSystemStats { free: seen.load(Ordering::Relaxed), total: 1 << 41, inodes: None });
    // No write buffer is flushed for its size.
    let options = RocksOptions::with_memory(512 << 20);
    let rocks = Rocks::open_with(taken(dir), options, DiskSpace::probed(dir, Box::new(probe)), MAX_TOMBSTONES).unwrap();
    rocks.create(&spec()).await.unwrap();
    for n in 0..bytes >> 20 {
        commit(&rocks, changes(vec![changed("row", vec![put("c", &format!("{n}"), &"x".repeat(1 << 20))])])).await;
    }
    (rocks, free)
}

/// Longer than the free space and the sizes of tables are remembered.
async fn set(free: &AtomicU64, bytes: u64) {
    free.store(bytes, Ordering::Relaxed);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
}

async fn is_accepted(rocks: &Rocks) -> bool {
    let plan = checked("row", vec![], vec![put("a", "q", "v")]);
    match rocks.commit(plan).await {
        Ok(outcome) => outcome == Outcome::Committed,
        Err(StoreError::Full(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_space_for_a_compaction_is_left_besides_the_reserve() {
    let dir = tempfile::tempdir().unwrap();
    let (rocks, free) = with_free_space(dir.path(), 9 << 20).await;
    // What is in memory, the table that it becomes, and a new one of the same size, that is preallocated.
    set(&free, 1 << 20).await;
    assert!(!is_accepted(&rocks).await);
    let kept = rocks.kept_free(0);
    assert!((28 << 20..50 << 20).contains(&kept), "{kept}");
    rocks.flush();
    set(&free, 1 << 20).await;
    assert!(!is_accepted(&rocks).await);
    let kept = rocks.kept_free(0);
    assert!((19 << 20..28 << 20).contains(&kept), "{kept}");
    set(&free, RESERVE + kept - (2 << 20)).await;
    assert!(!is_accepted(&rocks).await);
    commit(&rocks, changes(vec![changed("row", vec![Change::DeleteFamily { family: "a" }])])).await;
    commit(&rocks, checked("row", vec![], vec![Change::add("b", "n", 1)])).await;
    set(&free, RESERVE + kept + (2 << 20)).await;
    assert!(is_accepted(&rocks).await);
}

#[tokio::test]
async fn a_caller_may_ask_for_more_space_than_a_plan_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (rocks, free) = with_free_space(dir.path(), 1 << 20).await;
    set(&free, RESERVE + rocks.kept_free_now() + (4 << 20)).await;
    assert!(rocks.has_space_for(0).await.is_ok() && rocks.has_space_for(2 << 20).await.is_ok());
    assert!(matches!(rocks.has_space_for(8 << 20).await, Err(StoreError::Full(_))));
}

#[tokio::test]
async fn deletes_below_half_of_the_reserve_flush_their_log() {
    let dir = tempfile::tempdir().unwrap();
    let (rocks, free) = with_free_space(dir.path(), 10 << 20).await;
    let delete = || changes(vec![changed("row", vec![Change::DeleteFamily { family: "a" }])]);
    let kept = rocks.kept_free(u64::MAX);
    for (bytes, flushes) in [(RESERVE * 3 / 4 + kept, false), (RESERVE / 4 + kept, true)] {
        set(&free, bytes).await;
        commit(&rocks, delete()).await;
        let is_flushed = || rocks.tuning.buffered() < 8 << 20;
        // RocksDB frees the memory of a write buffer shortly after its flush.
        for _ in 0..500 {
            if is_flushed() == flushes {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(is_flushed(), flushes, "{}", rocks.tuning.buffered());
    }
}
