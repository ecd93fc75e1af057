//! Downloads one file.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::IF_MATCH;
use reqwest::{Method, Response};
use rowdrive::api::entry::EntryJson;
use rowdrive::api::header::REPR_DIGEST;
use rowdrive::api::path;
use rowdrive::api::problem::ProblemKind;
use rowdrive::schema::Timestamp;

use super::plan::{FileDownload, TAKEN};
use super::target::Claim;
use crate::client::overwrite::{Decision, OTHER_FILE, decide, note_left};
use crate::client::retry::{RetryPolicy, Retryable};
use crate::client::stats::{BytesInFlight, TransferStats};
use crate::client::{ClientError, DriveClient, FailureScope};
use crate::local_fs::{self, FileStamp, FsEntry, Hasher, TemporaryFile, run_blocking};

/// Bytes written at a time.
const PIECE: usize = 512 << 10;
/// Attempts for a file that is replaced meanwhile, does not match its digest, or whose name is taken meanwhile.
const TRIES: usize = 3;
/// How often the connection may break in the middle of one file: if its content is damaged, the server breaks it each
/// time.
const CUTS: usize = 3;

pub struct Downloader {
    pub client: DriveClient,
    pub retry: RetryPolicy,
    pub stats: Arc<TransferStats>,
    /// Whether local files with other content are replaced.
    pub overwrite: bool,
}

/// Why a file was not downloaded.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Client(ClientError),
    #[error(
        "the connection breaks in the middle of it, again and again. If it does so for this file alone, the file is \
         damaged on the drive: see the server's log, or run `rowdrive check --content`. {0}"
    )]
    Broken(ClientError),
    #[error("it is gone from the drive")]
    Gone,
    #[error("it is replaced on the drive all the time")]
    Replaced,
    #[error("the received content does not match its digest")]
    Mismatch,
    #[error("its digest differs from that in the list of its directory")]
    Differs,
    #[error("{0} is in the way of the file")]
    InTheWay(&'static str),
    #[error("{TAKEN}")]
    Taken,
    #[error("in the local folder files of this name come and go")]
    Appeared,
    #[error("it cannot be written: {0}")]
    Local(#[from] io::Error),
}

impl From<ClientError> for FetchError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) if problem.is(ProblemKind::Precondition) => Self::Replaced,
            ClientError::Problem(problem) if problem.is(ProblemKind::NotFound) => Self::Gone,
            other => Self::Client(other),
        }
    }
}

impl FetchError {
    /// Whether other files are likely to fail too.
    fn scope(&self) -> FailureScope {
        match self {
            Self::Client(error) => error.scope(),
            Self::Local(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => {
                    FailureScope::Shared
                }
                _ => FailureScope::Item,
            },
            Self::Broken(_)
            | Self::Gone
            | Self::Replaced
            | Self::Mismatch
            | Self::Differs
            | Self::InTheWay(_)
            | Self::Taken
            | Self::Appeared => FailureScope::Item,
        }
    }
}

impl Retryable for FetchError {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Client(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl Downloader {
    pub async fn job(&self, job: FileDownload) {
        if let Err(error) = self.file(&job).await {
            self.stats.fail(format!("{}: {error}", job.shown), error.scope());
        }
    }

    async fn file(&self, job: &FileDownload) -> Result<(), FetchError> {
        let mut entry = job.entry.clone();
        for _ in 1..TRIES {
            match self.once(job, &entry).await {
                Err(FetchError::Replaced | FetchError::Mismatch | FetchError::Appeared) => {}
                done => return done,
            }
            let now = self.retry.run(async || self.client.stat(&job.path).await).await?;
            entry = now.filter(|entry| !entry.is_directory()).ok_or(FetchError::Gone)?;
        }
        self.once(job, &entry).await
    }

    async fn once(&self, job: &FileDownload, entry: &EntryJson<'static>) -> Result<(), FetchError> {
        match self.decide(job, entry).await? {
            Decision::Present => {
                self.stats.kept(entry.bytes());
                return Ok(());
            }
            Decision::Skip => return Ok(()),
            Decision::Transfer => {}
        }
        let mut cuts = 0;
        let fetched = self.retry.run(async || {
            let fetched = self.fetch(job, entry).await;
            cuts += usize::from(matches!(fetched, Err(FetchError::Client(ClientError::ConnectionLost(..)))));
            match fetched {
                Err(FetchError::Client(error)) if cuts == CUTS => Err(FetchError::Broken(error)),
                fetched => fetched,
            }
        });
        if fetched.await? {
            self.stats.replaced();
        }
        self.stats.moved(entry.bytes());
        Ok(())
    }

    /// Compares the file with what has its name in the local folder. Names what is left as it is.
    async fn decide(&self, job: &FileDownload, entry: &EntryJson<'static>) -> Result<Decision, FetchError> {
        let (folder, name) = (job.target.folder.clone(), job.local.clone());
        let Some(found) = run_blocking(move || folder.lookup(&name)).await? else {
            return Ok(Decision::Transfer);
        };
        // Even with equal content: this run has written it, under another name of the drive.
        let is_of_run = job.claim == Claim::New && (self.overwrite || !self.is_listed(job).await?);
        let (what, decision) = match found {
            FsEntry::File(_) if is_of_run => return Err(FetchError::Taken),
            FsEntry::File(version) => {
                (OTHER_FILE, decide(Some(self.is_same(job, entry, &version).await?), self.overwrite))
            }
            FsEntry::Folder => ("a folder", Decision::Skip),
            FsEntry::Other(what) => (what, Decision::Skip),
        };
        if decision == Decision::Skip {
            if self.overwrite || is_of_run {
                return Err(FetchError::InTheWay(what));
            }
            note_left(&self.stats, &job.shown, "the local folder", what);
        }
        Ok(decision)
    }

    /// Whether the folder lists exactly this name. If it does not, its file system treats another name as the same.
    async fn is_listed(&self, job: &FileDownload) -> Result<bool, FetchError> {
        let (target, name) = (job.target.clone(), job.local.clone());
        Ok(run_blocking(move || target.lists(&name)).await?)
    }

    /// Whether a local file has the content and the time of the drive's. Reads it for its digest only if size and time
    /// are equal.
    async fn is_same(
        &self,
        job: &FileDownload,
        entry: &EntryJson<'static>,
        version: &FileStamp,
    ) -> Result<bool, FetchError> {
        if version.size != entry.bytes() || Some(version.modified()) != entry.modified_time() {
            return Ok(false);
        }
        let (folder, name) = (job.target.folder.clone(), job.local.clone());
        let file = Arc::new(run_blocking(move || folder.open_file(&name)).await?);
        match local_fs::file_digest(file, entry.bytes()).await {
            Ok(digest) => Ok(Some(digest) == entry.digest),
            // The file was truncated meanwhile: it is not the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether it has replaced a file.
    async fn fetch(&self, job: &FileDownload, entry: &EntryJson<'static>) -> Result<bool, FetchError> {
        let modified = entry.modified_time().ok_or_else(|| self.foreign("a time cannot be read"))?;
        let request = self.client.path_request(Method::GET, path::FS, (&job.path, false), &[]);
        let response = self
            .client
            .with_timeout(self.client.send(request.header(IF_MATCH, entry.etag.as_deref().unwrap_or_default())))
            .await?;
        let digest = response.headers().get(REPR_DIGEST).and_then(|value| value.to_str().ok());
        match digest {
            None => Err(self.foreign("a file has no digest").into()),
            Some(digest) if Some(digest) != entry.digest.as_deref() => Err(FetchError::Differs),
            Some(_) => self.receive(job, entry, modified, response).await,
        }
    }

    /// Writes the content to a temporary file, and renames it once its digest is verified. Returns whether that has
    /// replaced a file.
    async fn receive(
        &self,
        job: &FileDownload,
        entry: &EntryJson<'static>,
        modified: Timestamp,
        mut response: Response,
    ) -> Result<bool, FetchError> {
        let in_flight = BytesInFlight::new(self.stats.clone());
        let mut file: Option<PartialFile> = None;
        let mut buffer = Vec::new();
        loop {
            let piece = async { response.chunk().await.map_err(|error| self.client.transport_error(&error)) };
            let piece = self.client.with_timeout(piece).await?;
            if let Some(piece) = &piece {
                buffer.extend_from_slice(piece);
                in_flight.add(piece.len() as u64);
            }
            if in_flight.bytes() > entry.bytes() {
                return Err(FetchError::Mismatch);
            }
            if piece.is_some() && buffer.len() < PIECE {
                continue;
            }
            let (bytes, folder, size) = (std::mem::take(&mut buffer), job.target.folder.clone(), entry.bytes());
            let publication = piece.is_none().then(|| self.publication(job, entry, modified));
            let written = run_blocking(move || {
                let mut partial = match file {
                    Some(partial) => partial,
                    None => (TemporaryFile::create(folder, size)?, Hasher::default()),
                };
                partial.0.write(&bytes)?;
                partial.1.update(&bytes);
                match publication {
                    Some(publication) => publication.publish(partial).map(ControlFlow::Break),
                    None => Ok(ControlFlow::Continue(partial)),
                }
            });
            match written.await? {
                ControlFlow::Continue(partial) => file = Some(partial),
                ControlFlow::Break(has_replaced) => return Ok(has_replaced),
            }
        }
    }

    fn publication(&self, job: &FileDownload, entry: &EntryJson<'static>, modified: Timestamp) -> Publication {
        let (name, digest, overwrite) = (job.local.clone(), entry.digest.clone(), self.overwrite);
        Publication { name, digest, modified, overwrite, claim: job.claim }
    }

    fn foreign(&self, what: &str) -> ClientError {
        ClientError::UnexpectedAnswer(self.client.display_url().to_owned(), what.to_owned())
    }
}

type PartialFile = (TemporaryFile, Hasher);

/// How a file gets its name.
struct Publication {
    name: OsString,
    /// That of the drive.
    digest: Option<String>,
    modified: Timestamp,
    overwrite: bool,
    claim: Claim,
}

impl Publication {
    /// Names a file if it has the right content. Returns whether that has replaced a file. Blocks.
    fn publish(self, (temporary, hasher): PartialFile) -> Result<bool, FetchError> {
        if Some(hasher.digest()) != self.digest {
            return Err(FetchError::Mismatch);
        }
        let replace = self.overwrite && self.claim == Claim::Replace;
        temporary.place(&self.name, self.modified, replace).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists if !self.overwrite => FetchError::Appeared,
            io::ErrorKind::AlreadyExists if !replace => FetchError::Taken,
            _ => error.into(),
        })
    }
}
