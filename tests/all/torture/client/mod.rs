//! A client with random work, which records what each answer proves about each path.
//!
//! - `files`: operations on one file; `directories`: operations on directories, listings and queries

mod directories;
mod files;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as Http, Method};
use serde_json::json;

use super::checker::{Finds, State, Value};
use super::history::{Effect, OpRecord, Path};
use super::paths;
use super::run::{Harness, HttpRequest, Lost, Reply};

pub struct Client {
    number: usize,
    sequence: u64,
    harness: Arc<Harness>,
    http: Http,
    dice: StdRng,
    /// The last known ETag and content of each file.
    known: HashMap<Path, (String, Value)>,
}

/// When a request was sent and answered, and the number of its server.
type At = (u64, u64, usize);

/// What an answer proves about its request.
#[derive(Clone, Copy, PartialEq)]
enum ReplyOutcome {
    Done(u16),
    /// Refused with this status: nothing happened.
    Not(u16),
    Unknown,
}

impl Client {
    pub fn new(number: usize, seed: u64, harness: Arc<Harness>) -> Self {
        let dice = StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64));
        // Shorter than the time-out of the server, which would close a connection at the moment of its next request.
        let http = Http::builder().pool_idle_timeout(Duration::from_secs(3)).build().unwrap();
        Self { number, sequence: 0, harness, http, dice, known: HashMap::new() }
    }

    /// Works until the run is over.
    pub async fn work(mut self) {
        let harness = self.harness.clone();
        while !harness.over.load(Ordering::SeqCst) {
            let turn = harness.turns.read().await;
            // Two clients copy large trees, and delete or move the copies.
            if self.number < 2 && self.dice.random_bool(0.1) {
                self.large_tree().await
            } else {
                self.operation().await
            }
            drop(turn);
            tokio::task::yield_now().await;
        }
    }

    async fn operation(&mut self) {
        self.harness.count("operations");
        let path = self.path();
        match self.dice.random_range(0..100) {
            0..28 => self.put(&path).await,
            28..33 => self.create(&path).await,
            33..39 => self.replace(&path).await,
            39..46 => self.delete(&path).await,
            46..48 => self.delete_known(&path).await,
            48..60 => self.get(&path).await,
            60..65 => self.range(&path).await,
            65..70 => self.stat(Method::HEAD, &path).await,
            70..73 => self.stat(Method::GET, &path).await,
            73..79 => self.list().await,
            79..82 => self.query().await,
            82..88 => self.relocate_file("/v1/move", &path).await,
            88..91 => self.relocate_file("/v1/copy", &path).await,
            91..96 => self.move_directory().await,
            _ => {
                let directory = paths::directory(&mut self.dice);
                self.remove(&directory).await;
            }
        }
    }

    /// A path of a file, often one below a directory that was just removed.
    fn path(&mut self) -> Path {
        let again = self.harness.wanted_again.lock().unwrap().clone();
        if !again.is_empty() && self.dice.random_bool(0.2) {
            paths::below(&again, &mut self.dice)
        } else {
            paths::file(&mut self.dice)
        }
    }

    fn record(&self, at: At, certain: bool, effect: Effect) {
        let (start, end, server) = at;
        let record = OpRecord { start, end, client: self.number, server, certain, effect };
        self.harness.records.lock().unwrap().push(record);
    }

    fn step(&self, at: At, certain: bool, path: &Path, finds: Finds, leaves: Option<State>) {
        self.record(at, certain, Effect::Step { path: path.clone(), finds, leaves });
    }

    fn note(&self, at: At, path: &Path, what: &str, reply: Option<Reply>) {
        let answer = reply.map(|reply| format!(" answers {} {}", reply.status, reply.problem())).unwrap_or_default();
        self.record(at, true, Effect::Refused { path: path.clone(), what: format!("{what}{answer}") });
    }

    fn saw(&self, at: At, path: &Path, state: State) {
        self.step(at, true, path, Finds::Exactly(state), None);
    }

    /// The content with this digest, which must be one that was sent.
    fn value(&self, sum: &str, of: &str) -> Option<Value> {
        let value = self.harness.contents.find(sum);
        if value.is_none() {
            self.harness.found("ghost", format!("{of} has the digest {sum} of nothing that was stored lately"));
        }
        value
    }

    fn remember(&mut self, path: &Path, etag: Option<&str>, value: Value) {
        if let Some(etag) = etag {
            self.known.insert(path.clone(), (etag.to_owned(), value));
        }
    }

    async fn relocate(
        &mut self,
        resource: &str,
        from: &str,
        to: &str,
        overwrite: bool,
    ) -> (At, ReplyOutcome, Option<Reply>) {
        let mut request = HttpRequest::new(Method::POST, resource.to_owned());
        request.headers.push(("Content-Type", "application/json".to_owned()));
        request.body = json!({"from": from, "to": to, "overwrite": overwrite}).to_string().into();
        self.send(request).await
    }

    async fn send(&mut self, request: HttpRequest) -> (At, ReplyOutcome, Option<Reply>) {
        match self.harness.call(&self.http, request).await {
            Ok(reply) => {
                let at = (reply.start, reply.end, reply.server);
                let outcome = match reply.status {
                    200..300 => ReplyOutcome::Done(reply.status),
                    503 if matches!(reply.problem().as_str(), "busy" | "closing" | "writes-stopped") => {
                        ReplyOutcome::Not(503)
                    }
                    404 | 409 | 412 | 416 => ReplyOutcome::Not(reply.status),
                    _ => ReplyOutcome::Unknown,
                };
                if reply.status >= 500 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (at, outcome, Some(reply))
            }
            Err(Lost { start, end, server }) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                ((start, end, server), ReplyOutcome::Unknown, None)
            }
        }
    }
}
