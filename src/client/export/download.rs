//! One file from the drive.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::IF_MATCH;
use reqwest::{Method, Response};
use rowdrive::schema::Timestamp;

use super::plan::{FileJob, TAKEN};
use super::target::Claim;
use crate::cli::local::{self, Found, Hasher, Temporary, Version, blocking};
use crate::cli::remote::patience::{Passing, Patience};
use crate::cli::remote::{Entry, Outlook, Remote, RemoteError};
use crate::cli::transfer::{Tally, UnderWay};

/// Bytes written at a time.
const PIECE: usize = 512 << 10;
/// How often a file is fetched anew that is replaced meanwhile, or does not match its digest.
const TRIES: usize = 3;
/// How often a connection may break in the middle of one file: a server whose content is damaged breaks it each time.
const CUTS: usize = 3;

pub struct Fetcher {
    pub remote: Remote,
    pub patience: Patience,
    pub tally: Arc<Tally>,
}

/// Why a file is not here.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Remote(RemoteError),
    #[error(
        "the connection breaks in the middle of it, again and again. If it does so for this file alone, the file is \
         damaged on the drive: the server's log and `rowdrive check --content` tell. {0}"
    )]
    Broken(RemoteError),
    #[error("it is gone from the drive")]
    Gone,
    #[error("it is replaced on the drive all the time")]
    Replaced,
    #[error("what came does not match its digest")]
    Mismatch,
    #[error("the server gives it another digest than its directory says")]
    Differs,
    #[error("{0} is in the way of the file")]
    InTheWay(&'static str),
    #[error("{TAKEN}")]
    Taken,
    #[error("it cannot be written: {0}")]
    Local(#[from] io::Error),
}

impl From<RemoteError> for FetchError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Refused(refusal) if refusal.kind == "precondition-failed" => Self::Replaced,
            RemoteError::Refused(refusal) if refusal.kind == "not-found" => Self::Gone,
            other => Self::Remote(other),
        }
    }
}

impl FetchError {
    /// What it says of the next file.
    fn outlook(&self) -> Outlook {
        match self {
            Self::Remote(error) => error.outlook(),
            Self::Local(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => {
                    Outlook::Poor
                }
                _ => Outlook::Open,
            },
            Self::Broken(_)
            | Self::Gone
            | Self::Replaced
            | Self::Mismatch
            | Self::Differs
            | Self::InTheWay(_)
            | Self::Taken => Outlook::Open,
        }
    }
}

impl Passing for FetchError {
    fn passes(&self) -> Option<Duration> {
        match self {
            Self::Remote(error) => error.passes(),
            _ => None,
        }
    }
}

impl Fetcher {
    pub async fn job(&self, job: FileJob) {
        if let Err(error) = self.file(&job).await {
            self.tally.fail(format!("{}: {error}", job.shown), error.outlook());
        }
    }

    async fn file(&self, job: &FileJob) -> Result<(), FetchError> {
        let mut entry = job.entry.clone();
        for _ in 1..TRIES {
            match self.once(job, &entry).await {
                Err(FetchError::Replaced | FetchError::Mismatch) => {}
                done => return done,
            }
            let now = self.patience.with(async || self.remote.stat(&job.path).await).await?;
            entry = now.filter(|entry| !entry.is_directory()).ok_or(FetchError::Gone)?;
        }
        self.once(job, &entry).await
    }

    async fn once(&self, job: &FileJob, entry: &Entry) -> Result<(), FetchError> {
        if self.is_here(job, entry).await? {
            self.tally.kept(entry.size);
            return Ok(());
        }
        let mut cuts = 0;
        let fetched = self.patience.with(async || {
            let fetched = self.fetch(job, entry).await;
            cuts += usize::from(matches!(fetched, Err(FetchError::Remote(RemoteError::Cut(..)))));
            match fetched {
                Err(FetchError::Remote(error)) if cuts == CUTS => Err(FetchError::Broken(error)),
                fetched => fetched,
            }
        });
        fetched.await?;
        self.tally.moved(entry.size);
        Ok(())
    }

    /// Whether the very file is there: size and time are compared first, so that only then it is read.
    async fn is_here(&self, job: &FileJob, entry: &Entry) -> Result<bool, FetchError> {
        let (folder, name) = (job.target.folder.clone(), job.local.clone());
        let same = |version: &Version| version.size == entry.size && Some(version.modified()) == entry.modified();
        match blocking(move || folder.find(&name)).await? {
            None => Ok(false),
            Some(Found::Folder) => Err(FetchError::InTheWay("a folder")),
            Some(Found::Other(what)) => Err(FetchError::InTheWay(what)),
            // Even one with the same content: it has come there under another name, which has to stay.
            Some(Found::File(_)) if job.claim == Claim::New => Err(FetchError::Taken),
            Some(Found::File(version)) if same(&version) => {
                let (folder, name) = (job.target.folder.clone(), job.local.clone());
                let file = Arc::new(blocking(move || folder.file(&name)).await?);
                match local::digest(file, entry.size).await {
                    Ok(digest) => Ok(digest == entry.digest),
                    // It has become shorter: it is another one now.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
            Some(Found::File(_)) => Ok(false),
        }
    }

    async fn fetch(&self, job: &FileJob, entry: &Entry) -> Result<(), FetchError> {
        let modified = entry.modified().ok_or_else(|| self.foreign("a time cannot be read"))?;
        let asked = self.remote.about(Method::GET, "fs", (&job.path, false), &[]);
        let response = self.remote.in_time(self.remote.send(asked.header(IF_MATCH, &entry.etag))).await?;
        let digest = response.headers().get("Repr-Digest").and_then(|value| value.to_str().ok());
        match digest {
            None => Err(self.foreign("a file has no digest").into()),
            Some(digest) if digest != entry.digest => Err(FetchError::Differs),
            Some(_) => self.receive(job, entry, modified, response).await,
        }
    }

    /// The content, under its name once it is whole and right.
    async fn receive(
        &self,
        job: &FileJob,
        entry: &Entry,
        modified: Timestamp,
        mut response: Response,
    ) -> Result<(), FetchError> {
        let coming = UnderWay::new(self.tally.clone());
        let mut file: Option<Writing> = None;
        let mut buffer = Vec::new();
        loop {
            let piece = async { response.chunk().await.map_err(|error| self.remote.failed(&error)) };
            let piece = self.remote.in_time(piece).await?;
            if let Some(piece) = &piece {
                buffer.extend_from_slice(piece);
                coming.add(piece.len() as u64);
            }
            if coming.bytes() > entry.size {
                return Err(FetchError::Mismatch);
            }
            if piece.is_some() && buffer.len() < PIECE {
                continue;
            }
            let (bytes, folder, size) = (std::mem::take(&mut buffer), job.target.folder.clone(), entry.size);
            let (name, claim, digest) = (job.local.clone(), job.claim, entry.digest.clone());
            let written = blocking(move || {
                let mut writing = match file {
                    Some(writing) => writing,
                    None => (Temporary::create(folder, size)?, Hasher::default()),
                };
                writing.0.write(&bytes)?;
                writing.1.update(&bytes);
                if piece.is_some() {
                    return Ok(Some(writing));
                }
                let (temporary, hasher) = writing;
                if hasher.digest() != digest {
                    return Err(FetchError::Mismatch);
                }
                match (temporary.place(&name, modified, claim == Claim::Replace), claim) {
                    (Err(error), Claim::New) if error.kind() == io::ErrorKind::AlreadyExists => Err(FetchError::Taken),
                    (placed, _) => Ok(placed.map(|()| None)?),
                }
            });
            match written.await? {
                Some(writing) => file = Some(writing),
                None => return Ok(()),
            }
        }
    }

    fn foreign(&self, what: &str) -> RemoteError {
        RemoteError::Foreign(self.remote.shown().to_owned(), what.to_owned())
    }
}

type Writing = (Temporary, Hasher);
