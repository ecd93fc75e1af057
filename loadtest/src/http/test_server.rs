//! A small HTTP server for tests, which answers as a test says.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves until it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    /// Answers each request by method and target.
    pub async fn start<F>(handler: impl Fn(Method, String) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let handler = handler.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let handler = handler.clone();
                    async move {
                        let (method, target) = (request.method().clone(), request.uri().to_string());
                        let _ = request.into_body().collect().await;
                        Ok::<_, Infallible>(handler(method, target).await)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn answer(status: u16, body: &'static str) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

/// What Rowdrive says to the questions before a run; nothing for all others.
pub fn rowdrive(method: &Method, target: &str) -> Option<Response<Full<Bytes>>> {
    match (method.as_str(), target) {
        ("GET", "/readyz") => Some(answer(200, "ok\n")),
        ("GET", "/v1/fs/?limit=1") => Some(answer(200, r#"{"path":"/","entries":[],"next":null}"#)),
        ("PUT", "/v1/fs/loadtest/") => Some(answer(201, r#"{"path":"/loadtest","creator":"loadtest"}"#)),
        _ => None,
    }
}

/// A port that nothing listens on.
pub async fn unused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}
