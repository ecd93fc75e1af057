//! Ctrl-C in commands that work on a data folder.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Run;
use crate::server::Server;

/// Replaces this file by a pipe without a writer: opening it blocks.
fn block(file: &Path) {
    fs::remove_file(file).unwrap();
    assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
}

/// Waits until the process handles this signal itself.
fn wait_for_handler(child: &mut Child, signal: Signal) {
    let begun = Instant::now();
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0 {
            return;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ends too early");
        assert!(begun.elapsed() < Duration::from_secs(60), "it handles no signals");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_that_is_started_to_ignore_sigint_ignores_it() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    assert_eq!(Server::start_on(&data, &["--memory", "32MiB"]).terminate(), Some(0));
    block(&data.join("db/CURRENT"));
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' INT; exec \"$0\" check --repair --data \"$1\"", env!("CARGO_BIN_EXE_rowdrive")])
        .arg(&data);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_handler(&mut child, Signal::TERM);
    for signal in [Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&child), signal).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn an_interrupted_check_backup_or_restore_says_that_it_is_safe_to_run_it_again() {
    let scratch = tempfile::tempdir().unwrap();
    let [data, backups, restored] = ["data", "backups", "restored"].map(|name| scratch.path().join(name));
    assert_eq!(Server::start_on(&data, &["--memory", "32MiB"]).terminate(), Some(0));
    // A shell starts the background jobs of a script with SIGINT ignored, and so this test.
    let program = || {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_rowdrive")]);
        command
    };
    let backup = || {
        let mut command = program();
        command.arg("backup").arg(&backups).arg("--data").arg(&data);
        command
    };
    Run::from_output(backup().output().unwrap()).is_done();
    let last = fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path());
    let last = last.filter(|path| path.join("backup.json").exists()).max().unwrap();
    block(&data.join("db/CURRENT"));
    block(&last.join("db/CURRENT"));
    let mut check = program();
    check.args(["check", "--repair", "--data"]).arg(&data);
    let mut restore = program();
    restore.arg("restore").arg(&last).arg("--data").arg(&restored);
    for (mut command, signal) in [(check, Signal::INT), (backup(), Signal::INT), (restore, Signal::TERM)] {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_handler(&mut child, signal);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()), "{command:?}: {said}");
        let line = "rowdrive: interrupted; it is safe to run the same command again\n";
        assert!(said.ends_with(line), "{command:?}: {said}");
    }
}
