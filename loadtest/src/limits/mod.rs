//! What the machine can do, beside what the drive does of it: each operation over HTTP, the same from memory, the same
//! call of the drive without HTTP, and what the disk does at most, in turns.
//!
//! - `server`: a drive with bare handlers beside it, in a process of its own; `child`: that process
//! - `loops`: calls without HTTP; `rounds`: measurements in turns; `large`: bodies of a gibibyte
//! - `beside`: tools that look into a process; `profile`: flame graphs of what misses its goal
//! - `small`: goals of small requests; `big`: goals of large files, folders and stores

mod beside;
mod big;
mod child;
mod large;
mod loops;
mod profile;
mod rounds;
pub mod server;
mod small;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use rowdrive::drive::Drive;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::table::Tables;

use crate::comparison::disk_usage::compact;
use crate::comparison::store::load;
use crate::data::{CAMERA, Tree};
use crate::http::Base;
use crate::layouts::kinds::Kind;
use crate::progress::{Stop as Pace, bar};
use crate::report::model::Limit;
pub use child::Server;
use profile::Profiles;
use rounds::Rounds;

/// How thoroughly limits are measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files in the drive.
    pub files: u32,
    pub seed: u64,
    /// Bytes of memory of the server's store.
    pub memory: usize,
    /// Rounds of which the median is told.
    pub rounds: usize,
    /// How long each measurement of a round lasts, in milliseconds.
    pub ms: u64,
    /// Bytes of the large file.
    pub large: u64,
    /// Files of the folder that is moved.
    pub moved: u32,
    /// The folder of the report, if profiles of what misses its goal are to be there.
    pub profiles: Option<PathBuf>,
}

/// A drive that is full of files, and who measures it.
struct Subject {
    server: Server,
    base: Base,
    rounds: Rounds,
    profiles: Profiles,
    /// Files of the largest folder.
    files: usize,
    /// A folder of the usual size.
    folder: String,
}

/// All goals, one after the other. `keep` is given each as soon as it is known.
pub async fn all(
    options: &Options,
    scratch: &Path,
    pace: &Pace,
    mut keep: impl FnMut(Limit) -> Result<()>,
) -> Result<()> {
    let data = scratch.join("limits");
    let tree = Tree::new(options.files, options.seed);
    for known in fill(&tree, &data, options, pace).await? {
        keep(known)?;
    }
    let files = tree.files.iter().filter(|file| tree.dir(file) == CAMERA).count();
    let folder = tree.folders().first().map(|&folder| folder.to_owned()).unwrap_or_default();
    let server = Server::start(&data, options.memory)?;
    let base = Base::find(&server.url("/")).await?;
    let rounds = Rounds { rounds: options.rounds, ms: options.ms, pace: pace.clone() };
    let profiles = Profiles::new(options.profiles.clone());
    let subject = Subject { server, base, rounds, profiles, files, folder };
    small::goals(&subject, &mut keep).await?;
    big::goals(&subject, options, &mut keep).await?;
    let Subject { profiles, .. } = subject;
    std::fs::remove_dir_all(&data)?;
    keep(big::moved(options, scratch, pace, &profiles).await?)
}

/// Fills a drive with a tree, and says what that has cost.
async fn fill(tree: &Tree, data: &Path, options: &Options, pace: &Pace) -> Result<Vec<Limit>> {
    let (db, content) = (data.join("db"), data.join("content"));
    let open =
        || -> Result<Tables> { Ok(Tables::new(Arc::new(Rocks::open(&db, RocksOptions { memory: options.memory })?))) };
    let layout = Kind::Drive.in_store(&open()?, data).await?;
    load("limits", layout.as_ref(), tree, &bytes::Bytes::new(), 64, pace).await?;
    layout.close().await?;
    drop(layout);
    let title = bar("limits: compacting")?;
    let at = db.clone();
    let settled = tokio::task::spawn_blocking(move || compact(&at)).await??;
    title.finish_and_clear();
    let start = Instant::now();
    let tables = open()?;
    migrate::up(&tables).await?;
    let drive = Drive::open(tables, &content).await?;
    let opened = start.elapsed();
    for n in 0..loops::SMALLS {
        loops::put(&drive, &loops::small(n), n).await?;
    }
    drive.close().await;
    Ok(big::of_store(tree, &settled, opened))
}
