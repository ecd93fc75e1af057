//! `PUT /v1/fs/<directory>/?unpack=tar`: stores the members of a tar, each as an upload of its own.
//!
//! Members are read one after the other and stored many at a time, so that they share commits. Each has a line of the
//! answer, which is sent when the member is durable, while later members still come in.
//!
//! - [`members`]: reads a member, and stores it; [`order`]: which members must wait for each other;
//!   [`spellings`]: which have the same name after composition
//! - [`lines`]: lines that wait for the client to read them

mod lines;
mod members;
mod order;
mod spellings;

use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tracing::Instrument;

use crate::api::header::OC_MTIME;
use crate::api::problem::ProblemKind;
use crate::api::unpack::{self, EndLine, MEDIA_TYPE, MemberLine, OVERWRITE};
use crate::budget::WAIT;
use crate::drive::UserDrive;
use crate::http::app::{App, MEMBERS};
use crate::http::request::body::{check_end, declared, pieces, refuse_coding};
use crate::http::request::digest::Digests;
use crate::http::request::tar::TarReader;
use crate::http::request::watched::while_writable_below;
use crate::http::request::{Creator, Params, Preconditions};
use crate::http::response::problem::{Problem, Result};
use crate::schema::DrivePath;
use lines::{LineWriter, queue};
use members::{Members, UnpackOptions};

/// The parameter that asks for it.
pub const PARAMETER: &str = unpack::PARAMETER.0;

pub async fn put(
    (app, drive): (&App, &UserDrive),
    path: &DrivePath,
    (creator, preconditions): (Creator, Preconditions),
    params: &Params,
    (version, headers): (Version, &HeaderMap),
    body: Body,
) -> Result<Response> {
    params.choice(PARAMETER, &[(unpack::PARAMETER.1, ())])?;
    let overwrite = params.flag(OVERWRITE, true)?;
    if params.has("parents") {
        return Err(Problem::malformed("Directories of a tar are always made: `parents` does not go with `unpack`."));
    }
    check_end(version, headers)?;
    refuse_coding(headers)?;
    refuse_headers_of_files(headers, &preconditions)?;
    let length = declared(headers, None)?;
    drive.check_below(path).await?;
    let place = place(app).await?;
    // IMPORTANT: the first poll of the body sends `100 Continue`, so it comes before the head of the answer.
    let reader = TarReader::open(while_writable_below(pieces(body, length, None), drive, path)).await?;
    let options = UnpackOptions {
        drive: drive.clone(),
        target: path.clone(),
        creator: creator.0,
        overwrite,
        max_body: app.options.max_body,
        at_once: app.members.clone(),
    };
    let (writer, room, lines) = queue(app.drive.memory().clone());
    let (app, members) = (app.clone(), Members::new(reader, options, room));
    let writing = async move {
        let _place = place;
        Unpacking { app, writer, count: 0, failed: 0, logged: Vec::new() }.run(members).await;
    };
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let body = lines.into_body(tokio::spawn(writing.in_current_span()));
    Ok((headers, body).into_response())
}

/// A place among the tars that are unpacked at the same time. Its memory for headers is not of the budget: it would be
/// held while members wait for theirs.
async fn place(app: &App) -> Result<OwnedSemaphorePermit> {
    let place = tokio::time::timeout(WAIT, app.tars.clone().acquire_owned()).await;
    // Nothing closes the semaphore.
    place.ok().and_then(std::result::Result::ok).ok_or_else(|| {
        Problem::new(ProblemKind::Busy, "Too many tars are being stored: try again, or send the files one by one.")
    })
}

/// What an upload may have, and a tar may not: each would be of the whole body, and its members are many.
fn refuse_headers_of_files(headers: &HeaderMap, preconditions: &Preconditions) -> Result<()> {
    if *preconditions != Preconditions::default() {
        return Err(Problem::malformed("A tar has no precondition: send `overwrite=false` to keep what is there."));
    }
    if headers.contains_key(HeaderName::from_static(OC_MTIME)) {
        return Err(Problem::malformed("The times of its members are in the tar: X-OC-Mtime does not go with it."));
    }
    if !Digests::parse(headers)?.is_empty() {
        return Err(Problem::malformed(
            "Members are stored before the end of the tar is known: send no digest of the whole of it.",
        ));
    }
    Ok(())
}

/// An answer that is being written.
struct Unpacking {
    app: App,
    writer: LineWriter,
    count: u64,
    failed: u64,
    /// The kinds of problems whose cause is logged: on a full disk, all members have the same.
    logged: Vec<ProblemKind>,
}

impl Unpacking {
    /// Stores all members, and writes all lines.
    async fn run<S: Stream<Item = Result<Bytes>> + Send>(mut self, members: Members<S>) {
        let stop = Notify::new();
        let ready = stream::try_unfold(members, |mut members| async {
            Ok(members.next().await?.map(|member| (member, members)))
        });
        let stored = ready.take_until(stop.notified()).map(|member| async {
            match member {
                Ok(member) => Ok(member.store().await),
                Err(problem) => Err(problem),
            }
        });
        // One tar alone may store as many at the same time.
        let mut stored = pin!(stored.buffer_unordered(MEMBERS));
        let mut broken = None;
        while let Some(member) = stored.next().await {
            match member {
                Ok((path, Ok(new))) => self.line(&MemberLine::stored(&path, if new { 201 } else { 200 })),
                Ok((path, Err(problem))) => {
                    self.refused(&path, &problem);
                    if is_final(problem.kind()) {
                        stop.notify_one();
                        broken.get_or_insert(problem);
                    }
                }
                Err(problem) => {
                    broken.get_or_insert(of_tar(problem));
                }
            }
        }
        self.end(broken);
    }

    fn refused(&mut self, path: &str, problem: &Problem) {
        self.failed += 1;
        self.log(problem);
        self.line(&MemberLine::refused(path, problem.kind(), problem.detail()));
    }

    fn log(&mut self, problem: &Problem) {
        if problem.is_damage() {
            self.app.metrics.damage.inc();
        }
        if !self.logged.contains(&problem.kind()) {
            self.logged.push(problem.kind());
            problem.log();
        }
    }

    fn line(&mut self, line: &MemberLine<'_>) {
        self.count += 1;
        self.writer.write(&json(line));
    }

    fn end(mut self, broken: Option<Problem>) {
        let (count, failed) = (self.count, self.failed);
        let line = match &broken {
            None => json(&EndLine::done(count, failed)),
            Some(problem) => {
                self.log(problem);
                json(&EndLine::broken(count, failed, problem.kind(), problem.detail()))
            }
        };
        self.writer.write(&line);
        self.writer.end();
    }
}

fn json(line: &impl Serialize) -> Vec<u8> {
    // Neither a write to memory nor the JSON of a line can fail.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Whether no further change will be accepted, so that the rest of the tar need not be sent.
fn is_final(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::WritesStopped | ProblemKind::ReadOnly | ProblemKind::Closing)
}

/// A problem of a body, as it is said of a tar: some of its members are stored.
fn of_tar(problem: Problem) -> Problem {
    match problem.kind() {
        ProblemKind::BodyCut => {
            problem.with_detail("The tar was not sent whole: what has no line is not stored. Send that again.")
        }
        ProblemKind::SlowClient => problem.with_detail(
            "What has no line is not stored: send the rest without long pauses, and at least 1 KiB a second on average.",
        ),
        _ => problem,
    }
}
