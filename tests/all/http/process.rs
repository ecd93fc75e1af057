//! The program itself: its arguments, its exit codes, its signals, its log.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::server::Server;

fn rowdrive(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowdrive")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One request over a connection of its own.
fn ask(address: &str, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn put(address: &str, path: &str, body: &str) -> String {
    let length = body.len();
    ask(
        address,
        &format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
    )
}

fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [
        &[][..],
        &["serve"],
        &["sing"],
        &["serve", "--data"],
        &["serve", "--data", "x", "--listen", "nowhere"],
        &["serve", "--data", "x", "--memory", "much"],
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
fn what_cannot_be_served_is_3_and_told_in_a_sentence() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let data = data.to_str().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "8.8.8.8:80"] {
        let refused = rowdrive(&["serve", "--data", data, "--listen", address]);
        assert_eq!(refused.status.code(), Some(3), "{address}");
        assert!(said(&refused).contains("loopback") && said(&refused).lines().count() == 1, "{}", said(&refused));
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
fn one_process_has_the_folder_and_keeps_what_it_acknowledged() {
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

#[test]
fn the_log_is_lines_of_json_whatever_is_asked() {
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowdrive"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(scratch.path().join("data"))
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let address = line.trim().split("http://").nth(1).unwrap().trim_end_matches('/').to_owned();
    let asked = ["/v1/fs/%0A%1B[31m\"x\\", "/v1/fs/\u{202e}照", "/healthz?secret=1"];
    for path in asked {
        get(&address, path);
    }
    let done = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(done.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> =
        log.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    let access: Vec<_> = lines.iter().filter(|l| l["target"] == "access").map(|l| &l["fields"]).collect();
    assert_eq!(access.len(), asked.len(), "{log}");
    for (fields, status) in access.iter().zip([400, 404, 200]) {
        assert_eq!(fields["status"], status, "{fields}");
        assert!(fields["id"].is_string() && fields["ms"].is_number() && fields["bytes"].is_number(), "{fields}");
        assert_eq!(fields["method"], "GET");
    }
    assert!(!log.contains("secret") && !log.contains('\u{1b}') && !log.contains('\u{202e}'), "{log}");
}
