//! `rowdrive migrate status` as a command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use rowdrive::migrate::{self, LATEST};
use rowdrive::schema::meta;
use rowdrive::table::Tables;
use serde_json::{Value, json};

use super::schema_1::OldTree;
use super::{copied, rocks, set_version, stored};
use crate::server::Server;

fn status(data: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["migrate", "status", "--data"]).arg(data).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// Everything below a folder: bytes and times of files, times of folders.
fn all(below: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let modified = path.metadata().unwrap().modified().unwrap();
        let bytes = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        if path.is_dir() {
            found.extend(all(&path));
        }
        found.insert(path, (bytes, modified));
    }
    found
}

/// The output of `status` as text and as JSON. Asserts the exit code, and that nothing changed.
fn status_of(data: &Path, code: i32) -> (String, Value) {
    let before = all(data);
    let (words, json) = (status(data, &[]), status(data, &["--json"]));
    assert_eq!((words.status.code(), json.status.code()), (Some(code), Some(code)), "{words:?} {json:?}");
    assert!(all(data) == before, "something in the folder has changed");
    (text(&words.stdout).to_owned(), serde_json::from_slice(&json.stdout).unwrap())
}

const NAMES: [&str; 7] = ["tree", "indexes", "owner", "time_attributes", "packed_files", "users", "usage"];

fn listed(applied: u32) -> String {
    let state = |number: u32| if number <= applied { "applied" } else { "pending" };
    let line = |(number, name)| format!("{number:>4}  {name:<16} {}\n", state(number));
    (1..).zip(NAMES).map(line).collect()
}

/// A data folder with a tree, and a store of this version; its last rows are only in the log.
async fn at(scratch: &Path, version: u32) -> PathBuf {
    let data = scratch.join(format!("at-{version}"));
    let rocks = rocks(&data.join("db"));
    let tables = Tables::new(rocks.clone());
    migrate::up_to(&tables, version).await.unwrap();
    if version == 1 {
        OldTree::small().store(&tables).await;
    }
    rocks.close().await;
    data
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pending_migration_is_listed_and_nothing_changes() {
    let scratch = tempfile::tempdir().unwrap();
    for version in 0..=LATEST {
        let data = at(scratch.path(), version).await;
        let (words, json) = status_of(&data, if version == LATEST { 0 } else { 1 });
        assert_eq!(words, listed(version));
        let known = |(number, name): (u32, &str)| json!({"number": number, "name": name, "applied": number <= version});
        let known: Vec<_> = (1..).zip(NAMES).map(known).collect();
        assert_eq!(json, json!({"version": version, "known": LATEST, "migrations": known}));
    }
}

/// A first start that was killed before it created a table.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_tables_lists_every_migration() {
    let scratch = tempfile::tempdir().unwrap();
    rocks(&scratch.path().join("db")).close().await;
    assert_eq!(status_of(scratch.path(), 1).0, listed(0));
}

/// Without the files that only a running process needs, as after a restore.
#[tokio::test(flavor = "multi_thread")]
async fn listing_leaves_a_stored_folder_unchanged_and_the_next_start_migrates_it() {
    let (from, scratch) = (copied(&stored()), tempfile::tempdir().unwrap());
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::rename(from.path(), data.join("db")).unwrap();
    assert_eq!(status_of(&data, 1).0, listed(1));
    let server = Server::start_on(&data, &[]);
    let refused = status(&data, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("in use"), "{refused:?}");
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(status_of(&data, 0).0, listed(LATEST));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_store_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let data = at(scratch.path(), LATEST).await;
    {
        let tables = Tables::new(rocks(&data.join("db")));
        migrate::open(&tables).await.unwrap();
        set_version(&tables, meta::encode_version(LATEST + 1)).await;
    }
    let (words, json) = status_of(&data, 3);
    assert_eq!(words, listed(LATEST));
    assert_eq!((&json["version"], &json["known"]), (&(LATEST + 1).into(), &LATEST.into()));
    let said = status(&data, &[]);
    let said = text(&said.stderr);
    let versions = [format!("version {},", LATEST + 1), format!("up to {LATEST}: use a newer rowdrive")];
    assert!(versions.iter().all(|version| said.contains(version)) && said.lines().count() == 1, "{said}");
}

#[test]
fn a_folder_without_a_store_exits_with_3_and_wrong_usage_with_2() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    for there in [false, true] {
        if there {
            fs::create_dir(&data).unwrap();
        }
        let refused = status(&data, &[]);
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        assert!(text(&refused.stderr).contains("is no data folder"), "{refused:?}");
        assert_eq!(data.exists(), there);
    }
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    for arguments in [&["migrate"][..], &["migrate", "status"], &["migrate", "status", "--data", "x", "--now"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
        let refused = command.env_remove("ROWDRIVE_DATA").args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}
