//! One layout's store: loaded and compacted once, then copied for each round, so that all rounds measure the same data,
//! whatever the rounds before have changed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures_util::FutureExt;
use procfs::process::Process;
use rocksdb::properties::{AGGREGATED_TABLE_PROPERTIES, TOTAL_SST_FILES_SIZE};
use rocksdb::{BottommostLevelCompaction, Cache, CompactOptions, DB, Env, Options};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::schema::CF;
use rowdrive::schema::dir::SUB;
use rowdrive::table::{CellCursor, PageQuery, RowCursor, RowQuery, RowRange, Tables};

use super::Part;
use super::loops::{Clients, Found, Pacing};
use super::operations::{Inputs, Nth, Operation, Request, file};
use super::work::{CountingStore, Meter, cpu_seconds};
use crate::data::CAMERA;
use crate::layouts::kinds::Kind;
use crate::layouts::relational::Relational;
use crate::layouts::{LOAD, Layout, Verdict};
use crate::progress::{Stop, bar};
use crate::report::model::{Costs, Figures, Measured, RAN_OUT, Report};
use crate::report::order::label;

/// A layout whose files are stored, with what its rounds have found until now.
pub struct Store {
    kind: Kind,
    /// What was loaded, compacted.
    loaded: PathBuf,
    /// The copy that a round works on. Nothing is open between two rounds.
    copy: Option<Subject>,
    costs: Costs,
    /// By operation: what was measured, or why nothing.
    found: BTreeMap<&'static str, Result<Found, &'static str>>,
}

/// A layout that is open, with the counters of its work.
struct Subject {
    layout: Arc<dyn Layout>,
    meter: Meter,
    /// Of a layout in a store.
    tables: Option<Tables>,
}

impl Store {
    /// Stores the whole tree in an empty layout below this folder, and compacts it.
    pub async fn load(kind: Kind, part: &Part<'_>, folder: &Path) -> Result<Self> {
        let loaded = folder.join(kind.name());
        std::fs::create_dir_all(&loaded)?;
        let layout = Subject::open(kind, part, &loaded).await?.layout;
        let (start, cpu, device) = (Instant::now(), cpu_seconds()?, written()?);
        let (tree, stored) = (&part.tree, fill(layout.as_ref(), &kind.name(), part).await);
        let (load_seconds, load_cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        let bytes = if stored.is_ok() { layout.compact().await } else { Ok(None) };
        let closed = layout.close().await;
        let (files, bytes) = (stored?, bytes?);
        closed?;
        drop(layout);
        let mut costs = Costs {
            files,
            refused: tree.files.len() as u64 - files,
            load_seconds,
            load_cpu_seconds,
            table_bytes: bytes.into_iter().map(|bytes| ("node".to_owned(), bytes)).collect(),
            rename_files: tree.files.iter().filter(|file| tree.dir(file) == CAMERA).count() as u64,
            ..Costs::default()
        };
        if kind.is_in_store() {
            let db = loaded.join("db");
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
        Ok(Self { kind, loaded, copy: None, costs, found: BTreeMap::new() })
    }

    /// Opens a copy of what was loaded, below this folder; reads it, and asks it for stats.
    pub async fn open(&mut self, part: &Part<'_>, copies: &Path, inputs: &Arc<Inputs>) -> Result<()> {
        let folder = copies.join(self.kind.name());
        copy_store(&self.loaded, &folder)?;
        let start = Instant::now();
        let subject = self.copy.insert(Subject::open(self.kind, part, &folder).await?);
        if let Some(tables) = &subject.tables {
            self.costs.open_ms.get_or_insert(start.elapsed().as_secs_f64() * 1e3);
            read_all(&folder.join("db"), tables, part.stop).await?;
        }
        subject.clients(part, inputs, |inputs, n| inputs.path(9, n).map(Request::Stat)).warm_up().await
    }

    /// Measures an operation, and waits for what the layout does after its answers: it would be counted as another's work.
    pub async fn measure(&mut self, part: &Part<'_>, operation: &Operation, inputs: &Arc<Inputs>) -> Result<()> {
        let subject = self.copy.as_ref().context("no copy is open")?;
        let stat_is_slow = matches!(self.found.get("stat"), Some(Ok(Found { is_slow: Some(true), .. })));
        let refusal = match stat_is_slow && *operation.loops == [Pacing::Many] {
            true => Some("not measured: one stat is slow already (see the settings of the run)"),
            false => operation.refusal(self.kind),
        };
        let found = self.found.entry(operation.name).or_insert(refusal.map_or_else(|| Ok(Found::default()), Err));
        if let Ok(measuring) = found
            && !measuring.ran_out
        {
            let measured = subject.clients(part, inputs, operation.request).measure(operation.loops, measuring).await;
            subject.layout.idle().await;
            measured.with_context(|| format!("{} of {}", label(operation.name), self.kind.name()))?;
        }
        Ok(())
    }

    pub async fn close(&mut self) -> Result<()> {
        let Some(subject) = self.copy.take() else { return Ok(()) };
        subject.layout.close().await
    }

    pub fn report(&self, part: &Part<'_>, report: &mut Report) {
        let Part { options, suffix, .. } = part;
        let (name, mut costs) = (self.kind.name(), self.costs.clone());
        for (operation, found) in &self.found {
            let measured = match found {
                Ok(found) => {
                    let note = found.ran_out.then(|| RAN_OUT.to_owned());
                    match found.figures(options.clients) {
                        Some(figures) => Some(Measured::Figures(Box::new(Figures { note, ..figures }))),
                        None => note.map(|unsupported| Measured::Unsupported { unsupported }),
                    }
                }
                Err(why) => Some(Measured::Unsupported { unsupported: (*why).to_owned() }),
            };
            let Some(measured) = measured else { continue };
            if let (Measured::Figures(figures), "rename_folder") = (&measured, *operation) {
                costs.rename_ms = Some(1e3 / figures.per_second);
            }
            let operations = report.layouts.entry(name.clone()).or_default();
            operations.insert(format!("{operation}{suffix}"), measured);
        }
        if suffix.is_empty() {
            report.costs.insert(name, costs);
        }
    }
}

impl Subject {
    async fn open(kind: Kind, part: &Part<'_>, folder: &Path) -> Result<Self> {
        let memory = part.options.memory;
        if !kind.is_in_store() {
            let layout = Arc::new(Relational::open(folder, memory).await?);
            return Ok(Self { layout, meter: Meter::default(), tables: None });
        }
        let store = Arc::new(CountingStore::new(Rocks::open(&folder.join("db"), RocksOptions::with_memory(memory))?));
        let tables = Tables::new(store.clone());
        let layout = kind.in_store(&tables, folder).await?;
        Ok(Self { layout, meter: Meter(Some(store)), tables: Some(tables) })
    }

    fn clients<'a>(&'a self, part: &Part<'a>, inputs: &Arc<Inputs>, request: Nth) -> Clients<'a> {
        let (layout, inputs) = (self.layout.clone(), inputs.clone());
        let requests = (0..).map_while(move |n| Some(request(&inputs, n)?.send(layout.clone()).boxed()));
        Clients { options: part.options, stop: part.stop, meter: &self.meter, requests: Arc::new(Mutex::new(requests)) }
    }
}

/// Reads all cells of a store once: then its cache has what fits, and no operation pays for the first read of another.
async fn read_all(db: &Path, tables: &Tables, stop: &Stop) -> Result<()> {
    for name in DB::list_cf(&Options::default(), db)? {
        let Some((table, family)) = name.split_once(':') else { continue };
        // Queries take names that are never freed; there are a few.
        let [table, family]: [&'static str; 2] = [table, family].map(|name| &*name.to_owned().leak());
        // A directory may have more children than one read of its row returns: they are read in pages.
        let is_wide = family == SUB;
        let row_query = RowQuery::families(&[if is_wide { CF } else { family }]);
        let mut rows = RowCursor::new(table, RowRange::all(), row_query, LOAD);
        while let Some(some) = rows.next(tables).await? {
            stop.check()?;
            for (row, _) in some.into_iter().filter(|_| is_wide) {
                let (from, to) = (Bound::Unbounded, Bound::Unbounded);
                let first = PageQuery { table, row, family, from, to, limit: LOAD, unchanged: Vec::new() };
                let mut pages = CellCursor::new(first);
                while pages.next(tables).await?.is_some() {}
            }
        }
    }
    Ok(())
}

/// Stores all directories and files, and returns how many files there was room for.
async fn fill(layout: &dyn Layout, name: &str, part: &Part<'_>) -> Result<u64> {
    let Part { tree, content, options, stop, .. } = part;
    let title = bar(&format!("{name}: loading"))?;
    for directory in &tree.dirs {
        stop.check()?;
        let verdict = layout.load_directory(directory).await?;
        ensure!(verdict == Verdict::Done, "{name}: {directory} cannot be made: {verdict:?}");
    }
    let mut stored = 0;
    for files in tree.files.chunks(LOAD) {
        stop.check()?;
        let new = files.iter().map(|one| file(tree.path(one), one.modified, content.clone()));
        stored += layout.load(&new.collect::<Vec<_>>(), options.clients).await?;
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
            // Otherwise the first sync of the round would write it.
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

#[derive(Debug, Default)]
struct DiskUsage {
    /// Bytes on disk by table.
    tables: BTreeMap<String, u64>,
    /// Bytes of keys and values, uncompressed.
    raw: u64,
    index_and_filter: u64,
    cells: u64,
}

/// Compacts the store in this folder whole, and measures it.
fn compact(folder: &Path) -> Result<DiskUsage> {
    let (mut options, families) = Options::load_latest(folder, Env::new()?, false, Cache::new_lru_cache(64 << 20))?;
    options.create_if_missing(false);
    let names: Vec<String> = families.iter().map(|family| family.name().to_owned()).collect();
    let db = DB::open_cf_descriptors(&options, folder, families)?;
    let mut usage = DiskUsage::default();
    // Otherwise the next to open it rewrites its files, while it is measured.
    let mut whole = CompactOptions::default();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    for name in names {
        let family = db.cf_handle(&name).with_context(|| format!("{name} is gone"))?;
        db.flush_cf(&family)?;
        db.compact_range_cf_opt(&family, None::<&[u8]>, None::<&[u8]>, &whole);
        let bytes = db.property_int_value_cf(&family, TOTAL_SST_FILES_SIZE)?.unwrap_or_default();
        if bytes > 0 {
            let table = name.split(':').next().unwrap_or(&name).to_owned();
            *usage.tables.entry(table).or_default() += bytes;
        }
        // As `# entries=3; raw key size=40; index block size (user-key? 1, delta-value? 1)=29; ...`
        let text = db.property_value_cf(&family, AGGREGATED_TABLE_PROPERTIES)?.unwrap_or_default();
        for (property, value) in text.split(';').filter_map(|one| one.trim().split_once('=')) {
            let sum = match property.split(" (").next() {
                Some("raw key size" | "raw value size") => &mut usage.raw,
                Some("index block size" | "filter block size") => &mut usage.index_and_filter,
                Some("# entries") => &mut usage.cells,
                _ => continue,
            };
            *sum += value.trim().parse::<u64>().with_context(|| format!("{property} of {value}"))?;
        }
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_measured_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let db = DB::open_cf(&options, dir.path(), ["t:cf", "t:c", "u:cf"]).unwrap();
        for (family, key) in [("t:cf", "a"), ("t:c", "b"), ("u:cf", "c")] {
            db.put_cf(&db.cf_handle(family).unwrap(), key, "value").unwrap();
        }
        drop(db);
        let usage = compact(dir.path()).unwrap();
        assert_eq!(usage.tables.keys().collect::<Vec<_>>(), ["t", "u"]);
        // A key is followed by eight bytes of its sequence and kind.
        assert_eq!((usage.cells, usage.raw), (3, 3 * (1 + 8 + 5)));
        assert!(usage.index_and_filter > 0);
    }
}
