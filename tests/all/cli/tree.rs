//! Local trees: written, and read back for comparison.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rowdrive::schema::path::nfc;

/// `ns`: nanoseconds since 1970, negative before it.
pub fn set_time(path: &Path, ns: i128) {
    let by = Duration::from_nanos(ns.unsigned_abs().try_into().unwrap());
    let time = if ns < 0 { SystemTime::UNIX_EPOCH - by } else { SystemTime::UNIX_EPOCH + by };
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Pseudo-random bytes, different for each seed.
pub fn bytes(size: usize, seed: u32) -> Vec<u8> {
    (0..size as u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub fn write(path: &Path, content: &[u8], ns: i128) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    set_time(path, ns);
}

pub const FILES: [(&str, usize, i128); 13] = [
    ("empty", 0, 1_767_323_045_678_999_999),
    ("large.bin", 600_001, 1_700_000_000_123_456_789),
    ("larger.bin", 3 << 20, 0),
    ("limit.bin", 256 << 10, 1),
    ("a/b/c/d/deep.txt", 11, -1),
    ("a/b/before.txt", 12, -86_400_000_000_001),
    ("a/long before.txt", 13, -1_999_999_999_500_000_000),
    (" spaces  in names /  x .txt", 14, 1_000_000_001),
    ("100% #1?&=+;.txt", 15, 13_569_465_600_000_999_999),
    (".hidden/..dots", 16, 5_000_000_000_999_999_999),
    ("back\\slash%2F\"'", 17, 7),
    ("e\u{301}te\u{301}/u\u{308}.txt", 18, 8_000_000),
    ("照片/😀.jpg", 19, 9_999_999),
];

/// Writes a tree with unusual but valid names and times, and an empty folder.
pub fn sample(at: &Path) {
    for (seed, (path, size, ns)) in (0..).zip(FILES) {
        write(&at.join(path), &bytes(size, seed), ns);
    }
    fs::create_dir_all(at.join("a/nothing in it/nor here")).unwrap();
}

/// Writes this many small files, 50 in each folder.
pub fn many(at: &Path, files: u32) {
    for number in 0..files {
        let path = at.join(format!("folder {}/file {number}", number / 50));
        write(&path, &bytes(100 + number as usize % 900, number), i128::from(number) * 1_000_000_007);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalEntry {
    Folder,
    /// Content, and modification time in milliseconds since 1970.
    File(Vec<u8>, i64),
    Other,
}

/// The paths of everything below a folder.
pub fn names(at: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![at.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                ahead.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Everything below a folder, by composed (NFC) name.
pub fn seen(at: &Path) -> BTreeMap<String, LocalEntry> {
    let of = |path: PathBuf| {
        let meta = fs::symlink_metadata(&path).unwrap();
        let name = nfc(path.strip_prefix(at).unwrap().to_str().unwrap()).into_owned();
        if meta.is_dir() {
            return (name, LocalEntry::Folder);
        } else if !meta.is_file() {
            return (name, LocalEntry::Other);
        }
        let ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        (name, LocalEntry::File(fs::read(&path).unwrap(), ns.div_euclid(1_000_000).try_into().unwrap()))
    };
    names(at).into_iter().map(of).collect()
}

/// The names of partial files.
pub fn temporaries(at: &Path) -> Vec<String> {
    let all = names(at).into_iter().map(|path| path.strip_prefix(at).unwrap().to_str().unwrap().to_owned());
    all.filter(|path| path.rsplit('/').next().unwrap().starts_with(".rowdrive")).collect()
}

#[track_caller]
pub fn are_equal(left: &Path, right: &Path) {
    let (left, right) = (seen(left), seen(right));
    let names = |tree: &BTreeMap<String, LocalEntry>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&left), names(&right));
    for (name, what) in &left {
        assert!(right[name] == *what, "{name} differs");
    }
}
