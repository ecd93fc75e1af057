//! A server under all faults at once, observed from outside: sixteen clients with random work on shared paths, and
//! faults at random moments, one or two at a time. Every acknowledgement must be true afterwards.
//!
//! - [`client`]: the work, and what each answer proves; [`paths`]: the paths; [`content`]: the contents
//! - [`machine`]: the disk and the server; [`fault`]: the faults
//! - [`history`]: the operations on each path; [`checker`]: whether an order explains them
//! - [`idle_checks`]: the conditions that hold while no client works; [`run`]: the state that all of them share
//!
//! A run has rounds: work with faults, checks while idle, a stop, `rowdrive check --content`, a start, and checks
//! again.
//! `docs/testing.md` explains long runs, and how to read the findings.

mod checker;
mod client;
mod content;
mod fault;
mod history;
mod idle_checks;
mod machine;
mod paths;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::{StreamExt, future, stream};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as Http, Method};
use tokio::sync::Mutex;

use checker::Value;
use client::Client;
use content::Origin;
use fault::Fault;
use history::Path;
use machine::Machine;
use run::{Harness, HttpRequest};

use crate::server::root;

const CLIENTS: usize = 16;
/// The size of a file whose readers stall.
const LARGE: usize = 16 << 20;

/// The length of a run.
struct RunOptions {
    seed: u64,
    /// New rounds begin until this time.
    time: Duration,
    rounds: usize,
    /// Milliseconds of work in a round.
    work: u64,
}

impl RunOptions {
    fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let seed = number("ROWDRIVE_TORTURE_SEED").map(|text| text.parse().expect("a number"));
        let seed = seed.unwrap_or_else(|| u64::from(UNIX_EPOCH.elapsed().unwrap().subsec_nanos()) / 1_000);
        match number("ROWDRIVE_TORTURE_MINUTES") {
            Some(minutes) => {
                let minutes: f64 = minutes.parse().expect("minutes");
                Self { seed, time: Duration::from_secs_f64(60.0 * minutes), rounds: usize::MAX, work: 6_000 }
            }
            None => Self { seed, time: Duration::from_secs(25), rounds: 5, work: 2_000 },
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_outlives_every_fault() {
    if !root("every_acknowledged_write_outlives_every_fault") {
        return;
    }
    let plan = RunOptions::from_environment();
    println!("seed {}", plan.seed);
    let scratch = scratch();
    let harness = Arc::new(Harness::new());
    let machine = Mutex::new(Machine::new(harness.clone(), scratch.path()));
    let begun = Instant::now();
    machine.lock().await.start().await.expect("the first start");
    let initial = set_up(&harness).await;
    let clients = Clients::start(&plan, &harness);
    let progress = tokio::spawn(progress(harness.clone()));
    rounds(&plan, &machine, &harness, initial).await;
    progress.abort();
    clients.end(&harness).await;
    drop(machine);
    table(&plan, &harness, begun.elapsed());
    let findings = harness.findings.lock().unwrap();
    if !findings.is_empty() {
        let kept = scratch.keep();
        let all: Vec<_> = findings.iter().map(|finding| format!("{}: {}", finding.kind, finding.what)).collect();
        panic!("seed {}; the server's log and disk are in {}\n{}", plan.seed, kept.display(), all.join("\n"));
    }
}

/// In memory if there is enough, so that the speed of this machine's disk does not matter.
fn scratch() -> tempfile::TempDir {
    let memory = "/dev/shm";
    let free = rustix::fs::statvfs(memory).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    if free > 1 << 30 { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// The clients at work. An operation runs only while its client has a turn.
struct Clients(Vec<tokio::task::JoinHandle<()>>);

impl Clients {
    fn start(plan: &RunOptions, harness: &Arc<Harness>) -> Self {
        let clients = (0..CLIENTS).map(|number| Client::new(number, plan.seed, harness.clone()));
        Self(clients.map(|client| tokio::spawn(client.work())).collect())
    }

    async fn end(self, harness: &Harness) {
        harness.over.store(true, Ordering::SeqCst);
        for client in self.0 {
            // Clients stop waiting for a server.
            client.abort();
            if let Err(error) = client.await {
                assert!(error.is_cancelled(), "{error}");
            }
        }
    }
}

async fn rounds(plan: &RunOptions, machine: &Mutex<Machine>, harness: &Harness, mut initial: BTreeMap<Path, Value>) {
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let begun = Instant::now();
    interrupted().await;
    let mut deck: Vec<Fault> = Vec::new();
    for _ in 0..plan.rounds {
        if deck.len() < 2 {
            let mut more = fault::ALL.to_vec();
            more.shuffle(&mut dice);
            deck.extend(more);
        }
        let happening = draw(&mut deck, &mut dice);
        let work = tokio::time::sleep(Duration::from_millis(plan.work));
        let faults = happening.iter().map(|(fault, after, seed)| async move {
            tokio::time::sleep(Duration::from_millis(*after)).await;
            fault.inject(machine, harness, *seed).await;
        });
        let ((), _) = future::join(work, future::join_all(faults)).await;
        let _quiet = harness.turns.write().await;
        harness.count("rounds");
        let last = begun.elapsed() > plan.time || harness.has_enough() || interrupted().await;
        let seed = dice.random();
        initial = check_idle(machine, harness, &initial, seed, last).await;
        if last || harness.over.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Draws one or two faults, each with the moment of its start and its seed.
fn draw(deck: &mut Vec<Fault>, dice: &mut StdRng) -> Vec<(Fault, u64, u64)> {
    let mut faults: Vec<Fault> = deck.pop().into_iter().collect();
    if dice.random_bool(0.7)
        && let Some(at) = deck.iter().rposition(|fault| !(fault.traces() && faults[0].traces()))
    {
        faults.push(deck.remove(at));
    }
    faults.into_iter().map(|fault| (fault, dice.random_range(100..1_200), dice.random())).collect()
}

/// While no client works: checks everything, stops the server, checks its data, starts it again, and checks again.
async fn check_idle(
    machine: &Mutex<Machine>,
    harness: &Harness,
    initial: &BTreeMap<Path, Value>,
    seed: u64,
    all: bool,
) -> BTreeMap<Path, Value> {
    if harness.over.load(Ordering::SeqCst) {
        return BTreeMap::new();
    }
    let (listed, values) = idle_checks::check_all(harness, initial, seed, all).await;
    let mut machine = machine.lock().await;
    let left = checked(&mut machine).await;
    if let Err(why) = machine.start().await {
        harness.found("start", why);
        harness.over.store(true, Ordering::SeqCst);
        return values;
    }
    idle_checks::wait_until_idle(harness).await;
    let again = idle_checks::list_tree(harness, &mut StdRng::seed_from_u64(seed)).await;
    idle_checks::same(harness, "the listings after a restart", &again, &listed);
    if left > 0 {
        // Leftovers of a failed call are removed at the next start.
        let left = checked(&mut machine).await;
        if left > 0 {
            harness.found("stray", format!("{left} things are left after a clean start"));
        }
        machine.start().await.expect("it has started before");
    }
    values
}

/// Stops the server and checks its data. Returns how much work is left.
async fn checked(machine: &mut Machine) -> u64 {
    machine.stop().await;
    match machine.check().await {
        Err(found) => {
            machine.harness.found("check", found);
            0
        }
        Ok(summary) => {
            machine.harness.count("checks");
            summary["unsettled"].as_u64().unwrap()
        }
    }
}

/// Uploads the trees that are copied, and a large file.
async fn set_up(harness: &Harness) -> BTreeMap<Path, Value> {
    let http = Http::new();
    let put = |path: Path, sequence: usize, size: usize| {
        let http = &http;
        async move {
            let origin = Origin { path: path.clone(), writer: CLIENTS, sequence: sequence as u64, size };
            let (value, _, body) = harness.contents.make(origin);
            let request = HttpRequest { body: body.into(), ..HttpRequest::new(Method::PUT, format!("/v1/fs{path}")) };
            let status = harness.call(http, request).await.map(|reply| reply.status).unwrap_or_default();
            assert_eq!(status, 201, "{path}");
            (path, value)
        }
    };
    put("/large".into(), 0, LARGE).await;
    let puts = paths::masters().into_iter().enumerate().map(|(n, path)| put(path, n + 1, 150));
    let values: BTreeMap<Path, Value> = stream::iter(puts).buffer_unordered(16).collect().await;
    // Many copies will have these contents.
    values.values().for_each(|value| harness.contents.mark_copied(*value));
    values
}

/// Whether Control-C was pressed.
async fn interrupted() -> bool {
    use std::sync::OnceLock;
    static PRESSED: OnceLock<tokio::sync::watch::Receiver<bool>> = OnceLock::new();
    let pressed = PRESSED.get_or_init(|| {
        let (sender, receiver) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                eprintln!("ends after this round");
                sender.send_replace(true);
            }
        });
        receiver
    });
    *pressed.borrow()
}

async fn progress(harness: Arc<Harness>) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let counts = harness.counts();
        let count = |what: &str| counts.get(what).copied().unwrap_or_default();
        let faults: u64 = fault::ALL.iter().map(|fault| count(fault.title())).sum();
        let found = harness.findings.lock().unwrap().len();
        eprintln!(
            "{:>5} s: {} rounds, {} operations, {faults} faults, {found} findings",
            begun.elapsed().as_secs(),
            count("rounds"),
            count("operations"),
        );
    }
}

fn table(plan: &RunOptions, harness: &Harness, took: Duration) {
    println!("\nseed {}, {:.1} minutes, {CLIENTS} clients", plan.seed, took.as_secs_f64() / 60.0);
    for (what, count) in harness.counts() {
        println!("{count:>10}  {what}");
    }
    let mut kinds: BTreeMap<String, u64> = ["lost", "returned", "wrong bytes"].map(|kind| (kind.to_owned(), 0)).into();
    for finding in harness.findings.lock().unwrap().iter() {
        *kinds.entry(finding.kind.clone()).or_default() += 1;
    }
    println!("findings:");
    for (kind, count) in kinds {
        println!("{count:>10}  {kind}");
    }
}
