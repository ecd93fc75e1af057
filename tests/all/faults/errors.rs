//! System calls that fail: the n-th write, sync, rename, open or allocation of a running server returns an I/O error or
//! a full disk.
//!
//! `ROWDRIVE_ERROR_AT` is the largest n, for longer runs.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};

use super::client::{check_command, finishes_clean_up, get, program, read_all, run_clean_check, send, serve_command};
use super::kills::{copy, template};
use super::number;
use super::oracle::Oracle;
use super::script::SCRIPT;
use super::strace::{StraceFault, newest_log};
use crate::drive::model::{Op, View};
use crate::server::{Server, root};

/// The files whose calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultTarget {
    Anywhere,
    /// RocksDB's write-ahead log.
    Log,
    /// The folder of new content files.
    New,
}

/// The values of n in the short form: a call fails at one of them.
const CASES: &[(&str, &str, FaultTarget, &[usize])] = &[
    ("fdatasync", "EIO", FaultTarget::Log, &[1, 4]),
    ("fdatasync", "EIO", FaultTarget::Anywhere, &[2]),
    ("fsync", "EIO", FaultTarget::New, &[1]),
    ("write", "EIO", FaultTarget::Log, &[3]),
    ("write", "ENOSPC", FaultTarget::Log, &[2]),
    ("fdatasync", "ENOSPC", FaultTarget::Log, &[2]),
    ("pwrite64", "EIO", FaultTarget::Anywhere, &[1]),
    ("pwrite64", "ENOSPC", FaultTarget::Anywhere, &[2]),
    ("rename", "EIO", FaultTarget::Anywhere, &[1]),
    ("openat", "EIO", FaultTarget::Anywhere, &[1]),
    ("openat", "EMFILE", FaultTarget::Anywhere, &[2]),
    ("fallocate", "ENOSPC", FaultTarget::Anywhere, &[1]),
];

/// Much longer than writes take to work again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes the n-th of these calls of each thread fail.
fn fail_call(server: &Server, call: &str, error: &str, at: FaultTarget, number: usize, trace: &Path) -> StraceFault {
    let inject = format!("inject={call}:error={error}:when={number}");
    let files = match at {
        FaultTarget::Anywhere => vec![],
        FaultTarget::Log => vec![newest_log(&server.data)],
        FaultTarget::New => vec![server.data.join("content/new")],
    };
    StraceFault::attach(server, call, &[inject], &files, trace)
}

/// The failed syncs after which nothing may be acknowledged. A failed sync of a table or manifest by a background job
/// does not count: its data are still in the log, and the server detects the failure at its next write.
fn failed_syncs(fault: &StraceFault) -> Vec<String> {
    let is_final = |line: &String| {
        let is_sync = line.contains("fsync(") || line.contains("fdatasync(");
        is_sync && ![".sst>", "/MANIFEST-", ".dbtmp>"].iter().any(|name| line.contains(name))
    };
    fault.failed().into_iter().filter(is_final).collect()
}

/// A server with a fault, a client, and the known state of the drive.
struct FaultRun {
    server: Server,
    client: Client,
    oracle: Oracle,
    /// Whether the server has reported that it accepts no writes until its restart.
    stopped: bool,
}

impl FaultRun {
    async fn ready(&self) -> StatusCode {
        get(&self.client, &self.server.address, "/readyz").await.unwrap().0
    }

    /// Runs the forty operations. After a failed sync no further operation may succeed.
    async fn script(&mut self, fault: &StraceFault) -> Result<(), String> {
        for op in SCRIPT {
            let answer = send(&self.client, &self.server.address, op).await;
            let Some(status) = answer else { return Err(format!("{op:?} has no answer")) };
            if self.stopped {
                if status.is_success() || status == StatusCode::INTERNAL_SERVER_ERROR {
                    return Err(format!("{op:?} answers {status} after a failed sync"));
                }
                continue;
            }
            self.oracle.record(op, answer);
            let syncs = failed_syncs(fault);
            if !syncs.is_empty() {
                self.wait_until_stopped().await.map_err(|e| format!("{e}: {syncs:?}"))?;
            } else {
                // The status is 507 or 500 while RocksDB may still recover, and before the write that detects the
                // failure.
                self.stopped = self.ready().await == StatusCode::SERVICE_UNAVAILABLE;
            }
        }
        Ok(())
    }

    /// The failed sync may belong to a background job, which stops writes when it returns.
    async fn wait_until_stopped(&mut self) -> Result<(), String> {
        for _ in 0..100 {
            if self.ready().await == StatusCode::SERVICE_UNAVAILABLE {
                self.stopped = true;
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("/readyz is 200 after a failed sync".into())
    }

    /// Checks after the end of the fault: reads always work, and writes work as `/readyz` says.
    async fn afterwards(&mut self) -> Result<(), String> {
        let seen = read_all(&self.client, &self.server.address).await?;
        self.oracle.allows(&seen)?;
        let (op, begun) = (Op::Put("/after/f1", 50), Instant::now());
        loop {
            let status = send(&Client::new(), &self.server.address, op).await;
            let ready = self.ready().await;
            match (ready, status) {
                (StatusCode::OK, Some(StatusCode::CREATED | StatusCode::OK)) if !self.stopped => {
                    break self.oracle.record(op, status);
                }
                (StatusCode::SERVICE_UNAVAILABLE, Some(StatusCode::SERVICE_UNAVAILABLE)) => break,
                // Free space is available again after a while.
                (_, Some(StatusCode::INSUFFICIENT_STORAGE)) if begun.elapsed() < PATIENCE => {}
                (StatusCode::INSUFFICIENT_STORAGE, _) if begun.elapsed() < PATIENCE => self.oracle.record(op, status),
                other => return Err(format!("/readyz and a write answer {other:?}, stopped: {}", self.stopped)),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

type FaultCase = (&'static str, &'static str, FaultTarget, usize);

/// Makes a call fail. Returns whether any call failed.
async fn fail_at((call, error, at, number): FaultCase, kept: &Path, known: &View) -> Result<bool, String> {
    let scratch = tempfile::tempdir().unwrap();
    let (data, trace) = (scratch.path().join("data"), scratch.path().join("trace"));
    copy(kept, &data);
    let server = Server::wait_for(serve_command(program(), &data), &data);
    let fault = fail_call(&server, call, error, at, number, &trace);
    let oracle = Oracle::new(known.clone());
    let mut run = FaultRun { server, client: Client::new(), oracle, stopped: false };
    run.script(&fault).await?;
    let failed = !fault.failed().is_empty();
    fault.end();
    run.afterwards().await?;
    let FaultRun { server, client, mut oracle, .. } = run;
    server.terminate_in_time();

    let server = Server::try_wait_for(serve_command(program(), &data), &data).map_err(|e| format!("{e:?}"))?;
    oracle.observe(read_all(&client, &server.address).await?)?;
    let again = Op::Put("/again/f1", 51);
    oracle.record(again, send(&client, &server.address, again).await);
    if oracle.view().files.get("/again/f1") != Some(&51) || server.terminate_in_time() != Some(0) {
        return Err("it is not well after a restart".into());
    }
    run_clean_check(check_command(program(), &data))?;
    Ok(failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_disk_call_is_never_acknowledged() {
    if !root("failing system calls") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let kept = scratch.path().join("kept");
    let known = template(&kept).await.view().clone();
    let most = number("ROWDRIVE_ERROR_AT").map(|most| most as usize);
    let (mut tried, mut failed, mut wrong) = (0, 0, Vec::new());
    for &(call, error, at, short) in CASES {
        let numbers = most.map_or_else(|| short.to_vec(), |most| (1..=most).collect());
        for number in numbers {
            tried += 1;
            let case = (call, error, at, number);
            match fail_at(case, &kept, &known).await {
                Ok(reached) => failed += usize::from(reached),
                Err(cause) => wrong.push(format!("{call} number {number} fails with {error} ({at:?}): {cause}")),
            }
        }
    }
    println!("{tried} faults tried, {failed} of them injected");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(2 * failed > tried, "{failed} of {tried}");
}

/// The n-th sync of the log by one thread finds a full disk; then the server is killed.
async fn killed_after_a_failed_sync(number: usize, after: Duration, kept: &Path, known: &View) -> Result<bool, String> {
    let scratch = tempfile::tempdir().unwrap();
    let (data, trace) = (scratch.path().join("data"), scratch.path().join("trace"));
    copy(kept, &data);
    let server = Server::wait_for(serve_command(program(), &data), &data);
    // RocksDB recovers by writing tables, and syncs the folder after the tables of one flush: the server is killed
    // meanwhile.
    let inject = [format!("inject=fdatasync:error=ENOSPC:when={number}"), "inject=fsync:delay_enter=40000".to_owned()];
    let files = [newest_log(&data), data.join("db")];
    let fault = StraceFault::attach(&server, "fsync,fdatasync", &inject, &files, &trace);
    let (client, mut oracle) = (Client::new(), Oracle::new(known.clone()));
    for op in SCRIPT {
        let answer = send(&client, &server.address, op).await;
        oracle.record(op, answer);
        if !answer.is_some_and(|status| status.is_success()) {
            break;
        }
    }
    tokio::time::sleep(after).await;
    server.kill();
    let injected = std::fs::read_to_string(&trace).unwrap().contains("ENOSPC");
    fault.end();
    let start = || Server::wait_for(serve_command(program(), &data), &data);
    let server = start();
    oracle.observe(read_all(&client, &server.address).await?)?;
    server.terminate_in_time();
    finishes_clean_up(start, || check_command(program(), &data)).await?;
    Ok(injected)
}

/// After the restart the failed write is present completely or not at all, at whatever moment RocksDB is interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_a_sync_on_a_full_disk_leaves_no_partial_write() {
    if !root("failing system calls") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let kept = scratch.path().join("kept");
    let known = template(&kept).await.view().clone();
    let most = number("ROWDRIVE_ERROR_AT").map_or(4, |most| most as usize);
    let (mut sync_failures, mut wrong) = (0, Vec::new());
    for number in 1..=most {
        for step in 0..3 {
            let after = Duration::from_millis(60 + 100 * step);
            match killed_after_a_failed_sync(number, after, &kept, &known).await {
                Ok(injected) => sync_failures += usize::from(injected),
                Err(cause) => wrong.push(format!("sync {number}, killed {after:?} later: {cause}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(sync_failures > most, "only {sync_failures} syncs failed");
}
