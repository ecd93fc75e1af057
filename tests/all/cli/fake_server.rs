//! A server with answers that the test chooses.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub struct Fake {
    pub address: String,
    _runtime: Runtime,
}

impl Fake {
    /// Answers every request with `answer`.
    pub fn start<F: Future<Output = Response> + Send>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = Arc::new(answer);
        let router = Router::new().fallback(move |request: Request| {
            let answer = answer.clone();
            async move { answer(request).await }
        });
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, _runtime: runtime }
    }
}

pub fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)))
}

pub fn file(name: &str, bytes: &[u8]) -> Value {
    json!({
        "path": format!("/{name}"), "name": name, "kind": "file", "size": bytes.len(), "etag": "\"1\"",
        "modified": "2026-01-02T03:04:05.678Z", "digest": digest(bytes),
    })
}

pub fn directory(name: &str) -> Value {
    json!({ "path": format!("/{name}"), "name": name, "kind": "directory", "modified": "2026-01-02T03:04:05.678Z" })
}

pub fn page(entries: &[Value], next: Option<&str>) -> Response {
    json!({ "entries": entries, "next": next }).to_string().into_response()
}

pub fn problem(status: u16, name: &str) -> Response {
    let body = json!({ "type": format!("/problems/{name}"), "status": status, "detail": "As a test wants it." });
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

/// A content response; the digest need not match the body.
pub fn content(body: Body, digest: &str, length: usize) -> Response {
    ([("Repr-Digest", digest.to_owned()), ("Content-Length", length.to_string())], body).into_response()
}
