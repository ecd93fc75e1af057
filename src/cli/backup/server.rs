//! The server's part in a backup, on a Unix socket in the data folder: a user who can open that folder can make a backup.
//!
//! The protocol is lines of text; each answer is a line of JSON.
//!
//! - `checkpoint`: from now on the server removes no content file. It makes a checkpoint of the store, then answers.
//! - `alive`: renews the lease. Without it for a minute, the server removes content files again.
//! - `end`: the server confirms that the lease held until now, and ends it.
//! - `idle`: asks whether no other backup is running.
//!
//! The lease ends with its connection: nothing outlives a backup that is killed, stopped or hung.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use rowdrive::drive::Drive;
use rowdrive::engines::rocks::Rocks;
use rowdrive::table::{Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Result, of};

/// In the data folder: the socket.
pub const SOCKET: &str = "backup.sock";
/// There too, the copy of the store: on the file system of `db/`, whose tables it links.
pub const CHECKPOINT: &str = "db/checkpoint";
/// Where servers of an earlier version have it.
pub const OLD_CHECKPOINT: &str = "checkpoint";
/// RocksDB's suffix of a checkpoint that is not complete.
const UNFINISHED: &str = ".tmp";

/// Pause after an error of `accept`.
const PAUSE: Duration = Duration::from_millis(100);

pub const ASK: &str = "checkpoint";
pub const END: &str = "end";
pub const ALIVE: &str = "alive";
pub const IDLE: &str = "idle";

/// How often a backup renews its lease, and how long the lease lasts without that.
pub const BEAT: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(60);
/// For the first line, and for writing an answer.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often the log says that content files are kept.
const TELL: Duration = Duration::from_mins(10);
/// Bytes of a line.
const LINE: u64 = 64;
/// Connections at a time.
const CONNECTIONS: usize = 16;

/// A line of JSON.
#[derive(Serialize, Deserialize)]
pub struct Answer {
    pub error: Option<String>,
}

/// The server's side, listening.
pub struct Backups {
    data: PathBuf,
    listener: UnixListener,
    /// 1 while content is kept for a backup.
    running: Gauge,
}

/// The socket file; removed on drop.
struct Listening(PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        // If this fails, the next start removes it.
        let _ = fs::remove_file(&self.0);
    }
}

/// What each connection needs.
#[derive(Clone)]
struct Server {
    data: Arc<Path>,
    drive: Drive,
    rocks: Arc<Rocks>,
    running: Gauge,
    /// Held by the backup that runs.
    turn: Arc<Mutex<()>>,
}

impl Backups {
    /// Binds the socket, after removing what an earlier process has left.
    pub fn listen(data: &Path, running: Gauge) -> Result<Self> {
        let path = data.join(SOCKET);
        remove_checkpoints(data)?;
        remove(&path)?;
        let listener = of(&path, UnixListener::bind(socket(data)?))?;
        of(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))?;
        Ok(Self { data: data.to_owned(), listener, running })
    }

    /// Serves until it is dropped.
    pub async fn serve(self, drive: Drive, rocks: Arc<Rocks>) {
        let Self { data, listener, running } = self;
        let _listening = Listening(data.join(SOCKET));
        let server = Server { data: data.into(), drive, rocks, running, turn: Arc::default() };
        // Dropping the set ends all connections.
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) if connections.len() < CONNECTIONS => {
                    let server = server.clone();
                    connections.spawn(async move {
                        if let Err(error) = server.one(stream).await {
                            tracing::warn!(%error, "a backup broke off");
                        }
                    });
                }
                Ok(_) => tracing::warn!("too many connections for backups: one was closed"),
                Err(error) => {
                    tracing::warn!(%error, "no connection for a backup could be taken");
                    // Limits the log lines if every call fails.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Server {
    async fn one(&self, stream: UnixStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let asked = line(&mut stream, HANDSHAKE).await?;
        if asked != ASK && asked != IDLE {
            return answer(&mut stream, Some("it was not asked for a checkpoint".to_owned())).await;
        }
        // A backup that was just killed may hold the turn for a moment.
        let Ok(_turn) = timeout(HANDSHAKE, self.turn.lock()).await else {
            return answer(&mut stream, Some("another backup of this drive is running".to_owned())).await;
        };
        if asked == IDLE {
            return answer(&mut stream, None).await;
        }
        let _running = Running::new(&self.running);
        let served = self.backup(&mut stream).await;
        if let Err(error) = remove_checkpoints(&self.data) {
            tracing::warn!(%error, "the checkpoint of a backup could not be removed");
        }
        served
    }

    async fn backup(&self, stream: &mut BufReader<UnixStream>) -> io::Result<()> {
        // IMPORTANT: keep content first, then make the checkpoint: so each file that its rows name stays until the backup
        // has copied it.
        let kept = self.drive.keep_content().await;
        tracing::info!("a backup begins: content files are kept meanwhile");
        let made = self.rocks.checkpoint(&self.data.join(CHECKPOINT)).await;
        answer(stream, made.err().map(|error| self.refused(&error))).await?;
        lease(stream, SILENCE).await?;
        answer(stream, None).await?;
        drop(kept);
        tracing::info!("a backup has what it needs");
        Ok(())
    }

    /// A checkpoint flushes memory to tables, which a store that refuses writes cannot do either.
    fn refused(&self, error: &StoreError) -> String {
        match self.rocks.writable() {
            Ok(()) => error.to_string(),
            Err(_) => format!("{error}; it takes no writes any more: restart it, then run the backup again"),
        }
    }
}

/// Counts a running backup in the metrics.
struct Running(Gauge);

impl Running {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns once the backup has what it needs. Errors: its connection ended, or it did not renew the lease in time.
async fn lease(stream: &mut BufReader<UnixStream>, silence: Duration) -> io::Result<()> {
    let (began, mut told) = (Instant::now(), Instant::now());
    loop {
        match line(stream, silence).await?.as_str() {
            END => return Ok(()),
            ALIVE => {}
            _ => return Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            tracing::info!(seconds = began.elapsed().as_secs(), "a backup runs: deleted content is kept");
        }
    }
}

/// Reads a line. One that is too long is cut, and then matches no command.
async fn line(stream: &mut BufReader<UnixStream>, patience: Duration) -> io::Result<String> {
    let mut line = String::new();
    let silent = || io::Error::new(io::ErrorKind::TimedOut, format!("nothing was heard of it for {patience:?}"));
    timeout(patience, stream.take(LINE).read_line(&mut line)).await.map_err(|_| silent())??;
    Ok(line.trim_end().to_owned())
}

async fn answer(stream: &mut BufReader<UnixStream>, error: Option<String>) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Answer { error })?;
    line.push(b'\n');
    timeout(HANDSHAKE, stream.get_mut().write_all(&line)).await?
}

/// The socket's path, short enough for the system however long the data folder's is.
pub fn socket(data: &Path) -> Result<PathBuf> {
    let path = data.join(SOCKET);
    if cfg!(target_os = "linux") && path.as_os_str().len() > 100 {
        let folder = of(data, fs::File::open(data))?;
        let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        // The descriptor must stay open as long as the path is used; a process opens few of them.
        std::mem::forget(folder);
        return Ok(short);
    }
    Ok(path)
}

/// Removes checkpoints that backups have left, which frees the tables that only they hold.
pub fn remove_checkpoints(data: &Path) -> Result<()> {
    for name in [CHECKPOINT, OLD_CHECKPOINT] {
        remove(&data.join(name))?;
        remove(&data.join(format!("{name}{UNFINISHED}")))?;
    }
    Ok(())
}

/// Removes a file or folder, if it exists.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lease_ends_with_its_backup_and_with_its_silence() {
        let long = Duration::from_secs(60);
        for (said, silence, how) in [
            ("alive\nalive\nend\n", long, Ok(())),
            ("alive\n", Duration::from_millis(50), Err(io::ErrorKind::TimedOut)),
            ("", Duration::from_millis(50), Err(io::ErrorKind::TimedOut)),
            ("something else\n", long, Err(io::ErrorKind::ConnectionAborted)),
            // Without an end.
            (&"a".repeat(1_000), long, Err(io::ErrorKind::ConnectionAborted)),
        ] {
            let (mut client, server) = UnixStream::pair().unwrap();
            client.write_all(said.as_bytes()).await.unwrap();
            let ended = lease(&mut BufReader::new(server), silence).await;
            assert_eq!(ended.map_err(|error| error.kind()), how, "{said}");
        }
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        let ended = lease(&mut BufReader::new(server), long).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
