//! Migration 5 on a disk that becomes full, and with rows that are damaged.

use std::path::Path;
use std::sync::Arc;

use rowdrive::check::{CheckEvent, CheckOptions, Finding, FindingKind, check};
use rowdrive::drive::Drive;
use rowdrive::engines::memory::Memory;
use rowdrive::migrate::{self, MigrateError};
use rowdrive::schema::{CF, file, meta};
use rowdrive::table::{Change, Tables};

use super::schema_1::OldTree;
use super::{SIZE, cells, is_indexed, is_packed, version, with_last_row};
use crate::drive::fixture::run;
use crate::drive::model::Op;
use crate::stepwise::{Fault, Stepwise};

/// Other bytes decode to the same stay id: with a byte behind it, or with a longer form of its length.
#[tokio::test]
async fn a_stay_id_is_checked_as_it_is_stored() {
    for stay in [b"\x01\x01\x00\xff".as_slice(), b"\x01\x81\x00\x00"] {
        let old = OldTree::small();
        let (tables, _) = with_last_row(&old, Change::put(CF, b"place".as_slice(), stay)).await;
        migrate::up(&tables).await.unwrap();
        is_packed(&tables, &old).await;
    }
}

/// A kibibyte for each row.
#[tokio::test]
async fn packing_does_not_begin_without_the_disk_space_that_it_may_take() {
    let old = OldTree::large();
    let (store, files) = (Stepwise::new(Arc::new(Memory::default())), old.paths().len());
    let tables = Tables::new(store.clone());
    migrate::up_to(&tables, 1).await.unwrap();
    old.store(&tables).await;
    migrate::up_to(&tables, 4).await.unwrap();
    store.set_free((files as u64) * 1024 - 1);
    let refused = migrate::up(&tables).await.unwrap_err();
    assert!(matches!(refused, MigrateError::NoSpace { rows, mebibytes: 2, .. } if rows == files as u64), "{refused}");
    assert_eq!(version(&tables).await, meta::encode_version(4));
    assert_eq!(cells(&tables, file::TABLE).await, 10 * files);
    store.set_free((files as u64) * 1024);
    migrate::up(&tables).await.unwrap();
    is_packed(&tables, &old).await;
}

/// The first start applies the migrations before it, the second one finds them applied.
#[tokio::test]
async fn a_start_without_space_to_pack_says_which_programs_open_the_store() {
    let old = OldTree::small();
    let store = Stepwise::new(Arc::new(Memory::default()));
    let tables = Tables::new(store.clone());
    migrate::up_to(&tables, 1).await.unwrap();
    old.store(&tables).await;
    store.set_free(0);
    for said in ["from schema version 1 to 4", "still has schema version 4"] {
        let refused = migrate::up(&tables).await.unwrap_err();
        assert!(matches!(refused, MigrateError::NoSpace { .. }) && refused.to_string().contains(said), "{refused}");
        assert_eq!(version(&tables).await, meta::encode_version(4));
    }
}

/// Another program fills the disk meanwhile.
#[tokio::test]
async fn packing_that_ends_on_a_full_disk_says_what_is_left_and_is_continued() {
    let old = OldTree::large();
    let mut ended = 0;
    for step in 1.. {
        let store = Stepwise::new(Arc::new(Memory::default()));
        let tables = Tables::new(store.clone());
        migrate::up_to(&tables, 1).await.unwrap();
        old.store(&tables).await;
        migrate::up_to(&tables, 4).await.unwrap();
        store.at(store.steps() + step, Fault::Fill);
        let Err(error) = migrate::up(&tables).await else { break };
        match &error {
            MigrateError::Full { rows, mebibytes, .. } => {
                // Ten cells of a row become two.
                let unpacked = (cells(&tables, file::TABLE).await - 2 * old.paths().len()) / 8;
                assert!(*rows > 0 && *rows == unpacked as u64, "step {step}: {rows} rows, {unpacked}");
                let said = error.to_string();
                let parts = [format!("{rows} files"), format!("{mebibytes} MiB"), "serve --degraded".to_owned()];
                assert!(parts.iter().all(|part| said.contains(part)), "{said}");
                is_indexed(&tables, &old).await;
                ended += 1;
            }
            // The mark, or its end.
            MigrateError::Store(_) => {}
            other => panic!("step {step}: {other}"),
        }
        store.free_space();
        migrate::up(&tables).await.unwrap();
        is_packed(&tables, &old).await;
    }
    assert!(ended > 3, "packing has ended {ended} times");
}

/// The findings of a check, and whether nothing is wrong after it.
async fn checked(tables: &Tables, data: &Path, repair: bool) -> (Vec<Finding>, bool) {
    let mut findings = Vec::new();
    let mut on_event = |event: CheckEvent<'_>| {
        if let CheckEvent::Finding(finding) = event {
            findings.push(finding.clone());
        }
    };
    // Without the content, whose digests are invented.
    let options = CheckOptions { content: false, repair };
    let summary = check(tables, data, &options, &mut on_event).await.unwrap();
    (findings, summary.is_right())
}

#[tokio::test]
async fn a_damaged_row_that_was_not_packed_is_named_and_goes_once_its_file_is_replaced() {
    let (tables, _) = with_last_row(&OldTree::small(), Change::delete(CF, SIZE)).await;
    migrate::up(&tables).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let (findings, is_right) = checked(&tables, data.path(), true).await;
    let [Finding { kind: FindingKind::FileDiffers, path: Some(at), .. }] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert!(!is_right);
    let drive = Drive::open(tables.clone(), &data.path().join("content")).await.unwrap();
    run(&drive, Op::Put(Box::leak(at.clone().into_boxed_str()), 5)).await.unwrap();
    drive.close().await;
    let (findings, _) = checked(&tables, data.path(), false).await;
    assert!(matches!(&findings[..], [Finding { kind: FindingKind::StrayFile, .. }]), "{findings:?}");
    assert!(checked(&tables, data.path(), true).await.1);
    assert!(checked(&tables, data.path(), false).await.0.is_empty());
}
