//! Which rows a request touches, by layout: the key of its row alone decides which region serves a request.
//!
//! A row that has only a condition is read: who makes a child has one on its directory, as in `layouts`. `rowkey-id`
//! has none, and the root has a row only where directories have a table.

use std::iter::{once, repeat, successors};
use std::rc::Rc;

use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::path::fold;
use rowdrive::schema::{FileId, Timestamp, dir, file, index::by_name, index::by_owner, index::by_time};
use sha2::{Digest, Sha256};
use uuid::Builder;

/// Whether a request reads a row or writes it. Only a written row is data by which a table is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    Read,
}

const W: Option<Access> = Some(Access::Write);
const R: Option<Access> = Some(Access::Read);
const N: Option<Access> = None;

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

/// A table of a layout.
pub struct Table(
    pub &'static str,
    /// How a new directory, a new file, and a read of a file touch the rows of the directories above the node's own, of
    /// its own directory, and of the node.
    [[Option<Access>; 3]; 3],
    /// Which of a remedy's figures says what it is to get a row, to list a folder, to scan a range; none if this table
    /// answers no such question.
    pub [Option<usize>; 3],
    /// The row keys of a node in its directory: two where there are two times.
    fn(&Node, &Node) -> Vec<Vec<u8>>,
);

pub const GET: Option<usize> = Some(0);
pub const LIST: Option<usize> = Some(1);
pub const SCAN: Option<usize> = Some(2);

/// A number is counted up. A range of numbers is a period of creation.
const NUMBER: Table = Table("rows", [[N, N, W], [N, N, W], [N, N, R]], [GET, None, SCAN], |node, _| {
    vec![node.number.to_be_bytes().into()]
});
const NAME: Table =
    Table("rows", [[N, R, W], [N, R, W], [N, N, R]], [GET, None, SCAN], |node, _| vec![node.name().into()]);
const PATH: Table =
    Table("rows", [[N, R, W], [N, R, W], [N, N, R]], [GET, LIST, SCAN], |node, _| vec![node.path.as_str().into()]);
/// A read walks over all directories of the path. A subtree is a range for each folder, as below.
const ID_AND_NAME: Table = Table("rows", [[N, R, W], [N, R, W], [R, R, R]], [GET, LIST, None], |node, parent| {
    vec![[&parent.id.key(), node.name().as_bytes()].concat()]
});
/// A new directory must not have a file's name.
const NUMBER_AND_NAME: Table =
    Table(file::TABLE, [[N, N, R], [N, N, W], [N, N, R]], [GET, LIST, None], |node, parent| {
        vec![[&parent.number.to_be_bytes()[..], node.name().as_bytes()].concat()]
    });
/// A folder is a row, with a cell for each directory in it.
const DIRECTORIES: Table = Table(dir::TABLE, [[N, W, W], [N, R, N], [N, R, N]], [GET, GET, SCAN], PATH.3);
/// It has a cell for each file too.
const DIRECTORY: Table = Table(dir::TABLE, [[N, W, W], [N, W, N], [N, R, N]], [GET, GET, SCAN], PATH.3);
const FILE: Table =
    Table(file::TABLE, [[N, N, N], [N, N, W], [N, N, R]], [GET, None, None], |node, _| vec![node.id.key().into()]);
const TIME: Table = Table(by_time::TABLE, [[N, N, N], [N, N, W], [N, N, N]], [GET, None, SCAN], |node, _| {
    node.times().map(|(clock, at)| by_time::key(clock, at, node.id).into()).into()
});
const OWNER: Table = Table(by_owner::TABLE, [[N, N, N], [N, N, W], [N, N, N]], [GET, None, SCAN], |node, _| {
    node.times().map(|(clock, at)| by_owner::key(&node.creator, clock, at, node.id).into()).into()
});
const FOLDED_NAME: Table = Table(by_name::TABLE, [[N, N, N], [N, N, W], [N, N, N]], [GET, None, SCAN], |node, _| {
    vec![by_name::key(&fold(node.name()), node.id).into()]
});

/// A name and tables.
pub type Layout = (&'static str, &'static [Table]);

pub const LAYOUTS: [Layout; 8] = [
    ("rowkey-id", &[NUMBER]),
    ("name", &[NAME]),
    ("fullpath", &[PATH]),
    ("fullpath-indexed", &[PATH, TIME, OWNER, FOLDED_NAME]),
    ("dirid-name", &[DIRECTORIES, NUMBER_AND_NAME]),
    ("uuid", &[DIRECTORY, FILE]),
    ("uuid-indexed", &[DIRECTORY, FILE, TIME, OWNER, FOLDED_NAME]),
    ("tree", &[ID_AND_NAME]),
];

impl Table {
    /// The rows that a client touches: it makes a node in a directory whose id it knows, having made it; or it reads a
    /// file's attributes by the path, but for `rowkey-id` by the number, since only a scan of the table finds the path.
    pub fn rows(&self, access: Access, node: &Rc<Node>) -> Vec<(Access, Vec<u8>)> {
        let [mkdir, create, read] = self.1;
        let [of_above, of_parent, own] = match access {
            Access::Read => read,
            Access::Write if node.is_directory => mkdir,
            Access::Write => create,
        };
        let parents = successors(node.parent.as_ref(), |node| node.parent.as_ref());
        let touched = once(of_parent).chain(repeat(of_above)).zip(parents).chain([(own, node)]);
        let keys = |node: &Rc<Node>| match &node.parent {
            Some(parent) => (self.3)(node, parent),
            None if self.0 == dir::TABLE => vec![b"/".to_vec()],
            None => Vec::new(),
        };
        let touched = touched.filter_map(|(access, node)| Some((access?, keys(node))));
        touched.flat_map(|(access, keys)| keys.into_iter().map(move |key| (access, key))).collect()
    }
}

impl Node {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    fn times(&self) -> [(Clock, Timestamp); 2] {
        [(Clock::Modified, self.modified), (Clock::Added, self.added)]
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
