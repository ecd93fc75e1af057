//! `rowdrive import`: uploads a local tree to a running server.
//!
//! One folder after the other is read and compared with the drive ([`plan`]); files go up side by side ([`send`]).
//! Memory is bounded by the largest folder, not by the tree. Nothing is remembered between two runs: what is on
//! the drive already is seen to be, so a repeat completes what was interrupted.

mod census;
mod names;
mod plan;
mod send;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use futures_util::{StreamExt, stream};
use reqwest::Method;
use tokio::sync::mpsc;

use super::Ended;
use super::local::{Folder, Part};
use super::remote::{Place, Remote, RemoteError, Server};
use super::transfer::{self, Pace, Tally};
use plan::Planner;
use send::Sender;

/// Upload a folder and all that it holds, with the times of its files.
///
/// What is on the drive with the same size, time and SHA-256 (as the drive knows it; no content is read there) is left
/// as it is, so an import that was interrupted is run again; other files of the same name are replaced, and nothing is
/// removed. Symbolic links, pipes, sockets and devices, and data folders and backups of drives, are named and not
/// followed. Exit code 1 if a file failed, each is named, or if it was interrupted.
#[derive(Args)]
pub struct Import {
    /// The folder whose content is uploaded.
    #[arg(value_name = "LOCAL_DIR")]
    from: PathBuf,
    /// The folder on the drive that gets it; made if it is missing.
    #[arg(value_name = "/PATH", value_parser = Place::parse, default_value = "/")]
    to: Place,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    pace: Pace,
}

/// Why nothing could be uploaded.
#[derive(Debug, thiserror::Error)]
pub enum ImportFailed {
    #[error("the folder {0} cannot be read: {1}")]
    Local(PathBuf, io::Error),
    #[error(
        "{0} is {1}, or lies in it: a drive is not put into a drive. `rowdrive backup` copies one whole; for its files, \
         serve it (a backup is restored first), `rowdrive export` them, and import those"
    )]
    OfDrive(PathBuf, Part),
    #[error("{0} cannot be the target: {1}")]
    Target(String, RemoteError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

impl Import {
    pub fn run(self) -> Result<Ended, ImportFailed> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.import())
    }

    async fn import(self) -> Result<Ended, ImportFailed> {
        let failed = |error| ImportFailed::Local(self.from.clone(), error);
        let top = Arc::new(Folder::open(&self.from).map_err(failed)?);
        if let Some(part) = of_drive(&top).map_err(failed)? {
            return Err(ImportFailed::OfDrive(self.from, part));
        }
        let remote = Remote::new(&self.server)?;
        // Without patience: a wrong address is told at once.
        let made = remote.in_time(remote.send(remote.about(Method::PUT, "fs", (&self.to.path, true), &[]))).await;
        made.map_err(|error| match error {
            RemoteError::Refused(_) => ImportFailed::Target(self.to.path.to_string(), error),
            other => ImportFailed::Remote(other),
        })?;
        let jobs = self.pace.jobs();
        let tally = Arc::new(Tally::new(jobs));
        let _counting = census::start(top.clone(), tally.clone());
        let (sender, receiver) = mpsc::channel(4 * jobs);
        let planner =
            Planner { remote: remote.clone(), patience: self.pace.patience(), tally: tally.clone(), jobs: sender };
        let sending = Sender { remote, patience: self.pace.patience(), tally: tally.clone() };
        let coming = stream::unfold(receiver, async |mut from| from.recv().await.map(|job| (job, from)));
        let work = async {
            let sent = coming.for_each_concurrent(jobs, |job| sending.job(job));
            tokio::join!(planner.walk(top, self.from, self.to.path), sent);
        };
        Ok(transfer::run(&tally, "sent", work).await?)
    }
}

/// What of a drive the topmost folder is, or lies in. What merely lies in a data folder, as `lost/` does, is nothing
/// of it.
fn of_drive(top: &Folder) -> io::Result<Option<Part>> {
    let around = top.within_drive()?.filter(|part| matches!(part, Part::Tables | Part::Content));
    Ok(top.of_drive()?.or(around))
}
