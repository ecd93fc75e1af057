//! Bytes flipped, zeroed or cut off, and whole files removed, in every kind of file of a stopped data folder.
//!
//! Whatever is damaged: no wrong byte is served, no acknowledged file is missing unless the damage is reported (by a
//! refused start, by an answer of type `damaged`, or by `rowdrive check`), and every intact file is served.
//! `ROWDRIVE_FLIPS` sets the number of damages in each region, for longer runs.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, StatusCode};
use serde_json::Value;

use super::client::{check_command, content, get, program, run_clean_check, send, serve_command};
use super::kills::copy;
use super::oracle::Oracle;
use super::{number, seed};
use crate::drive::model::{Op, View};
use crate::server::Server;

/// Damages of each kind in each region.
const EACH: u64 = 1;
/// The footer after the last block of a table.
const FOOTER: u64 = 53;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Damage {
    Flipped,
    Zeroed,
    Cut,
    Removed,
}

const DAMAGES: [Damage; 4] = [Damage::Flipped, Damage::Zeroed, Damage::Cut, Damage::Removed];

/// A range of a file.
#[derive(Clone, Debug)]
struct Region {
    /// The path below the data folder.
    file: PathBuf,
    from: u64,
    to: u64,
}

/// A stopped store: tables of an earlier run, the log of the last run, and content files.
async fn template(data: &Path) -> (View, Vec<&'static str>) {
    let mut oracle = Oracle::new(View::default());
    let client = Client::new();
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let mut gone = Vec::new();
    for run in 0..3 {
        let server = Server::wait_for(serve_command(program(), data), data);
        let mut ops = Vec::new();
        for n in 0..12 {
            // The last run leaves only its log: no unnamed content file reveals a loss.
            let size = if n % 4 == 3 && run < 2 { 300_000 } else { 200 + 9_000 * n } + run;
            ops.push(Op::Put(leak(format!("/d{run}/e{}/f{n}", n % 3)), size));
        }
        for n in [1, 3] {
            let path = leak(format!("/d{run}/e{}/f{n}", n % 3));
            gone.push(path);
            ops.push(Op::Delete(path));
        }
        for op in ops {
            oracle.record(op, send(&client, &server.address, op).await);
        }
        // Each start writes the log of the previous run to tables; the writes of the last run stay in the log.
        if run < 2 {
            assert_eq!(server.terminate_in_time(), Some(0));
        } else {
            server.kill();
        }
    }
    assert_eq!(oracle.unknown, 0);
    (oracle.view().clone(), gone)
}

/// The regions that can be damaged, by name.
fn regions(data: &Path) -> BTreeMap<String, Vec<Region>> {
    let mut found: BTreeMap<String, Vec<Region>> = BTreeMap::new();
    let mut below = vec![data.to_owned()];
    while let Some(folder) = below.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below.push(path);
                continue;
            }
            let len = path.metadata().unwrap().len();
            for (name, from, to) in parts(path.file_name().unwrap().to_str().unwrap(), len) {
                let file = path.strip_prefix(data).unwrap().to_owned();
                found.entry(name).or_default().push(Region { file, from, to });
            }
        }
    }
    found
}

/// The regions of a file.
fn parts(name: &str, len: u64) -> Vec<(String, u64, u64)> {
    let whole = |region: &str| vec![(region.to_owned(), 0, len)];
    match name {
        // Lock files, RocksDB's own log, and empty files.
        "LOCK" | "in-use" => vec![],
        _ if name == "LOG" || name.starts_with("LOG.") || len == 0 => vec![],
        _ if name.ends_with(".log") => whole("log"),
        _ if name.starts_with("MANIFEST") => whole("MANIFEST"),
        _ if name.starts_with("OPTIONS") => whole("OPTIONS"),
        _ if name.ends_with(".sst") => {
            // A table starts with data blocks; filter, index and properties are about the last kilobyte of a small one.
            let meta = (len / 2).max(len.saturating_sub(1_500));
            vec![
                ("table: data".into(), 0, len / 2),
                ("table: filter, index, properties".into(), meta, len - FOOTER),
                ("table: footer".into(), len - FOOTER, len),
            ]
        }
        _ if uuid::Uuid::parse_str(name).is_ok() => whole("content"),
        other => whole(other),
    }
}

/// Damages a place in the region. Returns a description, and whether a crash may leave the same: a file with its end
/// cut off or never written.
fn damage(data: &Path, region: &Region, how: Damage, dice: &mut StdRng) -> (String, bool) {
    let path = data.join(&region.file);
    let at = dice.random_range(region.from..region.to);
    let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
    match how {
        Damage::Flipped => {
            let (file, mut byte) = (open(), [0]);
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << dice.random_range(0..8);
            file.write_all_at(&byte, at).unwrap();
        }
        Damage::Zeroed => {
            let end = (at + 512).min(region.to);
            open().write_all_at(&vec![0; (end - at) as usize], at).unwrap();
        }
        Damage::Cut => open().set_len(at).unwrap(),
        Damage::Removed => std::fs::remove_file(&path).unwrap(),
    }
    let log = path.extension().is_some_and(|e| e == "log");
    let torn = log && (how == Damage::Cut || how == Damage::Zeroed && at + 512 >= region.to);
    (format!("{how:?} at {at} of {} in {}", region.to, region.file.display()), torn)
}

/// The results of one damage.
#[derive(Default, Debug)]
struct FlipOutcome {
    refused: bool,
    /// Files answered as damaged, or with a connection that broke.
    named: Vec<String>,
    /// Missing files, and files that should not exist.
    missing: Vec<String>,
    found_after: bool,
    found_before: bool,
}

impl FlipOutcome {
    fn harmless(&self) -> bool {
        !self.refused && self.named.is_empty() && self.missing.is_empty()
    }
}

/// Reads everything. Errors: a wrong byte, or a failure that does not report damage.
async fn read(server: &Server, known: &View, gone: &[&str], outcome: &mut FlipOutcome) -> Result<(), String> {
    let client = Client::new();
    for (path, size) in &known.files {
        match get(&client, &server.address, &format!("/v1/fs{path}")).await {
            Ok((StatusCode::OK, bytes)) if bytes == content(*size) => {}
            Ok((StatusCode::OK, bytes)) => return Err(format!("{path}: {} wrong bytes", bytes.len())),
            Ok((StatusCode::NOT_FOUND, _)) => outcome.missing.push(path.clone()),
            // The damage was read after the answer had begun: the connection breaks, which no client mistakes for a
            // complete answer.
            Err(_) => outcome.named.push(path.clone()),
            Ok((status, body)) => {
                let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
                if problem["type"] != "/problems/damaged" {
                    return Err(format!("{path} answers {status}, which does not say that it is damaged: {problem}"));
                }
                outcome.named.push(path.clone());
            }
        }
    }
    for path in gone {
        let (status, _) = get(&client, &server.address, &format!("/v1/fs{path}")).await?;
        if status == StatusCode::OK {
            outcome.missing.push(format!("not {path}"));
        }
    }
    Ok(())
}

struct FlippedStore {
    kept: PathBuf,
    known: View,
    gone: Vec<&'static str>,
}

/// Whether a check reports damage.
fn found(data: &Path) -> Result<bool, String> {
    let Err(said) = run_clean_check(check_command(program(), data)) else { return Ok(false) };
    if said.contains("panicked") { Err(said) } else { Ok(true) }
}

async fn try_one(store: &FlippedStore, data: &Path, spare: &Path, torn: bool) -> Result<FlipOutcome, String> {
    let mut outcome = FlipOutcome { found_before: found(spare)?, ..FlipOutcome::default() };
    let mut started = Server::try_wait_for(serve_command(program(), data), data);
    if let Err(refused) = &started {
        outcome.refused = true;
        if refused.code != Some(3) || !refused.said.contains("db") && !refused.said.contains("content") {
            return Err(format!("the start is refused without a word on what is damaged: {refused:?}"));
        }
        let mut degraded: Command = serve_command(program(), data);
        degraded.arg("--degraded");
        started = Server::try_wait_for(degraded, data);
        if let Err(refused) = &started {
            return Err(format!("it does not even serve degraded: {refused:?}"));
        }
    }
    if let Ok(server) = started {
        read(&server, &store.known, &store.gone, &mut outcome).await?;
        server.terminate_in_time();
        outcome.found_after = found(data)?;
    }
    let named = outcome.refused || !outcome.named.is_empty() || outcome.found_after;
    if torn && outcome.named.is_empty() {
        return Ok(outcome);
    }
    if !outcome.missing.is_empty() && !named {
        return Err(format!("lost without a word: {:?}", outcome.missing));
    }
    if !outcome.harmless() && !outcome.found_before {
        return Err(format!("a check finds nothing: {outcome:?}"));
    }
    Ok(outcome)
}

#[derive(Default, Debug)]
struct FlipCounts {
    tried: usize,
    refused: usize,
    named: usize,
    missing: usize,
    harmless: usize,
    found: usize,
    wrong: usize,
}

impl FlipCounts {
    fn add(&mut self, outcome: &FlipOutcome) {
        self.refused += usize::from(outcome.refused);
        self.named += usize::from(!outcome.named.is_empty());
        self.missing += usize::from(!outcome.missing.is_empty());
        self.harmless += usize::from(outcome.harmless());
        self.found += usize::from(outcome.found_before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_at_rest_is_never_served_and_never_silent() {
    let (each, seed) = (number("ROWDRIVE_FLIPS").unwrap_or(EACH), seed());
    let mut dice = StdRng::seed_from_u64(seed);
    let scratch = tempfile::tempdir().unwrap();
    let kept = scratch.path().join("kept");
    let (known, gone) = template(&kept).await;
    let regions = regions(&kept);
    let store = FlippedStore { kept, known, gone };
    let mut counts: BTreeMap<(&str, Damage), FlipCounts> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, places) in &regions {
        for how in DAMAGES {
            for _ in 0..each {
                let counts = counts.entry((name, how)).or_default();
                let scratch = tempfile::tempdir().unwrap();
                let (data, spare) = (scratch.path().join("data"), scratch.path().join("spare"));
                copy(&store.kept, &data);
                let (done, torn) = damage(&data, places.choose(&mut dice).unwrap(), how, &mut dice);
                copy(&data, &spare);
                counts.tried += 1;
                match try_one(&store, &data, &spare, torn).await {
                    Ok(outcome) => counts.add(&outcome),
                    Err(cause) => {
                        counts.wrong += 1;
                        wrong.push(format!("{name}: {done}: {cause}"));
                    }
                }
            }
        }
    }
    counts.iter().for_each(|((region, how), counts)| println!("{region}, {how:?}: {counts:?}"));
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    let content = &counts[&("content", Damage::Flipped)];
    assert!(content.found == content.tried, "a flip in a content file is not found");
}
