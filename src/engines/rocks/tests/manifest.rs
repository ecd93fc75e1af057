//! A `MANIFEST` that lost its end is refused, unless that loses no data.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::engines::rocks::files;
use crate::engines::rocks::log_format::{HEADER, length};

/// The `MANIFEST` of a folder, and where each of its records ends.
fn manifest(dir: &Path) -> (PathBuf, Vec<u8>, Vec<usize>) {
    let path = dir.join(fs::read_to_string(dir.join("CURRENT")).unwrap().trim_end());
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.len() < 32 << 10, "one block");
    let mut ends = vec![0];
    while let Some(rest) = bytes.get(ends[ends.len() - 1]..).filter(|rest| !rest.is_empty()) {
        ends.push(ends[ends.len() - 1] + HEADER + length(rest));
    }
    (path, bytes, ends)
}

fn copy(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()) {
        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    copy
}

/// Two rows in SST files, of which one was written since the start, and one row in the log.
async fn flushed(dir: &Path, closed: bool) {
    let rocks = open(dir).await;
    commit(&rocks, changes(vec![changed("1", vec![put("a", "q", "v")])])).await;
    drop(rocks);
    let rocks = open(dir).await;
    commit(&rocks, changes(vec![changed("2", vec![put("a", "q", "v")])])).await;
    rocks.flush();
    commit(&rocks, changes(vec![changed("3", vec![put("a", "q", "v")])])).await;
    drop(rocks);
    if !closed {
        fs::remove_file(dir.join("closed")).unwrap();
    }
}

#[tokio::test]
async fn a_manifest_that_lost_its_end_never_loses_rows_silently() {
    for closed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        flushed(dir.path(), closed).await;
        let (path, sound, ends) = manifest(dir.path());
        let (mut refused, mut served) = (0, 0);
        for cut in ends.iter().flat_map(|end| [*end, *end + 1, *end + HEADER]).filter(|cut| *cut < sound.len()) {
            let mut zeros = sound.clone();
            zeros[cut..].fill(0);
            for bytes in [sound[..cut].to_vec(), zeros] {
                let copy = copy(dir.path());
                fs::write(copy.path().join(path.file_name().unwrap()), &bytes).unwrap();
                let tables = files::numbered(copy.path(), "sst").unwrap().len();
                if is_damaged(&Rocks::open(copy.path(), options()).map(drop)) {
                    assert_eq!(files::numbered(copy.path(), "sst").unwrap().len(), tables);
                    assert!(is_damaged(&Rocks::open_read_only(copy.path(), options()).map(drop)));
                    refused += 1;
                    continue;
                }
                served += 1;
                let rocks = open(copy.path()).await;
                for row in ["1", "2", "3"] {
                    let found = value(&rocks, row, "a", "q").await;
                    assert!(found.is_some(), "row {row}, cut at {cut} of {ends:?}, closed: {closed}");
                }
            }
        }
        assert!(refused > 0);
        // After a clean shutdown every byte is checked.
        assert!(!closed || served == 0, "{served}");
        assert!(value(&open(dir.path()).await, "3", "a", "q").await.is_some());
    }
}

#[tokio::test]
async fn a_marker_of_an_older_version_without_the_manifest_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    flushed(dir.path(), true).await;
    let note = dir.path().join("closed");
    let mut old: serde_json::Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("manifest").expect("the marker has it");
    fs::write(&note, serde_json::to_vec(&old).unwrap()).unwrap();
    let (path, sound, _) = manifest(dir.path());
    // As after a start on a full disk: RocksDB has not begun another `MANIFEST` yet.
    fs::write(path, [sound, b"torn".to_vec()].concat()).unwrap();
    assert!(value(&open(dir.path()).await, "3", "a", "q").await.is_some());
}
