//! The commands by TLS: whom they trust.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use super::super::test_app::bytes;
use super::certificates::PrivateCa;
use super::program::serve;
use crate::server::Server;

/// The exit code of a command, and what it has printed.
fn rowdrive(server: &str, ca: Option<&Path>, arguments: &[&dyn AsRef<OsStr>]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command
        .args(arguments.iter().map(|argument| argument.as_ref()))
        .arg("--server")
        .arg(server)
        .env_remove("ROWDRIVE_CA");
    if let Some(ca) = ca {
        command.arg("--ca").arg(ca);
    }
    let ran = command.output().unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(printed).unwrap())
}

#[test]
fn the_commands_trust_the_ca_that_is_named_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let ca = PrivateCa::new();
    let (pair, root) = (ca.issue(folder.path(), "localhost"), ca.write(folder.path()));
    let data = folder.path().join("data");
    let server = Server::wait_for(serve(&data, &pair), &data);
    let url = format!("https://{}", server.address);
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    fs::create_dir_all(from.join("d")).unwrap();
    for (name, size) in [("small", 10), ("d/large", 3_000_000)] {
        fs::write(from.join(name), bytes(size)).unwrap();
    }
    let done = |arguments: &[&dyn AsRef<OsStr>]| {
        let (code, printed) = rowdrive(&url, Some(&root), arguments);
        assert_eq!(code, Some(0), "{printed}");
        printed
    };
    assert!(done(&[&"import", &from, &"/from"]).contains("2 files sent"));
    assert!(done(&[&"ls", &"/from"]).contains("small"));
    assert!(done(&[&"stat", &"/from/d/large"]).contains("large"));
    done(&[&"mv", &"/from", &"/moved"]);
    assert!(done(&[&"export", &"/moved", &to]).contains("2 files fetched"));
    assert!(fs::read(to.join("d/large")).unwrap() == bytes(3_000_000));

    let elsewhere = tempfile::tempdir().unwrap();
    let other = PrivateCa::new().write(elsewhere.path());
    for trusted in [None, Some(other.as_path())] {
        for arguments in [&[&"ls" as &dyn AsRef<OsStr>, &"/"][..], &[&"import", &from, &"/"], &[&"export", &"/", &to]] {
            let (code, printed) = rowdrive(&url, trusted, arguments);
            assert!(matches!(code, Some(1 | 3)), "{printed}");
            assert!(printed.contains("is not trusted") && printed.contains("--ca"), "{printed}");
            let is_told =
                trusted.is_some_and(|ca| printed.contains(&format!("is not signed by the CA in {}", ca.display())));
            assert_eq!(is_told, trusted.is_some(), "{printed}");
        }
    }
    let text = folder.path().join("text");
    fs::write(&text, "no certificate").unwrap();
    for unusable in [text.as_path(), Path::new("no/such.pem")] {
        let (code, printed) = rowdrive(&url, Some(unusable), &[&"ls", &"/"]);
        assert_eq!(code, Some(3), "{printed}");
        assert!(printed.contains(unusable.to_str().unwrap()) && printed.contains("--ca"), "{printed}");
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_wrong_scheme_or_name_of_a_server_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let ca = PrivateCa::new();
    let root = ca.write(folder.path());
    let pair = ca.issue(folder.path(), "drive.example");
    let data = folder.path().join("data");
    let (secure, plain) = (Server::wait_for(serve(&data, &pair), &data), Server::start());
    let port = secure.address.split_once(':').unwrap().1;
    for (url, told) in [
        (format!("http://{}", secure.address), "https://"),
        (format!("https://{}", plain.address), "http://"),
        (format!("https://localhost:{port}"), "for another name"),
    ] {
        let (code, printed) = rowdrive(&url, Some(&root), &[&"ls", &"/"]);
        assert!(matches!(code, Some(1 | 3)) && printed.contains(told), "{url}: {printed}");
    }
    let (code, printed) = rowdrive("ftp://localhost", None, &[&"ls", &"/"]);
    assert!(code == Some(2) && printed.contains("http or https"), "{printed}");
}

#[test]
fn a_connection_that_ends_before_tls_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    // Each reads what has come before it ends: with unread bytes the connection would be reset.
    thread::spawn(move || {
        for stream in listener.incoming() {
            assert!(stream.unwrap().read(&mut [0; 16 << 10]).unwrap() > 0);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let root = PrivateCa::new().write(folder.path());
    let (code, printed) = rowdrive(&url, Some(&root), &[&"ls", &"/"]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("cannot be reached: it closed the connection before TLS was set up"), "{printed}");
    assert!(!printed.contains("eof"), "{printed}");
}
