//! Sends small files in batches, each as a tar that the server unpacks: its files share their commits.
//!
//! A batch only makes an import faster. What the server does not report as stored, for whatever reason, is uploaded as
//! a file of its own, which retries it and names its error.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response};
use rowdrive::api::path;
use rowdrive::api::unpack::{MEDIA_TYPE, OVERWRITE, PARAMETER, UnpackLine};
use rowdrive::schema::DrivePath;
use tokio::sync::mpsc;

use super::plan::ImportTask;
use super::tar;
use super::upload::{self, SmallFile};
use crate::client::overwrite::Decision;
use crate::client::stats::TransferStats;
use crate::client::{ClientError, DriveClient, FailureScope};
use crate::local_fs::run_blocking;

/// Tasks of a batch, at most.
pub const TASKS: usize = 512;
/// Bytes of a batch at which it gets no further file.
const BYTES: usize = 4 << 20;

pub struct Batcher {
    pub client: DriveClient,
    pub stats: Arc<TransferStats>,
    /// The directory that gets the tree.
    pub to: DrivePath,
    /// Whether files with other content are replaced.
    pub overwrite: bool,
    /// Tasks that are not done in a batch.
    pub single: mpsc::Sender<ImportTask>,
    /// Whether the server unpacks tars; an older one does not.
    pub unpacks: AtomicBool,
}

/// A tar, and the tasks that it was made of.
#[derive(Default)]
struct Batch {
    tar: Vec<u8>,
    tasks: Vec<BatchTask>,
    /// Tasks for which there was no room.
    rest: Vec<ImportTask>,
}

struct BatchTask {
    task: ImportTask,
    bytes: u64,
    state: TaskState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskState {
    /// The file is on the drive already.
    Kept,
    /// The drive has another file of this name, which is not replaced.
    Left,
    /// It is not in the tar: a large file, or one that cannot be read now.
    Single,
    /// It is in the tar.
    Sent,
    /// The server has said that it is stored.
    Stored,
}

impl Batcher {
    pub async fn run(&self, mut tasks: Vec<ImportTask>) {
        while !tasks.is_empty() {
            if !self.unpacks.load(Relaxed) {
                for task in tasks {
                    self.alone(task).await;
                }
                return;
            }
            let (to, overwrite) = (self.to.clone(), self.overwrite);
            let batch = match run_blocking(move || Ok::<_, io::Error>(Batch::read(tasks, &to, overwrite))).await {
                Ok(batch) => batch,
                Err(error) => {
                    return self.stats.fail(format!("some files cannot be read: {error}"), FailureScope::Item);
                }
            };
            let Batch { tar, tasks: mut of_batch, rest } = batch;
            if of_batch.iter().any(|task| task.state == TaskState::Sent) {
                // Whatever breaks off: the members without a line are uploaded one by one.
                let _ = self.send(tar.into(), &mut of_batch).await;
            }
            // In order: files that are on the drive already show, between others that fail, that not everything fails.
            for BatchTask { task, bytes, state } in of_batch {
                match state {
                    TaskState::Kept => self.stats.kept(bytes),
                    TaskState::Left => {
                        if let ImportTask::File(file) = &task {
                            file.note_left(&self.stats);
                        }
                    }
                    TaskState::Single | TaskState::Sent => self.alone(task).await,
                    TaskState::Stored => {}
                }
            }
            tasks = rest;
        }
    }

    async fn alone(&self, task: ImportTask) {
        // The workers receive until the batcher is dropped, so sending cannot fail.
        let _ = self.single.send(task).await;
    }

    /// Sends a tar, and marks the members that are stored.
    async fn send(&self, tar: Bytes, tasks: &mut [BatchTask]) -> Result<(), ClientError> {
        let parameters: &[_] = if self.overwrite { &[PARAMETER] } else { &[PARAMETER, (OVERWRITE, "false")] };
        let request = self.client.path_request(Method::PUT, path::FS, (&self.to, true), parameters);
        let sent = self.client.with_timeout(self.client.send(request.body(tar))).await;
        let response = match sent {
            Ok(response) if is_answer(&response) => response,
            Ok(_) => {
                self.unpacks.store(false, Relaxed);
                return Ok(());
            }
            Err(error) => {
                // An older server: it knows no such parameter.
                if matches!(&error, ClientError::Problem(problem) if problem.status.is_client_error()) {
                    self.unpacks.store(false, Relaxed);
                }
                return Err(error);
            }
        };
        self.read_lines(response, tasks).await
    }

    async fn read_lines(&self, mut response: Response, tasks: &mut [BatchTask]) -> Result<(), ClientError> {
        let of_path: HashMap<String, usize> =
            tasks.iter().enumerate().map(|(at, task)| (task.task.path().as_str().to_owned(), at)).collect();
        let mut unread: Vec<u8> = Vec::new();
        let chunk = async |response: &mut Response| {
            let chunk = async { response.chunk().await.map_err(|error| self.client.transport_error(&error)) };
            self.client.with_timeout(chunk).await
        };
        while let Some(chunk) = chunk(&mut response).await? {
            unread.extend_from_slice(&chunk);
            let Some(end) = unread.iter().rposition(|byte| *byte == b'\n') else { continue };
            let rest = unread.split_off(end + 1);
            for line in unread.split(|byte| *byte == b'\n') {
                let Ok(UnpackLine::Member(line)) = serde_json::from_slice(line) else { continue };
                let task = of_path.get(line.path.as_ref()).and_then(|at| tasks.get_mut(*at));
                if let Some(task) = task.filter(|_| matches!(line.status, 200 | 201)) {
                    task.stored(&self.stats, line.status == 200);
                }
            }
            unread = rest;
        }
        Ok(())
    }
}

/// Whether the response has the lines of an unpacked tar.
fn is_answer(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes() == MEDIA_TYPE.as_bytes())
}

impl BatchTask {
    fn stored(&mut self, stats: &TransferStats, was_there: bool) {
        if self.state != TaskState::Sent {
            return;
        }
        self.state = TaskState::Stored;
        match &self.task {
            ImportTask::Make(_) => stats.made_folder(),
            ImportTask::File(_) => {
                if was_there {
                    stats.replaced();
                }
                stats.moved(self.bytes);
            }
        }
    }
}

impl Batch {
    /// Reads files until the batch is full.
    fn read(tasks: Vec<ImportTask>, to: &DrivePath, overwrite: bool) -> Self {
        let mut batch = Self::default();
        for task in tasks {
            if batch.tar.len() >= BYTES {
                batch.rest.push(task);
            } else {
                batch.add(task, to, overwrite);
            }
        }
        tar::end(&mut batch.tar);
        batch
    }

    fn add(&mut self, task: ImportTask, to: &DrivePath, overwrite: bool) {
        let name = name_below(to, task.path());
        let (bytes, state) = match &task {
            ImportTask::Make(_) => {
                tar::add_directory(&mut self.tar, name);
                (0, TaskState::Sent)
            }
            ImportTask::File(file) => match upload::read_small(file) {
                Some(SmallFile { bytes, version, digest }) => {
                    let state = match file.decide(&version, &digest, overwrite) {
                        Decision::Present => TaskState::Kept,
                        Decision::Skip => TaskState::Left,
                        Decision::Transfer => {
                            tar::add_file(&mut self.tar, name, version.modified(), &digest, &bytes);
                            TaskState::Sent
                        }
                    };
                    (version.size, state)
                }
                None => (0, TaskState::Single),
            },
        };
        self.tasks.push(BatchTask { task, bytes, state });
    }
}

/// The name of a member: the path below the target.
fn name_below<'a>(to: &DrivePath, path: &'a DrivePath) -> &'a str {
    let base = if to.is_root() { "" } else { to.as_str() };
    path.as_str().strip_prefix(base).unwrap_or_default().trim_start_matches('/')
}
