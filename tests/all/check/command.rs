//! `rowdrive check` as a command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use reqwest::Client;
use serde_json::Value;

use crate::server::Server;

fn check(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowdrive")).arg("check").arg("--data").arg(data).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A stopped drive with a large file, and the path of its content file.
async fn stopped(scratch: &Path) -> (PathBuf, PathBuf) {
    let data = scratch.join("data");
    let server = Server::start_on(&data, &[]);
    for (name, size) in [("large", 600_000), ("small", 10)] {
        let url = server.url(&format!("/v1/fs/some%20folder/{name}"));
        let sent = Client::new().put(url).body(vec![7; size]).send().await.unwrap();
        assert_eq!(sent.status(), 201);
    }
    assert_eq!(server.terminate(), Some(0));
    let folders = fs::read_dir(data.join("content")).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let file = files.map(|file| file.unwrap().path()).next().unwrap();
    (data, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_is_0_for_an_intact_drive_and_1_for_a_damaged_one() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, content) = stopped(scratch.path()).await;
    let intact = check(&data, &["--content"]);
    assert_eq!(intact.status.code(), Some(0), "{intact:?}");
    assert_eq!(text(&intact.stdout), "2 files, 600010 bytes, in 2 directories: 0 wrong, 0 stray\n");
    let json: Value = serde_json::from_slice(&check(&data, &["--json"]).stdout).unwrap();
    assert_eq!((&json["findings"], &json["summary"]["files"]), (&Value::Array(vec![]), &Value::from(2)));

    let mut bytes = fs::read(&content).unwrap();
    bytes[300_000] ^= 1;
    fs::write(&content, bytes).unwrap();
    for arguments in [&["--content"][..], &["--content", "--repair"]] {
        let damaged = check(&data, arguments);
        assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
        let said = text(&damaged.stdout);
        assert!(said.starts_with("content-damaged: /some folder/large: "), "{said}");
        assert!(said.contains("block 1") && said.contains("1 wrong, 0 stray"), "{said}");
    }
    let damaged = check(&data, &["--content", "--json"]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    let json: Value = serde_json::from_slice(&damaged.stdout).unwrap();
    let finding = &json["findings"][0];
    assert_eq!((&finding["kind"], &finding["path"]), (&"content-damaged".into(), &"/some folder/large".into()));
    assert_eq!((&json["summary"]["wrong"], &finding["repaired"]), (&1.into(), &false.into()));
    // Without `--content` the check does not report damaged bytes, and the summary says that contents were not read.
    let unread = check(&data, &[]);
    assert_eq!(unread.status.code(), Some(0));
    assert!(text(&unread.stdout).contains("; content was not read"), "{unread:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_checked_is_refused_with_a_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let refused = check(&data, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("is no data folder"), "{refused:?}");
    assert!(!data.exists());
    assert_eq!(check(&data, &["--no-such"]).status.code(), Some(2));

    let server = Server::start_on(&data, &[]);
    let refused = check(&data, &["--repair"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("in use"), "{refused:?}");
    assert_eq!(server.terminate(), Some(0));

    let old = scratch.path().join("old");
    fs::create_dir_all(old.join("db")).unwrap();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-1")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), old.join("db").join(file.file_name())).unwrap();
    }
    let refused = check(&old, &[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("`rowdrive serve` brings it up to date"), "{refused:?}");
}

/// Each content file is valid and has the size in its entry: only the digests differ.
#[tokio::test(flavor = "multi_thread")]
async fn swapped_content_files_are_damage() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, first) = stopped(scratch.path()).await;
    let server = Server::start_on(&data, &[]);
    let sent = Client::new().put(server.url("/v1/fs/other")).body(vec![8; 600_000]).send().await.unwrap();
    assert_eq!(sent.status(), 201);
    assert_eq!(server.terminate(), Some(0));
    let folders = fs::read_dir(data.join("content")).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let second = files.into_iter().find(|file| *file != first).unwrap();
    let aside = scratch.path().join("aside");
    for (from, to) in [(&first, &aside), (&second, &first), (&aside, &second)] {
        fs::rename(from, to).unwrap();
    }
    let damaged = check(&data, &["--content"]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    for file in ["/other", "/some folder/large"] {
        assert!(text(&damaged.stdout).contains(&format!("content-damaged: {file}: ")), "{damaged:?}");
    }
}

/// Damages the first block of each table in turn. The check names the damage and still reads everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_hides_no_other_damage() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let (server, client) = (Server::start_on(&data, &[]), Client::new());
    for (folder, name, size) in
        (0..300).map(|n| ("a", format!("{n:0100}"), 10)).chain([("z", "victim".into(), 600_000)])
    {
        let sent = client.put(server.url(&format!("/v1/fs/{folder}/{name}"))).body(vec![7; size]).send().await.unwrap();
        assert_eq!(sent.status(), 201);
    }
    assert_eq!(server.terminate(), Some(0));
    // A new start writes the log to table files.
    assert_eq!(Server::start_on(&data, &[]).terminate(), Some(0));
    let files = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let victim = files(data.join("content")).filter(|folder| folder.is_dir()).flat_map(files).next().unwrap();
    fs::remove_file(victim).unwrap();
    let tables: Vec<_> = files(data.join("db")).filter(|path| path.extension().is_some_and(|e| e == "sst")).collect();
    assert!(tables.len() >= 7, "{tables:?}");
    let mut hidden = 0;
    for table in tables {
        let intact = fs::read(&table).unwrap();
        let mut damaged = intact.clone();
        damaged[8] ^= 0x10;
        fs::write(&table, damaged).unwrap();
        let checked = check(&data, &["--content"]);
        let said = text(&checked.stdout);
        fs::write(&table, &intact).unwrap();
        // Without the stored version the check knows nothing about the store.
        if text(&checked.stderr).contains("meta:cf") {
            assert_eq!(checked.status.code(), Some(3), "{checked:?}");
            continue;
        }
        assert_eq!(checked.status.code(), Some(1), "{table:?}: {checked:?}");
        assert!(said.contains("unreadable: "), "{table:?}: {said}");
        hidden += usize::from(!said.contains("content-missing: /z/victim"));
    }
    // After the damaged block the check knows no directory rows.
    assert!(hidden <= 1, "{hidden}");
}
