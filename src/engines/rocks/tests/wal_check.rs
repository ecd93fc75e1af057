//! The log: a torn end after a crash is accepted, and any other damage is refused and named.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::engines::rocks::clean_shutdown::MarkerOnDrop;
use crate::engines::rocks::wal_check::{WalTail, examine};

/// Removes the marker, as if the last process had not closed the store.
pub(super) fn crash(dir: &Path) {
    let _ = fs::remove_file(dir.join("closed"));
}

/// The logs of a folder that are not empty, in order.
pub(super) fn logs(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|e| e == "log") && path.metadata().unwrap().len() > 0);
    logs.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A closed store with a row for each length, each from a write of its own; returns the end of each write in its only
/// log.
pub(super) async fn store(dir: &Path, lengths: &[usize]) -> Vec<u64> {
    drop(open(dir).await);
    // So far there are only records about tables: the next start begins a new log.
    let rocks = open(dir).await;
    let mut ends = Vec::new();
    for (n, length) in lengths.iter().enumerate() {
        let value: String = (0..*length).map(|at| char::from(b'a' + ((at * 7 + n) % 26) as u8)).collect();
        commit(&rocks, changes(vec![changed(&n.to_string(), vec![put("a", "q", &value)])])).await;
        ends.push(logs(dir)[0].metadata().unwrap().len());
    }
    assert_eq!(logs(dir).len(), 1);
    drop(rocks);
    crash(dir);
    ends
}

/// The rows that a start finds, of the first `of`.
async fn rows(dir: &Path, of: usize) -> Vec<usize> {
    let rocks = open(dir).await;
    let mut there = Vec::new();
    for n in 0..of {
        if value(&rocks, &n.to_string(), "a", "q").await.is_some() {
            there.push(n);
        }
    }
    there
}

#[tokio::test]
async fn every_flipped_bit_of_a_log_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    // One record has several fragments.
    let ends = store(dir.path(), &[10, 300, 20, 40_000, 10, 40]).await;
    let (log, size) = (logs(dir.path()).remove(0), *ends.last().unwrap());
    let sound = fs::read(&log).unwrap();
    assert_eq!(examine(dir.path(), true, None).unwrap(), WalTail::Cut);
    // All bits where records are short, and some of those between.
    let dense = (0..ends[2] + 100).chain(ends[3] - 50..size);
    let bits = dense.flat_map(|at| (0..8).map(move |bit| (at, bit)));
    let fragments = (0..2).flat_map(|block| (0..7).map(move |at| (block * 32_768 + at, 0)));
    let sparse = (ends[2]..ends[3]).step_by(997).map(|at| (at, at % 8));
    let mut opened = 0;
    for (at, bit) in bits.chain(fragments).chain(sparse) {
        let mut bytes = sound.clone();
        bytes[at as usize] ^= 1 << bit;
        fs::write(&log, bytes).unwrap();
        match examine(dir.path(), true, None) {
            Err(StoreError::Damaged(said)) => assert!(said.contains(".log") && said.contains("byte"), "{said}"),
            other => panic!("bit {bit} of byte {at}: {other:?}"),
        }
        if at % 61 == 0 && bit == 0 {
            assert!(is_damaged(&Rocks::open(dir.path(), options()).map(drop)), "byte {at}");
            assert!(is_damaged(&Rocks::open_read_only(dir.path(), options()).map(drop)), "byte {at}");
            opened += 1;
        }
    }
    assert!(opened > 5);
    // Nothing was changed by any refusal.
    fs::write(&log, sound).unwrap();
    assert_eq!(rows(dir.path(), 6).await, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_log_cut_anywhere_opens_with_every_write_before_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[10, 300, 20, 80_000, 10]).await;
    let log = logs(dir.path()).remove(0);
    let sound = fs::read(&log).unwrap();
    let (first, last) = (ends[0], *ends.last().unwrap());
    let dense = (first..first + 340).chain(ends[3] - 20..last).chain(32_760..32_790);
    for cut in dense.chain((first..last).step_by(1_009)) {
        fs::write(&log, &sound[..cut as usize]).unwrap();
        assert!(examine(dir.path(), true, None).is_ok(), "cut at {cut}");
    }
    for (n, end) in ends.iter().enumerate() {
        for cut in [*end, *end - 3] {
            let copy = tempfile::tempdir().unwrap();
            for file in fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
                fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
            }
            fs::write(copy.path().join(log.file_name().unwrap()), &sound[..cut as usize]).unwrap();
            let whole = if cut == *end { n + 1 } else { n };
            assert_eq!(rows(copy.path(), 5).await, (0..whole).collect::<Vec<_>>(), "cut at {cut}");
        }
    }
}

/// After a power cut a file may be longer than the bytes that reached the disk.
#[tokio::test]
async fn a_log_with_an_unwritten_end_opens_with_every_write_before() {
    for length in [40, 600, 70_000] {
        let dir = tempfile::tempdir().unwrap();
        let ends = store(dir.path(), &[10, 300, length]).await;
        let (log, start) = (logs(dir.path()).remove(0), ends[1] as usize);
        let sound = fs::read(&log).unwrap();
        // The last write is missing, or some of its sectors.
        let mut lost = Vec::from([(start, sound.len())]);
        if length > 1_000 {
            lost.extend([(start, 32_768), (4_096, 8_192), (32_768, 33_280), (40_960, sound.len())]);
        }
        for (from, to) in lost {
            let mut bytes = sound.clone();
            bytes[from..to].fill(0);
            fs::write(&log, bytes).unwrap();
            assert_eq!(examine(dir.path(), true, None).unwrap(), WalTail::Unwritten, "{length} {from}..{to}");
        }
        assert_eq!(rows(dir.path(), 3).await, [0, 1]);
    }
}

#[tokio::test]
async fn an_older_log_that_is_missing_or_shortened_is_damage() {
    for (which, keep) in [(0, None), (1, None), (0, Some(0.5)), (1, Some(0.5))] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        for n in 0..3 {
            for row in 0..10 {
                let cells = vec![put("a", "q", "v"), put("b", "q", "v")];
                commit(&rocks, changes(vec![changed(&format!("{n}{row}"), cells)])).await;
            }
            // A new log; the one before is needed for `b`.
            let family = rocks.db.family("t", "a").unwrap();
            rocks.db.raw.flush_cf_opt(&family, &FlushOptions::default()).unwrap();
        }
        commit(&rocks, changes(vec![changed("last", vec![put("b", "q", "v")])])).await;
        drop(rocks);
        crash(dir.path());
        let logs = logs(dir.path());
        assert_eq!(logs.len(), 4);
        let size = logs[which].metadata().unwrap().len() as f64;
        match keep {
            None => fs::remove_file(&logs[which]).unwrap(),
            Some(part) => {
                fs::OpenOptions::new().write(true).open(&logs[which]).unwrap().set_len((size * part) as u64).unwrap()
            }
        }
        let opened = Rocks::open(dir.path(), options()).map(drop);
        assert!(is_damaged(&opened), "{which} {keep:?}: {opened:?}");
    }
}

#[tokio::test]
async fn a_store_that_lost_its_log_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &[10]).await;
    for log in fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
        if log.extension().is_some_and(|e| e == "log") {
            fs::remove_file(log).unwrap();
        }
    }
    assert!(is_damaged(&Rocks::open(dir.path(), options()).map(drop)));
}

#[tokio::test]
async fn every_flipped_bit_of_a_manifest_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &[10]).await;
    let current = fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    let manifest = dir.path().join(current.trim_end());
    let sound = fs::read(&manifest).unwrap();
    for (at, bit) in (0..sound.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << bit;
        fs::write(&manifest, bytes).unwrap();
        assert!(is_damaged(&examine(dir.path(), true, None)), "bit {bit} of byte {at}");
    }
}

#[tokio::test]
async fn a_second_crash_right_after_the_next_start_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[10, 300, 20]).await;
    let log = logs(dir.path()).remove(0);
    let torn = fs::read(&log).unwrap()[..ends[2] as usize - 3].to_vec();
    fs::write(&log, &torn).unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("3", vec![put("a", "q", "v")])])).await;
    drop(rocks);
    crash(dir.path());
    // The replayed log still exists, as if RocksDB had not removed it yet.
    fs::write(&log, &torn).unwrap();
    assert_eq!(rows(dir.path(), 4).await, [0, 1, 3]);
}

/// A full disk tears the log, and RocksDB then flushes one family after the other before it accepts writes again.
#[tokio::test]
async fn a_crash_between_two_flushes_after_a_torn_write_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    for row in ["0", "1"] {
        commit(&rocks, changes(vec![changed(row, vec![put("a", "q", "v"), put("b", "q", "v")])])).await;
    }
    let family = rocks.db.family("t", "a").unwrap();
    rocks.db.raw.flush_cf_opt(&family, &FlushOptions::default()).unwrap();
    drop(family);
    drop(rocks);
    crash(dir.path());
    let log = logs(dir.path()).remove(0);
    let mut bytes = fs::read(&log).unwrap();
    // A header with a length of 100 bytes, and fewer bytes.
    bytes.extend([1, 2, 3, 4, 100, 0, 1]);
    bytes.extend([9; 20]);
    fs::write(&log, bytes).unwrap();
    let rocks = open(dir.path()).await;
    for row in ["0", "1"] {
        assert!(value(&rocks, row, "a", "q").await.is_some() && value(&rocks, row, "b", "q").await.is_some());
    }
}

#[tokio::test]
async fn a_log_that_changed_after_a_clean_shutdown_is_damage() {
    for cut in [Some(20), Some(3), None] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
        drop(rocks);
        let log = logs(dir.path()).pop().unwrap();
        let sound = fs::read(&log).unwrap();
        match cut {
            Some(cut) => fs::write(&log, &sound[..sound.len() - cut]).unwrap(),
            None => {
                // There is an older log, as after a flush.
                fs::write(dir.path().join("000001.log"), b"").unwrap();
                fs::remove_file(&log).unwrap();
            }
        }
        match Rocks::open(dir.path(), options()).map(drop) {
            Err(StoreError::Damaged(said)) => assert!(said.contains("when closed"), "{said}"),
            other => panic!("{cut:?}: {other:?}"),
        }
        assert!(is_damaged(&Rocks::open_read_only(dir.path(), options()).map(drop)));
        fs::write(&log, &sound).unwrap();
        let rocks = open(dir.path()).await;
        assert!(value(&rocks, "row", "a", "q").await.is_some());
    }
}

#[tokio::test]
async fn a_marker_of_a_clean_shutdown_is_valid_only_until_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).await);
    let note = dir.path().join("closed");
    let old = fs::read(&note).unwrap();
    let rocks = open(dir.path()).await;
    assert!(!note.exists());
    commit(&rocks, changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
    // After a failed write there is no clean shutdown.
    rocks.db.stop("why".into());
    drop(rocks);
    assert!(!note.exists());
    // As if an older program, which does not remove the marker, had opened the store.
    fs::write(&note, old).unwrap();
    let rocks = open(dir.path()).await;
    assert!(value(&rocks, "row", "a", "q").await.is_some());
}

/// Without disk space to flush its data, a torn log outlives the start after the crash.
#[tokio::test]
async fn a_log_that_was_torn_when_the_store_was_closed_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[10, 300, 20]).await;
    let log = logs(dir.path()).remove(0);
    let torn = fs::read(&log).unwrap()[..ends[2] as usize - 3].to_vec();
    fs::write(&log, &torn).unwrap();
    drop(open(dir.path()).await);
    // As if the log were still needed.
    fs::write(&log, &torn).unwrap();
    drop(MarkerOnDrop::new(dir.path()));
    fs::write(&log, &torn[..torn.len() - 1]).unwrap();
    assert!(is_damaged(&Rocks::open(dir.path(), options()).map(drop)));
    fs::write(&log, &torn).unwrap();
    assert_eq!(rows(dir.path(), 3).await, [0, 1]);
}

/// Zeros in stored values are not unwritten sectors.
#[tokio::test]
async fn a_flipped_bit_of_a_last_record_that_holds_zeros_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[10]).await;
    let rocks = open(dir.path()).await;
    let value = format!("{}x", "\0".repeat(4_000)).repeat(25);
    commit(&rocks, changes(vec![changed("1", vec![put("a", "q", &value)])])).await;
    drop(rocks);
    crash(dir.path());
    let log = logs(dir.path()).pop().unwrap();
    let sound = fs::read(&log).unwrap();
    assert!(ends.len() == 1 && sound.len() > 100_000);
    for at in (0..sound.len()).step_by(997).chain([0, 4, 5, 6, 32_768, 32_772, 32_773, 32_774, sound.len() - 1]) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs::write(&log, bytes).unwrap();
        assert!(is_damaged(&examine(dir.path(), true, None)), "byte {at}");
    }
    fs::write(&log, &sound).unwrap();
    assert!(examine(dir.path(), true, None).is_ok());
}

/// A sector of zeros in the middle is not the end of the log.
#[tokio::test]
async fn a_lost_sector_before_later_records_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[700, 700, 700, 700, 700]).await;
    let log = logs(dir.path()).remove(0);
    let sound = fs::read(&log).unwrap();
    for (from, torn) in [(ends[0], 0), (ends[1], 0), (ends[0], 3)] {
        let from = from as usize;
        let mut bytes = sound[..sound.len() - torn].to_vec();
        bytes[from..(from / 512 + 1) * 512].fill(0);
        fs::write(&log, bytes).unwrap();
        assert!(is_damaged(&examine(dir.path(), true, None)), "{from} {torn}");
    }
}

/// What looks like a record of a log.
fn record(sequence: u64) -> Vec<u8> {
    let bytes = [&sequence.to_le_bytes()[..], &1_u32.to_le_bytes()].concat();
    let sum = crc32c::crc32c_append(crc32c::crc32c(&[1]), &bytes).rotate_right(15).wrapping_add(0xa282_ead8);
    [&sum.to_le_bytes()[..], &[12, 0, 1], &bytes].concat()
}

#[tokio::test]
async fn content_that_looks_like_records_does_not_make_a_torn_write_damage() {
    let dir = tempfile::tempdir().unwrap();
    let ends = store(dir.path(), &[10, 20_000]).await;
    let log = logs(dir.path()).remove(0);
    let mut bytes = fs::read(&log).unwrap();
    let (from, size) = (ends[0] as usize + 1_000, bytes.len() - 2_000);
    // The fragment extends past the end of the file, so its checksum does not matter.
    let records: Vec<u8> = (0..500).flat_map(|n| record(n * 100)).chain((0..300).flat_map(record)).collect();
    bytes[from..from + records.len()].copy_from_slice(&records);
    fs::write(&log, &bytes[..size]).unwrap();
    assert_eq!(examine(dir.path(), true, None).unwrap(), WalTail::Cut);
    // The same with an unwritten end.
    let zeros = (size - 1_000) / 512 * 512;
    bytes[zeros..].fill(0);
    fs::write(&log, &bytes).unwrap();
    assert_eq!(examine(dir.path(), true, None).unwrap(), WalTail::Unwritten);
}

/// A write of which the content is a log itself, as browsers have many, is torn at any page.
#[tokio::test]
async fn a_torn_write_of_a_log_as_content_is_distinguished_from_damage() {
    for (first, near) in [(1_000_000, false), (4, true)] {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).await);
        let rocks = open(dir.path()).await;
        commit(&rocks, changes(vec![changed("0", vec![put("a", "q", "v")])])).await;
        let log = logs(dir.path()).pop().unwrap();
        let start = log.metadata().unwrap().len() as usize;
        let content: Vec<u8> = (first..first + 5_000).flat_map(record).collect();
        commit(&rocks, changes(vec![changed("1", vec![Change::put("a", "q", content)])])).await;
        let end = log.metadata().unwrap().len() as usize;
        for row in ["2", "3"] {
            commit(&rocks, changes(vec![changed(row, vec![put("a", "q", "v")])])).await;
        }
        drop(rocks);
        crash(dir.path());
        let sound = fs::read(&log).unwrap();
        assert!(end - start > 90_000 && sound.len() > end);
        let last_block = end / 32_768 * 32_768;
        for page in (start / 4_096..end / 4_096).map(|page| page * 4_096) {
            let mut bytes = sound.clone();
            bytes[page.max(start)..page + 4_096].fill(0);
            // It is the last write, and was not acknowledged. In the last block, records with consecutive numbers count
            // as records of this log.
            fs::write(&log, &bytes[..end]).unwrap();
            if !near || page + 4_096 <= last_block {
                let said = examine(dir.path(), true, None);
                assert!(matches!(said, Ok(WalTail::Unwritten)), "{first} {page}: {said:?}");
            }
            // Acknowledged writes follow it.
            fs::write(&log, &bytes).unwrap();
            assert!(is_damaged(&examine(dir.path(), true, None)), "{first} {page}");
        }
    }
}
