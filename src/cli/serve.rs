//! `rowdrive serve`: serves a data folder until it is told to stop.

use std::fs::{DirBuilder, canonicalize};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use prometheus_client::registry::Registry;
use rowdrive::drive::{Drive, DriveError, StoreError};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::http::{self, Limits, Options};
use rowdrive::migrate::{self, MigrateError};
use rowdrive::table::Tables;
use tokio::net::TcpListener;

use super::stop::Stop;
use super::{Ended, process, size};

/// Serve a data folder over HTTP.
#[derive(Args)]
pub struct Serve {
    /// The folder that holds everything; made if it is missing.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The address to listen on; only loopback ones, since everyone who reaches it may do everything.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Memory for caches and write buffers, as in 512MiB or 4GiB.
    #[arg(long, value_name = "BYTES", value_parser = size::parse, default_value = "1GiB")]
    memory: u64,
    /// A further name by which this server is called; may be given several times.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The largest body that is taken; without it, as much as the disk holds.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_body: Option<u64>,
    /// Connections at a time; when there are more, the one that has been idle longest is closed.
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().connections)]
    connections: usize,
}

/// Why the server could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "it listens on loopback addresses only, as 127.0.0.1, since it knows no users yet: on {0} everyone who \
         reaches this machine could read and change every file"
    )]
    Foreign(SocketAddr),
    #[error("the data folder {0} cannot be made or used: {1}")]
    Folder(PathBuf, io::Error),
    #[error("the data folder {0} cannot be opened: {1}")]
    Store(PathBuf, StoreError),
    #[error("the data folder {0} cannot be brought up to date: {1}")]
    Migrate(PathBuf, MigrateError),
    #[error("the data folder {0} cannot be opened: {1}")]
    Drive(PathBuf, DriveError),
    #[error("{0} cannot be listened on: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

type Result<T> = std::result::Result<T, ServeError>;

impl Serve {
    pub fn run(self) -> Result<Ended> {
        if !self.listen.ip().is_loopback() {
            return Err(ServeError::Foreign(self.listen));
        }
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.serve())
    }

    async fn serve(self) -> Result<Ended> {
        let data = folder(&self.data)?;
        let listener = TcpListener::bind(self.listen).await.map_err(|e| ServeError::Listen(self.listen, e))?;
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let rocks =
            Rocks::open(&data.join("db"), RocksOptions { memory }).map_err(|e| ServeError::Store(data.clone(), e))?;
        let rocks = Arc::new(rocks);
        let tables = Tables::new(rocks.clone());
        migrate::up(&tables).await.map_err(|e| ServeError::Migrate(data.clone(), e))?;
        let drive = Drive::open(tables, &data.join("content")).await.map_err(|e| ServeError::Drive(data.clone(), e))?;
        // Before the address is printed: whoever reads it may send a signal at once.
        let mut stop = Stop::new()?;
        announce(&listener)?;
        let limits = Limits { connections: self.connections, ..Limits::default() };
        let options = Options { hosts: self.hosts, max_body: self.max_body, limits };
        #[expect(clippy::async_yields_async, reason = "being asked again is a matter of its own")]
        let shutdown = async move {
            stop.asked().await;
            tracing::info!("finishing the requests in flight");
            // Asked again: at once.
            async move { stop.asked().await }
        };
        let mut registry = Registry::default();
        rocks.register(&mut registry);
        drive.register(&mut registry);
        process::register(&mut registry);
        http::serve(listener, drive.clone(), options, registry, shutdown).await?;
        drive.close().await;
        rocks.close().await;
        tracing::info!("stopped");
        Ok(Ended::Done)
    }
}

/// The folder, made for this user alone if it is missing. One that is there keeps its mode.
fn folder(data: &Path) -> Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.and_then(|()| canonicalize(data)).map_err(|e| ServeError::Folder(data.to_owned(), e))
}

fn announce(listener: &TcpListener) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "rowdrive serves http://{}/", listener.local_addr()?)?;
    out.flush()
}
