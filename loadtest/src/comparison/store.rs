//! One layout's store: loaded and compacted once, then copied for each round, so that all rounds measure the same data,
//! whatever the rounds before have changed.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use procfs::process::Process;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::schema::CF;
use rowdrive::table::{CellCursor, PageQuery, RowCursor, RowQuery, RowRange, StoreError, Tables};

use super::Options;
use super::disk_usage::{DiskUsage, compact};
use super::loops::{Pace, Subject};
use super::work::{CountingStore, Meter, cpu_seconds};
use crate::data::{CAMERA, Tree, attributes};
use crate::layouts::kinds::Kind;
use crate::layouts::relational::Relational;
use crate::layouts::{LOAD, Layout, NewFile, Verdict};
use crate::progress::{Stop, bar};
use crate::report::model::Costs;

/// What all layouts are measured with.
pub struct Stage<'a> {
    pub options: &'a Options,
    pub tree: Arc<Tree>,
    /// Of each file.
    pub content: Bytes,
    pub pace: Pace,
}

/// A layout whose files are stored. Nothing is open between two rounds.
pub struct Store {
    pub kind: Kind,
    /// What was loaded, compacted.
    loaded: PathBuf,
    /// The copy that a round works on.
    copy: PathBuf,
    pub costs: Costs,
}

impl Store {
    /// Stores the whole tree in an empty layout, and compacts it.
    pub async fn load(kind: Kind, stage: &Stage<'_>) -> Result<Self> {
        let folder = stage.options.folder.join(kind.name());
        let [loaded, copy] = ["loaded", "copy"].map(|name| folder.join(name));
        std::fs::create_dir_all(&loaded)?;
        let layout = open(kind, stage, &loaded).await?.layout;
        let (start, cpu, device) = (Instant::now(), cpu_seconds()?, written()?);
        let Stage { tree, content, pace, .. } = stage;
        let clients = pace.clients;
        let stored = load(&kind.name(), layout.as_ref(), tree, content, clients, &pace.stop).await;
        let (load_seconds, load_cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        let bytes = if stored.is_ok() { layout.compact().await } else { Ok(None) };
        let closed = layout.close().await;
        let (files, bytes) = (stored?, bytes?);
        closed?;
        drop(layout);
        let camera = stage.tree.files.iter().filter(|file| stage.tree.dir(file) == CAMERA).count();
        let mut costs = Costs {
            files,
            refused: stage.tree.files.len() as u64 - files,
            load_seconds,
            load_cpu_seconds,
            table_bytes: bytes.into_iter().map(|bytes| ("node".to_owned(), bytes)).collect(),
            rename_files: camera as u64,
            ..Costs::default()
        };
        let db = loaded.join("db");
        if db.exists() {
            let title = bar(&format!("{}: compacting", kind.name()))?;
            let DiskUsage { tables, raw, index_and_filter, cells } =
                tokio::task::spawn_blocking(move || compact(&db)).await??;
            title.finish_and_clear();
            costs.cells_per_file = Some(cells as f64 / files.max(1) as f64);
            costs.table_bytes = tables;
            costs.index_and_filter_bytes = Some(index_and_filter);
            // What is written under `/dev/shm` and the like reaches no device.
            let device = written()? - device;
            costs.write_amplification = (device > 0).then(|| device as f64 / raw.max(1) as f64);
        }
        costs.disk_bytes_per_file = costs.table_bytes.values().sum::<u64>() as f64 / files.max(1) as f64;
        Ok(Self { kind, loaded, copy, costs })
    }

    /// Opens a fresh copy of what was loaded.
    pub async fn open(&mut self, stage: &Stage<'_>) -> Result<Subject> {
        self.clear_copy()?;
        copy_store(&self.loaded, &self.copy)?;
        let start = Instant::now();
        let subject = open(self.kind, stage, &self.copy).await?;
        if self.kind.is_in_store() {
            self.costs.open_ms.get_or_insert(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(subject)
    }

    /// Reads a store that was just opened.
    pub async fn warm_up(&self, subject: &Subject, stop: &Stop) -> Result<()> {
        match &subject.tables {
            Some(tables) => read_all(&self.copy.join("db"), tables, stop).await,
            None => Ok(()),
        }
    }

    pub fn clear_copy(&self) -> Result<()> {
        clear(&self.copy)
    }
}

/// Opens a layout in a folder.
async fn open(kind: Kind, stage: &Stage<'_>, folder: &Path) -> Result<Subject> {
    match kind {
        Kind::Relational => {
            let layout = Arc::new(Relational::open(folder, stage.options.memory).await?);
            Ok(Subject { layout, meter: Meter::default(), tables: None })
        }
        _ => {
            let store = Rocks::open(&folder.join("db"), RocksOptions { memory: stage.options.memory })?;
            let store = Arc::new(CountingStore::new(store));
            let tables = Tables::new(store.clone());
            let layout = kind.in_store(&tables, folder).await?;
            Ok(Subject { layout, meter: Meter::Store(store), tables: Some(tables) })
        }
    }
}

/// Reads all cells of a store once: then its cache has what fits, and no operation pays for the first read of another.
async fn read_all(db: &Path, tables: &Tables, stop: &Stop) -> Result<()> {
    for name in rocksdb::DB::list_cf(&rocksdb::Options::default(), db)? {
        let Some((table, family)) = name.split_once(':') else { continue };
        // Queries take names that are never freed; there are a few.
        let [table, family]: [&'static str; 2] = [table, family].map(|name| &*name.to_owned().leak());
        let keys = |family| RowCursor::new(table, RowRange::all(), RowQuery::families(&[family]), LOAD);
        let mut rows = keys(family);
        loop {
            stop.go_on()?;
            match rows.next(tables).await {
                Ok(None) => break,
                Ok(Some(_)) => {}
                // As a row of the directory table: its cells are read in pages.
                Err(StoreError::TooWide { .. }) => {
                    for (row, _) in keys(CF).rest(tables).await? {
                        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
                        let first = PageQuery { table, row, family, from, to, limit: LOAD, unchanged: Vec::new() };
                        let mut pages = CellCursor::new(first);
                        while pages.next(tables).await?.is_some() {}
                    }
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Stores all directories and files in a layout of this name, and returns how many files there was room for.
pub async fn load(
    name: &str,
    layout: &dyn Layout,
    tree: &Tree,
    content: &Bytes,
    clients: usize,
    stop: &Stop,
) -> Result<u64> {
    let title = bar(&format!("{name}: loading"))?;
    for directory in &tree.dirs {
        let verdict = layout.load_directory(directory).await?;
        ensure!(verdict == Verdict::Done, "{name}: {directory} cannot be made: {verdict:?}");
    }
    let mut stored = 0;
    for files in tree.files.chunks(LOAD) {
        stop.go_on()?;
        let new = files.iter().map(|file| NewFile {
            path: tree.path(file),
            attributes: attributes(file.modified),
            content: content.clone(),
        });
        stored += layout.load(&new.collect::<Vec<_>>(), clients).await?;
        title.inc(files.len() as u64);
    }
    title.finish_and_clear();
    Ok(stored)
}

/// Copies a folder. Files of tables are linked, since RocksDB never changes one that is written.
fn copy_store(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_store(&old, &new)?;
        } else if old.extension().is_some_and(|kind| kind == "sst") {
            std::fs::hard_link(&old, &new)?;
        } else {
            std::fs::copy(&old, &new)?;
            // Or the first sync of the round would write it.
            std::fs::File::open(&new)?.sync_all()?;
        }
    }
    Ok(())
}

/// Bytes that this process has had written to devices.
fn written() -> Result<u64> {
    let io = Process::myself()?.io().context("this process may not read its own counters")?;
    Ok(io.write_bytes.saturating_sub(io.cancelled_write_bytes))
}

/// Removes what a layout has left in a folder.
pub fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    Ok(())
}
