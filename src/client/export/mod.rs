//! Downloads a tree of a running server.
//!
//! The planner lists one directory after the other ([`plan`]); workers download files in parallel ([`download`]), each
//! under a temporary name until it is complete and its digest is verified. No state is kept between runs: an
//! unchanged file is recognized by size, time and digest, so a second run completes an interrupted one.

mod download;
mod plan;
mod target;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use rowdrive::api::entry::EntryJson;
use rowdrive::schema::DrivePath;
use tokio::sync::mpsc;

use super::retry::RetryPolicy;
use super::stats::TransferStats;
use super::{ClientError, DriveClient, FailureScope};
use crate::data_folder::part::DrivePart;
use crate::local_fs::{printable, run_blocking};
use download::Downloader;
use plan::{ExportPlanner, FileDownload};
use target::TargetFolder;

/// Why an export could not start.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("there is nothing at {0} on the drive")]
    Missing(String),
    #[error("the folder {0} cannot be made or used: {1}")]
    Local(PathBuf, io::Error),
    #[error("{0} is {1}, or lies in it, and that is never changed by an export: name a folder outside of it")]
    OfDrive(PathBuf, DrivePart),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

/// An export with an existing source and an open local folder.
pub struct Export {
    client: DriveClient,
    entry: EntryJson<'static>,
    from: DrivePath,
    top: Arc<TargetFolder>,
    to: PathBuf,
    /// Whether local files with other content are replaced.
    overwrite: bool,
}

impl Export {
    /// Looks up the source, and creates the local folder if it is missing. `text` is the source on the command line:
    /// with a slash at its end it must be a directory.
    pub async fn open(
        client: DriveClient,
        (from, text): (DrivePath, String),
        to: PathBuf,
        overwrite: bool,
    ) -> Result<Self, ExportError> {
        // Without retries: a wrong address is reported at once.
        let entry = client.stat(&from).await?;
        let entry = entry.filter(|entry| entry.is_directory() || !text.ends_with('/'));
        let entry = entry.ok_or(ExportError::Missing(text))?;
        let top = Arc::new(TargetFolder::make(&to)?);
        Ok(Self { client, entry, from, top, to, overwrite })
    }

    /// Downloads all of it, `jobs` files at a time. Failures are in `stats`.
    pub async fn run(self, jobs: usize, retry: RetryPolicy, stats: Arc<TransferStats>) {
        let Self { client, entry, from, top, to, overwrite } = self;
        let (sender, receiver) = mpsc::channel(4 * jobs);
        let fetcher = Downloader { client: client.clone(), retry, stats: stats.clone(), overwrite };
        let queue = stream::unfold(receiver, async |mut from| from.recv().await.map(|job| (job, from)));
        let planner = ExportPlanner { client, retry, stats: stats.clone(), jobs: sender };
        let target = top.clone();
        let planned = async {
            if entry.is_directory() {
                planner.run(target, to, from).await;
            } else {
                let (local, shown) = (OsString::from(&*entry.name), printable(&to.join(&*entry.name)));
                let claim = target.claim(&local);
                target.remove_left_overs();
                planner.send(FileDownload { target, local, claim, shown, path: from, entry }).await;
            }
        };
        tokio::join!(planned, queue.for_each_concurrent(jobs, |job| fetcher.job(job)));
        // One sync for all files: one for each file would take several times as long. If a power failure leaves a file
        // incomplete, the next run finds it, since it compares digests.
        if let Err(error) = run_blocking(move || top.folder.sync_file_system()).await {
            stats.fail(format!("what was written may not be durable: {error}"), FailureScope::Item);
        }
    }
}
