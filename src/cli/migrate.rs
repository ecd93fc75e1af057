//! `rowdrive migrate`: which migrations of a data folder are applied, with the server stopped.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate::{self, MigrateError, MigrationStatus};
use rowdrive::table::{StoreError, Tables};

use super::CommandOutcome;

/// Look at the migrations of a data folder.
///
/// `rowdrive serve` applies those that are pending when it starts.
#[derive(Args)]
pub struct Migrate {
    #[command(subcommand)]
    command: MigrateCommand,
}

#[derive(Subcommand)]
enum MigrateCommand {
    Status(StatusArgs),
}

/// Show which migrations of a data folder are applied and which are pending.
///
/// The server must be stopped. Nothing in the folder changes. Exit code 0 if none is pending, 1 if some are, 3 if the
/// folder cannot be read or a newer rowdrive has written it.
#[derive(Args)]
struct StatusArgs {
    /// The folder to look at.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// Print one JSON object: `version`, `known` and `migrations`.
    #[arg(long)]
    json: bool,
}

/// Why the status cannot be shown, or the folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MigrateFailed {
    #[error("{0} is no data folder: there is no {0}/db")]
    NoStore(PathBuf),
    #[error("the data folder {0} cannot be opened: {1}")]
    Store(PathBuf, StoreError),
    #[error("the data folder {0} cannot be used: {1}")]
    Migrate(PathBuf, MigrateError),
    #[error("the status cannot be printed: {0}")]
    Print(#[from] io::Error),
}

/// Enough to read one row.
const MEMORY: usize = 32 << 20;

impl Migrate {
    pub fn run(self) -> Result<CommandOutcome, MigrateFailed> {
        let MigrateCommand::Status(status) = self.command;
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(status.run())
    }
}

impl StatusArgs {
    async fn run(self) -> Result<CommandOutcome, MigrateFailed> {
        let db = self.data.join("db");
        if !db.join("CURRENT").is_file() {
            return Err(MigrateFailed::NoStore(self.data));
        }
        let rocks = Rocks::open_read_only(&db, RocksOptions::with_memory(MEMORY));
        let rocks = rocks.map_err(|error| MigrateFailed::Store(self.data.clone(), error))?;
        let status = migrate::status(&Tables::new(Arc::new(rocks))).await;
        let status = status.map_err(|error| MigrateFailed::Migrate(self.data.clone(), error))?;
        let mut out = io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&status).map_err(io::Error::from)?)?;
        } else {
            print(&mut out, &status)?;
        }
        out.flush()?;
        let MigrationStatus { version: found, known, .. } = status;
        match found.cmp(&known) {
            std::cmp::Ordering::Less => Ok(CommandOutcome::WithFailures),
            std::cmp::Ordering::Equal => Ok(CommandOutcome::Done),
            std::cmp::Ordering::Greater => Err(MigrateFailed::Migrate(self.data, MigrateError::Newer { found, known })),
        }
    }
}

fn print(out: &mut impl Write, status: &MigrationStatus) -> io::Result<()> {
    for migration in &status.migrations {
        let state = if migration.applied { "applied" } else { "pending" };
        writeln!(out, "{:>4}  {:<16} {state}", migration.number, migration.name)?;
    }
    Ok(())
}
