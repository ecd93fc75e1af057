//! Power cuts: at one instant the file system stops writing, its journal in memory is lost, and the machine starts
//! again.
//!
//! Half of the cuts happen while the server is stopped by a signal: every answer that a client has was sent before,
//! also answers in transit, and every sync was either done or not begun. The other cuts happen at any instant, also
//! during a sync. Such a sync may then report success, which no real power cut does, so answers after that instant do
//! not count.
//! `ROWDRIVE_POWER_CUTS` sets the number of cuts, for longer runs.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Client;

use super::client::{check_command, finishes_clean_up, read_all, run_clean_check, serve_command};
use super::disk::{Disk, Format};
use super::writer::{SharedAnswers, Writer};
use super::{number, seed};
use crate::server::{Server, root};

const WRITERS: usize = 8;
const CUTS: u64 = 10;
/// XFS has no smaller size.
const BYTES: u64 = 320 << 20;

/// The totals of a run.
#[derive(Debug, Default)]
struct CutCounts {
    cuts: u64,
    acknowledged: usize,
    in_flight: usize,
    /// Unfinished work that the checks counted after the cuts.
    unfinished: u64,
}

struct PowerRun {
    disk: Disk,
    writers: Vec<Writer>,
    dice: StdRng,
    counts: CutCounts,
    /// Whether the server's syncs are faked: every sync reports success, and nothing is synced.
    lies: bool,
}

impl PowerRun {
    fn new(format: Format, seed: u64, lies: bool) -> Self {
        let writers = (0..WRITERS).map(|number| Writer::new(number, seed)).collect();
        let dice = StdRng::seed_from_u64(seed);
        Self { disk: Disk::new(format, BYTES), writers, dice, counts: CutCounts::default(), lies }
    }

    fn start(&self) -> Result<Server, String> {
        let data = self.disk.data();
        let command = if self.lies {
            let mut strace = self.disk.command("strace");
            strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,sync_file_range"]);
            strace.args(["-e", "inject=fsync,fdatasync,sync_file_range:retval=0", "-e", "signal=none"]);
            strace.arg(env!("CARGO_BIN_EXE_rowdrive"));
            strace
        } else {
            self.disk.program()
        };
        Server::try_wait_for(serve_command(command, &data), &data).map_err(|refused| format!("{refused:?}"))
    }

    /// Every acknowledged change is there, and every other change is there completely or not at all.
    async fn verify(&mut self, client: &Client, server: &Server) -> Result<(), String> {
        let seen = read_all(client, &server.address).await?;
        self.writers.iter_mut().try_for_each(|writer| writer.observe(&seen))
    }

    /// Starts a server, runs the writers, and cuts the power.
    async fn cycle(&mut self) -> Result<(), String> {
        let server = self.start()?;
        let client = Client::new();
        self.verify(&client, &server).await?;
        if self.lies {
            // The cut then loses exactly what is acknowledged from now on.
            self.disk.sync();
        }
        let answers = SharedAnswers::default();
        let work = |w: Writer| tokio::spawn(w.work(client.clone(), server.address.clone(), answers.clone()));
        let working: Vec<_> = self.writers.drain(..).map(work).collect();
        answers.reach(self.dice.random_range(1..60)).await;
        tokio::time::sleep(Duration::from_micros(self.dice.random_range(0..5_000))).await;
        if self.dice.random() {
            server.stop();
        } else {
            answers.doubt();
        }
        let stopped = Instant::now();
        self.disk.cut();
        server.kill();
        let mut in_flight = 0;
        for writer in working {
            let writer = writer.await.map_err(|e| e.to_string())?;
            in_flight += usize::from(writer.unanswered.is_some_and(|sent| sent < stopped));
            self.writers.push(writer);
        }
        self.counts.in_flight += in_flight;
        self.counts.cuts += 1;
        self.disk.unmount();
        self.disk.mount();
        let left = run_clean_check(check_command(self.disk.program(), &self.disk.data()))?;
        self.counts.unfinished += left["unsettled"].as_u64().unwrap();
        Ok(())
    }

    /// The last start: everything is there, and the server ends as it should.
    async fn end(&mut self) -> Result<(), String> {
        let server = self.start()?;
        self.verify(&Client::new(), &server).await?;
        assert_eq!(server.terminate_in_time(), Some(0));
        finishes_clean_up(|| self.start().unwrap(), || check_command(self.disk.program(), &self.disk.data())).await?;
        self.counts.acknowledged = self.writers.iter().map(|writer| writer.oracle.acknowledged).sum();
        Ok(())
    }
}

async fn cuts(format: Format) {
    let (cuts, seed) = (number("ROWDRIVE_POWER_CUTS").unwrap_or(CUTS), seed());
    let mut run = PowerRun::new(format, seed, false);
    for cut in 0..cuts {
        run.cycle().await.unwrap_or_else(|wrong| panic!("{format:?}, seed {seed}, cut {cut}: {wrong}"));
    }
    run.end().await.unwrap_or_else(|wrong| panic!("{format:?}, seed {seed}, at the end: {wrong}"));
    // A cut without requests in flight proves nothing.
    assert!(run.counts.in_flight as u64 > 2 * cuts, "{:?}", run.counts);
    println!("{format:?}: lost 0, wrong 0, half there 0: {:?}", run.counts);
    assert!(run.counts.acknowledged as u64 > 10 * cuts, "{:?}", run.counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn power_cuts_of_ext4_lose_nothing_acknowledged() {
    if root("power cuts of ext4") {
        cuts(Format::Ext4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn power_cuts_of_xfs_lose_nothing_acknowledged() {
    if root("power cuts of XFS") {
        cuts(Format::Xfs).await;
    }
}

/// A test of the harness: it detects the losses of a server that does not sync.
#[tokio::test(flavor = "multi_thread")]
async fn power_cuts_reveal_a_server_that_does_not_sync() {
    if !root("power cuts without syncs") {
        return;
    }
    let mut run = PowerRun::new(Format::Ext4, seed(), true);
    for _ in 0..CUTS {
        if let Err(wrong) = run.cycle().await {
            println!("found: {wrong}");
            return;
        }
    }
    let end = run.end().await;
    assert!(end.is_err(), "nothing was synced and nothing was lost: the cuts cut nothing");
}
