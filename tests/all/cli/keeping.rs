//! Which backups of a folder count, which are removed, and which are left alone: of another drive, or with a manifest
//! that has rotted.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use reqwest::{Client, StatusCode};

use super::{Run, tree};
use crate::faults::site::program;
use crate::server::Server;

fn run(verb: &str, at: &Path, data: &Path, more: &[&str]) -> Run {
    let mut command = program();
    command.arg(verb).arg(at).arg("--data").arg(data).args(["--memory", "32MiB"]).args(more).stdin(Stdio::null());
    Run::of(command.output().unwrap())
}

/// The backups in a folder, in order, by name.
fn backups(at: &Path) -> Vec<String> {
    let mut found: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("backup.json").is_file());
    found.sort();
    found.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A stopped drive that has one file more.
async fn stored(data: &Path, name: &str) {
    let server = Server::start_on(data, &["--memory", "32MiB"]);
    let put = Client::new().put(server.url(&format!("/v1/fs/{name}"))).body(tree::bytes(600_000, 1));
    assert_eq!(put.send().await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_whose_manifest_has_rotted_is_named_and_passed_over() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    for name in ["first", "second"] {
        stored(&data, name).await;
        run("backup", &to, &data, &[]).is_done();
    }
    let old = backups(&to).remove(0);
    let rot = |name: &str| {
        let path = to.join(name).join("backup.json");
        let mut bytes = fs::read(&path).unwrap();
        bytes[3] = 0;
        fs::write(&path, bytes).unwrap();
    };
    rot(&old);
    // It is never removed: nobody knows what it is.
    for _ in 0..2 {
        let made = run("backup", &to, &data, &["--keep", "1"]);
        assert!(made.code == Some(1) && made.out.contains(&old) && made.out.contains("passed over"), "{made:?}");
        assert!(backups(&to).len() == 2 && backups(&to)[0] == old, "{:?}", backups(&to));
    }
    run("restore", &to, &again, &[]).is_done();
    fs::remove_dir_all(&again).unwrap();
    // One that is newer than what is restored is named too: the last one is not what comes back.
    assert_eq!(run("backup", &to, &data, &[]).code, Some(1));
    let last = backups(&to).pop().unwrap();
    rot(&last);
    let restored = run("restore", &to, &again, &[]);
    assert!(restored.code == Some(1) && restored.out.contains(&last), "{restored:?}");
    assert!(restored.out.contains("2 files"), "{restored:?}");
    // No number is given twice.
    assert_eq!(run("backup", &to, &data, &[]).code, Some(1));
    let number = |name: &str| name[..4].parse::<u32>().unwrap();
    assert_eq!(number(backups(&to).last().unwrap()), number(&last) + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_folder_of_backups_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    stored(&data, "photo").await;
    // A disk that is not mounted leaves an empty folder, or none.
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
