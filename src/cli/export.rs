//! `rowdrive export`: brings a tree of a running server back to local files.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::server_arg::ServerArg;
use super::transfer::{self, TransferArgs};
use crate::client::export::{self, ExportError};
use crate::client::stats::TransferStats;

/// Bring a folder of the drive, with all that it holds, or one file back to a local folder.
///
/// A local file with the same size, time and SHA-256 is left as it is, so an export that was interrupted is run
/// again. Other files of the same name are replaced and counted, or left as they are with --no-overwrite; nothing else
/// is removed. Where the local folder takes two names for one, as `a` and `A`, the second is a failure. Links in the
/// local folder are not followed; the data folder of a drive, or a backup of one, is left as it is. Exit code 1 if a
/// file failed, each is named, or if it was interrupted.
#[derive(Args)]
pub struct ExportArgs {
    /// The folder or file on the drive.
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    from: PathArg,
    /// The folder that gets what the folder on the drive holds, or the file; made if it is missing.
    #[arg(value_name = "LOCAL_DIR")]
    to: PathBuf,
    #[command(flatten)]
    server: ServerArg,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl ExportArgs {
    pub fn run(self) -> Result<CommandOutcome, ExportError> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.export())
    }

    async fn export(self) -> Result<CommandOutcome, ExportError> {
        let (client, overwrite) = (self.server.client()?, self.transfer.overwrite());
        let export = export::Export::open(client, (self.from.path, self.from.text), self.to, overwrite).await?;
        let (jobs, retry) = (self.transfer.jobs(), self.transfer.retry_policy());
        let stats = Arc::new(TransferStats::new(jobs));
        Ok(transfer::run(&stats, "fetched", export.run(jobs, retry, stats.clone())).await?)
    }
}
