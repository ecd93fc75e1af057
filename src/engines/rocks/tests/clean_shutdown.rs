//! What the marker of a clean shutdown adds to the check of the logs.

use std::collections::BTreeSet;
use std::fs;

use super::wal_check::{logs, store};
use super::*;
use crate::engines::rocks::wal_check::examine;

/// After a crash, such zeros count as the result of a power cut.
#[tokio::test]
async fn a_log_with_an_unwritten_end_is_damage_after_a_clean_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[10, 300, 70_000]).await;
    let log = logs(dir.path()).remove(0);
    let mut bytes = fs::read(&log).unwrap();
    bytes[ends[1] as usize..].fill(0);
    fs::write(&log, bytes).unwrap();
    let none_was_torn = Some(BTreeSet::new());
    assert!(is_damaged(&examine(dir.path(), true, none_was_torn.as_ref()).map(drop)));
    assert!(examine(dir.path(), true, None).is_ok());
}
