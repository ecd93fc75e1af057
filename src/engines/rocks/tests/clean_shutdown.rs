//! What the note of an orderly end adds to the examination of logs.

use std::collections::BTreeSet;
use std::fs;

use super::wal_check::{logs, store};
use super::*;
use crate::engines::rocks::wal_check::examine;

/// After a crash these zeros would be what a power cut has left.
#[tokio::test]
async fn a_log_whose_end_was_never_written_is_damage_after_an_orderly_end() {
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
