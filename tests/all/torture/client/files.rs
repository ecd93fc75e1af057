//! Operations on one file: uploads, reads, deletes, moves and copies.

use futures_util::stream;

use super::*;
use crate::torture::content::{self, Origin};

impl Client {
    pub(super) async fn put(&mut self, path: &Path) {
        self.upload(path, None, Finds::Anything).await;
    }

    pub(super) async fn create(&mut self, path: &Path) {
        self.upload(path, Some(("If-None-Match", "*".to_owned())), Finds::Exactly(None)).await;
    }

    pub(super) async fn replace(&mut self, path: &Path) {
        match self.known.get(path).cloned() {
            Some((etag, value)) => {
                self.upload(path, Some(("If-Match", etag)), Finds::Exactly(Some(value))).await;
            }
            None => self.stat(Method::HEAD, path).await,
        }
    }

    /// `finds`: the state in which the upload succeeds.
    async fn upload(&mut self, path: &Path, condition: Option<(&'static str, String)>, finds: Finds) {
        let size = if path.starts_with("/w/") { 200 } else { content::size(&mut self.dice) };
        self.sequence += 1;
        let origin = Origin { path: path.clone(), writer: self.number, sequence: self.sequence, size };
        let (value, sum, bytes) = self.harness.contents.make(origin);
        let mut request = HttpRequest::new(Method::PUT, format!("/v1/fs{path}"));
        let conditional = condition.is_some();
        request.headers.extend(condition);
        if self.dice.random_bool(0.5) {
            request.headers.push(("Repr-Digest", format!("sha-256=:{sum}:")));
        }
        request.body = if self.dice.random_bool(0.2) {
            let (a, b) = (bytes.slice(..size / 2), bytes.slice(size / 2..));
            reqwest::Body::wrap_stream(stream::iter([Ok::<_, std::io::Error>(a), Ok(b)]))
        } else {
            bytes.into()
        };
        let (at, outcome, reply) = self.send(request).await;
        let leaves = Some(Some(value));
        match outcome {
            ReplyOutcome::Done(status) => {
                let found = if status == 201 { Finds::Exactly(None) } else { Finds::File };
                // The condition says more than the status, if it names a version.
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

    /// Records what a failed condition proves.
    fn condition_failed(&self, at: At, path: &Path, finds: &Finds) {
        match finds {
            Finds::Exactly(None) => self.step(at, true, path, Finds::File, None),
            Finds::Exactly(Some(value)) => self.step(at, true, path, Finds::Not(*value), None),
            _ => self.harness.found("wrong status", format!("{path}: 412 without a condition")),
        }
    }

    pub(super) async fn delete(&mut self, path: &Path) {
        self.unlink(path, None, Finds::File).await;
    }

    pub(super) async fn delete_known(&mut self, path: &Path) {
        if let Some((etag, value)) = self.known.get(path).cloned() {
            self.unlink(path, Some(("If-Match", etag)), Finds::Exactly(Some(value))).await;
        }
    }

    async fn unlink(&mut self, path: &Path, condition: Option<(&'static str, String)>, finds: Finds) {
        let mut request = HttpRequest::new(Method::DELETE, format!("/v1/fs{path}"));
        request.headers.extend(condition);
        let (at, outcome, reply) = self.send(request).await;
        match outcome {
            ReplyOutcome::Done(_) => self.step(at, true, path, finds, Some(None)),
            ReplyOutcome::Not(404) => self.saw(at, path, None),
            ReplyOutcome::Not(412) => self.condition_failed(at, path, &finds),
            ReplyOutcome::Not(503) => self.note(at, path, "DELETE", reply),
            ReplyOutcome::Not(status) => self.harness.found("wrong status", format!("DELETE {path} answers {status}")),
            ReplyOutcome::Unknown => self.step(at, false, path, finds, Some(None)),
        }
    }

    pub(super) async fn get(&mut self, path: &Path) {
        let (at, outcome, reply) = self.send(HttpRequest::new(Method::GET, format!("/v1/fs{path}"))).await;
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

    pub(super) async fn range(&mut self, path: &Path) {
        let from = self.dice.random_range(0..2_000_usize);
        let to = from + self.dice.random_range(0..300_000_usize);
        let mut request = HttpRequest::new(Method::GET, format!("/v1/fs{path}"));
        request.headers.push(("Range", format!("bytes={from}-{to}")));
        let (at, outcome, reply) = self.send(request).await;
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

    /// Sends HEAD for the file, or GET for its entry.
    pub(super) async fn stat(&mut self, method: Method, path: &Path) {
        let resource = if method == Method::HEAD { "fs" } else { "stat" };
        let (at, outcome, reply) = self.send(HttpRequest::new(method, format!("/v1/{resource}{path}"))).await;
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

    pub(super) async fn relocate_file(&mut self, resource: &str, from: &Path) {
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
}
