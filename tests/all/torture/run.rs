//! The state that clients, faults and idle checks share: the current server, the recorded operations, the findings.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method};
use tokio::sync::{RwLock, watch};

use super::content::Contents;
use super::history::OpRecord;

/// The longest time for one answer: a slower server counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of findings after which a run ends.
const ENOUGH: usize = 20;

/// A server that answers.
#[derive(Clone, Debug)]
pub struct Serving {
    pub address: String,
    /// Starts at 0.
    pub number: usize,
}

/// A broken promise.
pub struct Finding {
    pub kind: String,
    pub what: String,
}

pub struct Harness {
    pub contents: Contents,
    begun: Instant,
    pub serving: watch::Sender<Option<Serving>>,
    /// When each server process had ended.
    pub deaths: Mutex<Vec<u64>>,
    pub records: Mutex<Vec<OpRecord>>,
    pub findings: Mutex<Vec<Finding>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Every operation has a shared lock; with the exclusive lock no operation runs.
    pub turns: RwLock<()>,
    pub over: AtomicBool,
    /// A disk fault is active: answers of 500 are allowed.
    pub disk_fails: AtomicBool,
    /// The active faults.
    pub faults: AtomicUsize,
    /// A directory that was just deleted or moved: clients use its paths again at once.
    pub wanted_again: Mutex<String>,
}

/// A complete answer.
pub struct Reply {
    pub start: u64,
    pub end: u64,
    pub server: usize,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A request without a complete answer.
pub struct Lost {
    pub start: u64,
    pub end: u64,
    pub server: usize,
}

/// A request.
pub struct HttpRequest {
    pub method: Method,
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: reqwest::Body,
}

impl HttpRequest {
    pub fn new(method: Method, target: String) -> Self {
        Self { method, target, headers: Vec::new(), body: "".into() }
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The last part of a problem's type.
    pub fn problem(&self) -> String {
        let json = self.json();
        json["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default().to_owned()
    }
}

impl Harness {
    pub fn new() -> Self {
        Self {
            contents: Contents::new(),
            begun: Instant::now(),
            serving: watch::Sender::new(None),
            deaths: Mutex::default(),
            records: Mutex::default(),
            findings: Mutex::default(),
            counts: Mutex::default(),
            turns: RwLock::default(),
            over: AtomicBool::new(false),
            disk_fails: AtomicBool::new(false),
            faults: AtomicUsize::new(0),
            wanted_again: Mutex::default(),
        }
    }

    /// Nanoseconds since the start of the run.
    pub fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap()
    }

    pub fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&self, what: &'static str, by: u64) {
        *self.counts.lock().unwrap().entry(what).or_default() += by;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().unwrap().clone()
    }

    /// Prints a line of the run's log, as the context of findings.
    pub fn announce(&self, what: &str) {
        eprintln!("{:>9.3} s: {what}", self.begun.elapsed().as_secs_f64());
    }

    pub fn found(&self, kind: impl Into<String>, what: impl Into<String>) {
        let finding = Finding { kind: kind.into(), what: what.into() };
        let seconds = self.begun.elapsed().as_secs_f64();
        eprintln!("FOUND at {seconds:.1} s: {}: {}", finding.kind, finding.what);
        self.findings.lock().unwrap().push(finding);
    }

    pub fn has_enough(&self) -> bool {
        self.findings.lock().unwrap().len() >= ENOUGH
    }

    /// Waits for a server, and sends it a request.
    pub async fn call(&self, http: &Client, request: HttpRequest) -> Result<Reply, Lost> {
        let mut serving = self.serving.subscribe();
        let serving = serving.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        self.call_at(http, &serving, request).await
    }

    pub async fn call_at(&self, http: &Client, serving: &Serving, request: HttpRequest) -> Result<Reply, Lost> {
        let HttpRequest { method, target, headers, body } = request;
        let troubled = || self.disk_fails.load(Ordering::SeqCst);
        let (failing, faults) = (troubled(), self.faults.load(Ordering::SeqCst));
        let title = format!("{method} {target} {headers:?}");
        let mut request = http.request(method, format!("http://{}{target}", serving.address)).timeout(PATIENCE);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let (start, server) = (self.now(), serving.number);
        let whole = async {
            let answer = request.body(body).send().await?;
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
        };
        let (status, headers, body) = match whole.await {
            Ok(answer) => answer,
            Err(error) => {
                self.count("answers lost");
                if faults + self.faults.load(Ordering::SeqCst) == 0 {
                    self.found(if error.is_timeout() { "hang" } else { "cut" }, format!("{title}: {error:?}"));
                }
                return Err(Lost { start, end: self.now(), server });
            }
        };
        let reply = Reply { start, end: self.now(), server, status, headers, body };
        let refused = matches!(status, 500 | 501 | 502 | 504 | 400 | 405 | 408 | 413 | 415);
        if refused && !failing && !troubled() {
            self.found(format!("status {status}"), format!("{title}: {}", String::from_utf8_lossy(&reply.body)));
        }
        match status {
            503 => self.count("answers 503"),
            507 => self.count("answers 507"),
            500 => self.count("answers 500"),
            _ => self.count("answers"),
        }
        Ok(reply)
    }
}
