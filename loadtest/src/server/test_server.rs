//! Servers for tests: one that answers as a test says, and a drive.

use std::net::SocketAddr;

use axum::Router;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::client::Base;
use super::process;

/// Accepts connections until it is dropped; those that are open then are still served.
pub struct TestServer(SocketAddr, JoinHandle<()>);

impl TestServer {
    pub async fn start(routes: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self(listener.local_addr().unwrap(), tokio::spawn(async { axum::serve(listener, routes).await.unwrap() }))
    }

    /// An empty drive.
    pub async fn drive() -> (Self, TempDir) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, folder) = (listener.local_addr().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().to_owned();
        let never = std::future::pending::<std::future::Ready<()>>();
        (
            Self(
                address,
                tokio::spawn(async move { process::listen(listener, &path, 64 << 20, never).await.unwrap() }),
            ),
            folder,
        )
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.0)
    }

    pub fn base(&self) -> Base {
        Base::at(self.0)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.1.abort();
    }
}
