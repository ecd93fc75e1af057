//! Uploads one file.
//!
//! A file is read twice, or once if it is small: first for its SHA-256, then to send it with that digest. If the file
//! has changed in between, the server refuses it, and the old version remains. A comparison with the digest of the
//! response alone would find the wrong version already stored.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use reqwest::header::{CONTENT_LENGTH, IF_NONE_MATCH};
use reqwest::{Body, Method, RequestBuilder, StatusCode};
use rowdrive::api::entry::EntryJson;
use rowdrive::api::header::REPR_DIGEST;
use rowdrive::api::path;
use rowdrive::api::problem::ProblemKind;

use super::plan::{FileUpload, ImportTask, RemoteFile};
use super::refusal::WriteRights;
use crate::client::overwrite::Decision;
use crate::client::retry::{RetryPolicy, Retryable};
use crate::client::stats::{BytesInFlight, TransferStats};
use crate::client::{ClientError, DriveClient, FailureScope, RESPONSE_TIMEOUT};
use crate::local_fs::{self, FileStamp, Hasher, OpenFolder, run_blocking};

/// The largest file that is sent from memory, in bytes.
const SMALL: u64 = 256 << 10;
/// Attempts to read a file that changes meanwhile.
const READINGS: usize = 2;

pub struct Uploader {
    pub client: DriveClient,
    pub retry: RetryPolicy,
    pub stats: Arc<TransferStats>,
    /// Whether files with other content are replaced.
    pub overwrite: bool,
    pub rights: WriteRights,
}

/// Why a file was not uploaded.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("it cannot be read: {0}")]
    Local(io::Error),
    #[error("it changes while it is read")]
    Changed,
    #[error("the server has stored other bytes than were sent")]
    Other,
    #[error("on the drive files of this name come and go")]
    Taken,
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        // It was truncated meanwhile.
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Changed } else { Self::Local(error) }
    }
}

impl Retryable for SendError {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Client(error) => error.retry_after(),
            Self::Local(_) | Self::Changed | Self::Other | Self::Taken => None,
        }
    }
}

/// A local file with its digest.
struct ReadFile {
    content: UploadContent,
    version: FileStamp,
    digest: String,
}

enum UploadContent {
    Small(Bytes),
    Large(Arc<File>),
}

impl Uploader {
    pub async fn job(&self, job: ImportTask) {
        match job {
            ImportTask::Make(path) => {
                let made = self.retry.run(async || {
                    let request = self.client.path_request(Method::PUT, path::FS, (&path, true), &[]);
                    self.client.with_timeout(self.client.send(request)).await
                });
                match made.await {
                    Ok(_) => self.stats.made_folder(),
                    Err(error) => self.fail(&format!("the folder {path}"), &error).await,
                }
            }
            ImportTask::File(job) => match self.file(&job).await {
                Ok(()) => {}
                Err(SendError::Client(error)) => self.fail(&job.shown, &error).await,
                Err(error) => self.stats.fail(format!("{}: {error}", job.shown), FailureScope::Item),
            },
        }
    }

    async fn fail(&self, shown: &str, error: &ClientError) {
        match self.rights.refusal_of_all(error).await {
            Some(why) => self.stats.fail(why, FailureScope::All),
            None => self.stats.fail(format!("{shown}: {error}"), error.scope()),
        }
    }

    async fn file(&self, job: &FileUpload) -> Result<(), SendError> {
        let mut readings = 0;
        loop {
            readings += 1;
            match self.once(job).await {
                Err(SendError::Changed | SendError::Taken) if readings < READINGS => {}
                done => return done,
            }
        }
    }

    async fn once(&self, job: &FileUpload) -> Result<(), SendError> {
        let reading = self.read(job).await?;
        let ReadFile { version, digest, .. } = &reading;
        match job.decide(version, digest, self.overwrite) {
            Decision::Present => {
                self.stats.kept(version.size);
                return Ok(());
            }
            Decision::Skip => {
                job.note_left(&self.stats);
                return Ok(());
            }
            Decision::Transfer => {}
        }
        let (stored, has_replaced) = match self.retry.run(async || self.put(job, &reading).await).await {
            Err(SendError::Taken) => return self.compare(job, &reading).await,
            stored => stored?,
        };
        if stored.digest.as_ref() != Some(digest) || stored.bytes() != version.size {
            return Err(SendError::Other);
        }
        if has_replaced {
            self.stats.replaced();
        }
        self.stats.moved(version.size);
        Ok(())
    }

    /// A file that was not there before is there now: that of another program, or this one, if only the answer was
    /// lost. [`SendError::Taken`] if it is gone again.
    async fn compare(&self, job: &FileUpload, reading: &ReadFile) -> Result<(), SendError> {
        let there = self.retry.run(async || self.client.stat(&job.path).await).await?.map(RemoteFile::from);
        if there.ok_or(SendError::Taken)?.is(&reading.version, &reading.digest) {
            self.stats.kept(reading.version.size);
        } else {
            job.note_left(&self.stats);
        }
        Ok(())
    }

    async fn read(&self, job: &FileUpload) -> Result<ReadFile, SendError> {
        let (folder, name) = (job.folder.clone(), job.local.clone());
        let (file, version, small) = run_blocking(move || open(&folder, &name)).await?;
        if let Some((bytes, digest)) = small {
            return Ok(ReadFile { content: UploadContent::Small(bytes), version, digest });
        }
        let digest = local_fs::file_digest(file.clone(), version.size).await?;
        if local_fs::file_stamp(&file)? != version {
            return Err(SendError::Changed);
        }
        Ok(ReadFile { content: UploadContent::Large(file), version, digest })
    }

    /// The entry that is stored, and whether it has replaced another one.
    async fn put(&self, job: &FileUpload, reading: &ReadFile) -> Result<(EntryJson<'static>, bool), SendError> {
        let ReadFile { content, version, digest } = reading;
        let modified = version.modified().rfc3339();
        let request = self.client.path_request(Method::PUT, path::FS, (&job.path, false), &[("modified", &modified)]);
        let request = request.header(REPR_DIGEST, digest);
        let request = if self.overwrite { request } else { request.header(IF_NONE_MATCH, "*") };
        let stored = match content {
            UploadContent::Small(bytes) => self.client.with_timeout(self.stored(request.body(bytes.clone()))).await,
            UploadContent::Large(file) => {
                let in_flight = BytesInFlight::new(self.stats.clone());
                let sending = Arc::new(BodyProgress { in_flight, failed: OnceLock::new() });
                let body = Body::wrap_stream(pieces(file.clone(), version.size, sending.clone()));
                let request = request.header(CONTENT_LENGTH, version.size).body(body);
                let stored = self.while_sending(&sending, self.stored(request)).await;
                if let Some(error) = sending.failed.get() {
                    return Err(io::Error::new(error.kind(), error.to_string()).into());
                }
                stored
            }
        };
        match stored {
            Err(ClientError::Problem(problem)) if problem.is(ProblemKind::DigestMismatch) => Err(SendError::Changed),
            Err(ClientError::Problem(problem)) if problem.is(ProblemKind::Precondition) => Err(SendError::Taken),
            stored => Ok(stored?),
        }
    }

    async fn stored(&self, request: RequestBuilder) -> Result<(EntryJson<'static>, bool), ClientError> {
        let response = self.client.send(request).await?;
        let has_replaced = response.status() == StatusCode::OK;
        Ok((self.client.json_of(response).await?, has_replaced))
    }

    /// Gives up when no byte of the body is sent and no response arrives for a while.
    async fn while_sending<T>(
        &self,
        sending: &BodyProgress,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let before = sending.in_flight.bytes();
            match tokio::time::timeout(RESPONSE_TIMEOUT, &mut answer).await {
                Ok(answer) => return answer,
                Err(_) if sending.in_flight.bytes() == before => return Err(self.client.timeout_error()),
                Err(_) => {}
            }
        }
    }
}

/// A small local file in memory.
pub struct SmallFile {
    pub bytes: Bytes,
    pub version: FileStamp,
    pub digest: String,
}

/// Reads a file if it is small. None if it is not, or if it cannot be read now.
pub fn read_small(job: &FileUpload) -> Option<SmallFile> {
    let (_, version, small) = open(&job.folder, &job.local).ok()?;
    small.map(|(bytes, digest)| SmallFile { bytes, version, digest })
}

type SmallContent = Option<(Bytes, String)>;

/// Opens a file, and reads it if it is small.
fn open(folder: &OpenFolder, name: &OsStr) -> Result<(Arc<File>, FileStamp, SmallContent), SendError> {
    let mut file = folder.open_file(name)?;
    let version = local_fs::file_stamp(&file)?;
    if version.size > SMALL {
        return Ok((Arc::new(file), version, None));
    }
    let mut bytes = Vec::with_capacity(version.size as usize + 1);
    Read::by_ref(&mut file).take(SMALL + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != version.size || local_fs::file_stamp(&file)? != version {
        return Err(SendError::Changed);
    }
    let digest = Hasher::digest_of(&bytes);
    Ok((Arc::new(file), version, Some((bytes.into(), digest))))
}

/// The state of an upload, shared with its body, which the HTTP library polls.
struct BodyProgress {
    in_flight: BytesInFlight,
    /// Why the body could not be read to its end.
    failed: OnceLock<io::Error>,
}

fn pieces(
    file: Arc<File>,
    size: u64,
    sending: Arc<BodyProgress>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(0, move |at| {
        let (file, sending) = (file.clone(), sending.clone());
        async move {
            if at == size {
                return Ok(None);
            }
            let bytes =
                run_blocking(move || local_fs::read_chunk(&file, at, size)).await.map_err(|error: io::Error| {
                    let same = io::Error::new(error.kind(), error.to_string());
                    let _ = sending.failed.set(error);
                    same
                })?;
            sending.in_flight.add(bytes.len() as u64);
            let next = at + bytes.len() as u64;
            Ok(Some((bytes, next)))
        }
    })
}
