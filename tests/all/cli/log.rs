//! The log of a server whose standard error nobody reads.

use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::server::Server;

/// A server whose standard error is a pipe.
fn start(data: &Path) -> (Server, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).env_remove("RUST_LOG").stderr(writer);
    (Server::wait_for_with_log(command, data), reader)
}

/// One request on a connection of its own. Fails if there is no answer: the bound is generous.
fn get(server: &Server, path: &str) -> String {
    let mut socket = TcpStream::connect(&server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap_or_else(|error| panic!("no answer to {:.40}: {error}", path));
    answer
}

/// Asks for so much that neither the pipe nor the server's buffer holds the lines.
fn fill(server: &Server) {
    let long = format!("/v1/stat/{}", "x".repeat(12_000));
    for _ in 0..150 {
        assert!(get(server, &long).starts_with("HTTP/1.1 4"));
    }
}

/// As the metrics tell it.
fn dropped(server: &Server) -> u64 {
    let metrics = get(server, "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("rowdrive_log_lines_dropped_total "));
    line.expect("the metric is there").parse().unwrap()
}

#[test]
fn a_stalled_reader_of_the_log_stops_no_request_and_learns_how_many_lines_it_lost() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, log) = start(&scratch.path().join("data"));
    fill(&server);
    assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(dropped(&server) > 0);
    let mut lines = BufReader::new(log).lines().map(|line| line.unwrap());
    let mut read = |until: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            let line = lines.next().expect("the log goes on");
            found.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:.200}")));
            if until(found.last().unwrap()) {
                return found;
            }
        }
    };
    // The reader is back: all that was kept comes, then how much was not.
    let before = read(&|line| line["fields"]["dropped"].is_u64());
    let gap = before.last().unwrap();
    assert_eq!(gap["fields"]["message"], format!("{} lines were dropped", gap["fields"]["dropped"]));
    get(&server, "/healthz?after");
    let after = read(&|line| line["fields"]["path"] == "/healthz" && line["fields"]["dropped"].is_null());
    assert!(after.iter().all(|line| line["fields"]["dropped"].is_null()), "one gap, one line: {after:?}");
    assert_eq!(gap["fields"]["dropped"], dropped(&server));
    // Every line was written or counted: the requests asked here are those of before, healthz and two of the metrics.
    assert!(before.len() > 50 && before.len() < 150, "{}", before.len());
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(read(&|line| line["fields"]["message"] == "stopped").last().unwrap()["level"], "INFO");
}

#[test]
fn a_stalled_reader_of_the_log_does_not_keep_the_server_from_ending() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, _log) = start(&scratch.path().join("data"));
    fill(&server);
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(server.terminate()).unwrap());
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(Some(0)));
}
