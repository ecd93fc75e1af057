//! The comparison of row keys: every layout stores the same tree, and then answers the same requests, one operation after
//! the other, all layouts in the same few seconds, in rounds.
//!
//! Read in this order: [`operations`] (what is measured), [`loops`] (how), [`store`] (what rounds work on), [`work`] (what
//! is counted beside the time).

pub mod loops;
mod operations;
mod store;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::data::{self, Tree};
use crate::layouts::kinds::Kind;
use crate::progress::{Stop, say};
use crate::report::model::Report;
use crate::report::order::label;
use operations::{ALL, Inputs, Operation, WITH_CONTENT};
use store::Store;

#[derive(Clone, Default)]
pub struct Options {
    pub kinds: Vec<Kind>,
    pub seed: u64,
    pub rounds: usize,
    pub clients: usize,
    pub loop_length: Duration,
    /// How long a loop at a set rate lasts; zero for none.
    pub at_rate_length: Duration,
    /// Bytes of memory for each store.
    pub memory: usize,
    pub folder: PathBuf,
    /// Files of the trees with content.
    pub files_with_content: u32,
    /// The lengths of their content, of [`CONTENT`].
    pub content: &'static [(&'static str, usize)],
}

/// Lengths of content beside none, as they are named behind an operation.
pub const CONTENT: [(&str, usize); 2] = [("_4k", 4 << 10), ("_64k", 64 << 10)];
/// The layouts that differ in where content is.
const CONTENT_KINDS: [Kind; 5] = [Kind::FullPath, Kind::DirIdName, Kind::Uuid, Kind::UuidIndexed, Kind::Drive];

type Keep<'a> = &'a mut (dyn FnMut(&mut Report) -> Result<()> + 'a);

/// Measures all operations on this tree, and those that content makes a difference to on small trees with content. `keep`
/// gets the report whenever it has grown.
pub async fn run(options: &Options, tree: Arc<Tree>, stop: &Stop, report: &mut Report, keep: Keep<'_>) -> Result<()> {
    for (suffix, length) in [("", 0)].iter().chain(options.content) {
        let mut part =
            Part { options, stop, tree: tree.clone(), content: data::content(*length), operations: &ALL, suffix };
        let mut kinds = options.kinds.clone();
        if *length > 0 {
            part.tree = Arc::new(Tree::new(options.files_with_content, options.seed));
            part.operations = &WITH_CONTENT;
            kinds.retain(|kind| CONTENT_KINDS.contains(kind));
        }
        part.run(&kinds, report, keep).await?;
    }
    Ok(())
}

/// Operations on one tree.
pub struct Part<'a> {
    options: &'a Options,
    stop: &'a Stop,
    tree: Arc<Tree>,
    content: Bytes,
    operations: &'static [Operation],
    /// Of the operations' names.
    suffix: &'static str,
}

impl Part<'_> {
    /// Loads all layouts, and measures them in rounds, each on fresh copies.
    async fn run(&self, kinds: &[Kind], report: &mut Report, keep: Keep<'_>) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.options.folder)?;
        let mut stores = Vec::new();
        for kind in kinds {
            let loaded = Store::load(*kind, self, folder.path()).await;
            let store = loaded.with_context(|| format!("layout {}", kind.name()))?;
            store.report(self, report);
            stores.push(store);
            keep(report)?;
        }
        for number in 0..self.options.rounds {
            let copies = tempfile::tempdir_in(&folder)?;
            let mut ended = self.round(number, &mut stores, copies.path()).await;
            for store in &mut stores {
                ended = ended.and(store.close().await);
                store.report(self, report);
            }
            keep(report)?;
            ended?;
        }
        Ok(())
    }

    /// All operations, each with all layouts after one another, in an order that changes.
    async fn round(&self, number: usize, stores: &mut [Store], copies: &Path) -> Result<()> {
        let options = self.options;
        // Each round uses other files, in another order.
        let seed = options.seed ^ (number as u64) << 32;
        let inputs = Arc::new(Inputs::new(self.tree.clone(), seed, self.content.clone(), options.clients)?);
        // Otherwise the first operations would measure how quickly each store fills its cache.
        say("warming up");
        for store in stores.iter_mut() {
            store.open(self, copies, &inputs).await?;
            idle().await?;
        }
        let mut random = StdRng::seed_from_u64(seed);
        for operation in self.operations {
            let what = label(&format!("{}{}", operation.name, self.suffix));
            say(format_args!("round {} of {}: {what}", number + 1, options.rounds));
            room(&options.folder)?;
            stores.shuffle(&mut random);
            for store in stores.iter_mut() {
                store.measure(self, operation, &inputs).await?;
                idle().await?;
            }
        }
        Ok(())
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

pub fn free_space(folder: &Path) -> rustix::io::Result<u64> {
    rustix::fs::statvfs(folder).map(|disk| disk.f_bavail * disk.f_frsize)
}

/// Fails before the disk is full: while there is still room to end what is under way.
fn room(folder: &Path) -> Result<()> {
    let is_room = free_space(folder)? >= 2 << 30;
    anyhow::ensure!(is_room, "{} has less than 2 GiB left: name another folder with --dir", folder.display());
    Ok(())
}
