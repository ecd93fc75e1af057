//! A disk filled again and again, with an end of the server and a start on the full disk in between.
//!
//! `ROWDRIVE_FULL_CYCLES` says how often, for longer runs.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, StatusCode};

use super::client::{check_command, read_all, run_clean_check, send};
use super::disk::{Disk, Format};
use super::oracle::Oracle;
use super::{number, seed};
use crate::drive::model::{Op, View};
use crate::server::{Server, root};

const CYCLES: u64 = 5;
const BYTES: u64 = 64 << 20;
/// Sizes of files: first large ones, then inline ones into what they leave, or inline ones alone.
const SIZES: [&[usize]; 2] = [&[3_000_000, 300_000, 30_000], &[200_000, 20_000]];
/// Uploads at a time: so that they ask for room before any of them has taken it.
const TOGETHER: usize = 4;
/// How long deletes or writes may be refused before the server is started again. Most come back much sooner.
const REFUSED: Duration = Duration::from_secs(15);

struct CycleRun {
    disk: Disk,
    oracle: Oracle,
    client: Client,
    dice: StdRng,
    /// Sizes distinguish versions.
    made: usize,
    refused: usize,
    /// Deletes that were answered 507.
    waits: usize,
    /// Starts because deletes or writes were refused for long.
    restarts: u64,
    most_restarts: u64,
}

impl CycleRun {
    fn start(&self) -> Server {
        let data = self.disk.data();
        let mut command = self.disk.program();
        command.arg("serve").arg("--data").arg(&data).args(["--listen", "127.0.0.1:0", "--memory"]);
        command.arg("32MiB");
        Server::wait_for(command, &data)
    }

    fn put(&mut self, size: usize) -> Op {
        self.made += 1;
        let path: &'static str = Box::leak(format!("/full/{}/f{}", self.made % 7, self.made).into_boxed_str());
        Op::Put(path, size + self.made)
    }

    /// Uploads until there is no room for the smallest size, or enough of them.
    async fn fill(&mut self, server: &Server, sizes: &[usize]) {
        for &size in sizes {
            for _ in 0..400 / TOGETHER {
                let ops: Vec<Op> = (0..TOGETHER).map(|_| self.put(size)).collect();
                let answers = join_all(ops.iter().map(|op| send(&self.client, &server.address, *op))).await;
                for (op, answer) in ops.iter().zip(&answers) {
                    self.record(*op, *answer);
                }
                if answers.iter().all(|answer| *answer == Some(StatusCode::INSUFFICIENT_STORAGE)) {
                    self.refused += 1;
                    break;
                }
            }
        }
    }

    fn record(&mut self, op: Op, answer: Option<StatusCode>) {
        let clear = [StatusCode::CREATED, StatusCode::NO_CONTENT, StatusCode::INSUFFICIENT_STORAGE];
        assert!(answer.is_some_and(|status| clear.contains(&status)), "{op:?} on a full disk answers {answer:?}");
        self.oracle.record(op, answer);
    }

    async fn verify(&mut self, server: &Server) {
        let seen = read_all(&self.client, &server.address).await.unwrap();
        self.oracle.observe(seen).unwrap();
    }

    /// Deletes at random about this part of a hundred. Each delete is done on the full disk; one that finds that a
    /// compaction has taken the last space is answered 507, and is done within seconds or after another start.
    async fn delete(&mut self, mut server: Server, part: u32) -> Server {
        for path in self.oracle.view().files.clone().into_keys() {
            if self.dice.random_range(0..100) < part {
                let op = Op::Delete(Box::leak(path.into_boxed_str()));
                while !self.is_deleted(&server, op).await {
                    server = self.start_again(server).await;
                }
            }
        }
        server
    }

    /// Sends a delete until it is done; false if it is refused for long. Until then it may have happened.
    async fn is_deleted(&mut self, server: &Server, op: Op) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < REFUSED {
            let answer = send(&self.client, &server.address, op).await;
            self.oracle.record(op, answer.filter(|status| *status != StatusCode::INSUFFICIENT_STORAGE));
            match answer {
                Some(StatusCode::NO_CONTENT | StatusCode::NOT_FOUND) => return true,
                Some(StatusCode::INSUFFICIENT_STORAGE) => self.waits += 1,
                _ => panic!("{op:?} on a full disk answers {answer:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// A write is done as soon as there is disk space again. The space of inline files comes back with a compaction,
    /// which takes space itself: if it fails for want of it, RocksDB tries it again after the next start, or when as
    /// much is free as the compacted tables take. It succeeds at the latest when all files are deleted.
    async fn writes_return(&mut self, mut server: Server) -> Server {
        while !self.is_written(&server).await {
            server = self.start_again(server).await;
            server = self.delete(server, 60).await;
        }
        server
    }

    /// Sends uploads until one is stored; false if they are refused for long.
    async fn is_written(&mut self, server: &Server) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < REFUSED {
            let op = self.put(300_000);
            let answer = send(&self.client, &server.address, op).await;
            self.record(op, answer);
            if answer == Some(StatusCode::CREATED) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    async fn start_again(&mut self, server: Server) -> Server {
        self.restarts += 1;
        println!("start {} because writes are refused", self.restarts);
        assert!(self.restarts <= self.most_restarts, "each start is followed by refusals");
        assert_eq!(server.terminate_in_time(), Some(0));
        let server = self.start();
        self.verify(&server).await;
        server
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_on_a_full_disk_and_empties_it_repeatedly() {
    if !root("restarts on a full disk") {
        return;
    }
    let (cycles, seed) = (number("ROWDRIVE_FULL_CYCLES").unwrap_or(CYCLES), seed());
    let mut run = CycleRun {
        disk: Disk::new(Format::Ext4, BYTES),
        oracle: Oracle::new(View::default()),
        client: Client::new(),
        dice: StdRng::seed_from_u64(seed),
        made: 0,
        refused: 0,
        waits: 0,
        restarts: 0,
        most_restarts: cycles.div_ceil(2),
    };
    let mut server = run.start();
    let mut kills = 0;
    for cycle in 0..cycles {
        let sizes = SIZES[run.dice.random_range(0..SIZES.len())];
        run.fill(&server, sizes).await;
        let seen = read_all(&run.client, &server.address).await.unwrap();
        run.oracle.allows(&seen).unwrap_or_else(|wrong| panic!("seed {seed}, cycle {cycle}, full: {wrong}"));
        if cycle % 2 == 0 {
            kills += 1;
            server.kill();
        } else {
            assert_eq!(server.terminate_in_time(), Some(0));
        }
        println!("cycle {cycle}: {} files; starting on the full disk", run.oracle.view().files.len());
        server = run.start();
        run.verify(&server).await;
        server = run.delete(server, 60).await;
        server = run.writes_return(server).await;
    }
    let (acknowledged, waits, restarts) = (run.oracle.acknowledged, run.waits, run.restarts);
    println!(
        "{cycles} cycles, {kills} kills, {acknowledged} acknowledged, {waits} deletes sent again; lost 0, wrong 0"
    );
    println!("{restarts} starts because writes were refused");
    assert!(run.refused as u64 >= cycles, "the disk was full only {} times", run.refused);
    assert_eq!(server.terminate_in_time(), Some(0));
    run_clean_check(check_command(run.disk.program(), &run.disk.data())).unwrap();
}
