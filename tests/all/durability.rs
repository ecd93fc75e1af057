//! Every change is synced before it is acknowledged: observed from outside, in the server's system calls.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::server::Server;

/// A completed sync with the path of its file or folder, or the status line of an answer.
#[derive(Debug)]
enum Event {
    Synced(String),
    Answered(String),
}

/// The events in order of time.
fn events(trace: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(trace).unwrap();
    let mut begun: HashMap<&str, String> = HashMap::new();
    let mut events = Vec::new();
    for line in text.lines() {
        let (pid, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        let is_sync = call.starts_with("fsync(") || call.starts_with("fdatasync(");
        let path = call.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| path.to_owned());
        if is_sync && call.ends_with("<unfinished ...>") {
            begun.insert(pid, path.unwrap());
        } else if is_sync && call.ends_with("= 0") {
            events.push(Event::Synced(path.unwrap()));
        } else if call.starts_with("<... f") && call.contains("sync resumed>") && call.ends_with("= 0") {
            events.push(Event::Synced(begun.remove(pid).unwrap()));
        } else if let Some(at) = call.find("HTTP/1.1 ") {
            events.push(Event::Answered(call[at + 9..at + 12].to_owned()));
        }
    }
    events
}

/// The syncs before the answer of each request, since the previous answer; and the syncs after the last answer.
fn synced_before_each(events: Vec<Event>) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let mut synced = Vec::new();
    let mut answers = Vec::new();
    for event in events {
        match event {
            Event::Synced(path) => synced.push(path),
            Event::Answered(status) => answers.push((status, std::mem::take(&mut synced))),
        }
    }
    (answers, synced)
}

#[test]
fn every_change_is_synced_before_its_answer() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, trace) = (scratch.path().join("data"), scratch.path().join("trace"));
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-s", "16", "-e", "signal=none"]);
    command.args(["-e", "trace=fsync,fdatasync,write,writev,sendto,sendmsg", "-o"]).arg(&trace);
    command.arg(env!("CARGO_BIN_EXE_rowdrive")).arg("serve").arg("--data").arg(&data);
    command.args(["--listen", "127.0.0.1:0"]);
    let server = Server::wait_for(command, &data);
    let large = scratch.path().join("large");
    std::fs::write(&large, vec![7u8; 3_000_000]).unwrap();
    let curl = |arguments: &[&str], path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "-o", "/dev/null", "-H", "Expect:"])
            .args(arguments)
            .arg(server.url(path));
        assert!(curl.status().unwrap().success(), "{arguments:?} {path}");
    };
    let json = "Content-Type: application/json";
    curl(&["-T", "Cargo.toml"], "/v1/fs/a/f");
    curl(&["-T", large.to_str().unwrap()], "/v1/fs/a/large");
    curl(&["-X", "PUT"], "/v1/fs/b/");
    curl(&["-H", json, "-d", r#"{"from":"/a/f","to":"/b/f"}"#], "/v1/move");
    curl(&["-H", json, "-d", r#"{"from":"/b/f","to":"/b/g"}"#], "/v1/copy");
    curl(&["-X", "DELETE"], "/v1/fs/b/f");
    curl(&["-X", "DELETE"], "/v1/fs/a/large");
    curl(&["-X", "DELETE"], "/v1/fs/a/");
    // strace passes the signal on, and ends when the server does.
    server.terminate_child();
    let (answers, rest) = synced_before_each(events(&trace));
    let statuses: Vec<&str> = answers.iter().map(|(status, _)| status.as_str()).collect();
    assert_eq!(statuses, ["201", "201", "201", "201", "201", "204", "204", "204"], "{answers:#?}");
    for (at, (_, synced)) in answers.iter().enumerate() {
        let log = synced.iter().any(|path| path.contains("/db/") && path.ends_with(".log"));
        assert!(log, "answer {at} without a synced log: {synced:?}");
    }
    let (_, large) = &answers[1];
    let position = |what: &str, fits: &dyn Fn(&str) -> bool| {
        large.iter().position(|path| fits(path)).unwrap_or_else(|| panic!("{what} is not synced: {large:?}"))
    };
    let content = position("the content file", &|path| path.contains("/content/new/"));
    let folder = position("its folder", &|path| path.ends_with("/content/new"));
    let log = position("the log", &|path| path.ends_with(".log"));
    assert!(content < log && folder < log, "the name is durable before the content: {large:?}");
    // The row that names dropped content is removed once the removal of the content is durable.
    let late = [&answers[6].1, &answers[7].1, &rest].into_iter().flatten();
    let mut late = late.skip_while(|path| !path.contains("/content/"));
    assert!(late.next().is_some() && late.any(|path| path.ends_with(".log")), "{answers:#?}, {rest:?}");
}
