//! A client: it sends requests, and records the answers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut, stream};
use rowdrive::content::ContentError;
use rowdrive::drive::{
    Condition, Drive, DriveError, ListQuery, NameQuery, Node, PutOptions, Result, TimeQuery, Versions, Written,
};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{DrivePath, FileId};

use super::history::{Entry, Observation, ReadValue};
use super::scheduler::Simulation;
use super::workload::ClientOp;
use crate::drive::model::Op as Change;

/// All clients of one life of the process.
pub struct Clients {
    pub simulation: Arc<Simulation>,
    pub drive: Drive,
    history: Mutex<Vec<Entry>>,
}

/// The outcome that an answer reports.
enum ClientResult<T> {
    Done(T),
    /// Refused: it was impossible.
    Refused,
    /// Not executed.
    Nothing,
    /// It may have been executed or not.
    Unknown,
}

pub fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).unwrap()
}

/// The bytes of a version: each size is used once, and no part occurs in another version.
pub fn bytes(size: usize) -> Bytes {
    let word = |at: u64| (size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut bytes: Vec<u8> = (0..size.div_ceil(8) as u64).flat_map(|at| word(at).to_le_bytes()).collect();
    bytes.truncate(size);
    bytes.into()
}

pub fn seen(node: &Node) -> ReadValue {
    match node {
        Node::File { entry, .. } => ReadValue::File(entry.attributes.size as usize),
        Node::Directory { .. } => ReadValue::Directory,
    }
}

impl Clients {
    pub fn new(simulation: Arc<Simulation>, drive: Drive) -> Self {
        Self { simulation, drive, history: Mutex::default() }
    }

    fn history(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.history.lock().unwrap()
    }

    pub fn take_history(&self) -> Vec<Entry> {
        std::mem::take(&mut self.history())
    }

    /// Records a request: a change may happen from now on.
    fn call(&self, what: Observation) -> usize {
        let called = self.simulation.event();
        self.history().push(Entry { what, called, answered: None });
        self.history().len() - 1
    }

    /// Records the answer.
    fn answer(&self, at: usize, what: Observation) {
        if !self.simulation.is_dead() {
            let answered = Some(self.simulation.event());
            let entry = &mut self.history()[at];
            (entry.what, entry.answered) = (what, answered);
        }
    }

    /// Records a read that began at `called`.
    fn saw(&self, called: u64, what: Observation) {
        if !self.simulation.is_dead() {
            let answered = Some(self.simulation.event());
            self.history().push(Entry { what, called, answered });
        }
    }

    pub async fn run(&self, number: usize, op: ClientOp) {
        self.simulation.pass("client", || format!("{number}")).await;
        self.simulation.note(|| format!("client {number} asks {op:?}"));
        if self.simulation.faults().leave && self.simulation.chance(100) {
            let patience = Duration::from_millis(self.simulation.below(30));
            let _ = tokio::time::timeout(patience, self.send(op)).await;
        } else {
            self.send(op).await;
        }
        self.simulation.note(|| format!("client {number} is answered: {op:?}"));
    }

    async fn send(&self, op: ClientOp) {
        match op {
            ClientOp::Change(Change::Copy(from, to, overwrite)) => self.copy(from, to, overwrite).await,
            ClientOp::Change(change) => self.change(change).await,
            ClientOp::Replace(at, size) => self.replace(at, size).await,
            ClientOp::Stat(at) => {
                let called = self.simulation.event();
                match self.classify(self.drive.unrestricted().stat(&path(at)).await.map(|node| seen(&node))) {
                    ClientResult::Done(seen) => self.saw(called, Observation::Saw(at.into(), Some(seen))),
                    ClientResult::Refused => self.saw(called, Observation::Saw(at.into(), None)),
                    _ => {}
                }
            }
            ClientOp::Read(at) => self.read(at).await,
            ClientOp::List(at, limit) => self.list(at, limit).await,
            ClientOp::Time(under, limit) => self.by_time(under, limit).await,
            ClientOp::Name(under, limit) => self.by_name(under, limit).await,
        }
    }

    async fn change(&self, change: Change) {
        let at = self.call(Observation::Did(change, None));
        let drive = &self.drive;
        let made = |made: Written| Some(made.new);
        let done = match change {
            Change::Put(to, size) => self.put(to, size, Condition::default()).await.map(made),
            Change::New(to, size) => {
                let condition = Condition { if_none_match: Some(Versions::Any), if_match: None };
                self.put(to, size, condition).await.map(made)
            }
            Change::Mkdir(to) => drive.unrestricted().mkdir(&path(to), "eva", true).await.map(made),
            Change::Rmdir(to) => drive.unrestricted().rmdir(&path(to)).await.map(|()| None),
            Change::Delete(to) => drive.unrestricted().delete(&path(to), &Condition::default()).await.map(|()| None),
            Change::Remove(to) => drive.unrestricted().delete_subtree(&path(to)).await.map(|()| None),
            Change::Move(from, to, overwrite) => {
                drive.unrestricted().move_node(&path(from), &path(to), overwrite).await.map(made)
            }
            Change::Copy(..) => return,
        };
        // A subtree operation that gave up does not always know its outcome.
        let subtree = matches!(change, Change::Remove(_) | Change::Move(..));
        let gave_up = matches!(done, Err(DriveError::Contended)) && subtree;
        match self.classify(done) {
            _ if gave_up => {}
            ClientResult::Done(new) => self.answer(at, Observation::Did(change, new)),
            ClientResult::Refused => self.answer(at, Observation::Refused(change)),
            ClientResult::Nothing => self.answer(at, Observation::Nothing),
            ClientResult::Unknown => {}
        }
    }

    async fn put(&self, to: &str, size: usize, condition: Condition) -> Result<Written> {
        let bytes = bytes(size);
        let body = stream::iter(bytes.chunks(200_000)).then(async |chunk| {
            self.simulation.pass("upload", String::new).await;
            Ok::<_, Infallible>(bytes.slice_ref(chunk))
        });
        let options = PutOptions { condition, ..PutOptions::new("image/png", "eva") };
        Ok(self.drive.unrestricted().put(&path(to), options, body).await?)
    }

    async fn replace(&self, to: &'static str, size: usize) {
        let called = self.simulation.event();
        let ClientResult::Done(Node::File { entry, .. }) =
            self.classify(self.drive.unrestricted().stat(&path(to)).await)
        else {
            return;
        };
        let old = entry.attributes.size as usize;
        self.saw(called, Observation::Saw(to.into(), Some(ReadValue::File(old))));
        let at = self.call(Observation::Replaced(to, old, size));
        let condition = Condition { if_match: Some(Versions::These(vec![entry.id])), if_none_match: None };
        match self.classify(self.put(to, size, condition).await) {
            ClientResult::Done(_) => self.answer(at, Observation::Replaced(to, old, size)),
            ClientResult::Refused | ClientResult::Nothing => self.answer(at, Observation::Nothing),
            ClientResult::Unknown => {}
        }
    }

    async fn copy(&self, from: &'static str, to: &'static str, overwrite: bool) {
        let copy = |version| Observation::Copied { to, overwrite, version };
        let at = self.call(copy(None));
        let called = self.history()[at].called;
        match self.classify(self.drive.unrestricted().copy_node(&path(from), &path(to), overwrite, "eva").await) {
            ClientResult::Done((Written { node: Node::File { entry, .. }, new }, _)) => {
                let version = entry.attributes.size as usize;
                self.answer(at, copy(Some((version, new))));
                self.saw(called, Observation::Saw(from.into(), Some(ReadValue::File(version))));
            }
            ClientResult::Done(_) => self.simulation.wrong(format!("{from} was copied as a directory")),
            ClientResult::Refused => self.answer(at, Observation::Refused(Change::Copy(from, to, overwrite))),
            ClientResult::Nothing => self.answer(at, Observation::Nothing),
            ClientResult::Unknown => {}
        }
    }

    async fn read(&self, at: &'static str) {
        let called = self.simulation.event();
        let opened = match self.classify(self.drive.unrestricted().open_file(&path(at)).await) {
            ClientResult::Done(opened) => opened,
            // A read of a directory is not checked here: listings check whether it exists.
            _ => return,
        };
        let size = opened.entry.attributes.size as usize;
        self.saw(called, Observation::Saw(at.into(), Some(ReadValue::File(size))));
        let expected = bytes(size);
        let (one, other) = (self.simulation.below(size as u64 + 1), self.simulation.below(size as u64 + 1));
        let (from, to) = if one.is_multiple_of(2) { (0, size as u64) } else { (one.min(other), one.max(other)) };
        let stream = opened.body.stream(from, to);
        pin_mut!(stream);
        let mut at = from as usize;
        while let Some(chunk) = stream.next().await {
            match self.classify(chunk.map_err(DriveError::from)) {
                ClientResult::Done(chunk) if expected.get(at..at + chunk.len()) == Some(&*chunk) => at += chunk.len(),
                ClientResult::Done(_) => return self.simulation.wrong(format!("{size} bytes: others at {at}")),
                _ => return,
            }
        }
        if at != to as usize {
            self.simulation.wrong(format!("{size} bytes: {from}..{to} ends at {at}"));
        }
    }

    async fn list(&self, at: &'static str, limit: usize) {
        let mut after: Option<Bytes> = None;
        for _ in 0..4 {
            let called = self.simulation.event();
            let query = ListQuery { kind: None, prefix: String::new(), after: after.clone(), limit };
            let text = after.map(|after| String::from_utf8(after.to_vec()).unwrap());
            let page = match self.classify(self.drive.unrestricted().list(&path(at), &query).await) {
                ClientResult::Done(listing) => listing,
                ClientResult::Refused => {
                    return self.saw(called, Observation::Page { at, after: text, limit, page: None });
                }
                _ => return,
            };
            let entry = |node: &Node| {
                let name = node.path().split().unwrap().1;
                (format!("{}_{name}", if node.is_directory() { "d" } else { "f" }), seen(node))
            };
            let entries = page.nodes.iter().map(entry).collect();
            self.saw(called, Observation::Page { at, after: text, limit, page: Some((entries, page.next.is_some())) });
            if page.next.is_none() {
                return;
            }
            after = page.next;
        }
    }

    async fn by_time(&self, under: &str, limit: usize) {
        let called = self.simulation.event();
        let under = Some(path(under)).filter(|_| limit > 1);
        let clock = if limit.is_multiple_of(2) { Clock::Modified } else { Clock::Added };
        let query = TimeQuery { under, limit, ..all_by_time(clock) };
        if let ClientResult::Done(found) = self.classify(self.drive.unrestricted().files_by_time(&query).await) {
            self.no_file_twice(&found.nodes);
            self.found(called, &found.nodes);
        }
    }

    async fn by_name(&self, under: &str, limit: usize) {
        let called = self.simulation.event();
        let under = Some(path(under)).filter(|_| limit > 1);
        let query = NameQuery { under, limit, ..all_by_name() };
        if let ClientResult::Done(found) = self.classify(self.drive.unrestricted().files_by_name(&query).await) {
            self.found(called, &found.nodes);
        }
    }

    /// Each file has one index row for each clock, so a time query shows it once.
    fn no_file_twice(&self, nodes: &[Node]) {
        let id = |node: &Node| match node {
            Node::File { entry, .. } => Some(entry.id),
            Node::Directory { .. } => None,
        };
        let mut ids: Vec<FileId> = nodes.iter().filter_map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() != nodes.len() {
            self.simulation.wrong(format!("a query shows a file twice, or a directory: {nodes:?}"));
        }
    }

    /// Each file in the result of a query existed at some instant.
    fn found(&self, called: u64, nodes: &[Node]) {
        for node in nodes.iter().take(2) {
            self.saw(called, Observation::Saw(node.path().to_string(), Some(seen(node))));
        }
    }

    /// The meaning of an answer. An answer that the drive never gives is an error.
    fn classify<T>(&self, answer: Result<T>) -> ClientResult<T> {
        let faults = self.simulation.faults();
        let error = match answer {
            Ok(done) => return ClientResult::Done(done),
            Err(error) => error,
        };
        self.simulation.note(|| format!("{error:?}"));
        match error {
            DriveError::NotFound
            | DriveError::ParentMissing
            | DriveError::ParentIsFile
            | DriveError::IsDirectory
            | DriveError::IsFile
            | DriveError::Exists
            | DriveError::NotEmpty
            | DriveError::Precondition => ClientResult::Refused,
            DriveError::Contended | DriveError::IntoItself => ClientResult::Nothing,
            DriveError::Busy | DriveError::Full(_) if faults.store => ClientResult::Nothing,
            DriveError::Unknown { cause, .. } if faults.store && !cause.contains("ended early") => {
                ClientResult::Unknown
            }
            // After a failed sync, no content is accepted until the next start.
            DriveError::Content(ContentError::Full(_) | ContentError::Io(_) | ContentError::Stopped(_))
                if faults.disk =>
            {
                ClientResult::Nothing
            }
            error => {
                self.simulation.wrong(format!("an answer that no client should get: {error:?}"));
                ClientResult::Unknown
            }
        }
    }
}

pub fn all_by_time(clock: Clock) -> TimeQuery {
    let (from, to, under, creator, mime, after) = (None, None, None, None, None, None);
    TimeQuery { clock, from, to, under, creator, mime, ascending: false, after, limit: 10_000 }
}

pub fn all_by_name() -> NameQuery {
    NameQuery { name: String::new(), prefix: true, under: None, after: None, limit: 10_000 }
}
