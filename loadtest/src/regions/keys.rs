//! Which rows a request touches, by layout: the key of its row alone decides which region serves a request.
//!
//! A row that has only a condition is read: who makes a child has one on its directory, as in `layouts`. `rowkey-id`
//! has none, and the root has a row only where directories have a table.

use std::iter::successors;
use std::rc::Rc;

use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::path::fold;
use rowdrive::schema::{FileId, Timestamp, dir, file, index::by_name, index::by_owner, index::by_time};
use sha2::{Digest, Sha256};
use uuid::Builder;

/// What the row keys of a table are made of. A number has 8 bytes, big-endian, and is counted up; an id has 16 random
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Number,
    Name,
    Path,
    /// The number of the directory, and the name.
    NumberAndName,
    Id,
    /// The id of the directory, and the name.
    IdAndName,
    /// The path of a directory, whose row has a cell for each directory in it; with true, for each file too.
    Directory(bool),
    /// As [`by_time::key`]: a byte, 8 bytes of inverted milliseconds, the id.
    Time,
    /// As [`by_owner::key`]: the creator reversed, a zero byte, a time's key.
    Owner,
    /// As [`by_name::key`]: the folded name, a zero byte, a byte, the id.
    FoldedName,
}

/// A layout: its tables by name.
pub struct KeyLayout {
    pub name: &'static str,
    pub tables: &'static [(&'static str, Key)],
}

const DIR: (&str, Key) = (dir::TABLE, Key::Directory(true));
const FILE: (&str, Key) = (file::TABLE, Key::Id);
const TIME: (&str, Key) = (by_time::TABLE, Key::Time);
const OWNER: (&str, Key) = (by_owner::TABLE, Key::Owner);
const NAME: (&str, Key) = (by_name::TABLE, Key::FoldedName);

pub const LAYOUTS: [KeyLayout; 8] = [
    KeyLayout { name: "rowkey-id", tables: &[("rows", Key::Number)] },
    KeyLayout { name: "name", tables: &[("rows", Key::Name)] },
    KeyLayout { name: "fullpath", tables: &[("rows", Key::Path)] },
    KeyLayout { name: "fullpath-indexed", tables: &[("rows", Key::Path), TIME, OWNER, NAME] },
    KeyLayout { name: "dirid-name", tables: &[(dir::TABLE, Key::Directory(false)), (file::TABLE, Key::NumberAndName)] },
    KeyLayout { name: "uuid", tables: &[DIR, FILE] },
    KeyLayout { name: "uuid-indexed", tables: &[DIR, FILE, TIME, OWNER, NAME] },
    KeyLayout { name: "tree", tables: &[("rows", Key::IdAndName)] },
];

/// Whether a request reads a row or writes it. Only a written row is data by which a table is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    Read,
}

/// A file or a directory.
pub struct Node {
    /// The directory that it is in; none for the root.
    pub parent: Option<Rc<Node>>,
    /// Empty for the root.
    pub path: String,
    pub is_directory: bool,
    /// Counted up in the order of creation, from 0 for the root.
    pub number: u64,
    pub id: FileId,
    pub creator: String,
    pub modified: Timestamp,
    pub added: Timestamp,
}

/// A row that a request touches: access, position of the table, key.
pub type Row = (Access, usize, Vec<u8>);

impl KeyLayout {
    /// The rows that a client touches: it makes a node in a directory whose id it knows, having made it; or it reads a
    /// file's attributes by the path, but for `rowkey-id` by the number, since only a scan of the table finds the path.
    pub fn rows(&self, access: Access, node: &Rc<Node>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (table, (_, key)) in self.tables.iter().enumerate() {
            let [of_parent, own] = key.accesses(access, node.is_directory);
            // The walk of a path goes over all its directories.
            let steps = if (*key, access) == (Key::IdAndName, Access::Read) { usize::MAX } else { 1 };
            let parents = successors(node.parent.as_ref(), |node| node.parent.as_ref()).take(steps);
            for (access, node) in parents.map(|parent| (of_parent, parent)).chain([(own, node)]) {
                let keys = access.map(|access| key.of(node).into_iter().map(move |key| (access, table, key)));
                rows.extend(keys.into_iter().flatten());
            }
        }
        rows
    }
}

impl Key {
    /// How a request touches the row of a node's directory, and the node's own rows.
    fn accesses(self, access: Access, is_directory: bool) -> [Option<Access>; 2] {
        const WRITE: Option<Access> = Some(Access::Write);
        const READ: Option<Access> = Some(Access::Read);
        let [mkdir, create, read] = match self {
            Self::Number => [[None, WRITE], [None, WRITE], [None, READ]],
            Self::Name | Self::Path => [[READ, WRITE], [READ, WRITE], [None, READ]],
            Self::IdAndName => [[READ, WRITE], [READ, WRITE], [READ, READ]],
            // A new directory has no file's name.
            Self::NumberAndName => [[None, READ], [None, WRITE], [None, READ]],
            // A new file writes no cell of its directory there.
            Self::Directory(false) => [[WRITE, WRITE], [READ, None], [READ, None]],
            Self::Directory(true) => [[WRITE, WRITE], [WRITE, None], [READ, None]],
            Self::Id => [[None, None], [None, WRITE], [None, READ]],
            Self::Time | Self::Owner | Self::FoldedName => [[None, None], [None, WRITE], [None, None]],
        };
        match access {
            Access::Read => read,
            Access::Write if is_directory => mkdir,
            Access::Write => create,
        }
    }

    /// The keys of a node's own rows: two where there are two times.
    fn of(self, node: &Node) -> Vec<Vec<u8>> {
        let Some(parent) = &node.parent else {
            return if matches!(self, Self::Directory(_)) { vec![b"/".to_vec()] } else { Vec::new() };
        };
        let name = node.path.rsplit('/').next().unwrap_or_default();
        let times = [(Clock::Modified, node.modified), (Clock::Added, node.added)];
        match self {
            Self::Number => vec![node.number.to_be_bytes().into()],
            Self::Name => vec![name.into()],
            Self::Path | Self::Directory(_) => vec![node.path.as_str().into()],
            Self::NumberAndName => vec![[&parent.number.to_be_bytes()[..], name.as_bytes()].concat()],
            Self::Id => vec![node.id.key().into()],
            Self::IdAndName => vec![[&parent.id.key(), name.as_bytes()].concat()],
            Self::Time => times.map(|(clock, at)| by_time::key(clock, at, node.id).into()).into(),
            Self::Owner => times.map(|(clock, at)| by_owner::key(&node.creator, clock, at, node.id).into()).into(),
            Self::FoldedName => vec![by_name::key(&fold(name), node.id).into()],
        }
    }
}

/// The random id that belongs to a number.
pub fn id(number: u64, seed: u64) -> FileId {
    FileId(Builder::from_random_bytes(hash(&[seed, number].map(u64::to_be_bytes).concat())).into_uuid())
}

/// The first half of SHA-256.
pub fn hash(key: &[u8]) -> [u8; 16] {
    Sha256::digest(key).first_chunk().copied().unwrap_or_default()
}
