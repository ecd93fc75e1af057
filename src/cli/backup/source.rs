//! The drive that is backed up: one that is served, or one that is stopped and opened here.

use std::io;
use std::path::{Path, PathBuf};

use rowdrive::engines::rocks::{Rocks, RocksOptions};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::server::{ASK, Answer, CHECKPOINT, END, socket};
use super::{BackupFailed, Result, of};
use crate::cli::store_id;

/// Has made a copy of its store, and keeps every content file until it is let go.
pub struct Source {
    store: PathBuf,
    how: How,
}

enum How {
    /// The connection is the lease: the server keeps content as long as it lasts.
    Served(BufReader<UnixStream>),
    /// Nobody else can open the store.
    Stopped(Rocks),
}

impl Source {
    pub async fn open(data: &Path, memory: usize) -> Result<Self> {
        let store = data.join(CHECKPOINT);
        match UnixStream::connect(socket(data)?).await {
            Ok(stream) => {
                let mut stream = BufReader::new(stream);
                ask(&mut stream, ASK).await?;
                Ok(Self { store, how: How::Served(stream) })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                store_id::compare(data).map_err(|error| BackupFailed::Apart(data.to_owned(), error))?;
                let failed = |error| BackupFailed::Store(data.to_owned(), error);
                let rocks = Rocks::open(&data.join("db"), RocksOptions { memory }).map_err(failed)?;
                super::server::remove(&store)?;
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

    /// Errors: [`Gone`](BackupFailed::Gone) if content may have been removed before this.
    pub async fn end(&mut self) -> Result<()> {
        match &mut self.how {
            How::Served(stream) => ask(stream, END).await,
            How::Stopped(rocks) => {
                super::server::remove(&self.store)?;
                rocks.close().await;
                Ok(())
            }
        }
    }
}

async fn ask(stream: &mut BufReader<UnixStream>, what: &str) -> Result<()> {
    let mut line = String::new();
    let answered = async {
        stream.get_mut().write_all(format!("{what}\n").as_bytes()).await?;
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
