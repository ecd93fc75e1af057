//! `rowdrive serve`: serves a data folder until SIGTERM or SIGINT.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rowdrive::auth::AuthError;
use rowdrive::drive::DriveError;
use rowdrive::http::{self, ANY_HOST, Limits, Options, ProxyNet, Tls, TlsError};
use rowdrive::migrate::MigrateError;
use rowdrive::table::StoreError;
use tokio::net::{TcpListener, TcpSocket};

use self::closing::close_in_time;
use self::open::{Opened, close, folder};
use super::backup::{self, Backups};
use super::config::{Configuration, ServeSettings};
use super::duration_arg::DurationArg;
use super::log::LogFormat;
use super::signals::{StopSignals, survive_file_size_limit};
use super::{CommandOutcome, log, process_metrics, size_arg};
use crate::data_folder::{self, DataFolderError};

mod closing;
mod connections;
mod fd_limit;
pub mod open;

/// Serve a data folder over HTTP.
///
/// Every option but --config, --print-config and --degraded can also be an environment variable, or a key of the file that --config names. A flag
/// overrides a variable, and a variable overrides the file.
#[derive(Args)]
pub struct Serve {
    /// The data folder; created if it is missing.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// The address to listen on. One that other machines reach needs a drive with users, and TLS, a --proxy or --insecure-http.
    #[arg(long, value_name = "ADDRESS:PORT", env = "ROWDRIVE_LISTEN", default_value = "127.0.0.1:8080")]
    #[arg(value_parser = address)]
    listen: SocketAddr,
    /// Serve https: a file with the certificate in PEM, and those of the CAs between it and the root after it.
    #[arg(long, value_name = "FILE", env = "ROWDRIVE_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The file with the key of that certificate, in PEM without a password. Both files are read again when they change.
    #[arg(long, value_name = "FILE", env = "ROWDRIVE_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Tell browsers to come by https only, for a year (Strict-Transport-Security).
    #[arg(long, env = "ROWDRIVE_HSTS")]
    hsts: bool,
    /// A proxy in front of this server, as in 127.0.0.1/32 or 10.0.0.0/8: its X-Forwarded-For, -Proto and -Host count, those
    /// of others never do; may be given several times, or several with commas.
    #[arg(long = "proxy", value_name = "ADDRESS/BITS", env = "ROWDRIVE_PROXY", value_delimiter = ',')]
    proxies: Vec<ProxyNet>,
    /// Let users send passwords and files from other machines without TLS: everyone on the way can read them.
    #[arg(long, env = "ROWDRIVE_INSECURE_HTTP")]
    insecure_http: bool,
    /// Memory for caches, write buffers and the buffers of requests, as in 512MiB or 4GiB; at least 32MiB.
    #[arg(long, value_name = "BYTES", env = "ROWDRIVE_MEMORY", value_parser = size_arg::parse_memory, default_value = "1GiB")]
    memory: u64,
    /// Another host name of this server, or * for any on a drive with users; may be given several times, or several with
    /// commas.
    #[arg(long = "host", value_name = "NAME", env = "ROWDRIVE_HOST", value_delimiter = ',', value_parser = host)]
    hosts: Vec<String>,
    /// The largest request body, as in 10GiB; without it, as much as the disk holds.
    #[arg(long, value_name = "SIZE", env = "ROWDRIVE_MAX_BODY", value_parser = size_arg::parse)]
    max_body: Option<u64>,
    /// Connections at a time, at most one for each 64 KiB of --memory; beyond that, the one that has been idle longest is
    /// closed.
    #[arg(long, value_name = "NUMBER", env = "ROWDRIVE_CONNECTIONS", default_value_t = Limits::default().connections)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    connections: usize,
    /// Connections of one address, of IPv6 of one /64, at a time; without it, three quarters of all. Behind a proxy all
    /// clients have one address.
    #[arg(long, value_name = "NUMBER", env = "ROWDRIVE_CONNECTIONS_PER_ADDRESS")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    connections_per_address: Option<usize>,
    /// Serve what is left of a damaged folder, read-only: writes get status 503. Only a flag, never a setting.
    #[arg(long)]
    degraded: bool,
    #[command(flatten)]
    times: Times,
    /// The log on standard error: text for people, json for programs, or auto: text on a terminal, else json.
    #[arg(long, value_name = "FORMAT", env = "ROWDRIVE_LOG_FORMAT", value_enum, hide_possible_values = true)]
    #[arg(default_value_t)]
    log_format: LogFormat,
    /// Parsed before all others, by `config::read`.
    #[command(flatten)]
    _configuration: Configuration,
}

// How long a client may take. No doc comment here: clap would use it as the description of the subcommand.
#[derive(Args)]
struct Times {
    /// How long the head of a request or a TLS handshake may take, and a connection be idle, as in 500ms, 30s or 2m.
    #[arg(long, value_name = "TIME", env = "ROWDRIVE_HEAD_TIMEOUT", default_value_t = DurationArg(Limits::default().head))]
    head_timeout: DurationArg,
    /// How long a client may send nothing of a body.
    #[arg(long, value_name = "TIME", env = "ROWDRIVE_BODY_IDLE_TIMEOUT")]
    #[arg(default_value_t = DurationArg(Limits::default().body_idle))]
    body_idle_timeout: DurationArg,
    /// How long the server waits in all for bytes of a body, or for its client to read, before it requires 1 KiB a second.
    #[arg(long, value_name = "TIME", env = "ROWDRIVE_BODY_GRACE", default_value_t = DurationArg(Limits::default().body_grace))]
    body_grace: DurationArg,
    /// How long a client may read nothing of a response.
    #[arg(long, value_name = "TIME", env = "ROWDRIVE_WRITE_IDLE_TIMEOUT")]
    #[arg(default_value_t = DurationArg(Limits::default().write_idle))]
    write_idle_timeout: DurationArg,
}

/// An address to listen on: a name could have several.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| {
        "write an IP address and a port, as in 127.0.0.1:8080, or in 0.0.0.0:8443 for all IPv4 addresses of this \
         machine; names of this server are for --host"
    })
}

/// A name that the `Host` of a request can match, which is compared without its port.
fn host(text: &str) -> Result<String, &'static str> {
    let bare = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '/');
    let no_port = text.starts_with('[') && text.ends_with(']') || !text.contains(':');
    if bare && no_port { Ok(text.to_owned()) } else { Err("write the name alone, as in drive.example") }
}

/// Why the server could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "on {0} everyone on the way could read the passwords of users: serve https with --tls-cert and --tls-key, name the \
         proxy that does with --proxy, or say --insecure-http"
    )]
    PlainHttp(SocketAddr),
    #[error(
        "the drive {1} has no users, so {0} would let everyone who reaches this server read and change every file: make the \
         first user, an admin, with rowdrive user add NAME --data {1}"
    )]
    NoUsers(&'static str, PathBuf),
    #[error("the users of the drive {0} cannot be read: {1}")]
    Users(PathBuf, AuthError),
    #[error("the data folder {0} cannot be made or used: {1}")]
    Folder(PathBuf, io::Error),
    #[error("the data folder {0} cannot be opened: {1}{hint}", hint = super::recovery_hint(.1))]
    Store(PathBuf, StoreError),
    #[error("{0} holds no store, damaged or not: there is no {0}/db")]
    NoStore(PathBuf),
    #[error("the data folder {0} cannot be opened: {1}")]
    DataFolder(PathBuf, DataFolderError),
    #[error("the data folder {0} cannot be brought up to date: {1}{hint}", hint = migration_hint(.1))]
    Migrate(PathBuf, MigrateError),
    #[error("the data folder {0} cannot be opened: {1}")]
    Drive(PathBuf, DriveError),
    #[error(
        "{0} is a backup: what is served is changed, and it could not be restored any more. Restore it into a folder of \
         its own: rowdrive restore {0} --data NEW"
    )]
    Backup(PathBuf),
    #[error("TLS needs a certificate and its key: give both --tls-cert and --tls-key")]
    HalfPair,
    #[error("--hsts is for TLS alone: give --tls-cert and --tls-key too, or --proxy")]
    HstsWithoutTls,
    #[error("TLS cannot be served: {0}")]
    Tls(#[from] TlsError),
    #[error("{0} cannot be listened on: {1}; choose another address with --listen")]
    Listen(SocketAddr, io::Error),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

type Result<T, E = ServeError> = std::result::Result<T, E>;

/// What the user can do about a store that cannot be migrated.
fn migration_hint(error: &MigrateError) -> &'static str {
    if !error.is_damage() {
        return "";
    }
    ". `rowdrive serve --degraded` serves what is left for reading, to be exported; or restore a backup"
}

impl Serve {
    pub fn run(self, settings: &ServeSettings) -> Result<CommandOutcome> {
        let tls = self.tls()?;
        if self.is_foreign() && tls.is_none() && self.proxies.is_empty() && !self.insecure_http {
            return Err(ServeError::PlainHttp(self.listen));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(self.serve(settings, tls));
        // Dropping the runtime would wait for jobs that still run on its threads.
        runtime.shutdown_background();
        ended
    }

    async fn serve(self, settings: &ServeSettings, tls: Option<Tls>) -> Result<CommandOutcome> {
        let files = fd_limit::raise();
        survive_file_size_limit()?;
        let data = folder(&self.data)?;
        // Also with --degraded, which does not refuse what `compare` finds.
        data_folder::check_restored(&data).map_err(|error| ServeError::DataFolder(data.clone(), error))?;
        if !self.degraded && backup::is_backup(&data) {
            return Err(ServeError::Backup(data));
        }
        // A folder that is mistyped must not become a new drive.
        if !data.join("db").exists() {
            self.require_users(&data, false)?;
        }
        let listener = listen(self.listen).map_err(|e| ServeError::Listen(self.listen, e))?;
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        tracing::info!(configuration = %settings, "starting");
        let Opened { rocks, drive, auth, first_user } =
            if self.degraded { open::degraded(&data, memory).await } else { open::whole(&data, memory).await }?;
        let users = auth.has_users().await.map_err(|error| ServeError::Users(data.clone(), error));
        if let Err(refused) = users.and_then(|has_users| self.require_users(&data, has_users)) {
            close(drive, rocks).await;
            return Err(refused);
        }
        // Handle signals before the address is printed: its reader may send one at once.
        let signals = StopSignals::new()?.count();
        // A degraded server changes nothing in the folder, so it makes no checkpoint.
        let running = Gauge::<i64>::default();
        let listening = (!self.degraded).then(|| Backups::listen(&data, running.clone()));
        let backups = match listening.transpose() {
            Ok(None) => None,
            Ok(Some(backups)) => Some(tokio::spawn(backups.serve(drive.clone(), rocks.clone()))),
            Err(error) => {
                tracing::error!(%error, "no backup can be made while this server runs");
                None
            }
        };
        announce(&listener, tls.is_some())?;
        let limits = connections::bound(self.limits(), self.connections_per_address, files, memory);
        let Self { hosts, proxies, insecure_http, max_body, hsts, .. } = self;
        let options = Options { hosts, proxies, insecure_http, max_body, hsts, first_user, limits };
        let again = signals.clone().reached(2);
        #[expect(clippy::async_yields_async, reason = "the second signal is another future")]
        let shutdown = async {
            signals.clone().reached(1).await;
            tracing::info!("finishing the requests in flight");
            signals.clone().reached(2)
        };
        let mut registry = Registry::default();
        rocks.register(&mut registry);
        drive.register(&mut registry);
        process_metrics::register(&mut registry);
        registry.register("rowdrive_backup_running", "Whether deleted content is kept for a backup", running);
        log::register(&mut registry);
        let service = http::Service::new(drive.clone(), auth, options, registry);
        let service = match tls {
            Some(tls) => service.with_tls(tls),
            None => service,
        };
        service.serve(listener, shutdown).await?;
        if let Some(backups) = backups {
            // Closing would wait for the lease of a running backup.
            backups.abort();
            let _ = backups.await;
        }
        close_in_time(drive, rocks, again).await;
        Ok(CommandOutcome::Done)
    }
}

impl Serve {
    pub fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Whether other machines may reach the address.
    fn is_foreign(&self) -> bool {
        !self.listen.ip().is_loopback()
    }

    /// Without users everyone who reaches the server may do everything: then only this machine may, by its own names.
    fn require_users(&self, data: &Path, has_users: bool) -> Result<()> {
        let is_any_host = self.hosts.iter().any(|host| host == ANY_HOST);
        match (has_users, self.is_foreign(), is_any_host) {
            (false, true, _) => Err(ServeError::NoUsers("--listen", data.to_owned())),
            (false, false, true) => Err(ServeError::NoUsers("--host *", data.to_owned())),
            _ => Ok(()),
        }
    }

    fn tls(&self) -> Result<Option<Tls>> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(Tls::read(certificate, key)?)),
            (None, None) if self.hsts && self.proxies.is_empty() => Err(ServeError::HstsWithoutTls),
            (None, None) => Ok(None),
            _ => Err(ServeError::HalfPair),
        }
    }

    fn limits(&self) -> Limits {
        let times = &self.times;
        Limits {
            connections: self.connections,
            connections_of_address: self.connections_per_address.unwrap_or(self.connections),
            head: times.head_timeout.0,
            body_idle: times.body_idle_timeout.0,
            body_grace: times.body_grace.0,
            write_idle: times.write_idle_timeout.0,
        }
    }
}

/// Length of the listen queue, as far as the system allows (`net.core.somaxconn`). In a burst, the system of a client
/// that finds the queue full tries again after a second.
const BACKLOG: u32 = 4_096;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for the closed connections of the process before it (TIME_WAIT).
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn announce(listener: &TcpListener, is_secure: bool) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}", announcement(listener.local_addr()?, is_secure))?;
    out.flush()
}

/// Where the server is reached. An address that stands for all of them is none that a client can open.
fn announcement(address: SocketAddr, is_secure: bool) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    let all = match address.ip() {
        ip if !ip.is_unspecified() => return format!("rowdrive serves {scheme}://{address}/"),
        IpAddr::V4(_) => "all IPv4 addresses",
        IpAddr::V6(_) => "all addresses",
    };
    format!("rowdrive serves {scheme} on port {} of {all} of this machine", address.port())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn limits(arguments: &[&str]) -> Limits {
        let arguments = ["rowdrive", "serve", "--data", "x"].iter().chain(arguments);
        let Command::Serve(serve) = Cli::try_parse_from(arguments).unwrap().command else { panic!() };
        serve.limits()
    }

    #[test]
    fn every_limit_is_its_own_option() {
        let given = limits(&[
            "--connections=5",
            "--connections-per-address=6",
            "--head-timeout=1s",
            "--body-idle-timeout=2s",
            "--body-grace=3s",
            "--write-idle-timeout=4s",
        ]);
        let Limits { connections, connections_of_address, head, body_idle, body_grace, write_idle } = given;
        assert_eq!(
            (connections, connections_of_address, [head, body_idle, body_grace, write_idle]),
            (5, 6, [1, 2, 3, 4].map(Duration::from_secs))
        );
        assert_eq!(format!("{:?}", limits(&[])), format!("{:?}", Limits::default()));
    }

    #[test]
    fn an_address_that_nobody_can_open_is_not_announced() {
        let announced = |address: &str, is_secure| announcement(address.parse().unwrap(), is_secure);
        assert_eq!(announced("127.0.0.1:8080", false), "rowdrive serves http://127.0.0.1:8080/");
        assert_eq!(announced("[::1]:443", true), "rowdrive serves https://[::1]:443/");
        let all = announced("0.0.0.0:8443", true);
        assert_eq!(all, "rowdrive serves https on port 8443 of all IPv4 addresses of this machine");
        assert_eq!(announced("[::]:80", false), "rowdrive serves http on port 80 of all addresses of this machine");
    }

    #[test]
    fn a_name_to_listen_on_is_refused_with_what_is_expected() {
        for bad in ["drive.example:443", "127.0.0.1", "443", ":443"] {
            let parsed = Cli::try_parse_from(["rowdrive", "serve", "--data", "x", "--listen", bad]);
            let refused = parsed.err().unwrap().to_string();
            assert!(refused.contains("IP address and a port") && refused.contains("--host"), "{bad}: {refused}");
        }
    }

    #[test]
    fn hosts_are_names_alone() {
        for good in ["drive.example", "[2001:db8::1]", "192.0.2.1", "*"] {
            assert_eq!(host(good).as_deref(), Ok(good));
        }
        for bad in ["", "drive.example:80", " drive.example", "http://drive.example", "drive.example/"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
