//! `rowdrive export`: brings a tree of a running server back to local files.
//!
//! One directory after the other is listed ([`plan`]); files come down side by side ([`fetch`]), each under a
//! temporary name until it is whole and its digest is right. Nothing is remembered between two runs: what is there
//! already is seen to be, so a repeat completes what was interrupted.

mod fetch;
mod plan;
mod target;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use super::Ended;
use super::local::{Part, blocking, shown};
use super::remote::{Outlook, Place, Remote, RemoteError, Server};
use super::transfer::{self, Pace, Tally};
use fetch::Fetcher;
use plan::{FileJob, Planner};
use target::Target;

/// Bring a folder of the drive, with all that it holds, or one file back to a local folder.
///
/// A local file with the same size, time and SHA-256 is left as it is, so an export that was interrupted is run
/// again; other files of the same name are replaced, and nothing else is removed. Where the local folder takes two names
/// for one, as `a` and `A`, the second is a failure. Links in the local folder are not followed; the data folder of a
/// drive, or a backup of one, is left as it is. Exit code 1 if a file failed, each is named, or if it was interrupted.
#[derive(Args)]
pub struct Export {
    /// The folder or file on the drive.
    #[arg(value_name = "/PATH", value_parser = Place::parse)]
    from: Place,
    /// The folder that gets what the folder on the drive holds, or the file; made if it is missing.
    #[arg(value_name = "LOCAL_DIR")]
    to: PathBuf,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pace: Pace,
}

/// Why nothing could be brought back.
#[derive(Debug, thiserror::Error)]
pub enum ExportFailed {
    #[error("nothing stands at {0} on the drive")]
    Missing(String),
    #[error("the folder {0} cannot be made or used: {1}")]
    Local(PathBuf, io::Error),
    #[error("{0} is {1}, or lies in it, and that is never changed by an export: name a folder outside of it")]
    OfDrive(PathBuf, Part),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

impl Export {
    pub fn run(self) -> Result<Ended, ExportFailed> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.export())
    }

    async fn export(self) -> Result<Ended, ExportFailed> {
        let Self { from, to, server, pace } = self;
        let remote = Remote::new(&server)?;
        // Without patience: a wrong address is told at once.
        let entry = remote.stat(&from.path).await?;
        let entry = entry.filter(|entry| entry.is_directory() || !from.is_directory());
        let entry = entry.ok_or(ExportFailed::Missing(from.text))?;
        let top = Arc::new(Target::make(&to)?);

        let jobs = pace.jobs();
        let tally = Arc::new(Tally::new(jobs));
        let (sender, receiver) = mpsc::channel(4 * jobs);
        let fetcher = Fetcher { remote: remote.clone(), patience: pace.patience(), tally: tally.clone() };
        let coming = stream::unfold(receiver, async |mut from| from.recv().await.map(|job| (job, from)));
        let planner = Planner { remote, patience: pace.patience(), tally: tally.clone(), jobs: sender };
        let target = top.clone();
        let planned = async {
            if entry.is_directory() {
                planner.walk(target, to.clone(), from.path).await;
            } else {
                let (local, shown) = (OsString::from(&entry.name), shown(&to.join(&entry.name)));
                let claim = target.claim(&local);
                target.remove_left_overs();
                planner.give(FileJob { target, local, claim, shown, path: from.path, entry }).await;
            }
        };
        let work = async {
            tokio::join!(planned, coming.for_each_concurrent(jobs, |job| fetcher.job(job)));
            // All at once, as one by one would take several times as long: half a file after a power failure is
            // found by the next run, which compares digests.
            if let Err(error) = blocking(move || top.folder.sync_all()).await {
                tally.fail(format!("what was written may not be durable: {error}"), Outlook::Open);
            }
        };
        Ok(transfer::run(&tally, "fetched", work).await?)
    }
}
