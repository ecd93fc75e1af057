//! The members of a tar, each ready to be stored: files with their content in memory, or in a file of its own.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Bytes;
use futures_util::stream::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lines::LineRoom;
use super::order::{Order, Turn};
use super::spellings::{Spellings, is_name};
use crate::api::problem::ProblemKind;
use crate::drive::{Condition, DriveError, PutError, PutOptions, ReceivedUpload, UserDrive, Versions};
use crate::http::media_type;
use crate::http::request::tar::{Member, MemberKind, TarReader};
use crate::http::response::problem::{Problem, Result};
use crate::schema::path::PATH_BYTES;
use crate::schema::{DrivePath, Name, PathError};

/// Bytes of the paths of the members of one tar that are under way.
const PATHS: usize = 128 << 10;

/// What is the same for all members.
#[derive(Clone)]
pub struct UnpackOptions {
    pub drive: UserDrive,
    /// The directory that gets them.
    pub target: DrivePath,
    pub creator: String,
    pub overwrite: bool,
    /// Bytes of a file.
    pub max_body: Option<u64>,
    /// A permit for each member that is stored at the same time, of all tars.
    pub at_once: Arc<Semaphore>,
}

/// Reads the members.
pub struct Members<S> {
    reader: TarReader<S>,
    options: UnpackOptions,
    order: Order,
    spellings: Spellings,
    paths: Arc<Semaphore>,
    room: LineRoom,
}

/// A member that is ready to be stored.
pub struct ReadyMember {
    /// Its path as its line shows it.
    line_path: String,
    work: Work,
    /// None if it is refused by its name or its kind.
    turn: Option<Turn>,
    at_once: Arc<Semaphore>,
    _path: Option<OwnedSemaphorePermit>,
}

enum Work {
    File(Box<ReceivedUpload>),
    Directory(UserDrive, DrivePath, String),
    Refused(Problem),
}

impl<S: Stream<Item = Result<Bytes>> + Send> Members<S> {
    pub fn new(reader: TarReader<S>, options: UnpackOptions, room: LineRoom) -> Self {
        let (order, spellings) = (Order::default(), Spellings::default());
        Self { reader, options, order, spellings, paths: Arc::new(Semaphore::new(PATHS)), room }
    }

    /// The next member; none at the end of the tar. The content of a file is read here.
    ///
    /// Errors: the tar is cut or malformed, or there is no memory for its line or its name.
    pub async fn next(&mut self) -> Result<Option<ReadyMember>> {
        self.room.wait().await?;
        let Some(member) = self.reader.next().await? else { return Ok(None) };
        let parsed = self.path_of(&member).await?;
        let line_path = match &parsed {
            Ok(path) => path.as_str().to_owned(),
            Err(_) => shown(&self.options.target, &member.name),
        };
        let bytes = u32::try_from(line_path.len().min(PATHS)).unwrap_or(u32::MAX);
        // This fails only if the semaphore is closed, and nothing closes it.
        let _path = self.paths.clone().acquire_many_owned(bytes).await.ok();
        let (work, turn) = match parsed {
            Err(problem) => (Work::Refused(problem), None),
            Ok(path) => {
                let turn = self.order.begin(&path, member.kind == MemberKind::Directory);
                (self.work(member, path).await?, Some(turn))
            }
        };
        Ok(Some(ReadyMember { line_path, work, turn, at_once: self.options.at_once.clone(), _path }))
    }

    /// The path of a member, or why it is refused by its name.
    ///
    /// Errors: there is no memory for its name.
    async fn path_of(&mut self, member: &Member) -> Result<Result<DrivePath>> {
        let Self { options: UnpackOptions { drive, target, .. }, spellings, .. } = self;
        let (name, path) = match path_of(target, member) {
            Err(problem) => return Ok(Err(problem)),
            Ok(parsed) => parsed,
        };
        let is_twin = member.kind == MemberKind::File && spellings.differs(&path, name, &drive.memory()).await?;
        Ok(if is_twin { Err(twin()) } else { Ok(path) })
    }

    async fn work(&mut self, member: Member, path: DrivePath) -> Result<Work> {
        let UnpackOptions { drive, creator, overwrite, max_body, .. } = &self.options;
        match member.kind {
            MemberKind::Directory => return Ok(Work::Directory(drive.clone(), path, creator.clone())),
            MemberKind::Other(what) => return Ok(Work::Refused(not_stored(what))),
            MemberKind::File => {}
        }
        if let Some(limit) = max_body.filter(|limit| member.size > *limit) {
            return Ok(Work::Refused(Problem::too_large(limit)));
        }
        let (modified, digest) = match (member.modified, member.digest) {
            (Ok(modified), Ok(digest)) => (modified, digest),
            (Err(problem), _) | (_, Err(problem)) => return Ok(Work::Refused(problem)),
        };
        let options = PutOptions {
            modified: Some(modified),
            condition: Condition { if_match: None, if_none_match: (!overwrite).then_some(Versions::Any) },
            length: Some(member.size),
            digests: digest.into_iter().collect(),
            ..PutOptions::new(media_type::guess(path.last()), creator)
        };
        match drive.receive(&path, options, self.reader.content()).await {
            Ok(received) => Ok(Work::File(Box::new(received))),
            Err(PutError::Drive(error)) => Ok(Work::Refused(error.into())),
            Err(PutError::Body(problem)) => Err(problem),
        }
    }
}

impl ReadyMember {
    /// Stores it, after the earlier members of its path. Returns its path, and whether it is new.
    pub async fn store(mut self) -> (String, Result<bool>) {
        if let Some(turn) = &mut self.turn {
            turn.come().await;
        }
        // IMPORTANT: after the turn. A tar whose members wait for each other would else take all permits from other tars.
        // This fails only if the semaphore is closed, and nothing closes it.
        let _permit = self.at_once.acquire_owned().await.ok();
        let stored = match self.work {
            // In a box: else the future of each member that waits for its turn would be as large as this one.
            Work::File(received) => Box::pin(received.store()).await.map_err(not_replaced),
            Work::Directory(drive, path, creator) => drive.mkdir(&path, &creator, true).await.map_err(Problem::from),
            Work::Refused(problem) => Err(problem),
        };
        (self.line_path, stored.map(|written| written.new))
    }
}

/// Why a file is not stored. The only condition of a member is that there is no file of its name.
fn not_replaced(error: DriveError) -> Problem {
    let problem = Problem::from(error);
    match problem.kind() {
        ProblemKind::Precondition => {
            problem.with_detail("A file of this name is there, and `overwrite=false` leaves it as it is.")
        }
        _ => problem,
    }
}

fn not_stored(what: &str) -> Problem {
    Problem::malformed(format!("The member is {what}: a drive has files and directories only."))
}

fn twin() -> Problem {
    Problem::malformed(
        "Another file of the tar has the same name but for its composition (Unicode NFC), and on the drive both would be \
         one file: rename one of them.",
    )
}

/// The name of a member, and its path.
fn path_of<'a>(target: &DrivePath, member: &'a Member) -> Result<(&'a str, DrivePath)> {
    let name = std::str::from_utf8(&member.name).map_err(|_| {
        Problem::malformed("The member's name is not UTF-8: rename it, or make a tar with pax headers.")
    })?;
    if name.starts_with('/') {
        return Err(Problem::malformed("The member's name starts with a slash: make the tar without `-P`."));
    }
    if name.len() > 4 * PATH_BYTES {
        return Err(PathError::TooLong(name.len()).into());
    }
    let below = name.split('/').filter(|part| is_name(part)).map(Name::parse);
    let names = target.names().map(Ok).chain(below).collect::<std::result::Result<Vec<_>, PathError>>()?;
    if names.len() == target.levels() && member.kind != MemberKind::Directory {
        return Err(PathError::EmptyName.into());
    }
    Ok((name, DrivePath::from_names(&names)?))
}

/// What the line of a member shows if its name is refused.
fn shown(target: &DrivePath, name: &[u8]) -> String {
    let base = if target.is_root() { "" } else { target.as_str() };
    let text: Cow<'_, str> = String::from_utf8_lossy(name);
    [base, "/"].into_iter().flat_map(str::chars).chain(text.chars().take(PATH_BYTES)).collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_member_that_waits_for_its_turn_leaves_permits_to_other_tars() {
        let (at_once, path) = (Arc::new(Semaphore::new(1)), DrivePath::parse("/a").unwrap());
        let mut order = Order::default();
        let [first, second] = [(); 2].map(|()| order.begin(&path, false));
        let work = Work::Refused(twin());
        let member =
            ReadyMember { line_path: "/a".into(), work, turn: Some(second), at_once: at_once.clone(), _path: None };
        let mut stored = Box::pin(member.store());
        assert!((&mut stored).now_or_never().is_none());
        assert_eq!(at_once.available_permits(), 1);
        drop(first);
        assert!(stored.await.1.is_err());
    }
}
