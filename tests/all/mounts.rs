//! A data folder with one part that is not mounted, or that belongs to another store: it is refused, and nothing is
//! created or removed, so that the right part finds everything unchanged.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::{Client, StatusCode};

use crate::server::Server;
use crate::write_errors::{answered, put};

/// A stopped store with a large file, and a file that was uploaded but never moved out of `new/`.
async fn stored(data: &Path) {
    let (server, client) = (Server::start_on(data, &[]), Client::new());
    for name in ["first", "second"] {
        let stored = put(&client, &server, &format!("/v1/fs/d/{name}"), vec![7; 300_000]).await;
        assert_eq!(stored.0, StatusCode::CREATED);
    }
    assert_eq!(server.terminate(), Some(0));
    let file = content_files(data).remove(0);
    fs::rename(&file, data.join("content/new").join(file.file_name().unwrap())).unwrap();
}

fn content_files(data: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(data.join("content")).unwrap().map(|folder| folder.unwrap().path());
    folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path()).collect()
}

/// Start, check and backup exit with code 3 and the same reason, and leave the folder unchanged. Returns the reason.
fn refused(data: &Path) -> String {
    let list = || {
        let list = Command::new("find").arg(data).arg("-printf").arg("%p %m %s %T@\n").output().unwrap();
        String::from_utf8(list.stdout).unwrap()
    };
    let before = list();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["20", env!("CARGO_BIN_EXE_rowdrive")]).args(arguments).arg("--data").arg(data);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8(output.stderr).unwrap().lines().last().unwrap_or_default().to_owned()
    };
    let said = run(&["serve", "--listen", "127.0.0.1:0"]);
    let backups = tempfile::tempdir().unwrap();
    for other in [vec!["check", "--repair"], vec!["backup", backups.path().to_str().unwrap()]] {
        let too = run(&other);
        let reason = too.split_once("ed: ").unwrap_or_else(|| panic!("{too}")).1;
        assert!(said.ends_with(reason), "{said}\n{too}");
    }
    assert_eq!(list(), before);
    said
}

/// Starts the server and asserts that all stored files are there.
async fn all_is_there(data: &Path) {
    let (server, client) = (Server::start_on(data, &[]), Client::new());
    for name in ["first", "second"] {
        let read = client.get(server.url(&format!("/v1/fs/d/{name}"))).send().await.unwrap();
        assert!(read.bytes().await.unwrap() == vec![7; 300_000]);
    }
    assert_eq!(answered(client.get(server.url("/readyz"))).await.0, StatusCode::OK);
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_data_folder_is_not_served() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    stored(&data).await;
    for part in ["content", "db"] {
        let said = refused(&data.join(part));
        assert!(said.ends_with("is a part of a data folder: give the folder that holds it"), "{said}");
    }
    all_is_there(&data).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmounted_part_is_distinguished_from_an_empty_one() {
    for part in ["content", "db"] {
        // An empty mount point, or none.
        for mount_point in [true, false] {
            let scratch = tempfile::tempdir().unwrap();
            let data = scratch.path().join("data");
            stored(&data).await;
            let aside = scratch.path().join("aside");
            fs::rename(data.join(part), &aside).unwrap();
            if mount_point {
                fs::create_dir(data.join(part)).unwrap();
            }
            let said = refused(&data);
            assert!(said.contains(&format!("data/{part}")) && said.contains("mounted"), "{said}");
            if mount_point {
                fs::remove_dir(data.join(part)).unwrap();
            }
            fs::rename(&aside, data.join(part)).unwrap();
            all_is_there(&data).await;
        }
    }
}

/// It was below a mount point, or was copied back by hand: it has the id of the same store.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_a_part_is_refused() {
    for part in ["content", "db"] {
        let scratch = tempfile::tempdir().unwrap();
        let (data, copy, aside) =
            (scratch.path().join("data"), scratch.path().join("copy"), scratch.path().join("aside"));
        stored(&data).await;
        assert!(Command::new("cp").arg("-a").arg(data.join(part)).arg(&copy).status().unwrap().success());
        all_is_there(&data).await;
        fs::rename(data.join(part), &aside).unwrap();
        fs::rename(&copy, data.join(part)).unwrap();
        let said = refused(&data);
        assert!(said.contains("one of them is an older copy"), "{said}");
        fs::rename(data.join(part), &copy).unwrap();
        fs::rename(&aside, data.join(part)).unwrap();
        all_is_there(&data).await;
    }
}

/// The user has named the wrong folder. The names of what a start removes are no exception.
#[test]
fn no_drive_is_created_among_other_files() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("photos");
    for name in ["2026", "degraded", "checkpoint"] {
        fs::create_dir_all(data.join(name)).unwrap();
        fs::write(data.join(name).join("photo.jpg"), "mine").unwrap();
        let mut serve = Command::new("timeout");
        serve.args(["20", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        let output = serve.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(3) && said.contains("is not empty, and holds no drive"), "{said}");
        assert_eq!(fs::read_to_string(data.join(name).join("photo.jpg")).unwrap(), "mine");
        fs::remove_dir_all(data.join(name)).unwrap();
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
    // Another drive.
    let other = scratch.path().join("other");
    assert_eq!(Server::start_on(&other, &[]).terminate(), Some(0));
    for inner in ["db/inner", "content/inner", "inner"] {
        let mut serve = Command::new("timeout");
        serve.args(["20", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--listen", "127.0.0.1:0", "--data"]);
        let output = serve.arg(other.join(inner)).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(3) && said.contains("name a folder outside of it"), "{said}");
    }
    // The root of a file system has such a folder.
    fs::create_dir(data.join("lost+found")).unwrap();
    assert_eq!(Server::start_on(&data, &[]).terminate(), Some(0));
}

/// The server would continue to write by path, and the paths belong to another drive by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_stops_writing_after_its_folder_was_moved_away() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, aside, other) =
        (scratch.path().join("data"), scratch.path().join("aside"), scratch.path().join("other"));
    stored(&data).await;
    small_is_there(&other, false).await;
    let (server, client) = (Server::start_on(&data, &[]), Client::new());
    assert_eq!(put(&client, &server, "/v1/fs/before", b"before".to_vec()).await.0, StatusCode::CREATED);
    fs::rename(&data, &aside).unwrap();
    for there in [false, true] {
        if there {
            fs::rename(&other, &data).unwrap();
        }
        assert_eq!(put(&client, &server, "/v1/fs/small", b"after".to_vec()).await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answered(client.get(server.url("/readyz"))).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    server.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_two_stores_are_not_opened_together() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, other) = (scratch.path().join("data"), scratch.path().join("other"));
    stored(&data).await;
    stored(&other).await;
    fs::rename(data.join("content"), scratch.path().join("aside")).unwrap();
    fs::rename(other.join("content"), data.join("content")).unwrap();
    let said = refused(&data);
    assert!(said.contains("belong together"), "{said}");
}

/// Starts the server and asserts whether the file is there.
async fn small_is_there(data: &Path, there: bool) {
    let (server, client) = (Server::start_on(data, &[]), Client::new());
    let read = client.get(server.url("/v1/fs/small")).send().await.unwrap();
    assert_eq!(read.status(), if there { StatusCode::OK } else { StatusCode::NOT_FOUND });
    if !there {
        assert_eq!(put(&client, &server, "/v1/fs/small", b"few".to_vec()).await.0, StatusCode::CREATED);
    }
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unmounted_tables_of_a_drive_without_content_files_are_detected() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, aside) = (scratch.path().join("data"), scratch.path().join("aside"));
    small_is_there(&data, false).await;
    fs::rename(data.join("db"), &aside).unwrap();
    fs::create_dir(data.join("db")).unwrap();
    let said = refused(&data);
    assert!(said.contains("data/db") && said.contains("mounted"), "{said}");
    fs::remove_dir(data.join("db")).unwrap();
    fs::rename(&aside, data.join("db")).unwrap();
    small_is_there(&data, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_interrupted_between_the_two_id_files_continues() {
    let id = "8d1c5a0e-2f7b-4c55-9d0a-6f7f3a1b2c3d";
    for db_marked in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        fs::create_dir_all(data.join("content").join(format!("making-{id}"))).unwrap();
        fs::create_dir(data.join("db")).unwrap();
        if db_marked {
            fs::write(data.join("db/store-id"), format!("{id}\n")).unwrap();
        }
        small_is_there(&data, false).await;
        assert!(data.join(format!("content/store-{id}")).is_dir());
        assert!(!data.join(format!("content/making-{id}")).exists());
        assert_eq!(fs::read_to_string(data.join("db/store-id")).unwrap().trim_end(), id);
        small_is_there(&data, true).await;
    }
}

/// Removes the ids, as in a folder of an older version.
fn remove_ids(data: &Path) {
    fs::remove_file(data.join("store-id")).unwrap();
    fs::remove_file(data.join("db/store-id")).unwrap();
    for entry in fs::read_dir(data.join("content")).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name().to_str().unwrap().starts_with("store-") {
            fs::remove_dir(entry.path()).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_an_older_version_gets_ids_if_its_parts_belong_together() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    stored(&data).await;
    remove_ids(&data);
    // One part is not mounted: the content that the tables name is missing, or the tables are missing.
    for part in ["content", "db"] {
        let aside = scratch.path().join("aside");
        fs::rename(data.join(part), &aside).unwrap();
        fs::create_dir(data.join(part)).unwrap();
        let mut serve = Command::new("timeout");
        serve.args(["20", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        let output = serve.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("mounted"));
        fs::remove_dir(data.join(part)).unwrap();
        fs::rename(&aside, data.join(part)).unwrap();
    }
    all_is_there(&data).await;
    let id = fs::read_to_string(data.join("db/store-id")).unwrap();
    assert!(data.join("content").join(format!("store-{}", id.trim_end())).is_dir());
    all_is_there(&data).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_user_can_read_a_store_in_a_shared_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    stored(&data).await;
    for part in ["db", "content", "content/new"] {
        assert_eq!(fs::metadata(data.join(part)).unwrap().permissions().mode() & 0o777, 0o700, "{part}");
    }
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o755);
}

/// Both parts are missing, so that the folder looks new except for its own id.
#[tokio::test(flavor = "multi_thread")]
async fn both_parts_are_reported_missing_if_neither_is_mounted() {
    for mount_point in [true, false] {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        stored(&data).await;
        for part in ["db", "content"] {
            fs::rename(data.join(part), scratch.path().join(part)).unwrap();
            if mount_point {
                fs::create_dir(data.join(part)).unwrap();
            }
        }
        let run = Command::new("timeout")
            .args(["20", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .output()
            .unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(3) && said.contains("mounted"), "{said}");
        for part in ["db", "content"] {
            assert_eq!(data.join(part).exists(), mount_point);
            fs::remove_dir(data.join(part)).unwrap_or_default();
            fs::rename(scratch.path().join(part), data.join(part)).unwrap();
        }
        all_is_there(&data).await;
    }
}

/// Tables with nothing but their id are not a new store, with or without large files.
#[tokio::test(flavor = "multi_thread")]
async fn tables_with_only_their_id_left_are_not_a_new_store() {
    for large in [true, false] {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        if large {
            stored(&data).await;
        } else {
            small_is_there(&data, false).await;
        }
        for entry in fs::read_dir(data.join("db")).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_name() != "store-id" {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let said = refused(&data);
        assert!(said.contains("data/db") && said.contains("lost"), "{said}");
    }
}

/// A store without an id, as after a restore, does not adopt content with an unknown id: its staged files would be
/// removed.
#[tokio::test(flavor = "multi_thread")]
async fn tables_without_an_id_do_not_adopt_the_content_of_another_store() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, other) = (scratch.path().join("data"), scratch.path().join("other"));
    small_is_there(&data, false).await;
    remove_ids(&data);
    stored(&other).await;
    fs::rename(data.join("content"), scratch.path().join("aside")).unwrap();
    fs::rename(other.join("content"), data.join("content")).unwrap();
    let before = content_files(&data);
    let backups = scratch.path().join("backups");
    let backup = ["backup", backups.to_str().unwrap()];
    for verb in [&["serve", "--listen", "127.0.0.1:0"][..], &["check", "--repair"], &["check"], &backup] {
        let mut command = Command::new("timeout");
        command.args(["20", env!("CARGO_BIN_EXE_rowdrive")]).args(verb).arg("--data").arg(&data);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains("does not hold the files"), "{verb:?}: {said}");
        assert_eq!(content_files(&data), before);
    }
    fs::rename(data.join("content"), other.join("content")).unwrap();
    fs::rename(scratch.path().join("aside"), data.join("content")).unwrap();
    small_is_there(&data, true).await;
    all_is_there(&other).await;
}

/// Parts that were copied from a backup by hand: the folder still has the id of its previous parts.
#[tokio::test(flavor = "multi_thread")]
async fn parts_without_an_id_are_served_repeatedly_in_a_folder_that_has_one() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, backups) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data).await;
    let mut backup = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    assert!(backup.arg("backup").arg(&backups).arg("--data").arg(&data).status().unwrap().success());
    let made = fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path());
    let made = made.into_iter().find(|path| path.join("backup.json").is_file()).unwrap();
    let before = fs::read_to_string(data.join("store-id")).unwrap();
    for part in ["db", "content"] {
        fs::remove_dir_all(data.join(part)).unwrap();
        assert!(Command::new("cp").arg("-a").arg(made.join(part)).arg(&data).status().unwrap().success());
    }
    for _ in 0..2 {
        all_is_there(&data).await;
    }
    let id = fs::read_to_string(data.join("store-id")).unwrap();
    assert_eq!(id, fs::read_to_string(data.join("db/store-id")).unwrap());
    assert_ne!(id, before, "parts of the two could not be distinguished");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_id_is_named() {
    for part in ["store-id", "db/store-id"] {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        stored(&data).await;
        let intact = fs::read(data.join(part)).unwrap();
        let mut rotten = intact.clone();
        rotten[28] ^= 0x80;
        fs::write(data.join(part), rotten).unwrap();
        let said = refused(&data);
        assert!(said.contains("of store"), "{part}: {said}");
        fs::write(data.join(part), intact).unwrap();
        all_is_there(&data).await;
    }
}
