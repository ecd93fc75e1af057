//! The log of a server: as text or JSON, and with a standard error that is not read.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::server::Server;

/// Starts a server with a pipe as its standard error.
fn start(data: &Path) -> (Server, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    (start_with(data, &[], &[], writer.into()), reader)
}

fn start_with(data: &Path, arguments: &[&str], environment: &[(&str, &str)], log: Stdio) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(arguments).stderr(log);
    for variable in ["RUST_LOG", "NO_COLOR", "ROWDRIVE_LOG_FORMAT"] {
        command.env_remove(variable);
    }
    command.envs(environment.iter().copied());
    Server::wait_for_with_log(command, data)
}

/// The two ends of a terminal: the display and the program's side.
fn terminal() -> (File, File) {
    let shows = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&shows).unwrap();
    unlockpt(&shows).unwrap();
    let name = ptsname(&shows, Vec::new()).unwrap().into_string().unwrap();
    (shows.into(), File::options().read(true).write(true).open(name).unwrap())
}

/// The lines of a log up to the request of this path.
fn until(log: impl Read, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in BufReader::new(log).lines().map(|line| line.unwrap()) {
        let is_last = line.contains(path);
        found.push(line);
        if is_last {
            return found;
        }
    }
    panic!("there is no line of {path}: {found:?}")
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok()
}

#[test]
fn a_text_log_has_one_short_line_for_each_request() {
    for (arguments, environment) in
        [(&["--log-format", "text"][..], &[][..]), (&[], &[("ROWDRIVE_LOG_FORMAT", "text")])]
    {
        let scratch = tempfile::tempdir().unwrap();
        let (reader, writer) = pipe().unwrap();
        // The folder name is part of an event, which must stay on one line.
        let server = start_with(&scratch.path().join("da\nta"), arguments, environment, writer.into());
        assert!(get(&server, "/v1/stat/no%20such").starts_with("HTTP/1.1 404 "));
        let lines = until(reader, "/v1/stat/");
        let (access, before) = lines.split_last().unwrap();
        let words: Vec<_> = access.split(' ').collect();
        let [time, "GET", "/v1/stat/no%20such", "404", ms, "ms", size, unit] = words[..] else { panic!("{access}") };
        assert!(time.starts_with("20") && time.ends_with('Z'), "{access}");
        assert!(ms.parse::<f64>().is_ok() && size.parse::<f64>().is_ok() && unit == "B", "{access}");
        let starting = before.iter().find(|line| line.contains("configuration=")).unwrap();
        assert!(starting.contains(" INFO starting configuration=data = "), "{starting}");
        assert!(before.iter().any(|line| line.contains("da\\nta")), "{before:?}");
        assert!(
            lines.iter().all(|line| line.starts_with("20") && !is_json(line) && !line.contains('\u{1b}')),
            "{lines:?}"
        );
    }
}

#[test]
fn a_log_on_a_terminal_is_coloured_text_unless_json_is_requested() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, (arguments, environment, text, coloured)) in [
        (&[][..], &[][..], true, true),
        (&[], &[("NO_COLOR", "1")], true, false),
        (&["--log-format", "json"], &[], false, false),
    ]
    .into_iter()
    .enumerate()
    {
        let (shows, writes) = terminal();
        let server = start_with(&scratch.path().join(number.to_string()), arguments, environment, writes.into());
        get(&server, "/healthz");
        for line in until(shows, "/healthz") {
            assert_eq!((is_json(&line), line.contains('\u{1b}')), (!text, coloured), "{line:?}");
        }
    }
}

#[test]
fn a_log_to_a_file_or_pipe_is_json() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, log) = start(&scratch.path().join("data"));
    get(&server, "/healthz");
    let lines = until(log, "/healthz");
    assert!(lines.iter().all(|line| is_json(line)), "{lines:?}");
    let access: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    let names: Vec<_> = access["fields"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["bytes", "id", "method", "ms", "path", "status"]);
    assert_eq!((&access["target"], &access["level"]), (&"access".into(), &"INFO".into()));
}

#[test]
fn a_filter_chooses_levels_and_targets() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, (filter, has_requests, has_others, has_warning)) in [
        ("info", true, true, false),
        ("access=info", true, false, false),
        ("info,access=warn", false, true, false),
        ("no=level=at=all", true, true, true),
    ]
    .into_iter()
    .enumerate()
    {
        let (reader, writer) = pipe().unwrap();
        let data = scratch.path().join(number.to_string());
        let server = start_with(&data, &[], &[("RUST_LOG", filter)], writer.into());
        get(&server, "/healthz");
        assert_eq!(server.terminate_in_time(), Some(0));
        let lines: Vec<Value> =
            BufReader::new(reader).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        let has = |test: &dyn Fn(&Value) -> bool| lines.iter().any(test);
        assert_eq!(has(&|line| line["target"] == "access"), has_requests, "{filter}: {lines:?}");
        assert_eq!(has(&|line| line["target"] == "rowdrive::cli::serve"), has_others, "{filter}: {lines:?}");
        let is_warning = |line: &Value| line["level"] == "WARN" && line.to_string().contains("RUST_LOG");
        assert_eq!(has(&is_warning), has_warning, "{filter}: {lines:?}");
    }
}

/// Sends one request on a new connection. Fails without an answer within a generous time.
fn get(server: &Server, path: &str) -> String {
    let mut socket = TcpStream::connect(&server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap_or_else(|error| panic!("no answer to {:.40}: {error}", path));
    answer
}

/// Sends so many requests that neither the pipe nor the server's buffer can contain all their lines.
fn fill(server: &Server) {
    let long = format!("/v1/stat/{}", "x".repeat(12_000));
    for _ in 0..150 {
        assert!(get(server, &long).starts_with("HTTP/1.1 4"));
    }
}

/// The number of dropped lines, from the metrics.
fn dropped(server: &Server) -> u64 {
    let metrics = get(server, "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("rowdrive_log_lines_dropped_total "));
    line.expect("the metric is there").parse().unwrap()
}

#[test]
fn a_stalled_log_reader_blocks_no_request_and_is_given_the_count_of_dropped_lines() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, log) = start(&scratch.path().join("data"));
    fill(&server);
    assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(dropped(&server) > 0);
    let mut lines = BufReader::new(log).lines().map(|line| line.unwrap());
    let mut read = |until: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            let line = lines.next().expect("the log continues");
            found.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:.200}")));
            if until(found.last().unwrap()) {
                return found;
            }
        }
    };
    // The reader continues: it gets all buffered lines, then the number of dropped ones.
    let before = read(&|line| line["fields"]["dropped"].is_u64());
    let gap = before.last().unwrap();
    assert_eq!(gap["fields"]["message"], format!("{} lines were dropped", gap["fields"]["dropped"]));
    get(&server, "/healthz?after");
    let after = read(&|line| line["fields"]["path"] == "/healthz" && line["fields"]["dropped"].is_null());
    assert!(after.iter().all(|line| line["fields"]["dropped"].is_null()), "one gap, one line: {after:?}");
    assert_eq!(gap["fields"]["dropped"], dropped(&server));
    // Every line was written or counted: the requests of this test are the ones above, healthz and two of the metrics.
    assert!(before.len() > 50 && before.len() < 150, "{}", before.len());
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(read(&|line| line["fields"]["message"] == "stopped").last().unwrap()["level"], "INFO");
}

#[test]
fn a_stalled_log_reader_does_not_block_shutdown() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, _log) = start(&scratch.path().join("data"));
    fill(&server);
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(server.terminate()).unwrap());
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(Some(0)));
}
