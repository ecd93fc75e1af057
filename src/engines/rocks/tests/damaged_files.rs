//! Damage of an SST file affects only the rows in it: writes and other reads continue.

use std::fs;
use std::path::Path;

use rocksdb::{BottommostLevelCompaction, CompactOptions};

use super::*;
use crate::engines::rocks::db::RowFamily;

/// SST files of each family that [`tables`] writes: more than the 16 of level 0 at which content is compacted.
const ROUNDS: usize = 24;

fn long(row: usize) -> String {
    format!("{row:04}").repeat(300)
}

/// Makes a closed store with rows 0..20 in `c`, in one SST file in which the block of row 7 is damaged. Returns the
/// name of the file.
async fn damaged(dir: &Path) -> String {
    drop(open(dir).await);
    let rocks = open(dir).await;
    for row in 0..20 {
        commit(&rocks, changes(vec![changed(&row.to_string(), vec![put("c", "q", &long(row))])])).await;
    }
    rocks.flush();
    drop(rocks);
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "sst")) {
        let mut bytes = fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(1_200).position(|part| part == long(7).as_bytes()) {
            bytes[at + 600] ^= 1;
            fs::write(&file, bytes).unwrap();
            return file.file_name().unwrap().to_str().unwrap().to_owned();
        }
    }
    panic!("no SST file has row 7");
}

/// Writes so many SST files that RocksDB compacts them. Returns the number of accepted writes.
async fn tables(rocks: &Rocks) -> usize {
    for n in 0..ROUNDS {
        // Before and after all other rows, so that RocksDB cannot move a file unchanged.
        let rows = [format!("/{n}"), format!("more {n}")];
        let row = |row: &String| changed(row, vec![put("a", "q", "v"), put("c", "r", &long(n))]);
        if rocks.commit(changes(rows.iter().map(row).collect())).await.is_err() {
            return n;
        }
        for family in &spec().families {
            let family = rocks.db.family("t", &family.name).unwrap();
            let _stopped = rocks.db.raw.flush_cf_opt(&family, &FlushOptions::default());
        }
        let _stopped = rocks.db.raw.wait_for_compact(&WaitForCompactOptions::default());
    }
    ROUNDS
}

/// Checks that rows of other blocks can be read, and that row 7 is damaged and can be removed.
async fn serves(rocks: &Rocks) {
    for row in [0, 19] {
        assert_eq!(value(rocks, &row.to_string(), "c", "q").await.unwrap(), long(row));
    }
    assert!(is_damaged(&rocks.get("t", b"7", &RowQuery::families(&["c"])).await));
    assert_eq!(tables(rocks).await, ROUNDS);
    rocks.db.compact(&RowFamily { table: "t", family: "c", row: "7".into() }).unwrap();
    assert_eq!(tables(rocks).await, ROUNDS);
}

#[tokio::test]
async fn a_compaction_that_finds_damage_stops_writes_only_until_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let table = damaged(dir.path()).await;
    let rocks = open(dir.path()).await;
    assert!(tables(&rocks).await < ROUNDS);
    assert!(rocks.writable().is_err());
    let known = vec![(table, "t:c".to_owned())];
    assert_eq!(rocks.damaged_tables(), known);
    drop(rocks);
    for _ in 0..2 {
        let rocks = open(dir.path()).await;
        assert_eq!(rocks.damaged_tables(), known);
        serves(&rocks).await;
    }
    assert_eq!(Rocks::open_read_only(dir.path(), options()).unwrap().damaged_tables(), known);
    // The other families are compacted as before.
    let rocks = open(dir.path()).await;
    let files = |family| {
        let family = rocks.db.family("t", family).unwrap();
        rocks.db.raw.property_int_value_cf(&family, "rocksdb.num-files-at-level0").unwrap().unwrap()
    };
    assert!(files("a") < 4 && files("c") > 40, "{} {}", files("a"), files("c"));
    commit(&rocks, changes(vec![changed("7", vec![Change::delete("c", "q")])])).await;
    assert_eq!(value(&rocks, "7", "c", "q").await, None);
}

#[tokio::test]
async fn damage_that_a_compaction_has_found_is_reported_before_a_write_fails() {
    let dir = tempfile::tempdir().unwrap();
    let table = damaged(dir.path()).await;
    let rocks = open(dir.path()).await;
    rocks.ready().unwrap();
    let family = rocks.db.family("t", "c").unwrap();
    let mut whole = CompactOptions::default();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    rocks.db.raw.compact_range_cf_opt(&family, None::<&[u8]>, None::<&[u8]>, &whole);
    drop(family);
    assert!(matches!(rocks.ready(), Err(StoreError::Stopped(_))));
    assert_eq!(rocks.damaged_tables(), [(table, "t:c".to_owned())]);
}

#[tokio::test]
async fn damage_that_a_read_finds_first_stops_no_writes() {
    let dir = tempfile::tempdir().unwrap();
    let table = damaged(dir.path()).await;
    let rocks = open(dir.path()).await;
    serves(&rocks).await;
    assert_eq!(rocks.damaged_tables(), [(table, "t:c".to_owned())]);
}

#[tokio::test]
async fn a_damaged_file_is_forgotten_when_it_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let note = dir.path().join("spoilt");
    for said in [r#"{"999999":"t:c"}"#, "no note"] {
        fs::write(&note, said).unwrap();
        let rocks = open(dir.path()).await;
        assert_eq!(rocks.damaged_tables(), []);
        assert_eq!(tables(&rocks).await, ROUNDS);
        let family = rocks.db.family("t", "c").unwrap();
        let files = rocks.db.raw.property_int_value_cf(&family, "rocksdb.num-files-at-level0").unwrap().unwrap();
        assert!(files < 16, "{files}");
    }
    assert_eq!(fs::read_to_string(note).unwrap(), "no note");
}

/// A read error of a disk may be temporary.
#[tokio::test]
async fn a_file_that_can_be_read_again_is_forgotten_and_its_family_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    for row in 0..20 {
        commit(&rocks, changes(vec![changed(&row.to_string(), vec![put("c", "q", &long(row))])])).await;
    }
    rocks.flush();
    let live = rocks.db.raw.live_files().unwrap();
    let table = live.iter().find(|table| table.column_family_name == "t:c").unwrap().name.clone();
    drop(rocks);
    let note = dir.path().join("spoilt");
    let number: u64 = table.trim_start_matches('/').trim_end_matches(".sst").parse().unwrap();
    let said = format!(r#"{{"{number}":"t:c"}}"#);
    fs::write(&note, &said).unwrap();
    assert_eq!(Rocks::open_read_only(dir.path(), options()).unwrap().damaged_tables(), []);
    assert_eq!(fs::read_to_string(&note).unwrap(), said, "a read-only store changes nothing");
    let rocks = open(dir.path()).await;
    let begun = std::time::Instant::now();
    while !rocks.damaged_tables().is_empty() {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", rocks.damaged_tables());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(tables(&rocks).await, ROUNDS);
    let family = rocks.db.family("t", "c").unwrap();
    let files = rocks.db.raw.property_int_value_cf(&family, "rocksdb.num-files-at-level0").unwrap().unwrap();
    assert!(files < 16, "{files}");
    assert_eq!(fs::read_to_string(note).unwrap(), "{}");
}

/// A compaction reads deleted rows too.
#[tokio::test]
async fn a_damaged_block_of_deleted_rows_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let table = damaged(dir.path()).await;
    let rocks = open(dir.path()).await;
    let family = rocks.db.family("t", "c").unwrap();
    rocks.db.raw.delete_range_cf(&family, [0_u8], [255_u8]).unwrap();
    rocks.db.raw.flush_cf_opt(&family, &FlushOptions::default()).unwrap();
    drop(family);
    drop(rocks);
    let said = format!(r#"{{"{}":"t:c"}}"#, table.trim_end_matches(".sst").parse::<u64>().unwrap());
    fs::write(dir.path().join("spoilt"), said).unwrap();
    let rocks = Rocks::open_read_only(dir.path(), options()).unwrap();
    assert_eq!(rocks.damaged_tables(), [(table, "t:c".to_owned())]);
    assert_eq!(value(&rocks, "7", "c", "q").await, None);
}
