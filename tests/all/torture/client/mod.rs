//! A client with work of its own, drawn at random, that records what each answer proves about each path.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as Http, Method};
use serde_json::{Value as Json, json};

use super::checker::{Finds, State, Value};
use super::content::{self, Origin};
use super::history::{Effect, OpRecord, Path};
use super::paths;
use super::run::{Harness, HttpRequest, Lost, Reply};

pub struct Client {
    number: usize,
    sequence: u64,
    harness: Arc<Harness>,
    http: Http,
    dice: StdRng,
    /// What was last seen of files: ETag and content.
    known: HashMap<Path, (String, Value)>,
}

/// What an answer proves about what happened.
#[derive(Clone, Copy, PartialEq)]
enum ReplyOutcome {
    Done(u16),
    /// Refused, for this reason; nothing happened.
    Not(u16),
    Unknown,
}

impl Client {
    pub fn new(number: usize, seed: u64, harness: Arc<Harness>) -> Self {
        let dice = StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64));
        // Shorter than the server's, which would close a connection at the moment of its next request.
        let http = Http::builder().pool_idle_timeout(Duration::from_secs(3)).build().unwrap();
        Self { number, sequence: 0, harness, http, dice, known: HashMap::new() }
    }

    /// Works until the run is over.
    pub async fn work(mut self) {
        let harness = self.harness.clone();
        while !harness.over.load(Ordering::SeqCst) {
            let turn = harness.turns.read().await;
            // Two of them make large trees, and take them away.
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

    /// A path of a file, often one below a directory that has just gone.
    fn path(&mut self) -> Path {
        let again = self.harness.wanted_again.lock().unwrap().clone();
        if !again.is_empty() && self.dice.random_bool(0.2) {
            paths::below(&again, &mut self.dice)
        } else {
            paths::file(&mut self.dice)
        }
    }

    /// A large tree is copied, written to and deleted or moved; its paths are used again at once.
    async fn large_tree(&mut self) {
        let slot = paths::slot(&mut self.dice);
        let master = if self.dice.random_bool(0.7) { paths::WIDE } else { paths::DEEP };
        self.copy_directory(master, &slot).await;
        for _ in 0..3 {
            let path = paths::below(&slot, &mut self.dice);
            self.put(&path).await;
        }
        if self.dice.random_bool(0.7) {
            self.remove(&slot).await;
        } else {
            let to = paths::slot(&mut self.dice);
            self.remove(&to).await;
            self.move_to(&slot, &to).await;
        }
        for _ in 0..10 {
            let path = paths::below(&slot, &mut self.dice);
            self.put(&path).await;
        }
    }

    fn record(&self, at: (u64, u64, usize), certain: bool, effect: Effect) {
        let (start, end, server) = at;
        let record = OpRecord { start, end, client: self.number, server, certain, effect };
        self.harness.records.lock().unwrap().push(record);
    }

    fn step(&self, at: (u64, u64, usize), certain: bool, path: &Path, finds: Finds, leaves: Option<State>) {
        self.record(at, certain, Effect::Step { path: path.clone(), finds, leaves });
    }

    fn note(&self, at: (u64, u64, usize), path: &Path, what: &str, reply: Option<Reply>) {
        let answer = reply.map(|reply| format!(" answers {} {}", reply.status, reply.problem())).unwrap_or_default();
        self.record(at, true, Effect::Refused { path: path.clone(), what: format!("{what}{answer}") });
    }

    fn saw(&self, at: (u64, u64, usize), path: &Path, state: State) {
        self.step(at, true, path, Finds::Exactly(state), None);
    }

    /// The content with a digest: one that was sent.
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

    async fn put(&mut self, path: &Path) {
        self.upload(path, None, Finds::Anything).await;
    }

    async fn create(&mut self, path: &Path) {
        self.upload(path, Some(("If-None-Match", "*".to_owned())), Finds::Exactly(None)).await;
    }

    async fn replace(&mut self, path: &Path) {
        match self.known.get(path).cloned() {
            Some((etag, value)) => {
                self.upload(path, Some(("If-Match", etag)), Finds::Exactly(Some(value))).await;
            }
            None => self.stat(Method::HEAD, path).await,
        }
    }

    /// `finds`: what must be there for it to be done.
    async fn upload(&mut self, path: &Path, condition: Option<(&'static str, String)>, finds: Finds) {
        let size = if path.starts_with("/w/") { 200 } else { content::size(&mut self.dice) };
        self.sequence += 1;
        let origin = Origin { path: path.clone(), writer: self.number, sequence: self.sequence, size };
        let (value, sum, bytes) = self.harness.contents.make(origin);
        let mut ask = HttpRequest::new(Method::PUT, format!("/v1/fs{path}"));
        let conditional = condition.is_some();
        ask.headers.extend(condition);
        if self.dice.random_bool(0.5) {
            ask.headers.push(("Repr-Digest", format!("sha-256=:{sum}:")));
        }
        ask.body = if self.dice.random_bool(0.2) {
            let (a, b) = (bytes.slice(..size / 2), bytes.slice(size / 2..));
            reqwest::Body::wrap_stream(stream::iter([Ok::<_, std::io::Error>(a), Ok(b)]))
        } else {
            bytes.into()
        };
        let (at, outcome, reply) = self.ask(ask).await;
        let leaves = Some(Some(value));
        match outcome {
            ReplyOutcome::Done(status) => {
                let found = if status == 201 { Finds::Exactly(None) } else { Finds::File };
                // Both what the status says and what was asked for.
                let finds = if matches!(finds, Finds::Exactly(Some(_))) { finds } else { found };
                self.step(at, true, path, finds, leaves);
                let entry = reply.map(|reply| reply.json()).unwrap_or_default();
                if entry["digest"] != format!("sha-256=:{sum}:") {
                    self.harness.found("wrong entry", format!("PUT {path} of {sum} answers {entry}"));
                }
                self.remember(path, entry["etag"].as_str(), value);
            }
            ReplyOutcome::Not(412) if conditional => self.condition_failed(at, path, &finds),
            ReplyOutcome::Not(503) => self.note(at, path, &format!("PUT of {value}"), reply),
            ReplyOutcome::Not(status) => self.harness.found("wrong status", format!("PUT {path} answers {status}")),
            ReplyOutcome::Unknown => self.step(at, false, path, finds, leaves),
        }
    }

    /// A condition did not hold.
    fn condition_failed(&self, at: (u64, u64, usize), path: &Path, finds: &Finds) {
        match finds {
            Finds::Exactly(None) => self.step(at, true, path, Finds::File, None),
            Finds::Exactly(Some(value)) => self.step(at, true, path, Finds::Not(*value), None),
            _ => self.harness.found("wrong status", format!("{path}: 412 without a condition")),
        }
    }

    async fn delete(&mut self, path: &Path) {
        self.unlink(path, None, Finds::File).await;
    }

    async fn delete_known(&mut self, path: &Path) {
        if let Some((etag, value)) = self.known.get(path).cloned() {
            self.unlink(path, Some(("If-Match", etag)), Finds::Exactly(Some(value))).await;
        }
    }

    async fn unlink(&mut self, path: &Path, condition: Option<(&'static str, String)>, finds: Finds) {
        let mut ask = HttpRequest::new(Method::DELETE, format!("/v1/fs{path}"));
        ask.headers.extend(condition);
        let (at, outcome, reply) = self.ask(ask).await;
        match outcome {
            ReplyOutcome::Done(_) => self.step(at, true, path, finds, Some(None)),
            ReplyOutcome::Not(404) => self.saw(at, path, None),
            ReplyOutcome::Not(412) => self.condition_failed(at, path, &finds),
            ReplyOutcome::Not(503) => self.note(at, path, "DELETE", reply),
            ReplyOutcome::Not(status) => self.harness.found("wrong status", format!("DELETE {path} answers {status}")),
            ReplyOutcome::Unknown => self.step(at, false, path, finds, Some(None)),
        }
    }

    async fn get(&mut self, path: &Path) {
        let (at, outcome, reply) = self.ask(HttpRequest::new(Method::GET, format!("/v1/fs{path}"))).await;
        match (outcome, reply) {
            (ReplyOutcome::Done(_), Some(reply)) => {
                let sum = content::sum(&reply.body);
                if reply.header("repr-digest") != Some(&format!("sha-256=:{sum}:")) {
                    let what = format!("{path}: {:?}, {}", reply.headers, content::title(&reply.body));
                    self.harness.found("wrong bytes", what);
                } else if let Some(value) = self.value(&sum, path) {
                    self.saw(at, path, Some(value));
                    self.remember(path, reply.header("etag"), value);
                }
            }
            (ReplyOutcome::Not(404), _) => self.saw(at, path, None),
            _ => {}
        }
    }

    async fn range(&mut self, path: &Path) {
        let from = self.dice.random_range(0..2_000_usize);
        let to = from + self.dice.random_range(0..300_000_usize);
        let mut ask = HttpRequest::new(Method::GET, format!("/v1/fs{path}"));
        ask.headers.push(("Range", format!("bytes={from}-{to}")));
        let (at, outcome, reply) = self.ask(ask).await;
        match (outcome, reply) {
            (ReplyOutcome::Done(206), Some(reply)) => {
                let sum = reply.header("repr-digest").and_then(content::sum_of_header).unwrap_or_default();
                let Some(value) = self.value(&sum, path) else { return };
                let whole = self.harness.contents.bytes(value);
                if whole.get(from..whole.len().min(to + 1)) != Some(&reply.body) {
                    self.harness.found("wrong bytes", format!("{path}, bytes {from} to {to} of {}", whole.len()));
                }
                self.saw(at, path, Some(value));
            }
            (ReplyOutcome::Not(404), _) => self.saw(at, path, None),
            (ReplyOutcome::Not(416), _) => self.step(at, true, path, Finds::File, None),
            _ => {}
        }
    }

    /// HEAD of the file, or GET of its entry.
    async fn stat(&mut self, method: Method, path: &Path) {
        let resource = if method == Method::HEAD { "fs" } else { "stat" };
        let (at, outcome, reply) = self.ask(HttpRequest::new(method, format!("/v1/{resource}{path}"))).await;
        match (outcome, reply) {
            (ReplyOutcome::Done(_), Some(reply)) => {
                let entry = reply.json();
                let digest = reply.header("repr-digest").or(entry["digest"].as_str()).unwrap_or_default();
                let sum = content::sum_of_header(digest).unwrap_or_default();
                let Some(value) = self.value(&sum, path) else { return };
                self.saw(at, path, Some(value));
                self.remember(path, reply.header("etag").or(entry["etag"].as_str()), value);
            }
            (ReplyOutcome::Not(404), _) => self.saw(at, path, None),
            _ => {}
        }
    }

    /// A directory, page by page: every file in it is seen, and every other one is not there.
    async fn list(&mut self) {
        let directory = paths::directory(&mut self.dice);
        let limit = self.dice.random_range(2..20);
        let (mut first, mut seen) = (None, HashMap::new());
        let mut cursor = String::new();
        let last = loop {
            let target = format!("/v1/fs{directory}/?limit={limit}{cursor}");
            let (at, outcome, reply) = self.ask(HttpRequest::new(Method::GET, target)).await;
            let begun = *first.get_or_insert(at);
            match (outcome, reply) {
                (ReplyOutcome::Done(_), Some(reply)) => {
                    let page = reply.json();
                    for (path, value) in self.entries(&page) {
                        self.saw(at, &path, Some(value));
                        seen.insert(path, value);
                    }
                    match page["next"].as_str() {
                        Some(next) => cursor = format!("&cursor={next}"),
                        None => break (begun.0, at.1, at.2),
                    }
                }
                (ReplyOutcome::Not(404), _) if cursor.is_empty() => {
                    self.record(at, true, Effect::Absent { below: directory.as_str().into() });
                    return;
                }
                // A directory may go away between two pages.
                _ => return,
            }
        };
        for path in paths::files_in(&directory).filter(|path| !seen.contains_key(path)) {
            self.saw(last, &path, None);
        }
    }

    fn entries(&self, page: &Json) -> Vec<(Path, Value)> {
        let entries = page["entries"].as_array().into_iter().flatten();
        // Files in the root belong to the faults.
        let ours = |path: &str| path.matches('/').count() > 1;
        let files = entries.filter(|entry| entry["kind"] == "file" && entry["path"].as_str().is_some_and(ours));
        let seen = files.filter_map(|entry| {
            let path = entry["path"].as_str()?;
            let sum = content::sum_of_header(entry["digest"].as_str()?)?;
            Some((path.into(), self.value(&sum, path)?))
        });
        seen.collect()
    }

    /// A few pages by time or by name: their contents were true while they were made.
    async fn query(&mut self) {
        let under = format!("/g{}", self.dice.random_range(0..3));
        let limit = self.dice.random_range(1..50);
        let query = match self.dice.random_range(0..3) {
            0 => format!("/v1/files?limit={limit}&under={under}"),
            1 => format!("/v1/files?limit={limit}&clock=added"),
            _ => format!("/v1/find?name=F*&limit={limit}&under={under}"),
        };
        let mut cursor = String::new();
        for _ in 0..3 {
            let (at, outcome, reply) = self.ask(HttpRequest::new(Method::GET, format!("{query}{cursor}"))).await;
            let (ReplyOutcome::Done(_), Some(reply)) = (outcome, reply) else { return };
            let page = reply.json();
            for (path, value) in self.entries(&page) {
                self.saw(at, &path, Some(value));
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return,
            }
        }
    }

    async fn relocate_file(&mut self, resource: &str, from: &Path) {
        let to = self.path();
        if to == *from {
            return;
        }
        let moves = resource == "/v1/move";
        let overwrite = self.dice.random_bool(0.5);
        let (at, outcome, reply) = self.relocate(resource, from, &to, overwrite).await;
        match outcome {
            ReplyOutcome::Done(status) => {
                let entry = reply.map(|reply| reply.json()).unwrap_or_default();
                let sum = entry["digest"].as_str().and_then(content::sum_of_header).unwrap_or_default();
                let Some(value) = self.value(&sum, &to) else { return };
                if !moves {
                    self.harness.contents.mark_copied(value);
                }
                self.step(at, true, from, Finds::Exactly(Some(value)), moves.then_some(None));
                let found = if status == 201 { Finds::Exactly(None) } else { Finds::File };
                self.step(at, true, &to, found, Some(Some(value)));
                self.remember(&to, entry["etag"].as_str(), value);
            }
            ReplyOutcome::Not(404) => {
                self.saw(at, from, None);
                self.note(at, &to, &format!("{resource} from {from}"), reply);
            }
            ReplyOutcome::Not(409) if reply.as_ref().is_some_and(|reply| reply.problem() == "exists") => {
                self.step(at, true, &to, Finds::File, None);
            }
            ReplyOutcome::Not(409 | 503) => {
                self.note(at, from, &format!("{resource} to {to}"), None);
                self.note(at, &to, &format!("{resource} from {from}"), reply);
            }
            ReplyOutcome::Not(status) => {
                self.harness.found("wrong status", format!("{resource} {from} answers {status}"))
            }
            ReplyOutcome::Unknown => {
                if moves {
                    self.step(at, false, from, Finds::File, Some(None));
                } else {
                    self.harness.count("copies of unknown outcome");
                }
                self.record(at, false, Effect::Arrives { from: from.clone(), to });
            }
        }
    }

    async fn move_directory(&mut self) {
        let (from, to) = paths::two_directories(&mut self.dice);
        if self.dice.random_bool(0.5) {
            self.remove(&to).await;
        }
        self.move_to(&from, &to).await;
    }

    async fn move_to(&mut self, from: &str, to: &str) {
        if from == to {
            return;
        }
        let (at, outcome, _) = self.relocate("/v1/move", from, to, false).await;
        let moved = Effect::Moved { from: from.into(), to: to.into() };
        match outcome {
            ReplyOutcome::Done(_) => {
                self.harness.count("directories moved");
                self.record(at, true, moved);
                from.clone_into(&mut self.harness.wanted_again.lock().unwrap());
            }
            ReplyOutcome::Not(404) => self.record(at, true, Effect::Absent { below: from.into() }),
            ReplyOutcome::Not(409 | 503) => {}
            ReplyOutcome::Not(status) => {
                self.harness.found("wrong status", format!("move {from} {to} answers {status}"))
            }
            ReplyOutcome::Unknown => self.record(at, false, moved),
        }
    }

    /// A directory is copied file by file: whatever the answer, some may have been.
    async fn copy_directory(&mut self, from: &str, to: &str) {
        let (at, outcome, _) = self.relocate("/v1/copy", from, to, true).await;
        let done = matches!(outcome, ReplyOutcome::Done(_));
        if done {
            self.harness.count("directories copied");
        }
        self.record(at, done, Effect::Copied { from: from.into(), to: to.into() });
    }

    async fn remove(&mut self, directory: &str) {
        let ask = HttpRequest::new(Method::DELETE, format!("/v1/fs{directory}/?recursive=true"));
        let (at, outcome, _) = self.ask(ask).await;
        match outcome {
            ReplyOutcome::Done(_) => {
                self.harness.count("directories deleted");
                self.record(at, true, Effect::Removed { below: directory.into() });
                directory.clone_into(&mut self.harness.wanted_again.lock().unwrap());
            }
            ReplyOutcome::Not(404) => self.record(at, true, Effect::Absent { below: directory.into() }),
            ReplyOutcome::Not(503) => {}
            ReplyOutcome::Not(status) => {
                self.harness.found("wrong status", format!("DELETE {directory}/ answers {status}"))
            }
            ReplyOutcome::Unknown => self.record(at, false, Effect::Removed { below: directory.into() }),
        }
    }

    async fn relocate(
        &mut self,
        resource: &str,
        from: &str,
        to: &str,
        overwrite: bool,
    ) -> ((u64, u64, usize), ReplyOutcome, Option<Reply>) {
        let mut ask = HttpRequest::new(Method::POST, resource.to_owned());
        ask.headers.push(("Content-Type", "application/json".to_owned()));
        ask.body = json!({"from": from, "to": to, "overwrite": overwrite}).to_string().into();
        self.ask(ask).await
    }

    async fn ask(&mut self, ask: HttpRequest) -> ((u64, u64, usize), ReplyOutcome, Option<Reply>) {
        match self.harness.call(&self.http, ask).await {
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
