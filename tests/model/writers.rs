//! Operations of one plan: create, mkdir, rmdir, an upload with its parent, a file's move.

use crate::bugs::Bug;
use crate::io::{ActorResult, Io, Outcome, Reply};
use crate::locks::{LockOutcome, clear_lock, finish_rows, read_unlocked};
use crate::rights;
use crate::store::{Change, Check, Guarded, Key, Meaning, Placement, Plan, Refusal, Row, RowLock, guarded};
use crate::subtree::live;
use crate::tree::{Children, Id, Kind, Path, Request, Resolved, file_in};

/// One request, from its first read to its answer.
pub fn write(io: &mut Io<'_>, request: Request, new: Id) -> ActorResult<Reply> {
    io.until(|io| {
        let Some(right) = rights::decide(io, request)? else { return Ok(Some(Reply::Refused)) };
        let Some(found) = find(io, request, new)? else { return Ok(Some(Reply::Refused)) };
        let mut rows = Rows { io, found, by: new }.for_request(request);
        rows.extend(right);
        let write = Plan { rows, effect: Some(io.effect(Meaning::Tree(request, found))) };
        match io.commit(write)? {
            Outcome::Done => Ok(Some(Reply::Done)),
            Outcome::Unknown | Outcome::Full | Outcome::Failed => Ok(Some(Reply::Busy)),
            Outcome::Refused(Refusal { check: Check::Empty, .. }) => Ok(Some(Reply::Refused)),
            Outcome::Refused(Refusal { key: Key::Dir(at), lock, .. }) if lock != RowLock::Unlocked => {
                match (clear_lock(io, at, lock, None)?, lock) {
                    // The writer needs this path: only this row is finished.
                    (LockOutcome::Gone, RowLock::Source(op)) if wants(request, at) => finish_rows(io, op, &[at])?,
                    _ => {}
                }
                Ok(None)
            }
            Outcome::Refused(_) => Ok(None),
        }
    })
}

fn wants(request: Request, at: Path) -> bool {
    matches!(request, Request::Mkdir(_) | Request::Upload(_)) && at == request.at()
}

/// Reads the directories of the request; `None` if it is impossible.
fn find(io: &mut Io<'_>, request: Request, new: Id) -> ActorResult<Option<Resolved>> {
    let at = request.at();
    let Some(parent) = read_unlocked(io, at.parent())? else { return Ok(None) };
    let entry = |row: &Row, kind, name| row.sub.get(&(kind, name)).copied();
    let taken = |row: &Row, name| entry(row, Kind::Dir, name).is_some() || entry(row, Kind::File, name).is_some();
    let mut found = Resolved { parent: parent.id, target: parent.id, id: new };
    match request {
        Request::Rmdir(_) => match entry(&parent, Kind::Dir, at.name()) {
            Some(id) => found.id = id,
            None => return Ok(None),
        },
        Request::MoveFile(_, to) => {
            let Some(id) = entry(&parent, Kind::File, at.name()) else { return Ok(None) };
            let Some(target) = read_unlocked(io, to.parent())?.filter(|row| !taken(row, to.name())) else {
                return Ok(None);
            };
            found = Resolved { target: target.id, id, ..found };
        }
        _ if taken(&parent, at.name()) => return Ok(None),
        _ => {}
    }
    Ok(Some(found))
}

/// The guarded rows in the plan of a request.
struct Rows<'a, 'b> {
    io: &'a Io<'b>,
    found: Resolved,
    by: u8,
}

impl Rows<'_, '_> {
    fn for_request(&self, request: Request) -> Vec<Guarded> {
        let Resolved { parent, target, id } = self.found;
        let at = request.at();
        let placement = |dir, name| Change::Place(Placement { dir, name, by: self.by });
        match request {
            Request::Create(_) => {
                let file = guarded(Key::File(id), &[], &[placement(parent, at.name())]);
                vec![self.link(at, parent, Kind::File), file]
            }
            Request::Mkdir(_) | Request::Upload(_) => {
                let mut sub = Children::new();
                let mut rows = vec![self.link(at, parent, Kind::Dir)];
                rows.push(guarded(Key::DirId(id), &[], &[placement(parent, at.name())]));
                if let Request::Upload(file) = request {
                    sub.insert((Kind::File, file.name()), file_in(id));
                    rows.push(guarded(Key::File(file_in(id)), &[], &[placement(id, file.name())]));
                }
                let absent: &[Check] = if self.bug(Bug::MkdirChildUnchecked) { &[] } else { &[Check::AbsentRow] };
                rows.push(guarded(Key::Dir(at), absent, &[Change::Put(Row { id, lock: RowLock::Unlocked, sub })]));
                rows
            }
            Request::Rmdir(_) => self.rmdir(at),
            Request::MoveFile(_, to) => {
                let mut source = if self.bug(Bug::MoveFileNotLive) { vec![] } else { live(self.io, parent) };
                source.push(Check::Entry(Kind::File, at.name(), id));
                // No file moves twice in these scenarios, so its old position is its first one.
                let placed = Placement { dir: parent, name: at.name(), by: 0 };
                let file = guarded(Key::File(id), &[Check::Placed(placed)], &[placement(target, to.name())]);
                let unlink = guarded(Key::Dir(at.parent()), &source, &[Change::Unlink(Kind::File, at.name())]);
                vec![unlink, self.link(to, target, Kind::File), file]
            }
            Request::Move(..) | Request::Delete(_) => panic!("{request:?} takes more than one plan"),
        }
    }

    fn bug(&self, bug: Bug) -> bool {
        self.io.bug(bug)
    }

    /// The new entry: its parent is live, and the name is free.
    fn link(&self, at: crate::tree::Path, parent: Id, kind: Kind) -> Guarded {
        let mut checks = live(self.io, parent);
        if self.bug(Bug::ParentNotLive) {
            checks = vec![Check::Id(parent)];
        }
        if !self.bug(Bug::NameUnchecked) {
            checks.extend([Check::Free(Kind::Dir, at.name()), Check::Free(Kind::File, at.name())]);
        }
        guarded(Key::Dir(at.parent()), &checks, &[Change::Link(kind, at.name(), self.found.id)])
    }

    fn rmdir(&self, at: Path) -> Vec<Guarded> {
        let Resolved { parent, id, .. } = self.found;
        let mut child = if self.bug(Bug::RmdirChildNotLive) { vec![Check::Id(id)] } else { live(self.io, id) };
        if !self.bug(Bug::RmdirNotEmpty) {
            child.push(Check::Empty);
        }
        let mut from = if self.bug(Bug::RmdirParentNotLive) { vec![] } else { live(self.io, parent) };
        from.push(Check::Entry(Kind::Dir, at.name(), id));
        vec![
            guarded(Key::Dir(at), &child, &[Change::Remove]),
            guarded(Key::Dir(at.parent()), &from, &[Change::Unlink(Kind::Dir, at.name())]),
            guarded(Key::DirId(id), &[], &[Change::Remove]),
        ]
    }
}
