//! `rowdrive import`: uploads a local tree to a running server.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::server_arg::ServerArg;
use super::transfer::{self, TransferArgs};
use crate::client::import::{self, ImportError};
use crate::client::stats::TransferStats;

/// Upload a folder and all that it holds, with the times of its files.
///
/// What is on the drive with the same size, time and SHA-256 (as the drive knows it; no content is read there) is left
/// as it is, so an import that was interrupted is run again. Other files of the same name are replaced and counted,
/// also those of other users, or left as they are with --no-overwrite; nothing is removed. Symbolic links, pipes,
/// sockets and devices, and data folders and backups of drives, are named and not followed. Exit code 1 if a file
/// failed, each is named, or if it was interrupted.
#[derive(Args)]
pub struct ImportArgs {
    /// The folder whose content is uploaded.
    #[arg(value_name = "LOCAL_DIR")]
    from: PathBuf,
    /// The folder on the drive that gets it; made if it is missing.
    #[arg(value_name = "/PATH", value_parser = PathArg::parse, default_value = "/")]
    to: PathArg,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl ImportArgs {
    pub fn run(self) -> Result<CommandOutcome, ImportError> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.import())
    }

    async fn import(self) -> Result<CommandOutcome, ImportError> {
        let (client, overwrite) = (self.server.client()?, self.transfer.overwrite());
        let import = import::Import::open(client, self.from, self.to.path, overwrite).await?;
        let (jobs, retry) = (self.transfer.jobs(), self.transfer.retry_policy());
        let stats = Arc::new(TransferStats::new(jobs));
        Ok(transfer::run(&stats, "sent", import.run(jobs, retry, stats.clone())).await?)
    }
}
