//! Runs of the program that a user ends, or that cannot begin.

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A run whose report goes there. SIGHUP ends it, also if these tests were started by `nohup`, unless it is ignored.
fn loadtest(out: &Path, args: &str) -> Command {
    run("--default-signal=HUP", out, args)
}

fn run(hangup: &str, out: &Path, args: &str) -> Command {
    let mut command = Command::new("env");
    command.arg(hangup).arg(env!("CARGO_BIN_EXE_loadtest")).args(args.split(' ')).arg("--out").arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Sends these signals to a run: the first one when it has printed a line that begins like this, and what follows `heard`
/// when it has told that it ends. Returns its last line and its exit code.
fn ended(mut run: Command, line: &str, signals: &[Signal], heard: Signal) -> (String, Option<i32>) {
    let mut child = run.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(printed.any(|printed| printed.starts_with(line)), "the run ended before `{line}`");
    let mut is_heard = false;
    for signal in signals {
        kill_process(pid, *signal).unwrap();
        if *signal == heard && !is_heard {
            is_heard = printed.any(|printed| printed.starts_with("ending:"));
            assert!(is_heard, "{signal:?} was not heard");
        }
    }
    let last = printed.last().unwrap_or_default();
    (last, child.wait().unwrap().code())
}

fn report(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap()
}

/// A run that would last for hours.
const ENDLESS: &str = "layouts --size 1000 --rounds 100 --ms 200 --layouts fullpath";

#[test]
fn a_run_that_is_ended_writes_what_it_has_as_partial() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let out = tempfile::tempdir().unwrap();
        let (last, code) = ended(loadtest(out.path(), ENDLESS), "round 1", &[signal], signal);
        assert!(last.ends_with(": interrupted") && code == Some(1), "{signal:?}: {last}, {code:?}");
        let report = report(out.path());
        assert_eq!(report["meta"]["complete"], false, "{signal:?}");
        assert!(report["costs"]["fullpath"]["disk_bytes_per_file"].as_f64().unwrap() > 1.0, "{signal:?}");
        assert!(std::fs::read_to_string(out.path().join("report.md")).unwrap().contains("PARTIAL"), "{signal:?}");
    }
}

/// What `nohup` starts goes on without its terminal. Otherwise SIGINT would be the second signal, which ends it at once.
#[test]
fn a_run_that_ignores_the_hangup_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let ignoring = run("--ignore-signal=HUP", out.path(), ENDLESS);
    let (last, code) = ended(ignoring, "round 1", &[Signal::HUP, Signal::INT], Signal::INT);
    assert!(last.ends_with(": interrupted") && code == Some(1), "{last}, {code:?}");
}

/// Both while the tree is made, which is not interrupted: the first signal waits for it, the second one does not.
#[test]
fn a_run_that_is_ended_before_it_has_measured_leaves_the_report_of_the_last() {
    let out = tempfile::tempdir().unwrap();
    let last = loadtest(out.path(), "layouts --size 1000 --rounds 1 --ms 10 --layouts fullpath").output().unwrap();
    assert!(last.status.success(), "{last:?}");
    let large = || loadtest(out.path(), "layouts --size 3000000 --layouts fullpath");
    let once = ended(large(), "making the tree", &[Signal::INT], Signal::INT);
    assert_eq!(once, ("loadtest: interrupted".to_owned(), Some(1)));
    let twice = ended(large(), "making the tree", &[Signal::INT, Signal::INT], Signal::INT);
    assert_eq!(twice, (String::new(), Some(130)));
    let report = report(out.path());
    assert_eq!((&report["meta"]["files"], &report["meta"]["complete"]), (&1000.into(), &true.into()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    for (args, why) in [
        ("layouts --size 10000000 --memory 1000000000000", "give less --memory"),
        ("layouts --size 1000 --dir /proc/nowhere", "name one with --dir"),
        ("limits --layouts uuid", "leave it out"),
    ] {
        let Output { status, stderr, .. } = loadtest(&out, args).output().unwrap();
        let printed = String::from_utf8(stderr).unwrap();
        assert!(status.code() == Some(1) && printed.contains(why) && !out.exists(), "{args}: {printed}");
    }
}
