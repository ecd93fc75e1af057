//! Power cuts: the file system stops writing at one instant, its journal in memory is lost, the machine starts again.
//!
//! Half of the cuts come while the server is stopped: every answer that its clients have was sent before, also those
//! that are still on their way, and every sync was done or not begun. The others come at any instant, in the middle of
//! syncs too; a sync that is under way may then be said to be done, which no power cut does, so what is answered from
//! that instant on is in doubt.
//! `ROWDRIVE_POWER_CUTS` says how often, for longer runs.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Client;

use super::client::{check_command, finishes_clean_up, look, serve_command, sound};
use super::disk::{Disk, Format};
use super::writer::{SharedAnswers, Writer};
use super::{number, seed};
use crate::server::{Server, root};

const WRITERS: usize = 8;
const CUTS: u64 = 10;
/// XFS makes none smaller.
const BYTES: u64 = 320 << 20;

/// What a run has proved.
#[derive(Debug, Default)]
struct CutCounts {
    cuts: u64,
    acknowledged: usize,
    in_flight: usize,
    /// Things that the cuts left half done, as the checks count them.
    unsettled: u64,
}

struct PowerRun {
    disk: Disk,
    writers: Vec<Writer>,
    dice: StdRng,
    counts: CutCounts,
    /// Whether the server's syncs are faked: nothing is synced, and every sync succeeds.
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

    /// All that was answered is there, and nothing is half there.
    async fn verify(&mut self, client: &Client, server: &Server) -> Result<(), String> {
        let seen = look(client, &server.address).await?;
        self.writers.iter_mut().try_for_each(|writer| writer.observe(&seen))
    }

    /// Serves, works, and cuts the power.
    async fn cycle(&mut self) -> Result<(), String> {
        let server = self.start()?;
        let client = Client::new();
        self.verify(&client, &server).await?;
        if self.lies {
            // What is lost is then what was acknowledged since.
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
        let left = sound(check_command(self.disk.program(), &self.disk.data()))?;
        self.counts.unsettled += left["unsettled"].as_u64().unwrap();
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
    // A cut while nothing is in flight proves nothing.
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

/// The harness itself: it sees what a server loses that does not sync.
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
