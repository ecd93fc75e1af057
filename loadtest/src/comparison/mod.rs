//! The comparison of row keys: every layout stores the same tree, and then answers the same requests, one operation after
//! the other, all layouts in the same minute, in rounds.
//!
//! Read in this order: [`operations`] (what is measured) and [`requests`], [`loops`] (how), [`store`] (the stores that
//! rounds work on), [`work`] and [`disk_usage`] (what is counted beside the time), [`summary`] (what rounds say together).

pub mod disk_usage;
pub mod loops;
mod operations;
mod requests;
pub mod store;
mod summary;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::data::{self, Tree};
use crate::layouts::kinds::Kind;
use crate::progress::Stop;
use crate::report::model::{Measured, Report};
use loops::{Clients, Pace, Round, Subject};
use operations::{ALL, Context, Inputs, Operation, WITH_CONTENT};
use store::{Stage, Store, clear};

/// What is compared, and how long.
#[derive(Clone)]
pub struct Options {
    pub kinds: Vec<Kind>,
    pub seed: u64,
    /// Rounds over all operations.
    pub rounds: usize,
    pub clients: usize,
    /// How long a loop lasts.
    pub loop_length: Duration,
    /// How long a loop at a set rate lasts; zero for none.
    pub at_rate_length: Duration,
    /// Bytes of memory for each store.
    pub memory: usize,
    /// Holds the stores.
    pub folder: PathBuf,
    /// Files of the trees with content.
    pub files_with_content: u32,
    /// The lengths of their content, of [`CONTENT`].
    pub content: &'static [(&'static str, usize)],
}

/// Lengths of content, as they are named behind an operation, beside none.
pub const CONTENT: [(&str, usize); 2] = [("4k", 4 << 10), ("64k", 64 << 10)];
/// The layouts that differ in where content is.
const CONTENT_KINDS: [Kind; 5] = [Kind::FullPath, Kind::DirIdName, Kind::Uuid, Kind::UuidIndexed, Kind::Drive];

/// Measures all operations on this tree, and those that content makes a difference to on small trees with content. `keep`
/// gets the report whenever it has grown.
pub async fn compare(
    options: &Options,
    tree: Arc<Tree>,
    stop: &Stop,
    report: &mut Report,
    keep: &mut impl FnMut(&mut Report) -> Result<()>,
) -> Result<()> {
    let Options { clients, loop_length, at_rate_length, .. } = *options;
    let pace = Pace { clients, loop_length, at_rate_length, stop: stop.clone() };
    let stage = |tree, content| Stage { options, tree, content: data::content(content), pace: pace.clone() };
    let part = Part { stage: stage(tree, 0), operations: &ALL, suffix: "" };
    part.run(&options.kinds, report, keep).await?;
    for (name, length) in options.content {
        let tree = Arc::new(Tree::new(options.files_with_content, options.seed));
        let suffix = format!("_{name}");
        let part = Part { stage: stage(tree, *length), operations: &WITH_CONTENT, suffix: &suffix };
        let kinds: Vec<Kind> = options.kinds.iter().copied().filter(|kind| CONTENT_KINDS.contains(kind)).collect();
        part.run(&kinds, report, keep).await?;
    }
    Ok(())
}

/// Operations on one tree.
struct Part<'a> {
    stage: Stage<'a>,
    operations: &'static [Operation],
    /// Of the operations' names.
    suffix: &'a str,
}

/// A layout, with what its rounds have found until now.
struct Entry {
    store: Store,
    rounds: BTreeMap<&'static str, Vec<Round>>,
    unsupported: BTreeMap<&'static str, &'static str>,
}

impl Part<'_> {
    async fn run(
        &self,
        kinds: &[Kind],
        report: &mut Report,
        keep: &mut impl FnMut(&mut Report) -> Result<()>,
    ) -> Result<()> {
        let measured = self.measure(kinds, report, keep).await;
        let mut cleared = Ok(());
        for kind in kinds {
            cleared = cleared.and(clear(&self.stage.options.folder.join(kind.name())));
        }
        measured.and(cleared)
    }

    async fn measure(
        &self,
        kinds: &[Kind],
        report: &mut Report,
        keep: &mut impl FnMut(&mut Report) -> Result<()>,
    ) -> Result<()> {
        let mut entries = Vec::new();
        for kind in kinds {
            let store = Store::load(*kind, &self.stage).await.with_context(|| format!("layout {}", kind.name()))?;
            if self.suffix.is_empty() {
                report.costs.insert(kind.name(), store.costs.clone());
            }
            entries.push(Entry { store, rounds: BTreeMap::new(), unsupported: BTreeMap::new() });
            keep(report)?;
        }
        for number in 0..self.stage.options.rounds {
            let round = self.round(number, &mut entries).await;
            for entry in &entries {
                self.summarize(entry, report);
            }
            keep(report)?;
            round?;
        }
        Ok(())
    }

    /// All operations, each with all layouts after one another, in an order that changes.
    async fn round(&self, number: usize, entries: &mut [Entry]) -> Result<()> {
        let mut subjects = Vec::new();
        for (at, entry) in entries.iter_mut().enumerate() {
            match entry.store.open(&self.stage).await {
                Ok(subject) => subjects.push((at, subject)),
                Err(error) => {
                    close(subjects, entries).await?;
                    return Err(error);
                }
            }
        }
        let mut random = StdRng::seed_from_u64(self.stage.options.seed ^ number as u64);
        // Each round uses other files, in another order.
        let seed = self.stage.options.seed ^ (number as u64) << 32;
        let clients = self.stage.options.clients;
        let inputs = Inputs::new(self.stage.tree.clone(), seed, self.stage.content.clone(), clients);
        let mut measured = self.warm_up(&inputs, entries, &subjects).await;
        for operation in self.operations {
            if measured.is_err() {
                break;
            }
            eprintln!("round {} of {}: {}{}", number + 1, self.stage.options.rounds, operation.name, self.suffix);
            subjects.shuffle(&mut random);
            measured = room(&self.stage.options.folder);
            for (at, subject) in &subjects {
                let Some(entry) = entries.get_mut(*at) else { continue };
                if measured.is_ok() {
                    let kind = entry.store.kind;
                    let name = || format!("{} of {}", operation.name, kind.name());
                    measured = self.measure_operation(&inputs, operation, entry, subject).await.with_context(name);
                    // Or what it does after its answers would be counted as another's work.
                    subject.layout.idle().await;
                    measured = measured.and(idle().await);
                }
            }
        }
        let closed = close(subjects, entries).await;
        measured.and(closed)
    }

    /// Or the first operations would measure how quickly each store fills its cache.
    async fn warm_up(&self, round: &Inputs, entries: &[Entry], subjects: &[(usize, Subject)]) -> Result<()> {
        eprintln!("warming up");
        idle().await?;
        for (at, subject) in subjects {
            let Some(entry) = entries.get(*at) else { continue };
            entry.store.warm_up(subject, &self.stage.pace.stop).await?;
            let stats = Context { round, kind: entry.store.kind }.stats();
            loops::warm_up(subject, &self.stage.pace, stats).await?;
        }
        idle().await
    }

    async fn measure_operation(
        &self,
        round: &Inputs,
        operation: &Operation,
        entry: &mut Entry,
        subject: &Subject,
    ) -> Result<()> {
        let is_mix = operation.clients == Clients::Many;
        if is_mix && entry.rounds.get("stat").and_then(|rounds| rounds.first()).is_some_and(|round| round.is_slow) {
            entry.unsupported.insert(operation.name, "not measured: one stat takes longer than a quarter of a loop");
            return Ok(());
        }
        match (operation.requests)(&Context { round, kind: entry.store.kind }) {
            Ok(requests) => {
                let rounds = entry.rounds.entry(operation.name).or_default();
                let is_slow = rounds.first().map(|round| round.is_slow);
                rounds.extend(loops::measure(subject, operation.clients, &self.stage.pace, is_slow, requests).await?);
            }
            Err(why) => {
                entry.unsupported.insert(operation.name, why);
            }
        }
        Ok(())
    }

    /// Adds what is known of a layout to the report.
    fn summarize(&self, entry: &Entry, report: &mut Report) {
        let name = entry.store.kind.name();
        let operations = report.layouts.entry(name.clone()).or_default();
        for (operation, rounds) in &entry.rounds {
            let figures = summary::figures(rounds);
            if *operation == "rename_folder"
                && self.suffix.is_empty()
                && let Some(costs) = report.costs.get_mut(&name)
            {
                costs.rename_ms = Some(figures.p50_us as f64 / 1e3);
                costs.open_ms = entry.store.costs.open_ms;
            }
            operations.insert(format!("{operation}{}", self.suffix), Measured::Figures(Box::new(figures)));
        }
        for (operation, why) in &entry.unsupported {
            let why = Measured::Unsupported { unsupported: (*why).to_owned() };
            operations.insert(format!("{operation}{}", self.suffix), why);
        }
    }
}

/// Waits until this process does nothing in the background any more, as the compactions of a store: some seconds at most.
async fn idle() -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(2);
    let mut quiet = 0;
    for _ in 0..2_000 {
        let before = work::cpu_seconds()?;
        tokio::time::sleep(PAUSE).await;
        // One pause may be a wait for the disk.
        quiet = if work::cpu_seconds()? - before < PAUSE.as_secs_f64() / 4.0 { quiet + 1 } else { 0 };
        if quiet == 3 {
            break;
        }
    }
    Ok(())
}

/// Bytes that are left on the disk of a folder.
pub fn free_space(folder: &Path) -> rustix::io::Result<u64> {
    rustix::fs::statvfs(folder).map(|disk| disk.f_bavail * disk.f_frsize)
}

/// An error while there is still room for what is under way.
fn room(folder: &Path) -> Result<()> {
    anyhow::ensure!(
        free_space(folder)? >= 2 << 30,
        "{} has less than 2 GiB left: name another folder with --dir",
        folder.display()
    );
    Ok(())
}

async fn close(subjects: Vec<(usize, Subject)>, entries: &[Entry]) -> Result<()> {
    let mut closed = Ok(());
    for (at, subject) in subjects {
        closed = closed.and(subject.layout.close().await);
        drop(subject);
        closed = closed.and(entries.get(at).map_or(Ok(()), |entry| entry.store.clear_copy()));
    }
    closed
}
