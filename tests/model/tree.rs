//! The requests of users, and the specification: a plain tree that changes at one instant for each request.

use std::collections::BTreeMap;
use std::fmt;

/// The id of a directory (the root's is 0) or the UUID of a file.
pub type Id = u8;
/// The one-letter name of a directory or file.
pub type Name = u8;

pub const ROOT: Id = 0;

/// A path of at most four one-letter names. Paths sort as the store's keys: a directory before what is below it.
#[derive(Clone, Copy, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path([Name; 4]);

/// The path written as `/a/x`; `/` is the root.
pub fn path(text: &str) -> Path {
    text.bytes().filter(|byte| *byte != b'/').fold(Path([0; 4]), Path::join)
}

impl Path {
    fn depth(self) -> usize {
        self.0.iter().take_while(|name| **name != 0).count()
    }

    pub fn join(mut self, name: Name) -> Self {
        self.0[self.depth()] = name;
        self
    }

    pub fn parent(mut self) -> Self {
        self.0[self.depth() - 1] = 0;
        self
    }

    pub fn name(self) -> Name {
        self.0[self.depth() - 1]
    }

    /// Whether this path is `root` or lies below it.
    pub fn is_within(self, root: Self) -> bool {
        self.0[..root.depth()] == root.0[..root.depth()]
    }

    /// The path below `to` that corresponds to this path below `from`.
    pub fn rebase(self, from: Self, to: Self) -> Self {
        self.0[from.depth()..self.depth()].iter().fold(to, |path, name| path.join(*name))
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().filter(|n| **n != 0).map(|n| char::from(*n).to_string()).collect();
        write!(f, "/{}", names.join("/"))
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Dir,
    File,
}

/// The children of a directory.
pub type Children = BTreeMap<(Kind, Name), Id>;

/// A request of a user, with the path that it creates, removes or moves.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Request {
    Create(Path),
    Mkdir(Path),
    /// A file whose parent directory is missing: both are created at once.
    Upload(Path),
    Rmdir(Path),
    MoveFile(Path, Path),
    Move(Path, Path),
    Delete(Path),
}

use Request::{Create, Delete, Mkdir, Move, MoveFile, Rmdir, Upload};

impl Request {
    /// The entry that this request changes: with [`Upload`], that of the missing parent.
    pub fn at(self) -> Path {
        match self {
            Create(at) | Mkdir(at) | Rmdir(at) | MoveFile(at, _) | Move(at, _) | Delete(at) => at,
            Upload(file) => file.parent(),
        }
    }

    /// The target of a move.
    pub fn to(self) -> Option<Path> {
        match self {
            MoveFile(_, to) | Move(_, to) => Some(to),
            _ => None,
        }
    }
}

/// The ids that a plan assumes: those of the parents, and of the moved or removed node.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Resolved {
    pub parent: Id,
    /// The id of the new parent; equal to `parent` if there is only one.
    pub target: Id,
    pub id: Id,
}

/// The file that an upload creates in the new directory of this id.
pub fn file_in(dir: Id) -> Id {
    dir + 50
}

/// The specification: parent id and name of every directory and file.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Tree {
    pub dirs: BTreeMap<Id, (Id, Name)>,
    pub files: BTreeMap<Id, (Id, Name)>,
}

impl Tree {
    pub fn path(&self, dir: Id) -> Option<Path> {
        if dir == ROOT {
            return Some(path("/"));
        }
        let (parent, name) = self.dirs.get(&dir)?;
        Some(self.path(*parent)?.join(*name))
    }

    pub fn sub(&self, dir: Id) -> Children {
        let all = self.dirs.iter().map(|d| (Kind::Dir, d)).chain(self.files.iter().map(|f| (Kind::File, f)));
        all.filter(|(_, (_, entry))| entry.0 == dir).map(|(kind, (id, entry))| ((kind, entry.1), *id)).collect()
    }

    /// Every directory: its path, id and children.
    pub fn rows(&self) -> BTreeMap<Path, (Id, Children)> {
        let ids = self.dirs.keys().copied().chain([ROOT]);
        ids.filter_map(|id| Some((self.path(id)?, (id, self.sub(id))))).collect()
    }

    pub fn dir_at(&self, at: Path) -> Option<Id> {
        if at == path("/") {
            return Some(ROOT);
        }
        self.child(at, Kind::Dir)
    }

    fn child(&self, at: Path, kind: Kind) -> Option<Id> {
        let parent = self.dir_at(at.parent())?;
        self.sub(parent).get(&(kind, at.name())).copied()
    }

    /// Whether a node can be created at this path: the parent exists, and the name is free.
    fn is_free(&self, at: Path) -> bool {
        self.dir_at(at.parent()).is_some()
            && self.child(at, Kind::Dir).is_none()
            && self.child(at, Kind::File).is_none()
    }

    /// Whether this request is possible now.
    pub fn allows(&self, request: Request) -> bool {
        match request {
            Create(at) | Mkdir(at) => self.is_free(at),
            Upload(file) => self.is_free(file.parent()),
            Rmdir(at) => self.child(at, Kind::Dir).is_some_and(|id| self.sub(id).is_empty()),
            MoveFile(from, to) => self.child(from, Kind::File).is_some() && self.is_free(to),
            Move(from, to) => self.child(from, Kind::Dir).is_some() && self.is_free(to) && !to.is_within(from),
            Delete(at) => self.child(at, Kind::Dir).is_some(),
        }
    }

    /// Applies a request. Returns false if it is impossible, or if it concerns other ids than `found`.
    pub fn apply(&mut self, request: Request, found: Resolved) -> bool {
        let Resolved { parent, target, id } = found;
        let same = |tree: &Self, at: Path, dir: Id| tree.path(dir) == Some(at.parent());
        let right = self.allows(request)
            && same(self, request.at(), parent)
            && request.to().is_none_or(|to| same(self, to, target));
        let here = (parent, request.at().name());
        match request {
            Create(_) => _ = self.files.insert(id, here),
            Mkdir(_) => _ = self.dirs.insert(id, here),
            Upload(file) => {
                self.dirs.insert(id, here);
                self.files.insert(file_in(id), (id, file.name()));
            }
            Rmdir(_) => _ = self.dirs.remove(&id),
            MoveFile(_, to) => _ = self.files.insert(id, (target, to.name())),
            Move(_, to) if right => _ = self.dirs.insert(id, (target, to.name())),
            Move(..) => {}
            Delete(at) => {
                let within = |dir: &Id| self.path(*dir).is_some_and(|path| path.is_within(at));
                let gone: Vec<Id> = self.dirs.keys().copied().filter(within).collect();
                self.files.retain(|_, (dir, _)| !gone.contains(dir));
                self.dirs.retain(|dir, _| !gone.contains(dir));
            }
        }
        right
    }
}
