//! Operations on directories: listings, queries, moves, copies and recursive deletes.

use serde_json::Value as Json;

use super::*;
use crate::torture::content;

impl Client {
    /// Copies a large tree, writes into it, deletes or moves it, and writes to its paths again at once.
    pub(super) async fn large_tree(&mut self) {
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

    /// Lists a directory page by page: files that are not in the listing do not exist.
    pub(super) async fn list(&mut self) {
        let directory = paths::directory(&mut self.dice);
        let limit = self.dice.random_range(2..20);
        let (mut first, mut seen) = (None, HashMap::new());
        let mut cursor = String::new();
        let last = loop {
            let target = format!("/v1/fs{directory}/?limit={limit}{cursor}");
            let (at, outcome, reply) = self.send(HttpRequest::new(Method::GET, target)).await;
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
                // A directory may be removed between two pages.
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

    /// Reads a few pages by time or by name: each file existed while its page was read.
    pub(super) async fn query(&mut self) {
        let under = format!("/g{}", self.dice.random_range(0..3));
        let limit = self.dice.random_range(1..50);
        let query = match self.dice.random_range(0..3) {
            0 => format!("/v1/files?limit={limit}&under={under}"),
            1 => format!("/v1/files?limit={limit}&clock=added"),
            _ => format!("/v1/find?name=F*&limit={limit}&under={under}"),
        };
        let mut cursor = String::new();
        for _ in 0..3 {
            let (at, outcome, reply) = self.send(HttpRequest::new(Method::GET, format!("{query}{cursor}"))).await;
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

    pub(super) async fn move_directory(&mut self) {
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

    /// A directory is copied file by file: whatever the answer is, some files may have been copied.
    async fn copy_directory(&mut self, from: &str, to: &str) {
        let (at, outcome, _) = self.relocate("/v1/copy", from, to, true).await;
        let done = matches!(outcome, ReplyOutcome::Done(_));
        if done {
            self.harness.count("directories copied");
        }
        self.record(at, done, Effect::Copied { from: from.into(), to: to.into() });
    }

    pub(super) async fn remove(&mut self, directory: &str) {
        let request = HttpRequest::new(Method::DELETE, format!("/v1/fs{directory}/?recursive=true"));
        let (at, outcome, _) = self.send(request).await;
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
}
