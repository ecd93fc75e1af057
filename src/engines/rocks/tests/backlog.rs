//! Writes wait while a backlog is long, and hold up no flush meanwhile.

use std::sync::Arc;
use std::time::Duration;

use rocksdb::{WriteBatch, properties};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::*;
use crate::engines::rocks::backlog::LONG_AT_LEVEL_0;

/// Sets at how many files of level 0 RocksDB compacts family `a`.
fn compact_at(rocks: &Rocks, files: &str) {
    let family = rocks.db.family("t", "a").unwrap();
    rocks.db.raw.set_options_cf(&family, &[("level0_file_num_compaction_trigger", files)]).unwrap();
}

/// A store whose family `a` has so many files in level 0 that writes wait.
async fn with_backlog(dir: &Path) -> Arc<Rocks> {
    let rocks = Arc::new(open(dir).await);
    compact_at(&rocks, "1000");
    for n in 0..LONG_AT_LEVEL_0 {
        // Not by a commit: it would wait.
        let mut batch = WriteBatch::default();
        batch.put_cf(&rocks.db.family("t", "a").unwrap(), format!("row {n}\0q"), "v");
        rocks.db.write(batch).unwrap();
        rocks.flush();
    }
    for property in [properties::ACTUAL_DELAYED_WRITE_RATE, properties::IS_WRITE_STOPPED] {
        assert_eq!(rocks.db.raw.property_int_value(property).unwrap(), Some(0), "RocksDB limits writes");
    }
    rocks
}

/// A commit to family `a`, in a task of its own.
fn begin_commit(rocks: &Arc<Rocks>) -> JoinHandle<()> {
    let rocks = rocks.clone();
    tokio::spawn(async move { commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_wait_for_a_compaction_and_hold_up_no_flush() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = with_backlog(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("b", "q", "v")])])).await;
    let mut waiting = begin_commit(&rocks);
    assert!(timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "the write does not wait");
    let flushing = rocks.clone();
    timeout(Duration::from_secs(30), spawn_blocking(move || flushing.flush())).await.expect("the flush hangs").unwrap();
    assert!(!waiting.is_finished());
    compact_at(&rocks, "4");
    timeout(Duration::from_secs(30), waiting).await.expect("the write waits after the compaction").unwrap();
}

/// Compaction is off while a file is damaged, and after a start on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn writes_do_not_wait_for_a_family_that_is_not_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = with_backlog(dir.path()).await;
    rocks.db.damaged_files.pause();
    timeout(Duration::from_secs(30), begin_commit(&rocks)).await.expect("the write waits").unwrap();
}
