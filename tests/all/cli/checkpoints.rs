//! Checkpoints of the store: `db/` on a disk of its own, and checkpoints of a killed process.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use reqwest::{Client, StatusCode};

use super::backup_folder::run;
use super::{Run, tree};
use crate::faults::client::{check_command, program, run_clean_check};
use crate::server::Server;

const MEMORY: [&str; 2] = ["--memory", "32MiB"];

/// Creates a stopped store with table files.
async fn stored(data: &Path) {
    let server = Server::start_on(data, &MEMORY);
    for number in 0..20 {
        let put = Client::new().put(server.url(&format!("/v1/fs/d/{number}"))).body(tree::bytes(100_000, number));
        assert_eq!(put.send().await.unwrap().status(), StatusCode::CREATED);
    }
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(Server::start_on(data, &MEMORY).terminate(), Some(0));
}

async fn all_is_there(server: &Server) {
    for number in 0..20 {
        let read = Client::new().get(server.url(&format!("/v1/fs/d/{number}"))).send().await.unwrap();
        assert_eq!(read.status(), StatusCode::OK);
        assert!(read.bytes().await.unwrap() == tree::bytes(100_000, number));
    }
}

/// A backup connection: it keeps its checkpoint until it is dropped.
fn checkpoint(data: &Path) -> UnixStream {
    let mut socket = UnixStream::connect(data.join("backup.sock")).unwrap();
    writeln!(socket, "checkpoint").unwrap();
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line).unwrap();
    assert_eq!(line, "{\"error\":null}\n");
    socket
}

fn tables(folder: &Path) -> Vec<PathBuf> {
    let mut found = tree::names(folder);
    found.retain(|path| path.extension().is_some_and(|e| e == "sst"));
    assert!(!found.is_empty());
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn damage_manifest(db: &Path) {
    let files = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST"));
    let manifest = manifests.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    flip(&manifest, manifest.metadata().unwrap().len() as usize / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_hard_links_tables_on_a_disk_of_their_own() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    let disk = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::create_dir(&data).unwrap();
    fs::create_dir(disk.path().join("db")).unwrap();
    // Like a mount point, it leads to another file system.
    symlink(disk.path().join("db"), data.join("db")).unwrap();
    stored(&data).await;
    let server = Server::start_on(&data, &MEMORY);
    let kept = checkpoint(&data);
    for table in tables(&data.join("db/checkpoint")) {
        // Unless a compaction has removed the original meanwhile.
        let original = data.join("db").join(table.file_name().unwrap());
        let linked = table.metadata().unwrap().nlink() == 2 || !original.exists();
        assert!(linked, "{} was copied", table.display());
    }
    drop(kept);
    run("backup", &to, &data, &[]).is_done();
    assert_eq!(server.terminate(), Some(0));
    run("backup", &to, &data, &[]).is_done();
    assert!(!data.join("checkpoint").exists() && !data.join("db/checkpoint").exists());
    run("restore", &to, &scratch.path().join("again"), &[]).is_done();
    // The manifest is read from a copy first, then from one that is built from all tables.
    for damage in ["CURRENT", "MANIFEST"] {
        match damage {
            "CURRENT" => flip(&data.join("db/CURRENT"), 3),
            _ => damage_manifest(&data.join("db")),
        }
        let server = Server::start_on(&data, &["--degraded"]);
        all_is_there(&server).await;
        let linked = tables(&data.join("db/degraded"));
        assert!(damage == "MANIFEST" || linked.iter().all(|table| table.metadata().unwrap().nlink() == 2));
        assert_eq!(server.terminate(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_killed_process_are_removed_before_the_store_opens() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data).await;
    let server = Server::start_on(&data, &MEMORY);
    let kept = checkpoint(&data);
    server.kill();
    drop(kept);
    // A leftover checkpoint blocks nothing.
    assert!(data.join("db/checkpoint/CURRENT").is_file());
    run_clean_check(check_command(program(), &data)).unwrap();
    run("backup", &to, &data, &[]).is_done();
    assert!(!data.join("db/checkpoint").exists());

    let left = ["checkpoint", "checkpoint.tmp", "db/checkpoint", "db/checkpoint.tmp", "degraded", "db/degraded"];
    let leave = || {
        for name in left {
            fs::create_dir(data.join(name)).unwrap();
            fs::hard_link(&tables(&data.join("db"))[0], data.join(name).join("000001.sst")).unwrap();
        }
    };
    let there = || left.iter().filter(|name| data.join(name).exists()).count();
    leave();
    let server = Server::start_on(&data, &MEMORY);
    all_is_there(&server).await;
    assert_eq!((there(), server.terminate()), (0, Some(0)));
    // Leftovers are removed even by a start that cannot open the store: on a full disk it needs their space.
    leave();
    damage_manifest(&data.join("db"));
    let refused = || {
        let mut command = program();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).stdin(Stdio::null());
        Run::from_output(command.output().unwrap())
    };
    let said = refused();
    assert_eq!((said.code, there()), (Some(3), 0), "{said:?}");
    // The checkpoint of a running process stays.
    let server = Server::start_on(&data, &["--degraded"]);
    let said = refused();
    assert_eq!((said.code, there()), (Some(3), 1), "{said:?}");
    all_is_there(&server).await;
    assert_eq!(server.terminate(), Some(0));
}
