//! Uploads a local tree to a running server.
//!
//! The planner compares one folder after the other with the drive ([`plan`]). Small files and folders are sent
//! together, as a tar ([`batch`], [`mod@tar`]); workers upload the others in parallel ([`upload`]). Memory is bounded
//! by the largest folder, not by the tree. If the user may write nowhere at the target, the first refusal ends the
//! import ([`refusal`]). No state is kept between runs: a file that is already on the drive is recognized by size, time
//! and digest, so a second run completes an interrupted one.

mod batch;
mod count;
mod names;
mod plan;
mod refusal;
mod tar;
mod upload;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use rowdrive::api::path;
use rowdrive::schema::DrivePath;
use tokio::sync::{Semaphore, mpsc};

use super::retry::RetryPolicy;
use super::stats::TransferStats;
use super::{ClientError, DriveClient};
use crate::data_folder::part::{self, DrivePart};
use crate::local_fs::OpenFolder;
use batch::Batcher;
use plan::ImportPlanner;
use refusal::WriteRights;
use upload::Uploader;

/// Batches of small files that are under way at once.
const BATCHES: usize = 4;

/// Why an import could not start.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("the folder {0} cannot be read: {1}")]
    Local(PathBuf, io::Error),
    #[error("{0} is a file, and import takes a folder: upload one file with curl -T")]
    File(PathBuf),
    #[error(
        "{0} is {1}, or lies in it: a drive is not imported into a drive. `rowdrive backup` copies one whole; for its files, \
         serve it (a backup is restored first), `rowdrive export` them, and import those"
    )]
    OfDrive(PathBuf, DrivePart),
    #[error("{0} cannot be the target: {1}")]
    Target(String, ClientError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

/// An import with an open local folder and an existing directory on the drive.
pub struct Import {
    client: DriveClient,
    top: Arc<OpenFolder>,
    from: PathBuf,
    to: DrivePath,
    /// Whether files with other content are replaced.
    overwrite: bool,
}

impl Import {
    /// Opens the local folder, and creates the directory on the drive if it is missing.
    pub async fn open(client: DriveClient, from: PathBuf, to: DrivePath, overwrite: bool) -> Result<Self, ImportError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotADirectory if from.is_file() => ImportError::File(from.clone()),
            _ => ImportError::Local(from.clone(), error),
        };
        let top = Arc::new(OpenFolder::open(&from).map_err(failed)?);
        if let Some(part) = of_drive(&top).map_err(failed)? {
            return Err(ImportError::OfDrive(from, part));
        }
        // Without retries: a wrong address is reported at once.
        let made = client.with_timeout(client.send(client.path_request(Method::PUT, path::FS, (&to, true), &[]))).await;
        made.map_err(|error| match error {
            ClientError::Problem(_) => ImportError::Target(to.to_string(), error),
            other => ImportError::Client(other),
        })?;
        Ok(Self { client, top, from, to, overwrite })
    }

    /// Uploads all of it, `jobs` files at a time. Failures are in `stats`.
    pub async fn run(self, jobs: usize, retry: RetryPolicy, stats: Arc<TransferStats>) {
        let Self { client, top, from, to, overwrite } = self;
        let _counting = count::start(top.clone(), stats.clone());
        let (sender, planned) = mpsc::channel(batch::TASKS);
        let (single, left) = mpsc::channel(4 * jobs);
        let places = Arc::new(Semaphore::new(plan::OPEN_FOLDERS));
        let planner = ImportPlanner { places, client: client.clone(), retry, stats: stats.clone(), jobs: sender };
        let unpacks = AtomicBool::new(true);
        let (of_batches, below) = (stats.clone(), to.clone());
        let batcher = Batcher { client: client.clone(), stats: of_batches, to: below, overwrite, single, unpacks };
        let batches = stream::unfold(planned, async |mut from| {
            let mut tasks = Vec::new();
            let many = from.recv_many(&mut tasks, batch::TASKS).await;
            (many > 0).then_some((tasks, from))
        });
        let batching = async move {
            let batcher = &batcher;
            batches.for_each_concurrent(jobs.min(BATCHES), |tasks| batcher.run(tasks)).await;
        };
        let rights = WriteRights::new(client.clone(), to.clone());
        let sending = Uploader { client, retry, stats, overwrite, rights };
        let queue = stream::unfold(left, async |mut from| from.recv().await.map(|job| (job, from)));
        let sent = queue.for_each_concurrent(jobs, |job| sending.job(job));
        tokio::join!(planner.run(top, from, to), batching, sent);
    }
}

/// The part of a drive that the top folder is, or is inside of. Other folders in a data folder, such as `lost/`, may be
/// imported.
fn of_drive(top: &OpenFolder) -> io::Result<Option<DrivePart>> {
    let around = part::enclosing(top)?.filter(|part| matches!(part, DrivePart::Tables | DrivePart::Content));
    Ok(part::identify(top)?.or(around))
}
