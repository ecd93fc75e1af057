//! Runs of the program that a user ends, or that cannot begin.

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A run whose report goes there.
fn loadtest(out: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command.args(args.split(' ')).arg("--out").arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Sends these signals to a run: the first one when it has printed a line that begins like this, a second one when it has
/// told that it ends. Returns its last line and its exit code.
fn ended(mut run: Command, line: &str, signals: &[Signal]) -> (String, Option<i32>) {
    let mut child = run.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(printed.any(|printed| printed.starts_with(line)), "the run ended before `{line}`");
    for (signal, is_first) in signals.iter().zip([true, false]) {
        kill_process(pid, *signal).unwrap();
        assert!(!is_first || printed.any(|printed| printed.starts_with("ending:")), "{signal:?} was not heard");
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
    for signal in [Signal::INT, Signal::TERM] {
        let out = tempfile::tempdir().unwrap();
        let (last, code) = ended(loadtest(out.path(), ENDLESS), "round 1", &[signal]);
        assert!(last.ends_with(": interrupted") && code == Some(1), "{signal:?}: {last}, {code:?}");
        let report = report(out.path());
        assert_eq!(report["meta"]["complete"], false, "{signal:?}");
        assert!(report["costs"]["fullpath"]["disk_bytes_per_file"].as_f64().unwrap() > 1.0, "{signal:?}");
        assert!(std::fs::read_to_string(out.path().join("report.md")).unwrap().contains("PARTIAL"), "{signal:?}");
    }
}

#[test]
fn a_run_that_ends_while_the_script_runs_leaves_its_results_and_nothing_else() {
    let (out, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = place.path().to_str().unwrap().to_owned();
    let limits = |more: &str| loadtest(out.path(), &format!("limits --quick --size 1000 --dir {dir}{more}"));
    let (last, code) = ended(limits(""), "limits: http: stat", &[Signal::TERM]);
    assert_eq!((last.as_str(), code), ("loadtest: interrupted", Some(1)));
    let found = report(out.path());
    assert_eq!((&found["meta"]["complete"], &found["http"][0]["mix"]), (&false.into(), &"upload small".into()));
    assert_eq!(found["limits"][1]["operation"], "start with 1000 files");

    // A wrk that cannot be used.
    let programs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/false", programs.path().join("wrk")).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let failed = limits("").env("PATH", path).output().unwrap();
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(failed.status.code() == Some(1) && said.ends_with("loadtest: limits.py: wrk failed: 1\n"), "{said}");
    let note = &report(out.path())["meta"]["notes"][0];
    assert_eq!(note, "limits.py: wrk failed: 1");

    assert_eq!(place.path().read_dir().unwrap().count(), 0);
    let processes = Command::new("pgrep").args(["-f", "-a", &dir]).output().unwrap();
    assert_eq!(String::from_utf8(processes.stdout).unwrap(), "");
}

/// What is left of a run that is killed: its store, which the next run names, and its report, which is partial.
#[test]
fn a_run_that_is_killed_ends_its_script_and_loses_no_report() {
    let (parent, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (out, dir) = (parent.path().join("out"), place.path().to_str().unwrap());
    let kill = |args: &str, line: &str| {
        let mut run = loadtest(&out, &format!("{args} --dir {dir}")).spawn().unwrap();
        assert!(BufReader::new(run.stderr.take().unwrap()).lines().any(|said| said.unwrap().starts_with(line)));
        let refused = loadtest(&out, "layouts --size 1000").output().unwrap();
        assert!(String::from_utf8(refused.stderr).unwrap().contains("is in use by another run"));
        run.kill().unwrap();
        run.wait().unwrap();
    };
    kill("limits --size 100000", "limits: making the files");
    let is_running = || Command::new("pgrep").args(["-f", dir]).output().unwrap().status.success();
    let begun = Instant::now();
    while is_running() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the script goes on");
        std::thread::sleep(Duration::from_millis(100));
    }
    kill(ENDLESS, "round 1");
    let partial = std::fs::read(out.join("report.json")).unwrap();
    let whole = || {
        let args = format!("layouts --size 1000 --rounds 1 --ms 10 --layouts fullpath,fullpath --dir {dir}");
        let done = loadtest(&out, &args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    let said = whole();
    assert_eq!(said.matches("is of a killed run, and unused: remove it").count(), 2, "{said}");
    let (_, earlier) = said.split_once("the report of an earlier run is now in ").unwrap();
    assert_eq!(std::fs::read(Path::new(earlier.lines().next().unwrap()).join("report.json")).unwrap(), partial);
    assert_eq!(report(&out)["meta"]["complete"], true);
    let spots = report(&out)["hot_spots"].as_array().unwrap().clone();
    assert!(!spots.is_empty() && spots.iter().all(|spot| spot["layout"] == "fullpath"));
}

/// Both while the tree is made, which is not interrupted: the first signal waits for it, the second one does not.
#[test]
fn a_run_that_is_ended_twice_says_what_it_leaves() {
    let out = tempfile::tempdir().unwrap();
    let large = || loadtest(out.path(), "layouts --size 3000000 --layouts fullpath");
    let once = ended(large(), "making the tree", &[Signal::INT]);
    assert_eq!((once, out.path().read_dir().unwrap().count()), (("loadtest: interrupted".to_owned(), Some(1)), 0));
    let (last, code) = ended(large(), "making the tree", &[Signal::INT, Signal::INT]);
    let left = last.strip_prefix("remove what is left: ").unwrap();
    assert!(code == Some(130) && left.contains("/rowdrive-loadtest-"), "{left}, {code:?}");
    std::fs::remove_dir_all(left).unwrap();
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    for (args, why) in [
        ("layouts --size 10000000 --memory 1000000000000", "give less --memory"),
        ("layouts --size 1000 --dir /proc/nowhere", "name one with --dir"),
        ("limits --layouts uuid", "unexpected argument '--layouts'"),
    ] {
        let Output { status, stderr, .. } = loadtest(&out, args).output().unwrap();
        let printed = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && printed.contains(why) && !out.exists(), "{args}: {printed}");
    }
    // Only Python is there.
    let path = tempfile::tempdir().unwrap();
    for program in ["env", "python3"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(program), path.path().join(program)).unwrap();
    }
    let Output { status, stderr, .. } = loadtest(&out, "limits").env("PATH", path.path()).output().unwrap();
    let printed = String::from_utf8(stderr).unwrap();
    let said =
        ["wrk is missing", "`apt-get install wrk`", "`loadtest layouts`"].iter().all(|why| printed.contains(why));
    assert!(status.code() == Some(1) && said && !out.exists(), "{printed}");
}
