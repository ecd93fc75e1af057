//! The drive that is backed up: one that is served, or one that is stopped and opened here.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::table::Tables;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

use super::alive::Work;
use super::server::{ALIVE, ASK, Answer, BEAT, CHECKPOINT, END, IDLE, OLD_CHECKPOINT, socket};
use super::{BackupFailed, Result, of};
use crate::cli::store_id::{self, Sides};

/// Has made a copy of its store, and keeps every content file until it is let go.
pub struct Source {
    store: PathBuf,
    how: How,
}

enum How {
    /// The connection is the lease: the server keeps content as long as it lasts and shows life.
    Served(Served),
    /// Nobody else can open the store.
    Stopped(Arc<Rocks>),
}

struct Served {
    from: BufReader<OwnedReadHalf>,
    /// Shows life until it is told to end; gives the half that it writes to.
    beating: JoinHandle<OwnedWriteHalf>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

/// Errors if another backup of this drive runs: told before anything is copied.
pub async fn idle(data: &Path) -> Result<()> {
    match UnixStream::connect(socket(data)?).await {
        Ok(stream) => {
            let (from, mut to) = stream.into_split();
            ask(&mut BufReader::new(from), &mut to, IDLE).await
        }
        // Asked again, and told, once it is needed.
        Err(_) => Ok(()),
    }
}

impl Source {
    pub async fn open(data: &Path, memory: usize) -> Result<Self> {
        let store = data.join(CHECKPOINT);
        // Only a server of an earlier version has one there while it runs.
        let old = data.join(OLD_CHECKPOINT);
        match UnixStream::connect(socket(data)?).await {
            Ok(stream) => {
                let (from, mut to) = stream.into_split();
                let mut from = BufReader::new(from);
                ask(&mut from, &mut to, ASK).await?;
                let (stop, stopped) = tokio::sync::oneshot::channel();
                // On a thread of its own accord: the backup itself waits for the disk.
                let beating = tokio::spawn(beat(to, stopped, Work::new()));
                let store = if old.exists() { old } else { store };
                Ok(Self { store, how: How::Served(Served { from, beating, stop: Some(stop) }) })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                let rocks = stopped(data, memory).await?;
                super::server::remove_checkpoints(data)?;
                let failed = |error| BackupFailed::Store(data.to_owned(), error);
                rocks.checkpoint(&store).await.map_err(failed)?;
                Ok(Self { store, how: How::Stopped(rocks) })
            }
            Err(error) => of(&data.join(super::server::SOCKET), Err(error)),
        }
    }

    /// The copy of its store.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Lets go of the drive.
    ///
    /// Errors: [`Gone`](BackupFailed::Gone) if content may have been removed before this.
    pub async fn end(self) -> Result<()> {
        match self.how {
            How::Served(mut served) => {
                drop(served.stop.take());
                let mut to = served.beating.await.map_err(|_| BackupFailed::Gone)?;
                ask(&mut served.from, &mut to, END).await
            }
            How::Stopped(rocks) => {
                super::server::remove(&self.store)?;
                rocks.close().await;
                Ok(())
            }
        }
    }
}

/// The store of a drive that is not served.
async fn stopped(data: &Path, memory: usize) -> Result<Arc<Rocks>> {
    let apart = |error| BackupFailed::Apart(data.to_owned(), error);
    let owner = of(data, std::fs::metadata(data.join("db")))?.uid();
    if rustix::process::geteuid().as_raw() != owner {
        return Err(BackupFailed::Owner(data.to_owned(), owner));
    }
    // Again: what is not mounted any more would be made anew.
    let sides = store_id::compare(data).map_err(apart)?;
    let rocks = Rocks::open(&data.join("db"), RocksOptions { memory });
    let rocks = Arc::new(rocks.map_err(|error| BackupFailed::Store(data.to_owned(), error))?);
    if sides == Sides::Unmarked {
        let tables = Tables::new(rocks.clone());
        migrate::open(&tables).await?;
        store_id::belong_together(data, &tables).await.map_err(apart)?;
    }
    Ok(rocks)
}

/// Shows life as long as there is some: on a disk that hangs the work stands still, and this task does not.
async fn beat(
    mut to: OwnedWriteHalf,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
    mut work: Work,
) -> OwnedWriteHalf {
    while tokio::time::timeout(BEAT, &mut stopped).await.is_err() {
        // A server that is gone is met at the end.
        if work.goes_on() && to.write_all(format!("{ALIVE}\n").as_bytes()).await.is_err() {
            break;
        }
    }
    to
}

async fn ask(stream: &mut BufReader<OwnedReadHalf>, to: &mut OwnedWriteHalf, what: &str) -> Result<()> {
    let mut line = String::new();
    let answered = async {
        to.write_all(format!("{what}\n").as_bytes()).await?;
        stream.read_line(&mut line).await
    };
    match answered.await {
        Ok(1..) => {}
        Ok(0) | Err(_) => return Err(BackupFailed::Gone),
    }
    match serde_json::from_str(&line) {
        Ok(Answer { error: None }) => Ok(()),
        Ok(Answer { error: Some(error) }) => Err(BackupFailed::Refused(error)),
        Err(_) => Err(BackupFailed::Refused(line)),
    }
}
