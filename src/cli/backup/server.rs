//! The server's part in a backup, on a socket in the data folder: who may open that folder may ask for a backup.
//!
//! On `checkpoint` it keeps every content file from then on, makes a copy of the store as of one instant in the data
//! folder, and says when it is there. On `end` it says that it still keeps them, and lets go. A connection that ends
//! lets go too: nothing outlives a backup that is killed.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rowdrive::drive::Drive;
use rowdrive::engines::rocks::Rocks;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::{Result, of};

/// In the data folder: the socket, and the copy of the store.
pub const SOCKET: &str = "backup.sock";
pub const CHECKPOINT: &str = "checkpoint";

/// After a backup that broke off.
const PAUSE: Duration = Duration::from_millis(100);

pub const ASK: &str = "checkpoint";
pub const END: &str = "end";

/// A line of JSON.
#[derive(Serialize, Deserialize)]
pub struct Answer {
    pub error: Option<String>,
}

/// The server's side, listening.
pub struct Backups {
    data: PathBuf,
    listener: UnixListener,
}

impl Backups {
    /// Takes the place of what an earlier process has left.
    pub fn listen(data: &Path) -> Result<Self> {
        let path = data.join(SOCKET);
        remove(&data.join(CHECKPOINT))?;
        remove(&path)?;
        let listener = of(&path, UnixListener::bind(socket(data)?))?;
        of(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))?;
        Ok(Self { data: data.to_owned(), listener })
    }

    /// Serves one backup after the other, until it is dropped.
    pub async fn serve(self, drive: Drive, rocks: Arc<Rocks>) {
        loop {
            let served = match self.listener.accept().await {
                Ok((stream, _)) => one(stream, &self.data, &drive, &rocks).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::warn!(%error, "a backup broke off");
                // Should no connection be taken at all, that is not said all the time.
                tokio::time::sleep(PAUSE).await;
            }
            if let Err(error) = remove(&self.data.join(CHECKPOINT)) {
                tracing::warn!(%error, "the checkpoint of a backup could not be removed");
            }
        }
    }
}

async fn one(stream: UnixStream, data: &Path, drive: &Drive, rocks: &Rocks) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    if line.trim_end() != ASK {
        return answer(&mut stream, Some("it was not asked for a checkpoint".to_owned())).await;
    }
    // IMPORTANT: first this, then the copy: whatever its rows name is there until the backup has it.
    let kept = drive.keep_content().await;
    tracing::info!("a backup begins: content files are kept meanwhile");
    let made = rocks.checkpoint(&data.join(CHECKPOINT)).await;
    answer(&mut stream, made.err().map(|error| error.to_string())).await?;
    line.clear();
    stream.read_line(&mut line).await?;
    if line.trim_end() != END {
        return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
    }
    answer(&mut stream, None).await?;
    drop(kept);
    tracing::info!("a backup has what it needs");
    Ok(())
}

async fn answer(stream: &mut BufReader<UnixStream>, error: Option<String>) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Answer { error })?;
    line.push(b'\n');
    stream.get_mut().write_all(&line).await
}

/// The socket's path, short enough for the system however long the data folder's is.
pub fn socket(data: &Path) -> Result<PathBuf> {
    let path = data.join(SOCKET);
    if cfg!(target_os = "linux") && path.as_os_str().len() > 100 {
        let folder = of(data, fs::File::open(data))?;
        let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        // The number has to stay open: a few of them are little beside a backup.
        std::mem::forget(folder);
        return Ok(short);
    }
    Ok(path)
}

/// Removes a file or folder of an earlier backup, if it is there.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => of(path, removed),
    }
}
