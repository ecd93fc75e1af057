//! One layout: loaded and compacted once, then measured in rounds. Each round works on a copy of what was loaded, so
//! that all rounds measure the same data, whatever the rounds before have changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use procfs::process::Process;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::table::Tables;

use crate::data;
use crate::data::CAMERA;
use crate::layouts::Layout;
use crate::layouts::dirid_name::DirIdName;
use crate::layouts::drive::Whole;
use crate::layouts::full_path::FullPath;
use crate::layouts::name::Name;
use crate::layouts::postgres::Postgres;
use crate::layouts::relational::Relational;
use crate::layouts::row_id::RowId;
use crate::layouts::tree::Tree;
use crate::layouts::uuid::Uuid;
use crate::layouts::uuid::step::{Bare, Copied, Indexed, Step};
use crate::load;
use crate::measure::{Pace, bar};
use crate::operations::{Bench, Samples};
use crate::report::model::{Costs, Measured};
use crate::settled::{Settled, settle};
use crate::work::{Counted, Meter, cpu_seconds};

/// A layout, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Relational,
    /// On the server that --postgres names.
    #[value(name = "relational-postgresql")]
    Postgres,
    #[value(name = "rowkey-id")]
    RowId,
    Name,
    #[value(name = "fullpath")]
    FullPath,
    #[value(name = "dirid-name")]
    DirIdName,
    UuidBare,
    UuidCopied,
    Uuid,
    Drive,
    Tree,
}

/// What all layouts are measured with.
pub struct Stage {
    pub tree: Arc<data::Tree>,
    /// Holds a folder for each layout.
    pub folder: PathBuf,
    pub pace: Pace,
    pub seed: u64,
    /// Bytes of memory for a store.
    pub memory: usize,
    /// Where PostgreSQL is.
    pub postgres: Option<String>,
}

/// What is done with a layout that is open.
trait Visitor {
    type Found;

    /// The layout is closed here. `opening` is how long it took to open it.
    async fn visit<L: Layout>(self, layout: L, meter: Meter, opening: Duration) -> Result<Self::Found>;
}

impl Kind {
    pub const ALL: [Self; 10] = [
        Self::Relational,
        Self::RowId,
        Self::Name,
        Self::FullPath,
        Self::DirIdName,
        Self::UuidBare,
        Self::UuidCopied,
        Self::Uuid,
        Self::Drive,
        Self::Tree,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Relational => Relational::NAME,
            Self::Postgres => Postgres::NAME,
            Self::RowId => RowId::NAME,
            Self::Name => Name::NAME,
            Self::FullPath => FullPath::NAME,
            Self::DirIdName => DirIdName::NAME,
            Self::UuidBare => Bare::NAME,
            Self::UuidCopied => Copied::NAME,
            Self::Uuid => Indexed::NAME,
            Self::Drive => Whole::NAME,
            Self::Tree => Tree::NAME,
        }
    }

    /// Opens the layout in `folder`: an empty one if it is to be loaded.
    async fn open<V: Visitor>(self, stage: &Stage, folder: &Path, is_new: bool, visitor: V) -> Result<V::Found> {
        let start = Instant::now();
        match self {
            Self::Relational => {
                let layout = Relational::open(folder, stage.memory).await?;
                visitor.visit(layout, Meter::default(), start.elapsed()).await
            }
            Self::Postgres => {
                let url = stage.postgres.as_deref().context("name the server with --postgres")?;
                let layout = if is_new { Postgres::create(url).await? } else { Postgres::as_loaded(url).await? };
                visitor.visit(layout, Meter::default(), start.elapsed()).await
            }
            Self::RowId => in_store(stage, folder, visitor, RowId::create).await,
            Self::Name => in_store(stage, folder, visitor, Name::create).await,
            Self::FullPath => in_store(stage, folder, visitor, FullPath::create).await,
            Self::DirIdName => in_store(stage, folder, visitor, DirIdName::create).await,
            Self::UuidBare => in_store(stage, folder, visitor, Uuid::<Bare>::create).await,
            Self::UuidCopied => in_store(stage, folder, visitor, Uuid::<Copied>::create).await,
            Self::Uuid => in_store(stage, folder, visitor, Uuid::<Indexed>::create).await,
            Self::Drive => {
                let content = folder.join("content");
                in_store(stage, folder, visitor, |tables| Whole::create(tables, content)).await
            }
            Self::Tree => in_store(stage, folder, visitor, Tree::create).await,
        }
    }
}

async fn in_store<V: Visitor, L: Layout, F: Future<Output = Result<L>>>(
    stage: &Stage,
    folder: &Path,
    visitor: V,
    open: impl FnOnce(Tables) -> F,
) -> Result<V::Found> {
    let start = Instant::now();
    let store = Arc::new(Counted::new(Rocks::open(&folder.join("db"), RocksOptions { memory: stage.memory })?));
    let layout = open(Tables::new(store.clone())).await?;
    visitor.visit(layout, Meter::of(store), start.elapsed()).await
}

/// A layout that is loaded, with what its rounds have found until now. Nothing is open between two rounds.
pub struct LayoutRun {
    kind: Kind,
    /// What was loaded, compacted.
    loaded: PathBuf,
    /// The copy that a round works on.
    copy: PathBuf,
    pub costs: Costs,
    samples: Samples,
}

impl LayoutRun {
    /// Loads the whole tree into an empty layout, and compacts it.
    pub async fn load(kind: Kind, stage: &Stage) -> Result<Self> {
        let folder = stage.folder.join(kind.name());
        let [loaded, copy] = ["loaded", "copy"].map(|name| folder.join(name));
        std::fs::create_dir_all(&loaded)?;
        let (mut costs, mut device) = kind.open(stage, &loaded, true, Load { stage }).await?;
        let files = costs.files.max(1) as f64;
        let db = loaded.join("db");
        if db.exists() {
            let title = bar(&format!("{}: compacting", kind.name()))?;
            let before = written()?;
            let Settled { tables, raw, index_and_filter, cells } =
                tokio::task::spawn_blocking(move || settle(&db)).await??;
            title.finish_and_clear();
            costs.cells_per_file = Some(cells as f64 / files);
            costs.table_bytes = tables;
            costs.index_and_filter_bytes = Some(index_and_filter);
            // What is written under `/dev/shm` and the like reaches no device.
            device += written()? - before;
            costs.write_amplification = (device > 0).then(|| device as f64 / raw.max(1) as f64);
        }
        costs.disk_bytes_per_file = costs.table_bytes.values().sum::<u64>() as f64 / files;
        let camera = stage.tree.files.iter().filter(|file| stage.tree.dir(file) == CAMERA).count();
        costs.rename_files = camera as u64;
        Ok(Self { kind, loaded, copy, costs, samples: Samples::default() })
    }

    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Measures every operation once more, on a fresh copy of what was loaded. What it has measured counts even if it
    /// ends with an error.
    pub async fn round(&mut self, stage: &Stage, number: usize) -> Result<()> {
        clear(&self.copy)?;
        copy_store(&self.loaded, &self.copy)?;
        let round = Measure { stage, number, samples: &mut self.samples };
        let opening = self.kind.open(stage, &self.copy, false, round).await?;
        if self.loaded.join("db").exists() {
            self.costs.open_ms.get_or_insert(opening.as_secs_f64() * 1e3);
        }
        clear(&self.copy)
    }

    /// What all rounds together have found, by operation.
    pub fn operations(&self) -> BTreeMap<String, Measured> {
        self.samples.operations()
    }

    /// What the layout costs.
    pub fn costs(&self) -> Costs {
        let mut costs = self.costs.clone();
        if let Some(Measured::Figures(figures)) = self.operations().get("rename_folder") {
            costs.rename_ms = Some(figures.p50_us as f64 / 1e3);
        }
        costs
    }
}

struct Load<'a> {
    stage: &'a Stage,
}

impl Visitor for Load<'_> {
    /// The costs, and the bytes written to devices.
    type Found = (Costs, u64);

    async fn visit<L: Layout>(self, layout: L, _: Meter, _: Duration) -> Result<(Costs, u64)> {
        let Stage { tree, pace, .. } = self.stage;
        let (start, cpu, before) = (Instant::now(), cpu_seconds()?, written()?);
        let loaded = load::load(&format!("{}: loading", L::NAME), &layout, tree, pace).await;
        let (load_seconds, load_cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
        let settled = if loaded.is_ok() { layout.settle().await } else { Ok(None) };
        let closed = layout.close().await;
        let (stored, bytes) = (loaded?, settled?);
        closed?;
        let costs = Costs {
            files: stored,
            refused: tree.files.len() as u64 - stored,
            load_seconds,
            load_cpu_seconds,
            table_bytes: bytes.into_iter().map(|bytes| ("node".to_owned(), bytes)).collect(),
            ..Costs::default()
        };
        Ok((costs, written()? - before))
    }
}

struct Measure<'a> {
    stage: &'a Stage,
    number: usize,
    samples: &'a mut Samples,
}

impl Visitor for Measure<'_> {
    type Found = Duration;

    async fn visit<L: Layout>(self, layout: L, meter: Meter, opening: Duration) -> Result<Duration> {
        let Stage { tree, pace, seed, .. } = self.stage;
        // Each round uses other files, in another order.
        let seed = seed ^ (self.number as u64) << 32;
        let with = (tree.clone(), pace.clone(), meter);
        let measured = Bench::new(layout.clone(), with, seed, self.samples).all().await;
        let closed = layout.close().await;
        measured.and(closed).map(|()| opening)
    }
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
