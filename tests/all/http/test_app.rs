//! A router over a drive of its own, and its answers.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use rowdrive::auth::Auth;
use rowdrive::drive::{Drive, Settings};
use rowdrive::engines::memory::Memory;
use rowdrive::http::{Options, Peer, router};
use rowdrive::migrate;
use rowdrive::schema::Timestamp;
use rowdrive::table::store::Result as StoreResult;
use rowdrive::table::{
    Outcome, Page, PageQuery, Plan, Row, RowKey, RowQuery, ScanQuery, Store, StoreError, TableSpec, Tables,
};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

/// A memory store that fails on demand, and counts its calls.
#[derive(Default)]
pub struct Faulty {
    inner: Memory,
    /// The names of all calls but `create`, in order.
    pub calls: Mutex<Vec<&'static str>>,
    /// Single cells that gets and pages have asked for.
    pub cells: AtomicUsize,
    /// The result of the next commits.
    pub commits: Mutex<Option<fn() -> StoreError>>,
    /// The result of the next reads.
    pub reads: Mutex<Option<fn() -> StoreError>>,
    /// What happens before a later call, and how many calls there are up to that one.
    before: Mutex<Option<(usize, BoxFuture<'static, ()>)>>,
}

impl Faulty {
    async fn called(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
        let due = self.before.lock().unwrap().take_if(|(calls, _)| {
            *calls -= 1;
            *calls == 0
        });
        if let Some((_, act)) = due {
            act.await;
        }
    }

    /// Lets this happen before a call: 1 is the next one.
    pub fn once_before_call(&self, call: usize, act: impl Future<Output = ()> + Send + 'static) {
        *self.before.lock().unwrap() = Some((call, Box::pin(act)));
    }

    /// Whether it has happened. If not, it never will.
    pub fn has_happened(&self) -> bool {
        self.before.lock().unwrap().take().is_none()
    }
}

fn fails(fault: &Mutex<Option<fn() -> StoreError>>) -> StoreResult<()> {
    fault.lock().unwrap().map_or(Ok(()), |error| Err(error()))
}

impl Store for Faulty {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, StoreResult<()>> {
        self.inner.create(spec)
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, StoreResult<Row>> {
        Box::pin(async move {
            self.called("get").await;
            self.cells.fetch_add(query.cells.len(), Ordering::SeqCst);
            fails(&self.reads)?;
            self.inner.get(table, row, query).await
        })
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, StoreResult<Page>> {
        Box::pin(async move {
            self.called("page").await;
            self.cells.fetch_add(query.unchanged.len(), Ordering::SeqCst);
            fails(&self.reads)?;
            self.inner.page(query).await
        })
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, StoreResult<Vec<Row>>> {
        Box::pin(async move {
            self.called("get_many").await;
            self.inner.get_many(table, queries).await
        })
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, StoreResult<Vec<(RowKey, Row)>>> {
        Box::pin(async move {
            self.called("scan").await;
            self.inner.scan(query).await
        })
    }

    fn is_atomic(&self) -> bool {
        self.inner.is_atomic()
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, StoreResult<Outcome>> {
        Box::pin(async move {
            self.called("commit").await;
            fails(&self.commits)?;
            self.inner.commit(plan).await
        })
    }
}

pub struct TestApp {
    pub router: Router,
    pub drive: Drive,
    pub auth: Auth,
    pub store: Arc<Faulty>,
    /// Where requests come from.
    pub peer: IpAddr,
    content: TempDir,
}

impl TestApp {
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        Self::with_settings(options, Settings::default()).await
    }

    pub async fn with_settings(options: Options, settings: Settings) -> Self {
        let store = Arc::new(Faulty::default());
        let tables = Tables::new(store.clone());
        migrate::up(&tables).await.unwrap();
        let content = tempfile::tempdir().unwrap();
        let auth = Auth::new(tables.clone(), Timestamp::now);
        let drive = Drive::open_with(tables, content.path(), settings).await.unwrap();
        // The tasks of a start make store calls too.
        drive.idle().await;
        let router = router(drive.clone(), auth.clone(), options, Registry::default());
        Self { router, drive, auth, store, peer: IpAddr::V4(Ipv4Addr::LOCALHOST), content }
    }

    /// Sends a request; without a `Host`, it is `localhost`.
    pub async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> TestResponse {
        let response = self.begin(method, target, headers, body).await;
        let (parts, body) = response.into_parts();
        let collected = body.collect().await;
        let cut = collected.is_err();
        let body = collected.map(|b| b.to_bytes()).unwrap_or_default();
        TestResponse {
            what: format!("{method} {target} {headers:?}"),
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            cut,
        }
    }

    /// The response as soon as it begins: its body is not read yet.
    pub async fn begin(&self, method: &str, target: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
        self.begin_from(self.peer, method, target, headers, body).await
    }

    /// As [`begin`](Self::begin), from an address.
    pub async fn begin_from(
        &self,
        peer: IpAddr,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Response {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(target);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", "localhost:8080");
        }
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let request = request.extension(Peer(peer)).body(body.into()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, target: &str) -> TestResponse {
        self.send("GET", target, &[], "").await
    }

    pub async fn put(&self, target: &str, body: impl Into<Body>) -> TestResponse {
        self.send("PUT", target, &[], body).await
    }

    pub async fn delete(&self, target: &str) -> TestResponse {
        self.send("DELETE", target, &[], "").await
    }

    /// A POST of JSON.
    pub async fn post(&self, target: &str, body: &Value) -> TestResponse {
        self.send("POST", target, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Creates these files, each with the single byte `x`.
    pub async fn files(&self, targets: &[&str]) {
        for target in targets {
            let answer = self.put(target, "x").await;
            assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        }
    }

    /// The names in a directory.
    pub async fn names(&self, directory: &str) -> Vec<String> {
        let answer = self.send("GET", directory, &[("accept", "text/plain")], "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text().lines().map(str::to_owned).collect()
    }

    /// The content files on the disk, staged ones included. Waits for removals in the background.
    pub async fn content_files(&self, expected: usize) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for _ in 0..200 {
            found = files_below(self.content.path());
            if found.len() == expected {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        found
    }
}

fn files_below(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

#[derive(Debug)]
pub struct TestResponse {
    /// The request, for messages.
    pub what: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the body broke off.
    pub cut: bool,
}

impl TestResponse {
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {:?}", self.what, self.body);
        self
    }

    /// Asserts that the answer is this problem, in the form that every problem has.
    #[track_caller]
    pub fn problem(self, status: u16, name: &str) -> Self {
        let this = self.is(status);
        assert_eq!(this.header("content-type"), Some("application/problem+json"), "{}", this.what);
        if this.body.is_empty() && this.what.starts_with("HEAD") {
            return this;
        }
        let body = this.json();
        let members: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, ["detail", "instance", "status", "title", "type"], "{}", this.what);
        assert_eq!(body["type"], format!("/problems/{name}"), "{}: {body}", this.what);
        assert_eq!(body["status"], status);
        assert_eq!(body["instance"].as_str(), this.header("x-request-id"));
        assert!(body["title"].as_str().unwrap().len() > 5 && body["detail"].as_str().unwrap().len() > 10, "{body}");
        this
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{}: {e}: {:?}", self.what, self.body))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The `name` of every entry of a page.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let page = self.json();
        page["entries"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub fn next(&self) -> Option<String> {
        self.json()["next"].as_str().map(str::to_owned)
    }
}

/// A body that records whether it was read.
pub fn watched(bytes: &'static [u8]) -> (Body, Arc<AtomicBool>) {
    let read = Arc::new(AtomicBool::new(false));
    let seen = read.clone();
    let pieces = stream::once(async move {
        seen.store(true, Ordering::Relaxed);
        Ok::<_, std::io::Error>(Bytes::from_static(bytes))
    });
    (Body::from_stream(pieces), read)
}

/// A body that breaks off after these bytes.
pub fn broken(bytes: Vec<u8>) -> Body {
    Body::from_stream(stream::iter([Ok(Bytes::from(bytes)), Err(std::io::Error::other("the client is gone"))]))
}

/// Pseudo-random bytes.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
