//! `rowdrive man`: the manual, from the same definitions as the help.

use std::fs::create_dir_all;
use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::{Cli, CommandOutcome};

/// Write man pages into a folder: rowdrive.1, and one for each subcommand.
#[derive(Args)]
pub struct Man {
    /// The folder; made if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("the man pages cannot be written to {0}: {1}")]
pub struct ManFailed(PathBuf, io::Error);

impl Man {
    pub fn run(self) -> Result<CommandOutcome, ManFailed> {
        let written =
            create_dir_all(&self.folder).and_then(|()| clap_mangen::generate_to(Cli::command(), &self.folder));
        written.map_err(|error| ManFailed(self.folder, error))?;
        Ok(CommandOutcome::Done)
    }
}
