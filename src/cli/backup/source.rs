//! The drive that is backed up: served by another process, or stopped and opened by this one.

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

use super::server::{
    ALIVE, CHECKPOINT, END, IDLE, LeaseAnswer, MAKE_CHECKPOINT, OLD_CHECKPOINT, RENEW_INTERVAL, socket,
};
use super::watchdog::Watchdog;
use super::{BackupFailed, Result, with_path};
use crate::data_folder::{self, FolderState};

/// A drive that has made a checkpoint, and removes no content file until [`end`](BackupSource::end).
pub struct BackupSource {
    store: PathBuf,
    kind: SourceKind,
}

enum SourceKind {
    /// The server keeps the content files while this connection is open.
    Served(Served),
    /// This process has opened the store.
    Stopped(Arc<Rocks>),
}

struct Served {
    from: BufReader<OwnedReadHalf>,
    /// The task that renews the lease until `stop` is dropped; returns the writing half of the connection.
    renewal: JoinHandle<OwnedWriteHalf>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

/// Checks that no other backup of this drive is running, before anything is copied.
pub async fn idle(data: &Path) -> Result<()> {
    match UnixStream::connect(socket(data)?).await {
        Ok(stream) => {
            let (from, mut to) = stream.into_split();
            request(&mut BufReader::new(from), &mut to, IDLE).await
        }
        // `BackupSource::open` connects again and reports the error.
        Err(_) => Ok(()),
    }
}

impl BackupSource {
    pub async fn open(data: &Path, memory: usize) -> Result<Self> {
        let store = data.join(CHECKPOINT);
        // Only servers of an earlier version put the checkpoint there.
        let old = data.join(OLD_CHECKPOINT);
        match UnixStream::connect(socket(data)?).await {
            Ok(stream) => {
                let (from, mut to) = stream.into_split();
                let mut from = BufReader::new(from);
                request(&mut from, &mut to, MAKE_CHECKPOINT).await?;
                let (stop, stopped) = tokio::sync::oneshot::channel();
                // A task of its own: the backup itself blocks its thread while it waits for the disk.
                let renewal = tokio::spawn(renew(to, stopped, Watchdog::new()));
                let store = if old.exists() { old } else { store };
                Ok(Self { store, kind: SourceKind::Served(Served { from, renewal, stop: Some(stop) }) })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                let rocks = stopped(data, memory).await?;
                super::server::remove_checkpoints(data)?;
                let failed = |error| BackupFailed::Store(data.to_owned(), error);
                rocks.checkpoint(&store).await.map_err(failed)?;
                Ok(Self { store, kind: SourceKind::Stopped(rocks) })
            }
            Err(error) => with_path(&data.join(super::server::SOCKET), Err(error)),
        }
    }

    /// The checkpoint of its store.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Releases the drive.
    ///
    /// Errors: [`Gone`](BackupFailed::Gone) if content may have been removed before this.
    pub async fn end(self) -> Result<()> {
        match self.kind {
            SourceKind::Served(mut served) => {
                drop(served.stop.take());
                let mut to = served.renewal.await.map_err(|_| BackupFailed::Gone)?;
                request(&mut served.from, &mut to, END).await
            }
            SourceKind::Stopped(rocks) => {
                super::server::remove(&self.store)?;
                rocks.close().await;
                Ok(())
            }
        }
    }
}

/// The store of a drive that is not served.
async fn stopped(data: &Path, memory: usize) -> Result<Arc<Rocks>> {
    let folder_error = |error| BackupFailed::DataFolder(data.to_owned(), error);
    let owner = with_path(data, std::fs::metadata(data.join("db")))?.uid();
    if rustix::process::geteuid().as_raw() != owner {
        return Err(BackupFailed::Owner(data.to_owned(), owner));
    }
    // Compare again: opening creates missing files, also in place of a part that was unmounted since.
    let state = data_folder::compare(data).map_err(folder_error)?;
    let rocks = Rocks::open(&data.join("db"), RocksOptions::with_memory(memory));
    let rocks = Arc::new(rocks.map_err(|error| BackupFailed::Store(data.to_owned(), error))?);
    if state == FolderState::Unidentified {
        let tables = Tables::new(rocks.clone());
        migrate::open(&tables).await?;
        data_folder::check_content(data, &tables).await.map_err(folder_error)?;
    }
    Ok(rocks)
}

/// Renews the lease while the backup makes progress. This task runs even if the backup hangs on a disk.
async fn renew(
    mut to: OwnedWriteHalf,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
    mut watchdog: Watchdog,
) -> OwnedWriteHalf {
    while tokio::time::timeout(RENEW_INTERVAL, &mut stopped).await.is_err() {
        // `BackupSource::end` reports a server that has ended.
        if watchdog.is_progressing() && to.write_all(format!("{ALIVE}\n").as_bytes()).await.is_err() {
            break;
        }
    }
    to
}

async fn request(stream: &mut BufReader<OwnedReadHalf>, to: &mut OwnedWriteHalf, what: &str) -> Result<()> {
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
        Ok(LeaseAnswer { error: None }) => Ok(()),
        Ok(LeaseAnswer { error: Some(error) }) => Err(BackupFailed::Refused(error)),
        Err(_) => Err(BackupFailed::Refused(line)),
    }
}
