//! One layout, from an empty folder to its figures: loaded, settled, opened again, measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use procfs::process::Process;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::table::Tables;

use crate::data::{CAMERA, Tree};
use crate::layouts::dirid_name::DirIdName;
use crate::layouts::drive::Whole;
use crate::layouts::full_path::FullPath;
use crate::layouts::name::Name;
use crate::layouts::postgres::Postgres;
use crate::layouts::relational::Relational;
use crate::layouts::row_id::RowId;
use crate::layouts::uuid::Uuid;
use crate::layouts::{Layout, tree};
use crate::load;
use crate::measure::{Pace, bar};
use crate::operations::Bench;
use crate::report::model::{Costs, Measured};
use crate::settled::{Settled, settle};

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
    Uuid,
    Drive,
    Tree,
}

/// Where and on what a layout is measured.
pub struct Stage {
    pub tree: Arc<Tree>,
    pub folder: PathBuf,
    pub pace: Pace,
    pub seed: u64,
    /// Bytes of memory for the store.
    pub memory: usize,
    /// Where PostgreSQL is.
    pub postgres: Option<String>,
}

/// What was found out about a layout; as much as there was time for.
pub struct Found {
    pub operations: BTreeMap<String, Measured>,
    pub costs: Costs,
    pub ended: Result<()>,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Relational,
        Self::RowId,
        Self::Name,
        Self::FullPath,
        Self::DirIdName,
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
            Self::Uuid => Uuid::NAME,
            Self::Drive => Whole::NAME,
            Self::Tree => tree::Tree::NAME,
        }
    }

    pub async fn measure(self, stage: &Stage) -> Result<Found> {
        let content = stage.folder.join("content");
        match self {
            Self::Relational => {
                let layout = Relational::create(&stage.folder, stage.memory).await?;
                database(stage, layout, "nodes.sqlite", Relational::settle).await
            }
            Self::Postgres => {
                let url = stage.postgres.as_deref().context("name the server with --postgres")?;
                database(stage, Postgres::create(url).await?, "node", Postgres::settle).await
            }
            Self::RowId => stored(stage, RowId::create).await,
            Self::Name => stored(stage, Name::create).await,
            Self::FullPath => stored(stage, FullPath::create).await,
            Self::DirIdName => stored(stage, DirIdName::create).await,
            Self::Uuid => stored(stage, Uuid::create).await,
            Self::Drive => stored(stage, |tables| Whole::create(tables, content.clone())).await,
            Self::Tree => stored(stage, tree::Tree::create).await,
        }
    }
}

async fn stored<L: Layout, F: Future<Output = Result<L>>>(stage: &Stage, make: impl Fn(Tables) -> F) -> Result<Found> {
    let db = stage.folder.join("db");
    let open =
        || -> Result<Tables> { Ok(Tables::new(Arc::new(Rocks::open(&db, RocksOptions { memory: stage.memory })?))) };
    let layout = make(open()?).await?;
    let mut costs = load(stage, &layout).await?;
    layout.close().await?;
    drop(layout);
    let title = bar(&format!("{}: compacting", L::NAME))?;
    let written = written()?;
    let settled = tokio::task::spawn_blocking({
        let db = db.clone();
        move || settle(&db)
    });
    let Settled { tables, raw, index_and_filter, cells } = settled.await??;
    title.finish_and_clear();
    let files = costs.files.max(1) as f64;
    costs.disk_bytes_per_file = tables.values().sum::<u64>() as f64 / files;
    costs.cells_per_file = Some(cells as f64 / files);
    costs.table_bytes = tables;
    costs.index_and_filter_bytes = Some(index_and_filter);
    // What is written under `/dev/shm` and the like reaches no device.
    let device = costs.write_amplification.take().unwrap_or_default() + (self::written()? - written) as f64;
    costs.write_amplification = (device > 0.0).then(|| device / raw.max(1) as f64);
    let start = Instant::now();
    let layout = make(open()?).await?;
    costs.open_ms = Some(start.elapsed().as_secs_f64() * 1e3);
    measured(stage, layout, costs).await
}

/// A database holds everything in one piece, which `settle` tells the bytes of. What PostgreSQL costs is spent by
/// other processes: of that, nothing is seen here.
async fn database<L: Layout>(
    stage: &Stage,
    layout: L,
    piece: &str,
    settle: impl AsyncFnOnce(&L) -> Result<u64>,
) -> Result<Found> {
    let mut costs = load(stage, &layout).await?;
    let bytes = settle(&layout).await?;
    costs.disk_bytes_per_file = bytes as f64 / costs.files.max(1) as f64;
    costs.table_bytes = BTreeMap::from([(piece.to_owned(), bytes)]);
    costs.write_amplification = None;
    measured(stage, layout, costs).await
}

async fn measured<L: Layout>(stage: &Stage, layout: L, mut costs: Costs) -> Result<Found> {
    let bench = Bench::new(layout.clone(), stage.tree.clone(), stage.pace.clone(), stage.seed);
    let (operations, ended) = bench.all().await;
    layout.close().await?;
    let camera = stage.tree.files.iter().filter(|file| stage.tree.dir(file) == CAMERA).count() as u64;
    costs.rename_files = camera;
    if let Some(Measured::Figures(figures)) = operations.get("rename_folder") {
        costs.rename_ms = Some(figures.p50_us as f64 / 1e3);
    }
    Ok(Found { operations, costs, ended })
}

/// Stores the whole tree. `write_amplification` is the bytes written until then, for the time being.
async fn load<L: Layout>(stage: &Stage, layout: &L) -> Result<Costs> {
    let (start, cpu, before) = (Instant::now(), cpu_seconds()?, written()?);
    let stored = load::load(&format!("{}: loading", L::NAME), layout, &stage.tree, &stage.pace).await?;
    Ok(Costs {
        files: stored,
        refused: stage.tree.files.len() as u64 - stored,
        load_seconds: start.elapsed().as_secs_f64(),
        load_cpu_seconds: cpu_seconds()? - cpu,
        write_amplification: Some((written()? - before) as f64),
        ..Costs::default()
    })
}

/// Of all threads of this process.
fn cpu_seconds() -> Result<f64> {
    let stat = Process::myself()?.stat()?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
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
