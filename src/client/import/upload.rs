//! One file to the drive.
//!
//! A file is read twice, or once if it is small: first its SHA-256 is taken, then it is sent with it. So the server
//! refuses what was changed in between before any of it is visible, and the version that the drive had stays; a
//! digest that is compared only with the answer would find a wrong version in place.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method};

use super::plan::{FileJob, Job};
use crate::cli::local::{self, Folder, Hasher, Version, blocking};
use crate::cli::remote::patience::{Passing, Patience};
use crate::cli::remote::{Entry, Outlook, Remote, RemoteError, SILENCE};
use crate::cli::transfer::{Tally, UnderWay};

/// Up to so many bytes, a file is sent from memory.
const SMALL: u64 = 256 << 10;
/// How often a file is read anew that changes while it is read.
const READINGS: usize = 2;

pub struct Sender {
    pub remote: Remote,
    pub patience: Patience,
    pub tally: Arc<Tally>,
}

/// Why a file is not on the drive.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("it cannot be read: {0}")]
    Local(io::Error),
    #[error("it changes while it is read")]
    Changed,
    #[error("the server has stored other bytes than were sent")]
    Other,
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        // It is shorter than it was.
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Changed } else { Self::Local(error) }
    }
}

impl Passing for SendError {
    fn passes(&self) -> Option<Duration> {
        match self {
            Self::Remote(error) => error.passes(),
            Self::Local(_) | Self::Changed | Self::Other => None,
        }
    }
}

/// A file that was read, and what was read.
struct Reading {
    content: Content,
    version: Version,
    digest: String,
}

enum Content {
    Small(Bytes),
    Large(Arc<File>),
}

impl Sender {
    pub async fn job(&self, job: Job) {
        match job {
            Job::Make(path) => {
                let made = self.patience.with(async || {
                    let asked = self.remote.about(Method::PUT, "fs", (&path, true), &[]);
                    self.remote.in_time(self.remote.send(asked)).await
                });
                match made.await {
                    Ok(_) => self.tally.made_folder(),
                    Err(error) => self.tally.fail(format!("the folder {path}: {error}"), error.outlook()),
                }
            }
            Job::File(job) => match self.file(&job).await {
                Ok(()) => {}
                Err(error) => {
                    let outlook = match &error {
                        SendError::Remote(error) => error.outlook(),
                        SendError::Local(_) | SendError::Changed | SendError::Other => Outlook::Open,
                    };
                    self.tally.fail(format!("{}: {error}", job.shown), outlook);
                }
            },
        }
    }

    async fn file(&self, job: &FileJob) -> Result<(), SendError> {
        let mut readings = 0;
        loop {
            readings += 1;
            match self.once(job).await {
                Err(SendError::Changed) if readings < READINGS => {}
                done => return done,
            }
        }
    }

    async fn once(&self, job: &FileJob) -> Result<(), SendError> {
        let reading = self.read(job).await?;
        let Reading { version, digest, .. } = &reading;
        let is_there = job.there.as_ref().is_some_and(|there| {
            (there.size, there.modified, &there.digest) == (version.size, Some(version.modified()), digest)
        });
        if is_there {
            self.tally.kept(version.size);
            return Ok(());
        }
        let stored = self.patience.with(async || self.put(job, &reading).await).await?;
        if stored.digest != *digest || stored.size != version.size {
            return Err(SendError::Other);
        }
        self.tally.moved(version.size);
        Ok(())
    }

    async fn read(&self, job: &FileJob) -> Result<Reading, SendError> {
        let (folder, name) = (job.folder.clone(), job.local.clone());
        let (file, version, small) = blocking(move || open(&folder, &name)).await?;
        if let Some((bytes, digest)) = small {
            return Ok(Reading { content: Content::Small(bytes), version, digest });
        }
        let digest = local::digest(file.clone(), version.size).await?;
        if local::version(&file)? != version {
            return Err(SendError::Changed);
        }
        Ok(Reading { content: Content::Large(file), version, digest })
    }

    async fn put(&self, job: &FileJob, reading: &Reading) -> Result<Entry, SendError> {
        let Reading { content, version, digest } = reading;
        let modified = version.modified().rfc3339();
        let asked = self.remote.about(Method::PUT, "fs", (&job.path, false), &[("modified", &modified)]);
        let asked = asked.header("Repr-Digest", digest);
        let stored = match content {
            Content::Small(bytes) => self.remote.in_time(self.remote.json(asked.body(bytes.clone()))).await,
            Content::Large(file) => {
                let under_way = UnderWay::new(self.tally.clone());
                let sending = Arc::new(Sending { under_way, failed: OnceLock::new() });
                let body = Body::wrap_stream(pieces(file.clone(), version.size, sending.clone()));
                let asked = asked.header(CONTENT_LENGTH, version.size).body(body);
                let stored = self.while_sending(&sending, self.remote.json(asked)).await;
                if let Some(error) = sending.failed.get() {
                    return Err(io::Error::new(error.kind(), error.to_string()).into());
                }
                stored
            }
        };
        match stored {
            Err(RemoteError::Refused(refusal)) if refusal.kind == "digest-mismatch" => Err(SendError::Changed),
            stored => Ok(stored?),
        }
    }

    /// Gives up when neither the body nor the answer moves.
    async fn while_sending<T>(
        &self,
        sending: &Sending,
        answer: impl Future<Output = Result<T, RemoteError>>,
    ) -> Result<T, RemoteError> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let before = sending.under_way.bytes();
            match tokio::time::timeout(SILENCE, &mut answer).await {
                Ok(answer) => return answer,
                Err(_) if sending.under_way.bytes() == before => return Err(self.remote.silent()),
                Err(_) => {}
            }
        }
    }
}

type Small = Option<(Bytes, String)>;

/// Opens a file, and reads it if it is small.
fn open(folder: &Folder, name: &OsStr) -> Result<(Arc<File>, Version, Small), SendError> {
    let mut file = folder.file(name)?;
    let version = local::version(&file)?;
    if version.size > SMALL {
        return Ok((Arc::new(file), version, None));
    }
    let mut bytes = Vec::with_capacity(version.size as usize + 1);
    Read::by_ref(&mut file).take(SMALL + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != version.size || local::version(&file)? != version {
        return Err(SendError::Changed);
    }
    let digest = Hasher::of(&bytes);
    Ok((Arc::new(file), version, Some((bytes.into(), digest))))
}

/// An upload, as its body is polled elsewhere.
struct Sending {
    under_way: UnderWay,
    /// Why the body could not be read to its end.
    failed: OnceLock<io::Error>,
}

fn pieces(file: Arc<File>, size: u64, sending: Arc<Sending>) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(0, move |at| {
        let (file, sending) = (file.clone(), sending.clone());
        async move {
            if at == size {
                return Ok(None);
            }
            let bytes = blocking(move || local::piece(&file, at, size)).await.map_err(|error: io::Error| {
                let same = io::Error::new(error.kind(), error.to_string());
                let _ = sending.failed.set(error);
                same
            })?;
            sending.under_way.add(bytes.len() as u64);
            let next = at + bytes.len() as u64;
            Ok(Some((bytes, next)))
        }
    })
}
