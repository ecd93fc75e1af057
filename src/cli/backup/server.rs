//! The part of the server in a backup, on a Unix socket in the data folder: any user with access to that folder can
//! make a backup.
//!
//! The protocol is lines of text; each answer is a line of JSON.
//!
//! - `checkpoint`: from now on the server removes no content file. It makes a checkpoint of the store, then answers.
//! - `alive`: renews the lease. Without it for a minute, the server removes content files again.
//! - `end`: the server confirms that the lease was valid until now, and ends it.
//! - `idle`: the server answers with an error if another backup is running.
//!
//! The lease ends with its connection, so nothing remains of a backup that was killed, stopped or hangs.

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

use super::{Result, with_path};

/// The socket, in the data folder.
pub const SOCKET: &str = "backup.sock";
/// The checkpoint of the store, in the data folder: on the file system of `db/`, since it links the tables.
pub const CHECKPOINT: &str = "db/checkpoint";
/// The checkpoint of servers of an earlier version.
pub const OLD_CHECKPOINT: &str = "checkpoint";
/// RocksDB's suffix of a checkpoint that is not complete.
const UNFINISHED: &str = ".tmp";

/// Pause after an error of `accept`.
const PAUSE: Duration = Duration::from_millis(100);

pub const MAKE_CHECKPOINT: &str = "checkpoint";
pub const END: &str = "end";
pub const ALIVE: &str = "alive";
pub const IDLE: &str = "idle";

/// How often a backup renews its lease, and how long the lease lasts without a renewal.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(15);
const LEASE: Duration = Duration::from_secs(60);
/// The time limit for the first line, and for writing an answer.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often the log reports that content files are kept.
const LOG_INTERVAL: Duration = Duration::from_mins(10);
/// The most bytes of a line.
const LINE: u64 = 64;
/// The most connections at a time.
const CONNECTIONS: usize = 16;

/// A line of JSON.
#[derive(Serialize, Deserialize)]
pub struct LeaseAnswer {
    pub error: Option<String>,
}

/// The listener for backups.
pub struct Backups {
    data: PathBuf,
    listener: UnixListener,
    /// 1 while the server keeps content files for a backup.
    running: Gauge,
}

/// The socket file; removed on drop.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If this fails, the next start removes it.
        let _ = fs::remove_file(&self.0);
    }
}

/// The state that all connections share.
#[derive(Clone)]
struct Server {
    data: Arc<Path>,
    drive: Drive,
    rocks: Arc<Rocks>,
    running: Gauge,
    /// Locked by the backup that runs.
    turn: Arc<Mutex<()>>,
}

impl Backups {
    /// Binds the socket, after removing the one that an earlier process has left.
    pub fn listen(data: &Path, running: Gauge) -> Result<Self> {
        let path = data.join(SOCKET);
        remove_checkpoints(data)?;
        remove(&path)?;
        let listener = with_path(&path, UnixListener::bind(socket(data)?))?;
        with_path(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o600)))?;
        Ok(Self { data: data.to_owned(), listener, running })
    }

    /// Serves until it is dropped.
    pub async fn serve(self, drive: Drive, rocks: Arc<Rocks>) {
        let Self { data, listener, running } = self;
        let _socket = SocketFile(data.join(SOCKET));
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
                            tracing::warn!(%error, "a backup was interrupted");
                        }
                    });
                }
                Ok(_) => tracing::warn!("too many connections for backups: one was closed"),
                Err(error) => {
                    tracing::warn!(%error, "a connection for a backup could not be accepted");
                    // This limits the number of log lines if every call fails.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Server {
    async fn one(&self, stream: UnixStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let command = line(&mut stream, HANDSHAKE).await?;
        if command != MAKE_CHECKPOINT && command != IDLE {
            return answer(&mut stream, Some("the first line is no known command".to_owned())).await;
        }
        // A backup that was just killed may keep the lock for a moment.
        let Ok(_turn) = timeout(HANDSHAKE, self.turn.lock()).await else {
            return answer(&mut stream, Some("another backup of this drive is running".to_owned())).await;
        };
        if command == IDLE {
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
        // IMPORTANT: keep content files first, then make the checkpoint: so the backup can copy each file that its
        // rows name.
        let kept = self.drive.keep_content().await;
        tracing::info!("a backup begins: content files are kept until it ends");
        let made = self.rocks.checkpoint(&self.data.join(CHECKPOINT)).await;
        answer(stream, made.err().map(|error| self.refused(&error))).await?;
        lease(stream, LEASE).await?;
        answer(stream, None).await?;
        drop(kept);
        tracing::info!("a backup has copied all files: deleted content is removed again");
        Ok(())
    }

    /// The answer after a failed checkpoint. A checkpoint flushes write buffers, which a store that refuses writes
    /// cannot do.
    fn refused(&self, error: &StoreError) -> String {
        match self.rocks.writable() {
            Ok(()) => error.to_string(),
            Err(_) => format!("{error}; it accepts no writes any more: restart it, then run the backup again"),
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

/// Returns once the backup ends its lease.
///
/// Errors: its connection ended, or it did not renew the lease in time.
async fn lease(stream: &mut BufReader<UnixStream>, silence: Duration) -> io::Result<()> {
    let (began, mut logged) = (Instant::now(), Instant::now());
    loop {
        match line(stream, silence).await?.as_str() {
            END => return Ok(()),
            ALIVE => {}
            _ => return Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
        }
        if logged.elapsed() >= LOG_INTERVAL {
            logged = Instant::now();
            tracing::info!(seconds = began.elapsed().as_secs(), "a backup runs: deleted content is kept");
        }
    }
}

/// Reads a line. A line that is too long is truncated, and then matches no command.
async fn line(stream: &mut BufReader<UnixStream>, limit: Duration) -> io::Result<String> {
    let mut line = String::new();
    let silent = || io::Error::new(io::ErrorKind::TimedOut, format!("the backup has sent nothing for {limit:?}"));
    timeout(limit, stream.take(LINE).read_line(&mut line)).await.map_err(|_| silent())??;
    Ok(line.trim_end().to_owned())
}

async fn answer(stream: &mut BufReader<UnixStream>, error: Option<String>) -> io::Result<()> {
    let mut line = serde_json::to_vec(&LeaseAnswer { error })?;
    line.push(b'\n');
    timeout(HANDSHAKE, stream.get_mut().write_all(&line)).await?
}

/// The path of the socket, short enough for the system even if the path of the data folder is long.
pub fn socket(data: &Path) -> Result<PathBuf> {
    let path = data.join(SOCKET);
    if cfg!(target_os = "linux") && path.as_os_str().len() > 100 {
        let folder = with_path(data, fs::File::open(data))?;
        let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        // The descriptor must stay open as long as the path is used; a process opens few of them.
        std::mem::forget(folder);
        return Ok(short);
    }
    Ok(path)
}

/// Removes checkpoints that backups have left, which frees the space of tables that only they link.
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
        removed => with_path(path, removed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lease_ends_with_its_connection_and_without_renewal() {
        let long = Duration::from_secs(60);
        for (sent, limit, expected) in [
            ("alive\nalive\nend\n", long, Ok(())),
            ("alive\n", Duration::from_millis(50), Err(io::ErrorKind::TimedOut)),
            ("", Duration::from_millis(50), Err(io::ErrorKind::TimedOut)),
            ("something else\n", long, Err(io::ErrorKind::ConnectionAborted)),
            // Without a line end.
            (&"a".repeat(1_000), long, Err(io::ErrorKind::ConnectionAborted)),
        ] {
            let (mut client, server) = UnixStream::pair().unwrap();
            client.write_all(sent.as_bytes()).await.unwrap();
            let ended = lease(&mut BufReader::new(server), limit).await;
            assert_eq!(ended.map_err(|error| error.kind()), expected, "{sent}");
        }
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        let ended = lease(&mut BufReader::new(server), long).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
