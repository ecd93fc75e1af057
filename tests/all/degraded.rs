//! A damaged folder: a normal start refuses it and changes nothing, and `serve --degraded` serves the rest read-only.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::{Client, StatusCode};

use crate::cli::tree;
use crate::server::Server;
use crate::write_errors::{answered, put};

fn content(n: usize) -> Vec<u8> {
    // Every tenth file has a content file.
    let length = if n.is_multiple_of(10) { 300_000 } else { 100 + n };
    (0..length).map(|at| (at * 31 + n) as u8).collect()
}

/// Adds these files to a folder, by a server that is then killed.
async fn killed(data: &Path, files: Range<usize>) {
    let (server, client) = (Server::start_on(data, &[]), Client::new());
    for n in files {
        assert_eq!(put(&client, &server, &format!("/v1/fs/d/f{n}"), content(n)).await.0, StatusCode::CREATED);
    }
    server.kill();
}

/// All files of a folder with their bytes, except RocksDB's own logs.
fn files(below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.file_name().unwrap().to_str().unwrap().starts_with("LOG") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn all(data: &Path) -> [BTreeMap<PathBuf, Vec<u8>>; 2] {
    [files(&data.join("db")), files(&data.join("content"))]
}

/// The largest file of `db/` with a matching name.
fn largest(data: &Path, matches: impl Fn(&str) -> bool) -> PathBuf {
    let files = fs::read_dir(data.join("db")).unwrap().map(|file| file.unwrap().path());
    let named = files.filter(|path| matches(path.file_name().unwrap().to_str().unwrap()));
    named.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// The output of a command that must exit with code 3 within 20 seconds.
fn refused(arguments: &[&str], data: &Path) -> String {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_rowdrive")]).args(arguments).arg("--data").arg(data);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Asserts that start and check refuse the folder, and that both name the damage.
fn is_refused(data: &Path, names: &str) {
    let before = all(data);
    let start = refused(&["serve", "--listen", "127.0.0.1:0"], data);
    assert!(start.contains("damaged") && start.contains(names) && start.contains("--degraded"), "{start}");
    let check = refused(&["check"], data);
    assert!(check.contains("damaged") && check.contains(names), "{check}");
    assert!(all(data) == before);
}

/// Serves the folder degraded and asserts that all writes are refused. Returns how many of the files are readable; the
/// others must be missing or refused, and never wrong.
async fn whole_files(data: &Path, of: usize) -> usize {
    let before = all(data);
    let (server, client) = (Server::start_on(data, &["--degraded"]), Client::new());
    let read_only = (StatusCode::SERVICE_UNAVAILABLE, "read-only".to_owned());
    for bytes in [10, 400_000] {
        assert_eq!(put(&client, &server, "/v1/fs/d/new", vec![1; bytes]).await, read_only);
    }
    assert_eq!(answered(client.delete(server.url("/v1/fs/d/f1"))).await, read_only);
    assert_eq!(answered(client.get(server.url("/readyz"))).await, read_only);
    assert_eq!(answered(client.get(server.url("/healthz"))).await.0, StatusCode::OK);
    let mut whole = 0;
    for n in 0..of {
        let answer = client.get(server.url(&format!("/v1/fs/d/f{n}"))).send().await.unwrap();
        match answer.status().as_u16() {
            200 => {
                assert!(answer.bytes().await.unwrap() == content(n), "f{n}");
                whole += 1;
            }
            status => assert!([404, 500].contains(&status), "f{n}: {status}"),
        }
    }
    assert_eq!(server.terminate(), Some(0));
    assert!(all(data) == before);
    whole
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_log_loses_only_the_writes_it_touches() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    killed(&data, 0..60).await;
    let log = largest(&data, |name| name.ends_with(".log"));
    flip(&log, fs::metadata(&log).unwrap().len() as usize / 2);
    is_refused(&data, log.file_name().unwrap().to_str().unwrap());
    let whole = whole_files(&data, 60).await;
    // RocksDB skips the rest of the log block of 32 KiB.
    assert!((20..60).contains(&whole), "{whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_manifest_loses_nothing_stored_in_tables_and_logs() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    killed(&data, 0..20).await;
    // A second start writes the log of the first one to tables.
    killed(&data, 20..40).await;
    let manifest = largest(&data, |name| name.starts_with("MANIFEST"));
    flip(&manifest, fs::metadata(&manifest).unwrap().len() as usize / 2);
    is_refused(&data, "MANIFEST");
    assert_eq!(whole_files(&data, 40).await, 40);
    // The result is the same if no tables exist yet, or if `tables.json` is damaged too.
    flip(&data.join("db/CURRENT"), 3);
    assert_eq!(whole_files(&data, 40).await, 40);
}

/// It does not list the tables whose only record was in a lost log.
#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_manifest_loses_nothing_stored_in_tables_and_logs() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    killed(&data, 0..20).await;
    let (server, client) = (Server::start_on(&data, &[]), Client::new());
    for n in 20..40 {
        assert_eq!(put(&client, &server, &format!("/v1/fs/d/f{n}"), content(n)).await.0, StatusCode::CREATED);
    }
    let manifest = data.join("db").join(fs::read_to_string(data.join("db/CURRENT")).unwrap().trim_end());
    let cut = fs::metadata(&manifest).unwrap().len();
    // Everything that was written to tables is readable.
    let mut backup = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    backup.arg("backup").arg(scratch.path().join("backup")).arg("--data").arg(&data);
    assert!(backup.status().unwrap().success());
    for n in 40..60 {
        assert_eq!(put(&client, &server, &format!("/v1/fs/d/f{n}"), content(n)).await.0, StatusCode::CREATED);
    }
    server.kill();
    fs::File::options().write(true).open(&manifest).unwrap().set_len(cut).unwrap();
    is_refused(&data, "MANIFEST");
    assert_eq!(whole_files(&data, 60).await, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_table_files_is_read_from_its_logs() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    killed(&data, 0..20).await;
    let manifest = largest(&data, |name| name.starts_with("MANIFEST"));
    fs::write(&manifest, b"").unwrap();
    assert_eq!(whole_files(&data, 20).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_damage_is_refused_by_a_normal_start_and_read_in_degraded_mode() {
    for (what, least) in [("CURRENT", 40), ("tables.json", 40), ("sst", 10)] {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        killed(&data, 0..20).await;
        killed(&data, 20..40).await;
        if what == "sst" {
            fs::remove_file(largest(&data, |name| name.ends_with(".sst"))).unwrap();
        } else {
            flip(&data.join("db").join(what), 3);
        }
        is_refused(&data, "db");
        let whole = whole_files(&data, 40).await;
        assert!(whole >= least, "{what}: {whole}");
    }
}

#[test]
fn a_folder_without_a_store_is_not_served_degraded() {
    let scratch = tempfile::tempdir().unwrap();
    let said = refused(&["serve", "--degraded", "--listen", "127.0.0.1:0"], scratch.path());
    assert!(said.contains("holds no store"), "{said}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// A compaction reads the block sooner or later.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_block_stops_writes_until_one_restart_at_most() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let client = Client::new();
    let path = |start: usize, n: usize| format!("/v1/fs/d{start}/f{n:02}");
    let bytes = |n: usize| tree::bytes(40_000, n as u32);
    // Each start writes the log of the previous one to a table.
    let fill = async |start: usize| {
        let (server, mut refused) = (Server::start_on(&data, &[]), 0);
        for n in 0..20 {
            let answer = put(&client, &server, &path(start, n), bytes(n)).await;
            refused += usize::from(answer.0 != StatusCode::CREATED);
        }
        server.kill();
        refused
    };
    assert_eq!(fill(0).await, 0);
    // A kill may leave a table that the manifest does not list.
    assert_eq!(Server::start_on(&data, &[]).terminate(), Some(0));
    let table = largest(&data, |name| name.ends_with(".sst"));
    flip(&table, fs::metadata(&table).unwrap().len() as usize / 2);
    let mut stopped = 0;
    for start in 1..10 {
        stopped += usize::from(fill(start).await > 0);
    }
    assert!(stopped <= 1, "{stopped}");
    let server = Server::start_on(&data, &[]);
    assert_eq!(answered(client.get(server.url("/readyz"))).await.0, StatusCode::OK);
    let mut lost = vec![];
    for n in 0..20 {
        let answer = client.get(server.url(&path(0, n))).send().await.unwrap();
        match answer.status() {
            StatusCode::OK => assert!(answer.bytes().await.unwrap() == bytes(n), "f{n}"),
            status => lost.push((n, status)),
        }
    }
    assert!(matches!(lost[..], [(_, StatusCode::INTERNAL_SERVER_ERROR)]), "{lost:?}");
    let metrics = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\nrowdrive_store_damaged_tables 1\n"), "{metrics}");
    // Damaged files can be removed and replaced.
    let (lost, _) = lost[0];
    assert_eq!(answered(client.delete(server.url(&path(0, lost)))).await.0, StatusCode::NO_CONTENT);
    assert_eq!(answered(client.get(server.url(&path(0, lost)))).await.0, StatusCode::NOT_FOUND);
    assert_eq!(put(&client, &server, &path(0, lost), bytes(lost)).await.0, StatusCode::CREATED);
    assert!(client.get(server.url(&path(0, lost))).send().await.unwrap().bytes().await.unwrap() == bytes(lost));
    assert_eq!(server.terminate(), Some(0));
    // The old table still contains the damaged block.
    let check = Command::new(env!("CARGO_BIN_EXE_rowdrive")).args(["check", "--data"]).arg(&data).output().unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert_eq!(check.status.code(), Some(1), "{said}");
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(said.contains("unreadable: ") && said.contains(name) && said.contains(" 1 wrong, "), "{said}");
}
