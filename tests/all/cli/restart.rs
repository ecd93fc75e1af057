//! Servers and clients that are killed in the middle of a transfer.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::tree;
use super::{Run, command, export, import};
use crate::server::Server;

const FILES: u32 = 2_000;
/// The number of transferred files at which a process is killed.
const HALF: usize = 200;

fn start(address: &str, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Child {
    command(address, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Run {
    Run::from_output(child.wait_with_output().unwrap())
}

/// Waits until a transfer has reached a point, as the other side sees it.
fn wait_until(mut reached: impl FnMut() -> bool, child: &mut Child) {
    while !reached() {
        assert!(child.try_wait().unwrap().is_none(), "it was done before it could be stopped");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The number of files on the server.
fn stored(server: &Server) -> usize {
    let found = super::rowdrive(&server.address, &[&"find", &"file*"]);
    found.is_done();
    found.out.lines().count()
}

/// Starts a server on the same data folder at the same address.
fn restart(data: &Path, address: &str) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["serve", "--listen", address, "--data"]).arg(data);
    Server::wait_for(command, data)
}

#[test]
fn a_transfer_survives_a_restart_of_its_server() {
    let scratch = tempfile::tempdir().unwrap();
    let (from, to, data) = (scratch.path().join("from"), scratch.path().join("to"), scratch.path().join("data"));
    tree::many(&from, FILES);
    let server = Server::start_on(&data, &[]);
    let address = server.address.clone();
    let mut importing = start(&address, &[&"import", &from, &"/many", &"--jobs", &"2"]);
    wait_until(|| stored(&server) >= HALF, &mut importing);
    server.kill();
    let server = restart(&data, &address);
    let run = end(importing);
    run.is_done();
    assert!(run.last().starts_with(&format!("{FILES} files sent ")), "{run:#?}");
    let mut exporting = start(&server.address, &[&"export", &"/many", &to, &"--jobs", &"2"]);
    wait_until(|| to.exists() && tree::names(&to).len() >= HALF, &mut exporting);
    server.kill();
    let _server = restart(&data, &address);
    let run = end(exporting);
    run.is_done();
    assert!(run.last().starts_with(&format!("{FILES} files fetched ")), "{run:#?}");
    tree::are_equal(&from, &to);
}

#[test]
fn an_import_without_its_server_ends_and_a_repeat_completes_it() {
    let scratch = tempfile::tempdir().unwrap();
    let (from, to, data) = (scratch.path().join("from"), scratch.path().join("to"), scratch.path().join("data"));
    tree::many(&from, FILES);
    let server = Server::start_on(&data, &[]);
    let mut importing = start(&server.address, &[&"import", &from, &"/many", &"--patience", &"0", &"--jobs", &"2"]);
    wait_until(|| stored(&server) >= HALF, &mut importing);
    server.kill();
    let run = end(importing);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(
        run.last().ends_with("; given up, since one after the other fails: mend the cause, then run it again to go on"),
        "{run:#?}"
    );
    let failed = run.named("failed");
    assert!(!failed.is_empty() && failed.len() < 100 && failed.iter().all(|line| line.contains("http://")), "{run:#?}");
    let server = Server::start_on(&data, &[]);
    let there = stored(&server);
    let again = import(&server.address, &from, "/many");
    again.is_done();
    let summary = format!("{} files sent ", FILES as usize - there);
    assert!(again.last().starts_with(&summary), "{there} were there: {again:#?}");
    assert!(again.last().contains(&format!(" {there} were there;")), "{there} were there: {again:#?}");
    export(&server.address, "/many", &to).is_done();
    tree::are_equal(&from, &to);
}

#[test]
fn an_import_or_export_that_is_killed_is_completed_by_a_repeat() {
    let scratch = tempfile::tempdir().unwrap();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    tree::many(&from, FILES);
    let server = Server::start();
    let mut importing = start(&server.address, &[&"import", &from, &"/many", &"--jobs", &"2"]);
    wait_until(|| stored(&server) >= HALF, &mut importing);
    importing.kill().unwrap();
    assert_eq!(end(importing).code, None);
    let again = import(&server.address, &from, "/many");
    again.is_done();
    assert!(again.last().starts_with(&format!("{} files sent ", FILES as usize - kept(&again))), "{again:#?}");
    assert!(kept(&again) >= HALF, "{again:#?}");

    let mut exporting = start(&server.address, &[&"export", &"/many", &to, &"--jobs", &"1"]);
    let fetched = || to.exists() && tree::names(&to).len() >= HALF;
    wait_until(fetched, &mut exporting);
    exporting.kill().unwrap();
    assert_eq!(end(exporting).code, None);
    let again = export(&server.address, "/many", &to);
    again.is_done();
    assert!(again.last().starts_with(&format!("{} files fetched ", FILES as usize - kept(&again))), "{again:#?}");
    assert!(kept(&again) >= HALF / 2, "{again:#?}");
    tree::are_equal(&from, &to);
}

/// The number of files that a transfer left unchanged.
fn kept(run: &Run) -> usize {
    let before = run.last().split(" were there;").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}
