//! A client: it asks, and notes what it heard.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};
use rowdrive::content::ContentError;
use rowdrive::drive::{
    Condition, Drive, DriveError, FilesAsk, FindAsk, ListAsk, Made, Node, PutOptions, Result, StoreError, Versions,
};
use rowdrive::schema::time::Clock;
use rowdrive::schema::{DrivePath, FileId};

use super::history::{Entry, Seen, What};
use super::work::Op;
use super::world::World;
use crate::drive::model::Op as Change;

/// All clients of one life of the process.
pub struct Clients {
    pub world: Arc<World>,
    pub drive: Drive,
    history: Mutex<Vec<Entry>>,
}

/// What an answer tells.
enum Answer<T> {
    Done(T),
    /// It was not done, since it could not be.
    Refused,
    /// It was not done.
    Nothing,
    /// It may have been done, or not.
    Unknown,
}

pub fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).unwrap()
}

/// The bytes of a version: its size tells it from others, and so does every part of it.
pub fn bytes(size: usize) -> Bytes {
    let word = |at: u64| (size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut bytes: Vec<u8> = (0..size.div_ceil(8) as u64).flat_map(|at| word(at).to_le_bytes()).collect();
    bytes.truncate(size);
    bytes.into()
}

pub fn seen(node: &Node) -> Seen {
    match node {
        Node::File { entry, .. } => Seen::File(entry.attributes.size as usize),
        Node::Directory { .. } => Seen::Directory,
    }
}

impl Clients {
    pub fn new(world: Arc<World>, drive: Drive) -> Self {
        Self { world, drive, history: Mutex::default() }
    }

    fn history(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.history.lock().unwrap()
    }

    pub fn take_history(&self) -> Vec<Entry> {
        std::mem::take(&mut self.history())
    }

    /// Something is asked: a change may happen from now on.
    fn call(&self, what: What) -> usize {
        let called = self.world.event();
        self.history().push(Entry { what, called, answered: None });
        self.history().len() - 1
    }

    /// It was answered.
    fn answer(&self, at: usize, what: What) {
        if !self.world.is_dead() {
            let answered = Some(self.world.event());
            let entry = &mut self.history()[at];
            (entry.what, entry.answered) = (what, answered);
        }
    }

    /// What was seen since `called`.
    fn saw(&self, called: u64, what: What) {
        if !self.world.is_dead() {
            let answered = Some(self.world.event());
            self.history().push(Entry { what, called, answered });
        }
    }

    pub async fn run(&self, number: usize, op: Op) {
        self.world.pass("client", || format!("{number}")).await;
        self.world.note(|| format!("client {number} asks {op:?}"));
        if self.world.faults().leave && self.world.chance(100) {
            let patience = Duration::from_millis(self.world.below(30));
            let _ = tokio::time::timeout(patience, self.ask(op)).await;
        } else {
            self.ask(op).await;
        }
        self.world.note(|| format!("client {number} is answered: {op:?}"));
    }

    async fn ask(&self, op: Op) {
        match op {
            Op::Change(Change::Copy(from, to, overwrite)) => self.copy(from, to, overwrite).await,
            Op::Change(change) => self.change(change).await,
            Op::Replace(at, size) => self.replace(at, size).await,
            Op::Stat(at) => {
                let called = self.world.event();
                match self.heard(self.drive.stat(&path(at)).await.map(|node| seen(&node))) {
                    Answer::Done(seen) => self.saw(called, What::Saw(at.into(), Some(seen))),
                    Answer::Refused => self.saw(called, What::Saw(at.into(), None)),
                    _ => {}
                }
            }
            Op::Read(at) => self.read(at).await,
            Op::List(at, limit) => self.list(at, limit).await,
            Op::Time(under, limit) => self.by_time(under, limit).await,
            Op::Name(under, limit) => self.by_name(under, limit).await,
        }
    }

    async fn change(&self, change: Change) {
        let at = self.call(What::Did(change, None));
        let drive = &self.drive;
        let made = |made: Made| Some(made.new);
        let done = match change {
            Change::Put(to, size) => self.put(to, size, Condition::default()).await.map(made),
            Change::New(to, size) => {
                let condition = Condition { if_none_match: Some(Versions::Any), if_match: None };
                self.put(to, size, condition).await.map(made)
            }
            Change::Mkdir(to) => drive.mkdir(&path(to), "eva", true).await.map(made),
            Change::Rmdir(to) => drive.rmdir(&path(to)).await.map(|()| None),
            Change::Delete(to) => drive.delete(&path(to), &Condition::default()).await.map(|()| None),
            Change::Remove(to) => drive.delete_subtree(&path(to)).await.map(|()| None),
            Change::Move(from, to, overwrite) => drive.move_node(&path(from), &path(to), overwrite).await.map(made),
            Change::Copy(..) => return,
        };
        // A subtree operation that gave up cannot always tell whether it happened.
        let subtree = matches!(change, Change::Remove(_) | Change::Move(..));
        let gave_up = matches!(done, Err(DriveError::Contended)) && subtree;
        match self.heard(done) {
            _ if gave_up => {}
            Answer::Done(new) => self.answer(at, What::Did(change, new)),
            Answer::Refused => self.answer(at, What::Refused(change)),
            Answer::Nothing => self.answer(at, What::Nothing),
            Answer::Unknown => {}
        }
    }

    async fn put(&self, to: &str, size: usize, condition: Condition) -> Result<Made> {
        let mut upload = self.drive.upload();
        let bytes = bytes(size);
        for chunk in bytes.chunks(200_000) {
            upload.write(bytes.slice_ref(chunk)).await?;
            self.world.pass("upload", String::new).await;
        }
        let (mime, creator) = ("image/png".to_owned(), "eva".to_owned());
        let options = PutOptions { mime, creator, modified: None, parents: true, condition };
        self.drive.put(&path(to), upload.finish().await?, options).await
    }

    async fn replace(&self, to: &'static str, size: usize) {
        let called = self.world.event();
        let Answer::Done(Node::File { entry, .. }) = self.heard(self.drive.stat(&path(to)).await) else { return };
        let old = entry.attributes.size as usize;
        self.saw(called, What::Saw(to.into(), Some(Seen::File(old))));
        let at = self.call(What::Replaced(to, old, size));
        let condition = Condition { if_match: Some(Versions::These(vec![entry.id])), if_none_match: None };
        match self.heard(self.put(to, size, condition).await) {
            Answer::Done(_) => self.answer(at, What::Replaced(to, old, size)),
            Answer::Refused | Answer::Nothing => self.answer(at, What::Nothing),
            Answer::Unknown => {}
        }
    }

    async fn copy(&self, from: &'static str, to: &'static str, overwrite: bool) {
        let copy = |version| What::Copied { to, overwrite, version };
        let at = self.call(copy(None));
        let called = self.history()[at].called;
        match self.heard(self.drive.copy_node(&path(from), &path(to), overwrite, "eva").await) {
            Answer::Done((Made { node: Node::File { entry, .. }, new }, _)) => {
                let version = entry.attributes.size as usize;
                self.answer(at, copy(Some((version, new))));
                self.saw(called, What::Saw(from.into(), Some(Seen::File(version))));
            }
            Answer::Done(_) => self.world.wrong(format!("{from} was copied as a directory")),
            Answer::Refused => self.answer(at, What::Refused(Change::Copy(from, to, overwrite))),
            Answer::Nothing => self.answer(at, What::Nothing),
            Answer::Unknown => {}
        }
    }

    async fn read(&self, at: &'static str) {
        let called = self.world.event();
        let opened = match self.heard(self.drive.open_file(&path(at)).await) {
            Answer::Done(opened) => opened,
            // A directory is no answer to be held to: whether one is there, others ask.
            _ => return,
        };
        let size = opened.entry.attributes.size as usize;
        self.saw(called, What::Saw(at.into(), Some(Seen::File(size))));
        let expected = bytes(size);
        let (one, other) = (self.world.below(size as u64 + 1), self.world.below(size as u64 + 1));
        let (from, to) = if one.is_multiple_of(2) { (0, size as u64) } else { (one.min(other), one.max(other)) };
        let stream = opened.body.stream(from, to);
        pin_mut!(stream);
        let mut at = from as usize;
        while let Some(chunk) = stream.next().await {
            match self.heard(chunk.map_err(DriveError::from)) {
                Answer::Done(chunk) if expected.get(at..at + chunk.len()) == Some(&*chunk) => at += chunk.len(),
                Answer::Done(_) => return self.world.wrong(format!("{size} bytes: others at {at}")),
                _ => return,
            }
        }
        if at != to as usize {
            self.world.wrong(format!("{size} bytes: {from}..{to} ends at {at}"));
        }
    }

    async fn list(&self, at: &'static str, limit: usize) {
        let mut after: Option<Bytes> = None;
        for _ in 0..4 {
            let called = self.world.event();
            let ask = ListAsk { kind: None, prefix: String::new(), after: after.clone(), limit };
            let text = after.map(|after| String::from_utf8(after.to_vec()).unwrap());
            let page = match self.heard(self.drive.list(&path(at), &ask).await) {
                Answer::Done(listing) => listing,
                Answer::Refused => return self.saw(called, What::Page { at, after: text, limit, page: None }),
                _ => return,
            };
            let entry = |node: &Node| {
                let name = node.path().split().unwrap().1;
                (format!("{}_{name}", if node.is_directory() { "d" } else { "f" }), seen(node))
            };
            let entries = page.nodes.iter().map(entry).collect();
            self.saw(called, What::Page { at, after: text, limit, page: Some((entries, page.next.is_some())) });
            if page.next.is_none() {
                return;
            }
            after = page.next;
        }
    }

    async fn by_time(&self, under: &str, limit: usize) {
        let called = self.world.event();
        let under = Some(path(under)).filter(|_| limit > 1);
        let clock = if limit.is_multiple_of(2) { Clock::Modified } else { Clock::Added };
        let ask = FilesAsk { under, limit, ..all_by_time(clock) };
        if let Answer::Done(found) = self.heard(self.drive.files(&ask).await) {
            self.no_file_twice(&found.nodes);
            self.found(called, &found.nodes);
        }
    }

    async fn by_name(&self, under: &str, limit: usize) {
        let called = self.world.event();
        let under = Some(path(under)).filter(|_| limit > 1);
        let ask = FindAsk { under, limit, ..all_by_name() };
        if let Answer::Done(found) = self.heard(self.drive.find(&ask).await) {
            self.found(called, &found.nodes);
        }
    }

    /// A file has one row for each time, so that a query by time shows it once.
    fn no_file_twice(&self, nodes: &[Node]) {
        let id = |node: &Node| match node {
            Node::File { entry, .. } => Some(entry.id),
            Node::Directory { .. } => None,
        };
        let mut ids: Vec<FileId> = nodes.iter().filter_map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() != nodes.len() {
            self.world.wrong(format!("a query shows a file twice, or a directory: {nodes:?}"));
        }
    }

    /// Each file that a query shows was there at some instant.
    fn found(&self, called: u64, nodes: &[Node]) {
        for node in nodes.iter().take(2) {
            self.saw(called, What::Saw(node.path().to_string(), Some(seen(node))));
        }
    }

    /// What an answer means. One that the drive never gives is wrong.
    fn heard<T>(&self, answer: Result<T>) -> Answer<T> {
        let faults = self.world.faults();
        let error = match answer {
            Ok(done) => return Answer::Done(done),
            Err(error) => error,
        };
        self.world.note(|| format!("{error:?}"));
        match error {
            DriveError::NotFound
            | DriveError::ParentMissing
            | DriveError::ParentIsFile
            | DriveError::IsDirectory
            | DriveError::IsFile
            | DriveError::Exists
            | DriveError::NotEmpty
            | DriveError::Precondition => Answer::Refused,
            DriveError::Contended | DriveError::IntoItself => Answer::Nothing,
            DriveError::Store(StoreError::Busy | StoreError::Full(_)) if faults.store => Answer::Nothing,
            DriveError::Store(StoreError::Unknown { cause, .. }) if faults.store && !cause.contains("ended early") => {
                Answer::Unknown
            }
            // After a sync that failed, no content is taken in until the next start.
            DriveError::Content(ContentError::Full(_) | ContentError::Io(_) | ContentError::Stopped(_))
                if faults.disk =>
            {
                Answer::Nothing
            }
            error => {
                self.world.wrong(format!("an answer that nobody should get: {error:?}"));
                Answer::Unknown
            }
        }
    }
}

pub fn all_by_time(clock: Clock) -> FilesAsk {
    let (from, to, under, creator, mime, after) = (None, None, None, None, None, None);
    FilesAsk { clock, from, to, under, creator, mime, ascending: false, after, limit: 10_000 }
}

pub fn all_by_name() -> FindAsk {
    FindAsk { name: String::new(), prefix: true, under: None, after: None, limit: 10_000 }
}
