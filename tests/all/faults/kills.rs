//! A server killed before any system call that writes, syncs, creates, renames or removes: before each of them, one
//! after the other, from its start to the end of forty operations.
//!
//! `ROWDRIVE_KILL_AT=all` tries every reachable call instead of a sample.

use std::collections::BTreeMap;
use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::Client;

use super::client::{check_command, program, read_all, run_clean_check, serve_command};
use super::oracle::Oracle;
use super::script::{BEFORE, SCRIPT, run};
use super::seed;
use crate::drive::model::View;
use crate::server::{Server, root};

const CALLS: &str = "write,pwrite64,fsync,fdatasync,rename,unlink,mkdir,openat,ftruncate,fallocate,sync_file_range";
/// The number of calls in the short form.
const SAMPLE: usize = 16;

/// A server under strace, with more arguments for strace.
fn traced(data: &Path, trace: &Path, arguments: &[&str]) -> std::process::Command {
    let mut strace = std::process::Command::new("strace");
    strace.args(["-D", "-f", "-qq", "-s", "0", "-e", "signal=none", "-e", &format!("trace={CALLS}")]);
    strace.args(arguments).arg("-o").arg(trace).arg(env!("CARGO_BIN_EXE_rowdrive"));
    serve_command(strace, data)
}

/// A stopped store of a killed server: it has work for the next start.
pub async fn template(data: &Path) -> Oracle {
    let server = Server::try_wait_for(serve_command(program(), data), data).unwrap();
    let mut oracle = Oracle::new(View::default());
    assert!(run(&BEFORE, &mut oracle, &Client::new(), &server.address).await);
    server.kill();
    oracle
}

pub fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// For each call: the largest count of a single thread, and the count of all threads.
fn counts(trace: &Path) -> BTreeMap<String, (usize, usize)> {
    let text = std::fs::read_to_string(trace).unwrap();
    let mut by_thread: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        if let Some((call, _)) = call.trim_start().split_once('(')
            && !call.starts_with('<')
        {
            *by_thread.entry((call, thread)).or_default() += 1;
        }
    }
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for ((call, _), number) in by_thread {
        let (most, all) = counts.entry(call.to_owned()).or_default();
        *most = number.max(*most);
        *all += number;
    }
    counts
}

/// Kills a server at this call of the first thread that reaches it. Returns whether a thread reached it, during the
/// start or the script.
async fn kill_at(call: &str, number: usize, template: &Path, known: &View) -> Result<bool, String> {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    copy(template, &data);
    let mut oracle = Oracle::new(known.clone());
    let inject = format!("inject={call}:signal=SIGKILL:when={number}");
    let command = traced(&data, Path::new("/dev/null"), &["-e", &inject]);
    let client = Client::new();
    let reached = match Server::try_wait_for(command, &data) {
        Ok(server) => {
            let whole = run(&SCRIPT, &mut oracle, &client, &server.address).await;
            server.kill();
            !whole
        }
        Err(refused) if refused.code.is_none() => true,
        Err(refused) => return Err(format!("{refused:?}")),
    };
    let server = Server::try_wait_for(serve_command(program(), &data), &data).map_err(|e| format!("{e:?}"))?;
    oracle.observe(read_all(&client, &server.address).await?)?;
    if server.terminate_in_time() != Some(0) {
        return Err("the server does not end well".into());
    }
    run_clean_check(check_command(program(), &data))?;
    Ok(reached)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_any_disk_call_loses_nothing_acknowledged() {
    if !root("kills at system calls") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (kept, data, trace) = (scratch.path().join("kept"), scratch.path().join("data"), scratch.path().join("trace"));
    let known = template(&kept).await.view().clone();
    copy(&kept, &data);
    let server = Server::try_wait_for(traced(&data, &trace, &[]), &data).unwrap();
    let mut oracle = Oracle::new(known.clone());
    assert!(run(&SCRIPT, &mut oracle, &Client::new(), &server.address).await);
    assert_eq!(oracle.unknown, 0, "an operation of the script fails by itself");
    assert_eq!(server.terminate_in_time(), Some(0));
    let counts = counts(&trace);
    println!("calls, the most of one thread and of all: {counts:?}");

    let mut dice = StdRng::seed_from_u64(seed());
    let every = counts.iter().flat_map(|(call, (most, _))| (1..=*most).map(move |number| (call.as_str(), number)));
    let every: Vec<(&str, usize)> = every.collect();
    let all = std::env::var("ROWDRIVE_KILL_AT").is_ok_and(|which| which == "all");
    // Syncs and renames are rare compared with writes: the sample has the same number of each kind of call.
    let kinds: Vec<_> = counts.iter().collect();
    let draw = |_| {
        let (call, (most, _)) = kinds.choose(&mut dice).unwrap();
        (call.as_str(), dice.random_range(1..=*most))
    };
    let tried: Vec<(&str, usize)> = if all { every } else { (0..SAMPLE).map(draw).collect() };
    let mut reached = 0;
    for (call, number) in &tried {
        let died = kill_at(call, *number, &kept, &known).await;
        let died = died.unwrap_or_else(|wrong| panic!("killed at {call} number {number}: {wrong}"));
        reached += usize::from(died);
    }
    println!("{} kills tried, {reached} reached; lost 0, half there 0, wrong 0", tried.len());
    // Threads share the work differently in each run, so the last calls of a run may not occur again.
    assert!(2 * reached > tried.len(), "{reached} of {}", tried.len());
}
