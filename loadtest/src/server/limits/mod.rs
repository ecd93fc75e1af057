//! What the machine can do, beside what the drive does of it: each operation over HTTP, the same from memory, the same
//! call of the drive without HTTP, and what the disk does at most, in turns.
//!
//! - [`measure`]: measurements of the server, in turns, and rows of the comparison
//! - [`profile`]: flame graphs of what misses its goal, and numbers of system calls
//! - [`goals`]: which operation is measured beside what

mod goals;
mod measure;
mod profile;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use rowdrive::drive::Drive;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::client::Base;
use super::loops::{SMALLS, put, small};
use super::process::Server;
use crate::comparison::disk_usage::compact;
use crate::comparison::store::load;
use crate::data::{CAMERA, Tree};
use crate::layouts::kinds::Kind;
use crate::progress::{Stop, bar};
use crate::server::Limit;
use measure::Goal::AtMost;
use measure::{Subject, row};

/// Files that are stored at a time.
const CLIENTS: usize = 64;

/// How thoroughly limits are measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files in the drive.
    pub files: u32,
    pub seed: u64,
    /// Bytes of memory of the server's store.
    pub memory: usize,
    /// Rounds of which the median is reported.
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

/// All goals, one after the other. `keep` is given each as soon as it is known.
pub async fn all(
    options: &Options,
    scratch: &Path,
    stop: &Stop,
    mut keep: impl FnMut(Limit) -> Result<()>,
) -> Result<()> {
    let data = scratch.join("limits");
    let tree = Tree::new(options.files, options.seed);
    fill(&tree, &data, options, stop).await?.into_iter().try_for_each(&mut keep)?;
    let server = Server::start(&data, options.memory)?;
    let subject = Subject {
        base: Base::find(&server.url("/")).await?,
        server,
        rounds: options.rounds,
        ms: options.ms,
        stop: stop.clone(),
        report: options.profiles.clone(),
    };
    let files = tree.files.iter().filter(|file| tree.dir(file) == CAMERA).count();
    let folder = tree.folders().first().copied().unwrap_or_default();
    let reads = goals::reads(&subject, files, folder).await?;
    for set in goals::uploads().iter().chain(&reads).chain(&goals::large_files(options.large >> 20)) {
        subject.rows(set).await?.into_iter().try_for_each(&mut keep)?;
        if set.title == "stat" {
            goals::calls_of_a_stat(&subject).await?.into_iter().try_for_each(&mut keep)?;
        }
    }
    drop(subject);
    std::fs::remove_dir_all(&data)?;
    stop.go_on()?;
    keep(goals::moved(options.moved, options.rounds, &scratch.join("moved"), options.profiles.as_deref()).await?)
}

/// Fills a drive with a tree, and measures its size and how long it takes to open.
async fn fill(tree: &Tree, data: &Path, options: &Options, stop: &Stop) -> Result<[Limit; 2]> {
    let (db, content) = (data.join("db"), data.join("content"));
    let open = || anyhow::Ok(Tables::new(Arc::new(Rocks::open(&db, RocksOptions { memory: options.memory })?)));
    let layout = Kind::Drive.in_store(&open()?, data).await?;
    load("limits", layout.as_ref(), tree, &Bytes::new(), CLIENTS, stop).await?;
    layout.close().await?;
    drop(layout);
    let title = bar("limits: compacting")?;
    let at = db.clone();
    let usage = tokio::task::spawn_blocking(move || compact(&at)).await??;
    title.finish_and_clear();
    let start = Instant::now();
    let tables = open()?;
    migrate::up(&tables).await?;
    let drive = Drive::open(tables, &content).await?;
    let opened = start.elapsed().as_secs_f64() * 1e3;
    for n in 0..SMALLS {
        put(&drive, &small(n), n).await?;
    }
    drive.close().await;

    let files = tree.files.len() as f64;
    let by_table = usage.tables.iter().map(|(table, bytes)| (table.clone(), *bytes as f64 / files));
    let bytes = by_table.clone().map(|(_, bytes)| bytes).sum();
    let path = tree.files.iter().map(|file| tree.path(file).len()).sum::<usize>() as f64 / files;
    let disk = Limit {
        also: by_table.collect(),
        note: Some(format!("paths of {path:.0} bytes on average")),
        ..row("disk per file, all tables and indexes", "bytes", "goal", AtMost(1.0), &[(bytes, 400.0)])
    };
    let operation = format!("start with {} files", tree.files.len());
    Ok([disk, row(operation, "ms", "goal", AtMost(1.0), &[(opened, 2_000.0)])])
}
