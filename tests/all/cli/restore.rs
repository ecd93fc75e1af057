//! Which files in a folder `rowdrive restore` treats as its own, and which it leaves unchanged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use reqwest::{Client, StatusCode};
use sha2::{Digest, Sha256};

use super::backup_folder::{backups, run};
use super::{Run, tree};
use crate::faults::client::{program, serve_command};
use crate::server::Server;

const NOTE: &str = "rowdrive restore, format 1\n/a/backup\n";

fn refused(from: &Path, data: &Path, why: &str) {
    let before = tree::names(data);
    let refused = run("restore", from, data, &[]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains(why), "{refused:?}");
    assert_eq!(tree::names(data), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_removes_only_files_of_an_earlier_restore() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    let server = Server::start_on(&data, &["--memory", "32MiB"]);
    let put = |name: &str| Client::new().put(server.url(&format!("/v1/fs/{name}"))).body("text").send();
    assert_eq!(put("a").await.unwrap().status(), StatusCode::CREATED);
    run_backup(&data, &to);

    // A user's folder with a file named `restoring`, with and without text.
    let mine = scratch.path().join("mine");
    fs::create_dir_all(mine.join("photos")).unwrap();
    fs::write(mine.join("photos/p"), "precious").unwrap();
    for text in ["notes on restoring chairs\n", ""] {
        fs::write(mine.join("restoring"), text).unwrap();
        refused(&to, &mine, "is not empty");
    }
    // A genuine note of a restore, and a file that no restore creates.
    fs::write(mine.join("restoring"), NOTE).unwrap();
    fs::create_dir_all(mine.join("content")).unwrap();
    refused(&to, &mine, "photos was not made by the restore");
    // A folder with a user's file of that name alone: the restore does not overwrite it.
    let notes = scratch.path().join("notes");
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join("restoring"), "notes").unwrap();
    refused(&to, &notes, "is not empty");

    // The folder of a running server, whatever the note says.
    for text in ["", NOTE] {
        fs::write(data.join("restoring"), text).unwrap();
        let refused = run("restore", &to, &data, &[]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        // With a genuine note, the restore names the first obstacle: the lock, or a file that no restore has written.
        let why = ["is not empty", "is in use", "was not made by the restore"];
        assert!(why.iter().any(|why| refused.err.contains(why)), "{refused:?}");
    }
    fs::remove_file(data.join("restoring")).unwrap();
    assert_eq!(put("after").await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(server.terminate(), Some(0));
    let server = Server::start_on(&data, &["--memory", "32MiB"]);
    assert_eq!(Client::new().get(server.url("/v1/fs/after")).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.terminate(), Some(0));
    // A stopped drive is not an interrupted restore, with or without a note.
    fs::write(data.join("restoring"), NOTE).unwrap();
    fs::remove_file(data.join("backup.sock")).unwrap_or_default();
    refused(&to, &data, "was not made by the restore");
}

fn run_backup(data: &Path, to: &Path) {
    run("backup", to, data, &[]).is_done();
}

#[test]
fn an_interrupted_restore_starts_over_and_two_concurrent_ones_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    assert_eq!(Server::start_on(&data, &["--memory", "32MiB"]).terminate(), Some(0));
    run_backup(&data, &to);
    fs::create_dir_all(again.join("content/ab")).unwrap();
    fs::write(again.join("content/ab/half"), "half").unwrap();
    fs::create_dir(again.join("db.restoring")).unwrap();
    fs::create_dir(again.join("db")).unwrap();
    fs::write(again.join("db/restoring"), "rowdrive restore, format 1\n").unwrap();
    fs::write(again.join("restoring"), NOTE).unwrap();
    let locked = File::open(again.join("restoring")).unwrap();
    locked.lock().unwrap();
    refused(&to, &again, "is in use");
    locked.unlock().unwrap();
    // A server that locked the folder before the note was written.
    let served = File::create(again.join("db/in-use")).unwrap();
    served.lock().unwrap();
    refused(&to, &again, "is in use");
    drop(served);
    let restored = run("restore", &to, &again, &[]);
    restored.is_done();
    assert!(!again.join("restoring").exists() && !again.join("db/restoring").exists());
    assert!(!again.join("content/ab/half").exists());
    assert_eq!(Server::start_on(&again, &["--memory", "32MiB"]).terminate(), Some(0));
}

#[test]
fn a_manifest_with_paths_outside_the_folder_is_refused_before_any_write() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, victim) =
        (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("victim"));
    assert_eq!(Server::start_on(&data, &["--memory", "32MiB"]).terminate(), Some(0));
    run_backup(&data, &to);
    let manifest = backups(&to).remove(0).join("backup.json");
    let intact = fs::read_to_string(&manifest).unwrap();
    // Whichever path the restore follows, it finds the same empty file.
    fs::write(to.join("evil"), "").unwrap();
    let absolute = scratch.path().join("victim/evil").display().to_string();
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    fs::create_dir(&victim).unwrap();
    for name in ["../../evil", &absolute, "..", ".", "", "below/evil", "./CURRENT", "CURRENT/"] {
        let mut changed: serde_json::Value = serde_json::from_str(&intact).unwrap();
        changed["db"][name] = serde_json::json!({ "size": 0, "sha256": empty });
        fs::write(&manifest, serde_json::to_vec(&changed).unwrap()).unwrap();
        let refused = run("restore", &to, &victim.join("new"), &[]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains(&format!("is damaged: its backup.json names {name:?}")), "{refused:?}");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{name}");
    }
}

/// The files of a store that a program with schema 1 has written.
fn old_store() -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-1")).unwrap();
    let file = |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap());
    files.map(|entry| file(entry.unwrap().path())).collect()
}

/// A folder with a backup of this store. Its content has invented digests, so the drive counts as damaged.
fn backup_of(scratch: &Path, store: &BTreeMap<String, Vec<u8>>) -> PathBuf {
    let (data, to) = (scratch.join("data"), scratch.join("backups"));
    assert_eq!(Server::start_on(&data, &["--memory", "32MiB"]).terminate(), Some(0));
    run_backup(&data, &to);
    let backup = backups(&to).remove(0);
    fs::remove_dir_all(backup.join("db")).unwrap();
    fs::create_dir(backup.join("db")).unwrap();
    let mut db = serde_json::Map::new();
    for (name, bytes) in store {
        let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(backup.join("db").join(name), bytes).unwrap();
        db.insert(name.clone(), serde_json::json!({ "size": bytes.len(), "sha256": sha256 }));
    }
    let path = backup.join("backup.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    (manifest["schema"], manifest["damaged"], manifest["db"]) = (1.into(), true.into(), db.into());
    fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    to
}

/// The last backup before an update of the program must not need the older program.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_an_older_program_is_restored_and_brought_up_to_date() {
    let scratch = tempfile::tempdir().unwrap();
    let (to, new) = (backup_of(scratch.path(), &old_store()), scratch.path().join("new"));
    let restored = run("restore", &to, &new, &[]);
    assert_eq!(restored.code, Some(1), "{restored:?}");
    assert!(restored.out.contains("1105 files"), "{restored:?}");
    let server = Server::start_on(&new, &["--memory", "32MiB"]);
    let stat = Client::new().get(server.url("/v1/stat/many/IMG_0007.JPG")).send().await.unwrap();
    assert_eq!(stat.status(), StatusCode::OK);
    assert_eq!(server.terminate(), Some(0));
}

/// Rows that cannot be read cannot be brought up to date.
#[test]
fn a_damaged_drive_of_an_older_program_is_restored_as_it_was() {
    let mut left_old = 0;
    for (name, _) in old_store().into_iter().filter(|(_, bytes)| bytes.len() > 10_000) {
        let mut store = old_store();
        let bytes = store.get_mut(&name).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let scratch = tempfile::tempdir().unwrap();
        let (to, new) = (backup_of(scratch.path(), &store), scratch.path().join("new"));
        let restored = run("restore", &to, &new, &[]);
        assert_eq!(restored.code, Some(1), "{name}: {restored:?}");
        assert!(restored.out.contains(&name), "{restored:?}");
        // A migration reads no content.
        if restored.out.contains("`rowdrive serve --degraded` serves what is left") {
            left_old += 1;
            assert!(restored.out.contains("content files were not compared"), "{restored:?}");
            let refused = Server::try_wait_for(serve_command(program(), &new), &new).err().unwrap();
            assert!(refused.code == Some(3) && refused.said.contains("serve --degraded"), "{refused:?}");
        }
        assert_eq!(Server::start_on(&new, &["--degraded"]).terminate(), Some(0), "{name}");
    }
    assert_eq!(left_old, 2);
}

/// Each start of the migration may find one more damaged table.
#[test]
fn a_drive_of_an_older_program_with_several_damaged_tables_is_restored() {
    let mut store = old_store();
    let large = store.values_mut().filter(|bytes| bytes.len() > 10_000);
    let damaged = large.map(|bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    assert!(damaged.count() > 2);
    let scratch = tempfile::tempdir().unwrap();
    let (to, new) = (backup_of(scratch.path(), &store), scratch.path().join("new"));
    let restored = run("restore", &to, &new, &[]);
    assert_eq!(restored.code, Some(1), "{restored:?}");
    assert_eq!(Server::start_on(&new, &["--degraded"]).terminate(), Some(0));
}

/// A check changes no backup, which would damage it, and no leftovers of a crash.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_changes_nothing_and_a_backup_can_be_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    let server = Server::start_on(&data, &["--memory", "32MiB"]);
    let http = Client::new();
    for (name, size) in [("small", 1_000), ("large", 1_000_000)] {
        let put = http.put(server.url(&format!("/v1/fs/{name}"))).body(vec![7; size]).send().await.unwrap();
        assert_eq!(put.status(), StatusCode::CREATED);
    }
    run_backup(&data, &to);
    server.kill();
    let made = backups(&to).remove(0);
    for folder in [data, made] {
        let before = bytes_of(&folder);
        let checked = program().arg("check").arg("--content").arg("--data").arg(&folder).output().unwrap();
        Run::from_output(checked).is_done();
        let after = bytes_of(&folder);
        assert!(before == after, "{:?} is not {:?}", after.keys(), before.keys());
    }
    run("restore", &to, &again, &[]).is_done();
}

/// The bytes of all files below a folder.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = tree::names(folder).into_iter().filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Restores a damaged backup: without `--damaged` it is refused, with it the intact part is restored.
fn damaged(to: &Path, again: &Path, names: &str) {
    let refused = run("restore", to, again, &[]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("restore what is left with --damaged"), "{refused:?}");
    let restored = run("restore", to, again, &["--damaged"]);
    assert_eq!(restored.code, Some(1), "{restored:?}");
    assert!(restored.out.contains(names), "{restored:?}");
    assert!(!again.join("restoring").exists() && again.join("db").is_dir());
}

/// The largest file below a folder whose name has this ending, as a separate file: on one disk the drive shares it.
fn own(below: &Path, ending: &str) -> PathBuf {
    let mut found = tree::names(below);
    found.retain(|path| path.is_file() && path.to_str().unwrap().ends_with(ending));
    let path = found.into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

const FILES: [(&str, usize); 3] = [("small", 100_000), ("large", 1_000_000), ("other", 300_000)];

/// Creates a stopped drive with these files.
async fn store_files(data: &Path) {
    let server = Server::start_on(data, &["--memory", "32MiB"]);
    for (name, size) in FILES {
        let put = Client::new().put(server.url(&format!("/v1/fs/{name}"))).body(tree::bytes(size, 7));
        assert_eq!(put.send().await.unwrap().status(), StatusCode::CREATED);
    }
    assert_eq!(server.terminate(), Some(0));
}

/// Which of the files a server reads whole from the restored folder, which is then removed.
async fn whole(again: &Path, how: &[&str]) -> Vec<bool> {
    let (server, mut whole) = (Server::start_on(again, how), Vec::new());
    for (name, size) in FILES {
        let read = Client::new().get(server.url(&format!("/v1/fs/{name}"))).send().await.unwrap();
        let status = read.status();
        whole.push(status == StatusCode::OK && read.bytes().await.is_ok_and(|bytes| bytes == tree::bytes(size, 7)));
    }
    assert_eq!(server.terminate(), Some(0));
    fs::remove_dir_all(again).unwrap();
    whole
}

#[tokio::test(flavor = "multi_thread")]
async fn the_intact_part_of_a_damaged_backup_can_be_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    store_files(&data).await;
    run_backup(&data, &to);
    let made = backups(&to).remove(0);
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    // A content file that all backups share.
    let large = own(&made.join("content"), "");
    let intact = fs::read(&large).unwrap();
    flip(&large);
    damaged(&to, &again, "/large");
    assert_eq!(whole(&again, &[]).await, [true, false, true]);
    // The file cannot be read at all.
    fs::remove_file(&large).unwrap();
    std::os::unix::fs::symlink(&large, &large).unwrap();
    damaged(&to, &again, &format!("{} cannot be read", large.display()));
    assert_eq!(whole(&again, &[]).await, [true, false, true]);
    fs::remove_file(&large).unwrap();
    fs::write(&large, intact).unwrap();
    // A table file, and the file that lists all tables.
    let table = own(&made.join("db"), ".sst");
    let intact = fs::read(&table).unwrap();
    flip(&table);
    damaged(&to, &again, &format!("{} is not as the backup wrote it", table.display()));
    assert_eq!(whole(&again, &["--degraded"]).await, [false, true, true]);
    fs::write(&table, intact).unwrap();
    fs::remove_file(made.join("db/CURRENT")).unwrap();
    damaged(&to, &again, "`rowdrive serve --degraded` serves what is left");
    assert_eq!(whole(&again, &["--degraded"]).await, [true, true, true]);
}

/// All content files are missing: only the id shows that the two parts were backed up and restored together.
#[tokio::test(flavor = "multi_thread")]
async fn a_drive_without_any_of_its_large_files_is_served_after_a_restore() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    store_files(&data).await;
    for file in tree::names(&data.join("content")).into_iter().filter(|path| path.is_file()) {
        fs::remove_file(file).unwrap();
    }
    let made = run("backup", &to, &data, &[]);
    assert!(made.code == Some(1) && made.out.contains("/large"), "{made:?}");
    let restored = run("restore", &to, &again, &[]);
    assert!(restored.code == Some(1) && restored.out.contains("/large"), "{restored:?}");
    // The restored folder has its id before the first start.
    let id = fs::read_to_string(again.join("store-id")).unwrap();
    assert!(again.join(format!("content/store-{}", id.trim_end())).is_dir());
    assert_ne!(id, fs::read_to_string(data.join("store-id")).unwrap());
    assert_eq!(whole(&again, &[]).await, [true, false, false]);
}
