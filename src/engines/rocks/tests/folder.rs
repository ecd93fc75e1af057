//! The folder: opening and closing it, what survives, and what is refused.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

use super::*;
use crate::engines::rocks::files;
use crate::engines::rocks::tables_file::TablesFile;

#[tokio::test]
async fn a_new_start_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let rocks = open(dir.path()).await;
        for before in 0..round {
            assert_eq!(value(&rocks, "row", "a", &format!("{before}")).await.as_deref(), Some(b"v".as_ref()));
            assert_eq!(value(&rocks, "row", "c", &format!("{before}")).await.as_deref(), Some(b"w".as_ref()));
        }
        let cells = vec![put("a", &format!("{round}"), "v"), put("c", &format!("{round}"), "w")];
        commit(&rocks, changes(vec![changed("row", cells)])).await;
    }
}

#[tokio::test]
async fn a_folder_in_use_is_refused_until_it_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    match Rocks::open(dir.path(), options()).map(|_| ()) {
        Err(StoreError::Failed(said)) => assert!(said.contains("is in use"), "{said}"),
        other => panic!("{other:?}"),
    }
    drop(rocks);
    Rocks::open(dir.path(), options()).unwrap();
}

#[tokio::test]
async fn a_crash_before_the_column_families_were_made_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    drop(Rocks::open(dir.path(), options()).unwrap());
    TablesFile::load(dir.path()).unwrap().add(&spec()).unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("b", "q", "v")])])).await;
    assert_eq!(value(&rocks, "row", "b", "q").await.as_deref(), Some(b"v".as_ref()));
}

#[tokio::test]
async fn a_crash_between_two_column_families_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = Rocks::open(dir.path(), options()).unwrap();
    rocks.tables.lock().unwrap().add(&spec()).unwrap();
    let mut first = spec();
    first.families.truncate(1);
    rocks.db.create(&rocks.tuning, &first).unwrap();
    // The same process tries again, then another process.
    rocks.create(&spec()).await.unwrap();
    drop(rocks);
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("c", "q", "v")])])).await;
}

#[tokio::test]
async fn a_table_with_other_properties_is_refused_after_a_new_start_too() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let rocks = Rocks::open(dir.path(), options()).unwrap();
    let mut other = spec();
    other.families[0].bloom = false;
    assert!(matches!(rocks.create(&other).await, Err(StoreError::OtherSpec(name, _)) if name == "t"));
    rocks.create(&spec()).await.unwrap();
}

#[tokio::test]
async fn lost_or_damaged_files_are_damage_and_never_an_empty_store() {
    for (name, spoil) in [("CURRENT", false), ("CURRENT", true), ("tables.json", false), ("tables.json", true)] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
        drop(rocks);
        let path = dir.path().join(name);
        if spoil {
            fs::write(path, b"spoilt").unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        let opened = Rocks::open(dir.path(), options()).map(|_| ());
        assert!(is_damaged(&opened), "{name} {spoil}: {opened:?}");
    }
}

/// RocksDB would create an empty database there, and remove the SST files as obsolete.
#[tokio::test]
async fn a_store_without_current_and_tables_json_is_damage_at_every_start() {
    for lost in [&["CURRENT", "tables.json"][..], &["CURRENT", "tables.json", "MANIFEST"]] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
        rocks.flush();
        drop(rocks);
        let list = || fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        for name in list().filter(|name| lost.iter().any(|lost| name.starts_with(lost))) {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        let before: BTreeSet<String> = list().collect();
        assert!(before.iter().any(|name| name.ends_with(".sst")));
        // All files, SST files without logs, and logs without SST files as in a new store.
        for gone in ["none", ".log", ".sst"] {
            let aside = tempfile::tempdir().unwrap();
            let moved: Vec<_> = list().filter(|name| name.ends_with(gone)).collect();
            for name in &moved {
                fs::rename(dir.path().join(name), aside.path().join(name)).unwrap();
            }
            for _ in 0..2 {
                let opened = Rocks::open(dir.path(), options()).map(|_| ());
                assert!(is_damaged(&opened), "{lost:?}, {gone} too: {opened:?}");
            }
            for name in &moved {
                fs::rename(aside.path().join(name), dir.path().join(name)).unwrap();
            }
            assert_eq!(list().collect::<BTreeSet<_>>(), before);
        }
    }
}

/// Without the marker, a log that was shortened after a clean shutdown is not detected.
#[tokio::test]
async fn a_refused_start_leaves_the_marker_of_a_clean_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
    rocks.flush();
    commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "w")])])).await;
    drop(rocks);
    let tables = files::numbered(dir.path(), "sst").unwrap();
    let (table, aside) = (&tables[0].1, dir.path().join("aside"));
    fs::rename(table, &aside).unwrap();
    assert!(is_damaged(&Rocks::open(dir.path(), options()).map(|_| ())));
    fs::rename(&aside, table).unwrap();
    assert!(dir.path().join("closed").exists());
    let (_, log) = files::numbered(dir.path(), "log").unwrap().pop().unwrap();
    let log = fs::OpenOptions::new().write(true).open(log).unwrap();
    log.set_len(log.metadata().unwrap().len() - 10).unwrap();
    assert!(is_damaged(&Rocks::open(dir.path(), options()).map(|_| ())), "a log that lost its end");
}

#[tokio::test]
async fn a_lost_or_damaged_sst_file_is_damage() {
    for spoil in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        // Not compressed: only the checksum shows the damage.
        let long = "v".repeat(1_000);
        commit(&rocks, changes(vec![changed("row", vec![put("c", "q", &long)])])).await;
        rocks.flush();
        drop(rocks);
        for file in fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path()) {
            if file.extension().is_some_and(|e| e == "sst") {
                let mut bytes = fs::read(&file).unwrap();
                let value = bytes.windows(1_000).position(|part| part.iter().all(|byte| *byte == b'v'));
                bytes[value.unwrap()] = b'w';
                if spoil { fs::write(file, bytes).unwrap() } else { fs::remove_file(file).unwrap() }
            }
        }
        let Ok(rocks) = Rocks::open(dir.path(), options()) else {
            assert!(!spoil, "a block is read only on demand");
            continue;
        };
        assert!(spoil, "the start opens all SST files");
        assert!(is_damaged(&rocks.get("t", b"row", &RowQuery::families(&["c"])).await));
    }
}

#[tokio::test]
async fn a_manifest_without_a_column_family_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let manifest = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path());
    let manifest = manifest.into_iter().find(|f| f.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST"));
    let manifest = fs::OpenOptions::new().write(true).open(manifest.unwrap()).unwrap();
    // RocksDB treats the cut as the torn end after a crash.
    let half = manifest.metadata().unwrap().len() / 2;
    manifest.set_len(half).unwrap();
    assert!(is_damaged(&Rocks::open(dir.path(), options()).map(|_| ())));
    assert_eq!(manifest.metadata().unwrap().len(), half);
}

#[tokio::test]
async fn a_folder_with_only_tables_json_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    for file in fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path()) {
        if !file.ends_with("tables.json") {
            fs::remove_file(file).unwrap();
        }
    }
    assert!(is_damaged(&Rocks::open(dir.path(), options()).map(|_| ())));
}

#[tokio::test]
async fn closing_commits_queued_plans_and_accepts_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let row = |n: usize| changes(vec![changed(&format!("{n}"), vec![put("a", "q", "v")])]);
    let waiting = (0..200).map(|n| rocks.commit(row(n)));
    let (answers, ()) = tokio::join!(futures_util::future::join_all(waiting), rocks.close());
    assert!(answers.into_iter().all(|answer| answer.unwrap() == Outcome::Committed));
    assert!(matches!(rocks.commit(row(0)).await, Err(StoreError::Failed(_))));
    assert!(value(&rocks, "199", "a", "q").await.is_some());
    rocks.close().await;
}

#[tokio::test]
async fn a_plan_during_the_close_is_committed_or_refused_and_never_unknown() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        let row = |n: usize| changes(vec![changed(&format!("{n}"), vec![put("a", "q", "v")])]);
        let coming = (0..200).map(|n| rocks.commit(row(n)));
        let ((), answers) = tokio::join!(rocks.close(), futures_util::future::join_all(coming));
        for (n, answer) in answers.into_iter().enumerate() {
            let there = value(&rocks, &format!("{n}"), "a", "q").await.is_some();
            match answer {
                Ok(outcome) => assert!(outcome == Outcome::Committed && there),
                Err(StoreError::Failed(said)) => assert!(said.contains("closed") && !there, "{said}"),
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_read_does_not_keep_the_folder_locked() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let slow = rocks.pool.run(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Ok(())
    });
    assert!(tokio::time::timeout(std::time::Duration::from_millis(10), slow).await.is_err());
    drop(rocks);
    Rocks::open(dir.path(), options()).unwrap();
}

#[tokio::test]
async fn a_full_disk_accepts_deletes_and_no_puts() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
    drop(rocks);
    let full =
        DiskSpace::probed(dir.path(), Box::new(|| Ok(FileSystemStats { free: 1 << 20, total: 1 << 40, inodes: None })));
    let rocks = Rocks::open_with(taken(dir.path()), options(), full, MAX_TOMBSTONES).unwrap();
    let cells = vec![put("a", "other", "v")];
    let prepared = Plan { prepare: vec![changed("row", cells.clone())], ..Plan::default() };
    for plan in [prepared, checked("row", vec![], cells.clone())] {
        assert!(matches!(rocks.commit(plan).await, Err(StoreError::Full(_))));
    }
    assert_eq!(count(&rocks, "row", "a").await, 1);
    let reserve = Plan { reserve: true, ..checked("row", vec![], cells.clone()) };
    commit(&rocks, reserve).await;
    // Puts in `finish` record clean-up.
    commit(&rocks, changes(vec![changed("row", cells)])).await;
    commit(&rocks, changes(vec![changed("row", vec![Change::DeleteFamily { family: "a" }])])).await;
    assert_eq!(count(&rocks, "row", "a").await, 0);
}

/// A file system of 64 MiB on which there is only this folder.
fn small(dir: &Path) -> DiskSpace {
    let seen = dir.to_owned();
    let probe = move || {
        let files = fs::read_dir(&seen)?.map(|file| Ok(file?.metadata()?.len()));
        let used: u64 = files.sum::<io::Result<u64>>()?;
        Ok(FileSystemStats { free: (64_u64 << 20).saturating_sub(used), total: 64 << 20, inodes: None })
    };
    DiskSpace::probed(dir, Box::new(probe))
}

#[tokio::test]
async fn deleted_rows_free_space_although_they_are_still_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = RocksOptions::with_memory(512 << 20);
    let rocks = Rocks::open_with(taken(dir.path()), options, small(dir.path()), MAX_TOMBSTONES).unwrap();
    rocks.create(&spec()).await.unwrap();
    for round in 0..9 {
        for n in 0..100 {
            let large = vec![put("c", &format!("{n:04}"), &"x".repeat(100_000))];
            let plan = checked("row", vec![], large);
            // A busy machine may take longer to remove a log.
            for tries in 0.. {
                match rocks.commit(plan.clone()).await {
                    Err(StoreError::Full(_)) if tries < 100 => tokio::time::sleep(Duration::from_millis(100)).await,
                    done => {
                        assert_eq!(done.unwrap(), Outcome::Committed);
                        break;
                    }
                }
            }
        }
        assert_eq!(count(&rocks, "row", "c").await, 100, "{round}");
        commit(&rocks, changes(vec![changed("row", vec![Change::DeleteFamily { family: "c" }])])).await;
        // There is a second between two flushes.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}

#[tokio::test]
async fn checksums_run_in_hardware() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let log = fs::read_to_string(dir.path().join("LOG")).unwrap();
    let line = log.lines().find(|line| line.contains("Fast CRC32 supported")).unwrap();
    assert!(line.contains("Supported on"), "{line}");
}

#[tokio::test]
async fn a_small_budget_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = Rocks::open(dir.path(), RocksOptions::with_memory(0)).unwrap();
    rocks.create(&spec()).await.unwrap();
    let large = "x".repeat(1 << 20);
    for n in 0..40 {
        commit(&rocks, changes(vec![changed("row", vec![put("c", &format!("{n}"), &large)])])).await;
    }
    assert_eq!(count(&rocks, "row", "c").await, 40);
}

/// Its path leads to another store now.
#[tokio::test]
async fn a_store_in_a_moved_folder_changes_no_files_at_its_old_path() {
    let scratch = tempfile::tempdir().unwrap();
    for changed_since in [false, true] {
        // A moved store of this process is never closed, so each round needs its own path.
        let (dir, aside) = (scratch.path().join(format!("{changed_since}")), scratch.path().join("aside"));
        let rocks = open(&dir).await;
        commit(&rocks, changes(vec![changed("row", vec![put("b", "q", "moved")])])).await;
        fs::rename(&dir, &aside).unwrap();
        // The files of an earlier day, or of a restore: the same names, and others.
        fs::create_dir(&dir).unwrap();
        for file in fs::read_dir(&aside).unwrap().map(|file| file.unwrap()) {
            fs::copy(file.path(), dir.join(file.file_name())).unwrap();
            if file.file_name().to_str().unwrap().starts_with("MANIFEST") {
                fs::write(dir.join(file.file_name()), "of another length").unwrap();
            }
        }
        for name in ["000001.log", "000002.sst", "000900.log", "000901.sst", "MANIFEST-000902"] {
            fs::write(dir.join(name), "of another store").unwrap();
        }
        let list = || {
            let files = fs::read_dir(&dir).unwrap().map(|file| file.unwrap());
            files.map(|file| (file.file_name(), file.metadata().unwrap().len())).collect::<BTreeSet<_>>()
        };
        let before = list();
        if changed_since {
            assert!(matches!(rocks.writable(), Err(StoreError::Stopped(_))));
            let plan = changes(vec![changed("row", vec![put("b", "q", "lost")])]);
            assert!(matches!(rocks.commit(plan).await, Err(StoreError::Stopped(_))));
            assert!(rocks.checkpoint(&scratch.path().join("copy")).await.is_err());
        }
        rocks.close().await;
        drop(rocks);
        assert_eq!(list(), before, "{changed_since}");
        fs::remove_dir_all(&dir).unwrap();
        let again = open(&aside).await;
        assert_eq!(value(&again, "row", "b", "q").await.as_deref(), Some(b"moved".as_ref()));
        drop(again);
        fs::remove_dir_all(&aside).unwrap();
    }
}
