//! Flushes that find a full disk, while the write-ahead log still has space.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::{Client, StatusCode};
use tokio::time::timeout;

use super::client::{check_command, content, program, read_all, run_clean_check, serve_command};
use super::strace::{StraceFault, newest_log};
use crate::server::{Server, root, terminate};

/// Uploads that are sent at the same time.
#[derive(Clone, Copy)]
struct Uploads {
    count: usize,
    /// Of each.
    bytes: usize,
}

/// They fill write buffers.
const LARGE: Uploads = Uploads { count: 8, bytes: 200_000 };
/// So many that some meet each other at any step.
const SMALL: Uploads = Uploads { count: 64, bytes: 10 };
/// Much longer than an answer takes, and than writes take to work again.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose flushes fail.
struct FlushRun {
    server: Server,
    client: Client,
    fault: Option<StraceFault>,
    /// Each round has names of its own.
    rounds: usize,
    acknowledged: usize,
}

/// The SST files that RocksDB will create next: it numbers all its files in one sequence.
fn next_tables(data: &Path) -> Vec<PathBuf> {
    let number: u64 = newest_log(data).file_stem().unwrap().to_str().unwrap().parse().unwrap();
    (number..number + 300).map(|number| data.join(format!("db/{number:06}.sst"))).collect()
}

impl FlushRun {
    /// `delay`: how long RocksDB waits before it fails to create an SST file.
    fn new(folder: &Path, delay: Duration) -> Self {
        Self::with_fault(folder, "openat", &format!("error=ENOSPC:delay_enter={}", delay.as_micros()))
    }

    /// `fault`: what strace does to this call for an SST file.
    fn with_fault(folder: &Path, call: &str, fault: &str) -> Self {
        let data = folder.join("data");
        let server = Server::wait_for(serve_command(program(), &data), &data);
        let inject = format!("inject={call}:{fault}");
        let fault = StraceFault::attach(&server, call, &[inject], &next_tables(&data), &folder.join("trace"));
        Self { server, client: Client::new(), fault: Some(fault), rounds: 0, acknowledged: 0 }
    }

    /// Sends new files. Returns the answers, each with its text.
    async fn upload(&mut self, uploads: Uploads) -> Vec<(StatusCode, String)> {
        self.rounds += 1;
        let put = async |n: usize| {
            let url = format!("http://{}/v1/fs/full/f{}-{n}", self.server.address, self.rounds);
            let answer = timeout(PATIENCE, self.client.put(url).body(content(uploads.bytes)).send()).await;
            let answer = answer.expect("an upload hangs").unwrap();
            (answer.status(), answer.text().await.unwrap())
        };
        let answers = join_all((0..uploads.count).map(put)).await;
        self.acknowledged += answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
        answers
    }

    /// Uploads until an upload is refused.
    async fn fill(&mut self) {
        // More than all write buffers hold.
        for _ in 0..100 {
            let answers = self.upload(LARGE).await;
            if answers.iter().any(|(status, _)| *status == StatusCode::INSUFFICIENT_STORAGE) {
                return;
            }
        }
        panic!("{} uploads are acknowledged, none is refused", self.acknowledged);
    }

    /// Ends the fault, and checks that uploads are stored again, and that all that were acknowledged are there after a
    /// restart.
    async fn recovers(mut self, folder: &Path) {
        let fault = self.fault.take().unwrap();
        assert!(!fault.failed().is_empty(), "no flush has failed");
        fault.end();
        let begun = Instant::now();
        while self.upload(LARGE).await.iter().any(|(status, _)| *status != StatusCode::CREATED) {
            assert!(begun.elapsed() < PATIENCE, "uploads are refused although the disk has free space");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(self.server.terminate_in_time(), Some(0));
        check_all_there(folder, self.acknowledged).await;
    }
}

/// Checks at the next start that all acknowledged uploads are there.
async fn check_all_there(folder: &Path, acknowledged: usize) {
    let data = folder.join("data");
    let server = Server::wait_for(serve_command(program(), &data), &data);
    let files = read_all(&Client::new(), &server.address).await.unwrap().files.len();
    assert!(files >= acknowledged, "{files} files of {acknowledged} uploads");
    assert_eq!(server.terminate_in_time(), Some(0));
    run_clean_check(check_command(program(), &data)).unwrap();
}

/// RocksDB's exit handler waits for the thread of a flush.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_although_a_flush_never_does() {
    if !root("delaying system calls") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut run = FlushRun::with_fault(folder.path(), "fdatasync", "delay_enter=600000000");
    let tables = next_tables(&folder.path().join("data"));
    while !tables.iter().any(|table| table.exists()) {
        run.upload(LARGE).await;
    }
    let FlushRun { server, fault, acknowledged, .. } = run;
    for _ in 0..2 {
        terminate(server.id());
        // Two signals at once are one.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    server.first_thread_ends().await;
    fault.unwrap().kill();
    drop(server);
    assert!(acknowledged > 0);
    check_all_there(folder.path(), acknowledged).await;
}

/// RocksDB recovers from a full disk by a second flush. That flush must not wait for a write that waits for the first
/// flush.
#[tokio::test(flavor = "multi_thread")]
async fn writes_return_after_a_flush_that_fails_while_write_buffers_are_full() {
    if !root("failing system calls") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // RocksDB fails to create the SST file of each column family after a second, one after the other.
    let mut run = FlushRun::new(folder.path(), Duration::from_secs(1));
    let begun = Instant::now();
    run.fill().await;
    // Without a wait, uploads fill all write buffers in half a second.
    assert!(begun.elapsed() > Duration::from_secs(5), "no write has waited for a flush: {:?}", begun.elapsed());
    run.recovers(folder.path()).await;
}

/// RocksDB refuses writes after a failed flush, and does not say whether a refused write may still happen. So no write is
/// sent to RocksDB until it has recovered.
#[tokio::test(flavor = "multi_thread")]
async fn no_outcome_is_unknown_once_the_disk_is_known_to_be_full() {
    if !root("failing system calls") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut run = FlushRun::new(folder.path(), Duration::ZERO);
    run.fill().await;
    let begun = Instant::now();
    // RocksDB looks for free space every 5 seconds, and then tries to flush again.
    while begun.elapsed() < Duration::from_secs(12) {
        for (status, text) in run.upload(SMALL).await {
            assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE, "{text}");
            assert!(!text.contains("may have happened"), "{text}");
        }
    }
    run.recovers(folder.path()).await;
}
