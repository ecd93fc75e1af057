//! The program: its arguments, exit codes and signals. Its log: `log.rs`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate::{self, LATEST};
use rowdrive::schema::meta;
use rowdrive::table::Tables;

use crate::server::Server;

fn rowdrive(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowdrive")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends one request on a new connection.
pub fn ask(address: &str, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Uploads a text.
pub fn put(address: &str, path: &str, body: &str) -> String {
    let length = body.len();
    ask(
        address,
        &format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
    )
}

/// Gets a path.
pub fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [
        &[][..],
        &["serve"],
        &["sing"],
        &["serve", "--data"],
        &["serve", "--data", "x", "--listen", "nowhere"],
        &["serve", "--data", "x", "--memory", "much"],
        &["serve", "--data", "x", "--memory", "31MiB"],
        &["serve", "--data", "x", "--max-body", "-1"],
        &["serve", "--data", "x", "--colour"],
    ] {
        assert_eq!(rowdrive(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(rowdrive(&["--help"]).status.code(), Some(0));
    assert_eq!(rowdrive(&["serve", "--help"]).status.code(), Some(0));
    assert_eq!(rowdrive(&["--version"]).status.code(), Some(0));
}

#[test]
fn a_folder_that_cannot_be_served_exits_with_3_and_one_sentence() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let data = data.to_str().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "8.8.8.8:80"] {
        let refused = rowdrive(&["serve", "--data", data, "--listen", address]);
        assert_eq!(refused.status.code(), Some(3), "{address}");
        assert!(said(&refused).contains("--tls-cert") && said(&refused).lines().count() == 1, "{}", said(&refused));
    }
    assert!(!std::path::Path::new(data).exists());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = rowdrive(&["serve", "--data", data, "--listen", &address]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused).contains(&address) && said(&refused).lines().count() == 1, "{}", said(&refused));
    let file = scratch.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let refused = rowdrive(&["serve", "--data", file.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused).contains("file") && said(&refused).lines().count() == 1, "{}", said(&refused));
}

#[test]
fn one_process_locks_the_folder_and_keeps_acknowledged_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("new/data");
    let server = Server::start_on(&data, &["--memory", "64MiB", "--host", "drive.example", "--max-body", "1MB"]);
    for folder in [&server.data, &scratch.path().join("new")] {
        assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{}", folder.display());
    }
    assert!(put(&server.address, "/v1/fs/a/f", "hello").starts_with("HTTP/1.1 201 "));
    let large = "x".repeat(600_000);
    assert!(put(&server.address, "/v1/fs/a/g", &large).starts_with("HTTP/1.1 201 "));
    assert!(put(&server.address, "/v1/fs/a/h", &"x".repeat(1_000_001)).starts_with("HTTP/1.1 413 "));
    let absolute =
        format!("GET {} HTTP/1.1\r\nHost: drive.example\r\nConnection: close\r\n\r\n", server.url("/healthz"));
    assert!(ask(&server.address, &absolute).starts_with("HTTP/1.1 200 "));
    let second = rowdrive(&["serve", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(3));
    let said = said(&second);
    assert!(said.contains("data") && said.lines().filter(|l| l.starts_with("rowdrive: ")).count() == 1, "{said}");
    assert_eq!(server.terminate(), Some(0));

    let server = Server::start_on(&data, &[]);
    assert!(get(&server.address, "/v1/fs/a/f").ends_with("\r\n\r\nhello"));
    assert!(get(&server.address, "/v1/fs/a/g").ends_with(&large));
    assert_eq!(server.terminate(), Some(0));
}

/// The error of a server that does not start on this folder: one sentence, and exit code 3.
fn refusal(data: &Path) -> String {
    let mut serve = Command::new("timeout");
    serve.args(["20", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    let refused = serve.output().unwrap();
    let said: Vec<_> = said(&refused).lines().filter(|l| l.starts_with("rowdrive: ")).map(str::to_owned).collect();
    assert_eq!((refused.status.code(), said.len()), (Some(3), 1), "{said:?}");
    assert!(said[0].contains(data.to_str().unwrap()), "{said:?}");
    said[0].clone()
}

#[test]
fn a_damaged_store_is_refused_and_left_unchanged() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &[]);
    assert!(put(&server.address, "/v1/fs/a/f", "hello").starts_with("HTTP/1.1 201 "));
    assert_eq!(server.terminate(), Some(0));
    let files = || std::fs::read_dir(data.join("db")).unwrap().map(|file| file.unwrap().path());
    let manifest = files().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST")).unwrap();
    for path in [data.join("db/tables.json"), data.join("db/CURRENT"), manifest] {
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x10;
        for damaged in [&flipped[..], &whole[..whole.len() / 2], b""] {
            std::fs::write(&path, damaged).unwrap();
            refusal(&data);
            assert!(std::fs::read(&path).unwrap() == damaged, "{} was changed", path.display());
        }
        std::fs::write(&path, whole).unwrap();
    }
    let server = Server::start_on(&data, &[]);
    assert!(get(&server.address, "/v1/fs/a/f").ends_with("\r\n\r\nhello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_store_is_refused_with_both_versions() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    std::fs::create_dir(&data).unwrap();
    {
        let rocks = Rocks::open(&data.join("db"), RocksOptions::with_memory(32 << 20)).unwrap();
        let tables = Tables::new(Arc::new(rocks));
        migrate::up(&tables).await.unwrap();
        crate::migrate::set_version(&tables, meta::encode_version(LATEST + 1)).await;
    }
    let said = refusal(&data);
    let versions = [format!("version {},", LATEST + 1), format!("up to {LATEST}")];
    assert!(versions.iter().all(|version| said.contains(version)), "{said}");
}
