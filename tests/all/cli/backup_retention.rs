//! Which backups in a folder count, which are removed, and which are kept: backups of another drive, or with a damaged
//! manifest.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::{Client, StatusCode};

use super::backup_folder::{backups, run};
use super::{Run, tree};
use crate::faults::client::program;
use crate::server::{Server, root};

/// The names of the backups in a folder, in order.
fn backup_names(at: &Path) -> Vec<String> {
    backups(at).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Adds a file to a stopped drive.
async fn stored(data: &Path, name: &str) {
    let server = Server::start_on(data, &["--memory", "32MiB"]);
    let put = Client::new().put(server.url(&format!("/v1/fs/{name}"))).body(tree::bytes(600_000, 1));
    assert_eq!(put.send().await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_drive_at_the_same_path_does_not_displace_the_backups_of_another() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data, "photo").await;
    run("backup", &to, &data, &["--keep", "1"]).is_done();
    let good = backup_names(&to);
    // The disk of the drive is not mounted: a server creates another drive at its path.
    fs::rename(&data, scratch.path().join("aside")).unwrap();
    for stopped in [true, false] {
        let server = Server::start_on(&data, &["--memory", "32MiB"]);
        if stopped {
            assert_eq!(server.terminate(), Some(0));
            let refused = run("backup", &to, &data, &["--keep", "1"]);
            assert!(refused.code == Some(3) && refused.err.contains("--of-another-drive"), "{refused:?}");
        } else {
            let refused = run("backup", &to, &data, &["--keep", "1"]);
            assert!(refused.code == Some(3) && refused.err.contains(&good[0]), "{refused:?}");
            assert_eq!(server.terminate(), Some(0));
        }
        assert_eq!(backup_names(&to), good);
    }
    // A user may back up both drives to one folder: each drive keeps its own backups.
    for _ in 0..2 {
        run("backup", &to, &data, &["--keep", "1", "--of-another-drive"]).is_done();
        assert!(backup_names(&to).len() == 2 && backup_names(&to)[0] == good[0], "{:?}", backup_names(&to));
    }
    // The last backup is of this drive now.
    run("backup", &to, &data, &["--keep", "1"]).is_done();
    fs::remove_dir_all(&data).unwrap();
    fs::rename(scratch.path().join("aside"), &data).unwrap();
    assert_eq!(run("backup", &to, &data, &[]).code, Some(3));
    run("backup", &to, &data, &["--keep", "1", "--of-another-drive"]).is_done();
    assert!(backup_names(&to).len() == 2 && backup_names(&to)[0] != good[0], "{:?}", backup_names(&to));
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_of_a_restored_drive_continue_in_the_same_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data, "first").await;
    run("backup", &to, &data, &[]).is_done();
    let mut ids = vec![fs::read_to_string(data.join("db/store-id")).unwrap()];
    for name in ["second", "third"] {
        let again = scratch.path().join(name);
        run("restore", &to, &again, &[]).is_done();
        stored(&again, name).await;
        let before = backup_names(&to);
        run("backup", &to, &again, &["--keep", "1"]).is_done();
        assert!(backup_names(&to).len() == 1 && !before.contains(&backup_names(&to)[0]), "{:?}", backup_names(&to));
        ids.push(fs::read_to_string(again.join("db/store-id")).unwrap());
    }
    // Parts of the two drives are still distinguished.
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_of_an_older_version_count_for_any_drive() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data, "photo").await;
    run("backup", &to, &data, &[]).is_done();
    let path = to.join(&backup_names(&to)[0]).join("backup.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("drive");
    fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    let again = scratch.path().join("again");
    run("restore", &to, &again, &[]).is_done();
    for data in [&again, &data] {
        let to = scratch.path().join("of").join(data.file_name().unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let mut copy = std::process::Command::new("cp");
        assert!(copy.arg("-a").arg(scratch.path().join("backups")).arg(&to).status().unwrap().success());
        run("backup", &to, data, &["--keep", "1"]).is_done();
        assert_eq!(backup_names(&to).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_with_a_damaged_manifest_is_named_and_skipped() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    for name in ["first", "second"] {
        stored(&data, name).await;
        run("backup", &to, &data, &[]).is_done();
    }
    let old = backup_names(&to).remove(0);
    let rot = |name: &str| {
        let path = to.join(name).join("backup.json");
        let mut bytes = fs::read(&path).unwrap();
        bytes[3] = 0;
        fs::write(&path, bytes).unwrap();
    };
    rot(&old);
    // A backup with an unreadable manifest is never removed: its drive is unknown.
    for _ in 0..2 {
        let made = run("backup", &to, &data, &["--keep", "1"]);
        assert!(made.code == Some(1) && made.out.contains(&old) && made.out.contains("passed over"), "{made:?}");
        assert!(backup_names(&to).len() == 2 && backup_names(&to)[0] == old, "{:?}", backup_names(&to));
    }
    run("restore", &to, &again, &[]).is_done();
    fs::remove_dir_all(&again).unwrap();
    // If it is newer than the backup that is restored, the restore names it too: the result is not the last backup.
    assert_eq!(run("backup", &to, &data, &[]).code, Some(1));
    let last = backup_names(&to).pop().unwrap();
    rot(&last);
    let restored = run("restore", &to, &again, &[]);
    assert!(restored.code == Some(1) && restored.out.contains(&last), "{restored:?}");
    assert!(restored.out.contains("2 files"), "{restored:?}");
    // Each backup gets a new number.
    assert_eq!(run("backup", &to, &data, &[]).code, Some(1));
    let number = |name: &str| name[..4].parse::<u32>().unwrap();
    assert_eq!(number(backup_names(&to).last().unwrap()), number(&last) + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_for_which_there_is_no_number_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data, "photo").await;
    let last = to.join(format!("{}_2026-01-02T03-04-05", u64::MAX));
    fs::create_dir_all(&last).unwrap();
    let refused = run("backup", &to, &data, &[]);
    assert!(refused.code == Some(3) && refused.err.contains("number 18446744073709551615"), "{refused:?}");
    assert!(!to.join("partial").exists(), "before anything is copied");
    // Too large for a number: it is a folder like any other.
    fs::rename(&last, to.join(format!("{}0_2026-01-02T03-04-05", u64::MAX))).unwrap();
    run("backup", &to, &data, &[]).is_done();
    assert!(backup_names(&to)[0].starts_with("0001_"), "{:?}", backup_names(&to));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_without_its_manifest_is_named_and_skipped() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    for name in ["first", "second"] {
        stored(&data, name).await;
        run("backup", &to, &data, &[]).is_done();
    }
    // As an incomplete copy of the folder of backups.
    let last = backup_names(&to).pop().unwrap();
    fs::remove_file(to.join(&last).join("backup.json")).unwrap();
    let restored = run("restore", &to, &again, &[]);
    assert!(restored.code == Some(1) && restored.out.contains(&last), "{restored:?}");
    let made = run("backup", &to, &data, &[]);
    assert!(made.code == Some(1) && made.out.contains(&last), "{made:?}");
    assert!(backup_names(&to).last().unwrap().starts_with("0003_"), "{:?}", backup_names(&to));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_backup_folder_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    stored(&data, "photo").await;
    // If a disk is not mounted, its mount point is an empty folder, or missing.
    for name in ["missing", "empty"] {
        let to = scratch.path().join(name);
        if name == "empty" {
            fs::create_dir(&to).unwrap();
        }
        for is_new in [true, false] {
            let made = run("backup", &to, &data, &[]);
            made.is_done();
            assert_eq!(made.out.contains("begins a new folder of backups"), is_new, "{made:?}");
        }
    }
}

/// If a server changed it, the backup could not be restored any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_neither_served_nor_repaired_nor_backed_up() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, restored) =
        (scratch.path().join("data"), scratch.path().join("to"), scratch.path().join("restored"));
    stored(&data, "photo").await;
    run("backup", &to, &data, &[]).is_done();
    let one = to.join(&backup_names(&to)[0]);
    let second = scratch.path().join("second");
    let backup = ["backup", second.to_str().unwrap()];
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["check", "--repair"], &backup] {
        let mut command = Command::new("timeout");
        command.arg("20").arg(program().get_program()).args(arguments).arg("--data").arg(&one);
        let refused = Run::from_output(command.output().unwrap());
        assert!(refused.code == Some(3) && refused.err.contains("is a backup"), "{refused:?}");
    }
    run("restore", &to, &restored, &[]).is_done();
    assert_eq!(Server::start_on(&restored, &[]).terminate(), Some(0));
}

/// A nested drive would be removed with its backup, or treated as content.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_backed_up_or_restored_into_a_drive_or_a_backup() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, other, to) = (scratch.path().join("data"), scratch.path().join("other"), scratch.path().join("to"));
    for drive in [&data, &other] {
        stored(drive, "photo").await;
    }
    run("backup", &to, &data, &[]).is_done();
    let one = to.join(&backup_names(&to)[0]);
    for place in [one.clone(), one.join("inner"), one.join("content/inner"), other.clone(), other.join("db/inner/more")]
    {
        let there = place.exists();
        let refused = run("backup", &place, &data, &[]);
        assert!(refused.code == Some(3) && refused.err.contains("outside of it"), "{place:?}: {refused:?}");
        if place != one && place != other {
            let refused = run("restore", &to, &place, &[]);
            assert!(refused.code == Some(3) && refused.err.contains("outside of it"), "{place:?}: {refused:?}");
        }
        assert_eq!(place.exists(), there);
    }
    run("restore", &to, &scratch.path().join("restored"), &[]).is_done();
}

/// A log on a full disk, or without a reader: the backup continues although it cannot print.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_completes_even_if_its_output_cannot_be_written() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("to"));
    stored(&data, "photo").await;
    for made in 1..=2 {
        let full = || fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = program();
        command.arg("backup").arg(&to).arg("--data").arg(&data).stdout(full()).stderr(full());
        assert_eq!(command.status().unwrap().code(), Some(3));
        assert_eq!(backup_names(&to).len(), made);
    }
    let restored = scratch.path().join("restored");
    run("restore", &to, &restored, &[]).is_done();
    assert_eq!(Server::start_on(&restored, &[]).terminate(), Some(0));
}

/// A file that another user adds to a stopped drive would block its server.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_drive_of_another_user_is_not_opened_for_a_backup() {
    if !root("a_stopped_drive_of_another_user_is_not_opened_for_a_backup") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("to"));
    stored(&data, "photo").await;
    let list = || tree::names(&data);
    let before = list();
    assert!(Command::new("chown").args(["-R", "12345"]).arg(&data).status().unwrap().success());
    let refused = run("backup", &to, &data, &[]);
    assert!(
        refused.code == Some(3) && refused.err.contains("belongs to the user with the number 12345"),
        "{refused:?}"
    );
    assert_eq!(list(), before);
}

/// A folder of backups has files of somebody else under the names that a backup uses for a while.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_backup_has_made_is_neither_removed_nor_taken() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    stored(&data, "photo").await;
    for name in ["going", "partial"] {
        let own = to.join(name);
        fs::create_dir_all(own.join("db")).unwrap();
        fs::write(own.join("photo.jpg"), "mine").unwrap();
        let refused = run("backup", &to, &data, &[]);
        assert!(refused.code == Some(3) && refused.err.contains("was not made by a backup"), "{refused:?}");
        assert!(backup_names(&to).is_empty() && refused.err.contains(name), "{refused:?}");
        assert_eq!(fs::read_to_string(own.join("photo.jpg")).unwrap(), "mine");
        // A link to such a folder.
        let aside = scratch.path().join(name);
        fs::rename(&own, &aside).unwrap();
        fs::remove_file(aside.join("photo.jpg")).unwrap();
        std::os::unix::fs::symlink(&aside, &own).unwrap();
        assert_eq!(run("backup", &to, &data, &[]).code, Some(3), "{name}");
        assert!(own.is_symlink() && backup_names(&to).is_empty(), "{name}");
        fs::remove_file(&own).unwrap();
    }
    // What an interrupted backup has left.
    for name in ["going", "partial"] {
        fs::create_dir_all(to.join(name).join("db")).unwrap();
    }
    run("backup", &to, &data, &[]).is_done();
    assert!(backup_names(&to).len() == 1 && !to.join("going").exists() && !to.join("partial").exists());
    // A file manager leaves a file in an old backup.
    let stray = to.join(&backup_names(&to)[0]).join(".DS_Store");
    fs::write(&stray, "mine").unwrap();
    for round in 1..3 {
        let kept = run("backup", &to, &data, &["--keep", "1"]);
        assert!(kept.code == Some(1) && kept.out.contains(".DS_Store"), "{kept:?}");
        // The old one, and the newest.
        assert!(backup_names(&to).len() == 2 && stray.exists(), "round {round}: {:?}", backup_names(&to));
    }
    fs::remove_file(&stray).unwrap();
    run("backup", &to, &data, &["--keep", "1"]).is_done();
    assert_eq!(backup_names(&to).len(), 1);
}
