//! How flags, the environment and a file configure `rowdrive serve`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Run;
use crate::server::Server;

/// The program with exactly this environment.
fn rowdrive(environment: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(arguments).env_clear().envs(environment.iter().copied());
    command
}

fn run(environment: &[(&str, &str)], arguments: &[&str]) -> Run {
    Run::from_output(rowdrive(environment, arguments).output().unwrap())
}

/// The printed configuration. Fails if the program refuses it.
fn printed(environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let printed = run(environment, &[&["serve", "--print-config"], arguments].concat());
    printed.is_done();
    printed.out
}

/// The values of the printed configuration, and the source of each.
fn values(printed: &str) -> BTreeMap<&str, (&str, &str)> {
    let lines: Vec<_> = printed.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let (key, value) = pair[1].split_once(" = ")?;
        (!pair[1].starts_with('#')).then(|| (key, (value, pair[0].trim_start_matches("# "))))
    });
    pairs.collect()
}

fn written(folder: &Path, text: &str) -> String {
    let path = folder.join("rowdrive.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for (key, default, file, variable, flag) in [
        ("listen", "\"127.0.0.1:8080\"", "\"127.0.0.1:1\"", "127.0.0.1:2", "127.0.0.1:3"),
        ("memory", "\"1GiB\"", "67108864", "65MiB", "66MiB"),
        ("connections", "4096", "10", "20", "30"),
        ("head-timeout", "\"30s\"", "\"10s\"", "20s", "25s"),
        ("body-grace", "\"1m\"", "\"500ms\"", "1h", "2h"),
    ] {
        let path = written(folder.path(), &format!("{key} = {file}\n"));
        let (named, long) = (format!("ROWDRIVE_{}", key.to_uppercase().replace('-', "_")), format!("--{key}"));
        let toml = |text: &str| if text.parse::<u32>().is_ok() { text.to_owned() } else { format!("{text:?}") };
        let shown = |environment: &[(&str, &str)], arguments: &[&str]| {
            let printed = printed(environment, arguments);
            let (value, from) = values(&printed)[key];
            (value.to_owned(), from.to_owned())
        };
        let of = |source: String| format!("From {source}; the default is {default}.");
        assert_eq!(shown(&[], &[]), (default.into(), "The default.".into()));
        let config = ["--config", &path];
        let from_file = (file.to_owned(), of(format!("the file {path}")));
        assert_eq!(shown(&[], &config), from_file);
        assert_eq!(shown(&[("ROWDRIVE_CONFIG", &path)], &[]), from_file);
        let from_variable = (toml(variable), of(format!("the variable {named}")));
        assert_eq!(shown(&[(&named, variable)], &config), from_variable);
        let from_flag = (toml(flag), of("the command line".into()));
        assert_eq!(shown(&[(&named, variable)], &[&config[..], &[&long, flag]].concat()), from_flag);
    }
    let printed = printed(&[("ROWDRIVE_HOST", "a.example,b.example")], &["--data", "x"]);
    let values = values(&printed);
    assert_eq!(values["host"].0, "[\"a.example\", \"b.example\"]");
    assert_eq!(values["data"], ("\"x\"", "From the command line; there is no default."));
}

#[test]
fn the_printed_configuration_is_a_file_with_the_same_meaning() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("a \"b\" 'c' \\d #e\nf é");
    let data = data.to_str().unwrap();
    let arguments =
        ["--data", data, "--host", "a", "--host", "b", "--max-body", "10GB", "--connections", "7", "--hsts"];
    let first = printed(&[("ROWDRIVE_WRITE_IDLE_TIMEOUT", "1500ms")], &arguments);
    let path = written(folder.path(), &first);
    let second = printed(&[], &["--config", &path]);
    let table = |text: &str| text.parse::<toml::Table>().unwrap();
    assert_eq!(table(&first), table(&second));
    assert_eq!(table(&first)["data"].as_str(), Some(data));
    assert_eq!(table(&first)["write-idle-timeout"].as_str(), Some("1500ms"));
    assert_eq!(table(&first)["hsts"].as_bool(), Some(true));
    assert_eq!(values(&printed(&[("ROWDRIVE_HSTS", "true")], &[]))["hsts"].0, "true");
    // `--print-config` serves nothing and creates nothing.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The flags of `rowdrive serve` that the configuration file accepts.
fn options() -> Vec<String> {
    let help = run(&[], &["serve", "-h"]).out;
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let flags = flags.map(|flag| flag.split(' ').next().unwrap().to_owned());
    flags.filter(|flag| !["config", "print-config", "degraded"].contains(&flag.as_str())).collect()
}

#[test]
fn the_example_contains_every_option_and_its_default() {
    let example = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rowdrive.toml")).unwrap();
    assert_eq!(printed(&[], &[]), example, "it is what `rowdrive serve --print-config` prints");
    let options = options();
    assert!(options.len() >= 10, "{options:?}");
    for option in &options {
        let sets_option = |line: &str| line.trim_start_matches('#').starts_with(&format!("{option} = "));
        assert!(example.lines().any(sets_option), "{option} is missing");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rowdrive.toml");
    let read = printed(&[], &["--config", path]);
    let table = |text: &str| text.parse::<toml::Table>().unwrap();
    assert_eq!(table(&read), table(&example));
    // Each commented line of the example is valid without its `#`.
    let all = example
        .replace("\n#data", "\ndata")
        .replace("\n#tls-", "\ntls-")
        .replace("\n#max-body = \"SIZE\"", "\nmax-body = \"10GiB\"")
        .replace("\n#connections-per-address = \"NUMBER\"", "\nconnections-per-address = 50");
    let folder = tempfile::tempdir().unwrap();
    let read = printed(&[], &["--config", &written(folder.path(), &all)]);
    assert_eq!(values(&read).len(), options.len(), "{read}");
}

#[test]
fn an_invalid_file_exits_with_2_and_says_where_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let known = "it can have data, listen, tls-cert, tls-key, hsts, proxy, insecure-http, memory, host, max-body, connections, connections-per-address, head-timeout";
    for (text, line, shown) in [
        ("colour = 1", 1, known),
        ("\nmax_body = 1", 2, known),
        ("config = \"x\"", 1, known),
        ("help = true", 1, known),
        ("print-config = true", 1, known),
        ("[serve]\ndata = \"x\"", 1, known),
        ("data = \"x\"\n\nmemory = ", 3, ""),
        ("data = \"x\"\ndata = \"y\"", 2, ""),
        ("memory = \"much\"", 1, "memory cannot be \"much\": write a number of bytes"),
        ("memory = -1", 1, "memory cannot be -1: write a number of bytes"),
        ("memory = 1.5", 1, "memory takes a string, an integer or a boolean; this is of type float"),
        ("memory = { a = 1 }", 1, "this is of type table"),
        ("listen = 1979-05-27", 1, "this is of type datetime"),
        ("data = [\"x\"]", 1, "data takes a string, an integer or a boolean; this is of type array"),
        ("host = [\"a\", 1.5]", 1, "or an array of these; this is of type float"),
        ("host = [\"a\", \"b:80\"]", 1, "host cannot be [\"a\", \"b:80\"]: write the name alone"),
        ("data = \"\"", 1, "data cannot be \"\""),
        ("listen = \"nowhere\"", 1, "listen cannot be \"nowhere\""),
        ("hsts = \"often\"", 1, "hsts cannot be \"often\""),
        ("proxy = [\"10.0.0.1\"]", 1, "proxy cannot be [\"10.0.0.1\"]: write an address and its bits"),
        ("connections = 0", 1, "connections cannot be 0"),
        ("head-timeout = 30", 1, "head-timeout cannot be 30: write a length of time with its unit"),
        ("head-timeout = \"25h\"", 1, "it is from 1ms to 24h"),
    ] {
        let path = written(folder.path(), text);
        // Flags that override the invalid value do not make the file valid. With `--print-config` nothing is served if
        // the file is accepted by mistake.
        let flags = ["--data", "x", "--memory", "1GiB", "--listen", "127.0.0.1:0", "--print-config"];
        let refused = run(&[], &[&["serve", "--config", &path][..], &flags].concat());
        assert_eq!(refused.code, Some(2), "{text}: {refused:?}");
        assert!(refused.err.starts_with(&format!("rowdrive: {path}, line {line}: ")), "{text}: {}", refused.err);
        assert!(refused.err.contains(shown) && refused.err.lines().count() == 1, "{text}: {}", refused.err);
    }
    fs::write(folder.path().join("rowdrive.toml"), b"# \n\xff").unwrap();
    let path = folder.path().join("rowdrive.toml");
    let refused = run(&[], &["serve", "--config", path.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("line 2: this is not UTF-8"), "{refused:?}");
}

#[test]
fn an_unreadable_file_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("none")] {
        let refused = run(&[], &["serve", "--data", "x", "--config", path.to_str().unwrap()]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains(&format!("{} cannot be read: ", path.display())), "{refused:?}");
    }
}

#[test]
fn a_missing_or_invalid_option_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "memory = \"1GiB\"\n");
    for (environment, shown) in [
        (&[][..], "--data <DIR>"),
        (&[("ROWDRIVE_CONFIG", path.as_str())], "--data <DIR>"),
        (&[("ROWDRIVE_DATA", "x"), ("ROWDRIVE_MEMORY", "much")], "--memory"),
        (&[("ROWDRIVE_DATA", "x"), ("ROWDRIVE_HOST", "a.example,")], "--host"),
    ] {
        let refused = run(environment, &["serve"]);
        assert_eq!(refused.code, Some(2), "{environment:?}: {refused:?}");
        assert!(refused.err.contains(shown), "{environment:?}: {refused:?}");
    }
}

/// A server that logs to a file, configured by its file and environment only.
fn served(folder: &Path, environment: &[(&str, &str)]) -> (Server, PathBuf) {
    let log = folder.join("log");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec \"$0\" serve 2> \"$1\"", env!("CARGO_BIN_EXE_rowdrive")]).arg(&log);
    command.env_clear().envs(environment.iter().copied());
    (Server::wait_for(command, &folder.join("data")), log)
}

fn ask(address: &str, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_follows_its_file_and_environment_and_logs_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let text = format!(
        "data = {:?}\nlisten = \"127.0.0.1:0\"\nmemory = 67108864\nhost = \"file.example\"\nmax-body = \"1kB\"\n\
         head-timeout = \"300ms\"\n",
        data.display()
    );
    let path = written(folder.path(), &text);
    let environment = [("ROWDRIVE_CONFIG", path.as_str()), ("ROWDRIVE_HOST", "one.example,two.example")];
    let (server, log) = served(folder.path(), &environment);
    assert!(data.join("db").is_dir());
    for (host, status) in [("two.example", 200), ("one.example", 200), ("file.example", 421)] {
        let answer =
            ask(&server.address, &format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    let large = "PUT /v1/fs/f HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1001\r\n\r\n";
    assert!(ask(&server.address, large).starts_with("HTTP/1.1 413 "));
    let begun = std::time::Instant::now();
    assert!(ask(&server.address, "GET /healthz HTTP/1.1\r\n").starts_with("HTTP/1.1 408 "));
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
    assert_eq!(server.terminate(), Some(0));

    let log = fs::read_to_string(log).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let shown: Vec<_> = lines.filter_map(|line| Some(line["fields"]["configuration"].as_str()?.to_owned())).collect();
    let [shown] = &shown[..] else { panic!("{log}") };
    for said in [
        format!("data = {:?} (from the file {path}); ", data.display()),
        format!("memory = 67108864 (from the file {path}); "),
        "host = [\"one.example\", \"two.example\"] (from the variable ROWDRIVE_HOST); ".to_owned(),
        "connections = 4096 (default); ".to_owned(),
    ] {
        assert!(shown.contains(&said), "{said} is missing in {shown}");
    }
}

#[test]
fn the_server_address_can_be_given_in_the_environment() {
    let server = Server::start();
    let url = format!("http://{}", server.address);
    let listed = run(&[("ROWDRIVE_SERVER", &url)], &["ls", "/"]);
    listed.is_done();
    // A flag has precedence.
    let refused = run(&[("ROWDRIVE_SERVER", &url)], &["ls", "/", "--server", "http://127.0.0.1:1"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
}
