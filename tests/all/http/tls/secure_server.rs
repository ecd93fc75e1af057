//! A test app that is served by TLS, and its clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use rowdrive::http::{Limits, Options, Service, Tls};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ALL_VERSIONS, ClientConfig, ConfigBuilder, SupportedProtocolVersion, WantsVerifier};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::test_app::TestApp;
use super::certificates::PrivateCa;

pub const LONG: Duration = Duration::from_secs(20);
pub const HTTP1: &[&[u8]] = &[b"http/1.1"];
pub const HTTP2: &[&[u8]] = &[b"h2", b"http/1.1"];

pub struct SecureServer {
    pub app: TestApp,
    pub address: SocketAddr,
    pub ca: PrivateCa,
    pub stop: oneshot::Sender<()>,
    pub serving: JoinHandle<std::io::Result<()>>,
    _folder: TempDir,
}

pub async fn serve(options: Options) -> SecureServer {
    serve_app(TestApp::new().await, options).await
}

pub async fn serve_app(app: TestApp, options: Options) -> SecureServer {
    let (ca, folder) = (PrivateCa::new(), tempfile::tempdir().unwrap());
    let pair = ca.issue(folder.path(), "localhost");
    let tls = Tls::read(&pair.certificate, &pair.key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let service = Service::new(app.drive.clone(), app.auth.clone(), options, Registry::default()).with_tls(tls);
    #[expect(clippy::async_yields_async, reason = "no caller asks twice")]
    let serving = tokio::spawn(service.serve(listener, async move {
        let _ = stopped.await;
        std::future::pending()
    }));
    SecureServer { app, address, ca, stop, serving, _folder: folder }
}

pub async fn serve_with(limits: Limits) -> SecureServer {
    serve(Options { limits, ..Options::default() }).await
}

impl SecureServer {
    pub async fn connect_plain(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection for one of these protocols, by one of these versions of TLS.
    pub async fn connect_by(
        &self,
        protocols: &[&[u8]],
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_with(aws_lc_rs::default_provider(), protocols, versions).await
    }

    /// The same, by what this provider offers.
    pub async fn connect_with(
        &self,
        provider: CryptoProvider,
        protocols: &[&[u8]],
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions).unwrap();
        self.shake_hands(config, protocols, self.connect_plain().await).await
    }

    /// A connection whose client keeps few bytes that the server has sent before it reads them.
    pub async fn connect_small(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2 << 10).unwrap();
        let socket = socket.connect(self.address).await.unwrap();
        self.shake_hands(ClientConfig::builder(), protocols, socket).await.unwrap()
    }

    async fn shake_hands(
        &self,
        config: ConfigBuilder<ClientConfig, WantsVerifier>,
        protocols: &[&[u8]],
        socket: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = config.with_root_certificates(self.ca.roots()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        timeout(LONG, TlsConnector::from(Arc::new(config)).connect(name, socket)).await.unwrap()
    }

    pub async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        self.connect_by(protocols, ALL_VERSIONS).await.unwrap()
    }

    /// Sends these bytes over HTTP/1.1, and reads until the server closes the connection.
    pub async fn raw(&self, request: &str) -> String {
        let mut stream = self.connect(HTTP1).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    pub async fn get(&self, target: &str) -> String {
        self.raw(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
    }

    /// Waits until the metrics show this many closed connections for this reason.
    pub async fn counted(&self, why: &str, many: usize) {
        self.measured(&format!("rowdrive_http_connections_closed_total{{why=\"{why}\"}} {many}\n")).await;
    }

    /// Waits until no request is under way besides the one that asks.
    pub async fn settled(&self) {
        self.measured("\nrowdrive_http_in_flight 1\n").await;
    }

    /// Waits until the metrics have this.
    async fn measured(&self, wanted: &str) {
        let begun = Instant::now();
        loop {
            let response = self.get("/metrics").await;
            if response.contains(wanted) {
                return;
            }
            assert!(begun.elapsed() < LONG, "{wanted} in {response}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Reads until the server closes the connection.
pub async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut all = Vec::new();
    let _cut = timeout(LONG, stream.read_to_end(&mut all)).await.expect("the server closes");
    String::from_utf8_lossy(&all).into_owned()
}
