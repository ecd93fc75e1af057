//! Compares row-key layouts on the same store and the same data: what each operation costs, and how evenly
//! the writes of an import spread over regions.
//!
//! `data` makes the tree of files, `naive` and `uuid` are the layouts, `measure` times operations, `regions`
//! counts where writes land, `report` prints the table.
//!
//! `loadtest subtrees` measures operations on whole directories instead: `subtrees`, beside `plain`, the same rows
//! moved in a RocksDB of their own.

mod data;
mod measure;
mod naive;
mod plain;
mod regions;
mod report;
mod run;
mod subtrees;
mod uuid_layout;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Compares the naive full-path layout with the uuid layout.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Options {
    /// Files in the tree.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    size: u32,
    /// Requests in flight at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the stores are made (and removed again); by default a folder for temporary files.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    instead: Option<Instead>,
}

#[derive(Debug, Subcommand)]
enum Instead {
    /// Times moving, copying and deleting whole directories, beside the same rows in a plain RocksDB.
    Subtrees(subtrees::Options),
}

impl Options {
    /// A folder that is removed when it is dropped.
    fn scratch(&self) -> std::io::Result<tempfile::TempDir> {
        match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(Instead::Subtrees(asked)) = &options.instead {
        println!("{}", subtrees::run(asked, &options.scratch()?).await?);
        return Ok(());
    }
    let results = run::all(&options).await?;
    println!("{}", report::render(&options, &results));
    Ok(())
}
