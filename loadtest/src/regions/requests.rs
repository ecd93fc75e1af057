//! Which requests of a load arrive, and when: at simulated seconds, and no client waits for an answer. And which rows
//! they touch, by layout: the key of its row alone decides which region serves a request.
//!
//! A row that has only a condition is read: who makes a child has one on its directory, as in `layouts`. `rowkey-id`
//! has none, and the root has a row only where directories have a table.

use std::collections::HashMap;
use std::iter::{once, repeat, successors};
use std::rc::Rc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Zipf};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::path::fold;
use rowdrive::schema::{FileId, Timestamp, dir, file, index::by_name, index::by_owner, index::by_time};
use rowdrive::sha256::sha256;
use uuid::Builder;

use crate::data::Tree;

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
    /// Of modification and of addition.
    pub times: [(Clock, Timestamp); 2],
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
    /// The row keys of a node, with its directory and name: two where there are two times.
    fn(&Node, &Node, &str) -> Vec<Vec<u8>>,
);

pub const GET: Option<usize> = Some(0);
pub const LIST: Option<usize> = Some(1);
pub const SCAN: Option<usize> = Some(2);

/// A number is counted up. A range of numbers is a period of creation.
const NUMBER: Table = Table("rows", [[N, N, W], [N, N, W], [N, N, R]], [GET, None, SCAN], |node, _, _| {
    vec![node.number.to_be_bytes().into()]
});
const NAME: Table = Table("rows", [[N, R, W], [N, R, W], [N, N, R]], [GET, None, SCAN], |_, _, name| vec![name.into()]);
const PATH: Table =
    Table("rows", [[N, R, W], [N, R, W], [N, N, R]], [GET, LIST, SCAN], |node, _, _| vec![node.path.as_str().into()]);
/// A read walks over all directories of the path. A subtree is a range for each folder, as below.
const ID_AND_NAME: Table = Table("rows", [[N, R, W], [N, R, W], [R, R, R]], [GET, LIST, None], |_, parent, name| {
    vec![[&parent.id.key(), name.as_bytes()].concat()]
});
/// A new directory must not have a file's name.
const NUMBERED: Table = Table(file::TABLE, [[N, N, R], [N, N, W], [N, N, R]], [GET, LIST, None], |_, parent, name| {
    vec![[&parent.number.to_be_bytes()[..], name.as_bytes()].concat()]
});
/// A folder is a row, with a cell for each directory in it.
const DIRECTORIES: Table = Table(dir::TABLE, [[N, W, W], [N, R, N], [N, R, N]], [GET, GET, SCAN], PATH.3);
/// It has a cell for each file too.
const DIRECTORY: Table = Table(dir::TABLE, [[N, W, W], [N, W, N], [N, R, N]], [GET, GET, SCAN], PATH.3);
const FILE: Table =
    Table(file::TABLE, [[N, N, N], [N, N, W], [N, N, R]], [GET, None, None], |node, _, _| vec![node.id.key().into()]);
const TIME: Table = Table(by_time::TABLE, [[N, N, N], [N, N, W], [N, N, N]], [GET, None, SCAN], |node, _, _| {
    node.times.map(|(clock, at)| by_time::key(clock, at, node.id).into()).into()
});
const OWNER: Table = Table(by_owner::TABLE, [[N, N, N], [N, N, W], [N, N, N]], [GET, None, SCAN], |node, _, _| {
    node.times.map(|(clock, at)| by_owner::key(&node.creator, clock, at, node.id).into()).into()
});
const FOLDED: Table = Table(by_name::TABLE, [[N, N, N], [N, N, W], [N, N, N]], [GET, None, SCAN], |node, _, name| {
    vec![by_name::key(&fold(name), node.id).into()]
});

/// Tables by layout.
pub const LAYOUTS: [(&str, &[Table]); 8] = [
    ("rowkey-id", &[NUMBER]),
    ("name", &[NAME]),
    ("fullpath", &[PATH]),
    ("fullpath-indexed", &[PATH, TIME, OWNER, FOLDED]),
    ("dirid-name", &[DIRECTORIES, NUMBERED]),
    ("uuid", &[DIRECTORY, FILE]),
    ("uuid-indexed", &[DIRECTORY, FILE, TIME, OWNER, FOLDED]),
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
            Some(parent) => (self.3)(node, parent, node.path.rsplit('/').next().unwrap_or_default()),
            None if self.0 == dir::TABLE => vec![b"/".to_vec()],
            None => Vec::new(),
        };
        let touched = touched.filter_map(|(access, node)| Some((access?, keys(node))));
        touched.flat_map(|(access, keys)| keys.into_iter().map(move |key| (access, key))).collect()
    }
}

/// The random id that belongs to a number.
pub fn id(number: u64, seed: u64) -> FileId {
    FileId(Builder::from_random_bytes(hash(&[seed, number].map(u64::to_be_bytes).concat())).into_uuid())
}

/// The first half of SHA-256.
pub fn hash(key: &[u8]) -> [u8; 16] {
    sha256(key).first_chunk().copied().unwrap_or_default()
}

/// Seconds of a load: three for each region, so that an import which fills one region after another fills one alone in
/// most of them.
const SECONDS: usize = 50;
/// When requests begin to arrive, in milliseconds since 1970: after the times of the tree's files.
const NOW: i64 = 1_800_000_000_000;

/// An import of a whole tree by one user, folder by folder, in 50 seconds; or what is different from that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    Import,
    /// So many files a second. Of 50,000 files at 10,000 a second, each second goes over three regions, so that keys in
    /// order have a ratio of 5.
    Rate(usize),
    /// Names as a camera gives them: numbers that go on from folder to folder.
    Camera,
    ModifiedNow,
    /// So many users at a time, each with a part of the tree below a home of its own.
    Users(usize),
    /// One user after the other, in the order of their names, each with a home and so many files.
    NewUsers(usize),
    /// 50,000 reads of files by path after it; their popularity follows Zipf's law with this exponent.
    Reads(f64),
}

/// By name, in the order of the report.
pub const LOADS: [(&str, Load); 10] = [
    ("one tree imported", Load::Import),
    ("one tree imported, 200 files/s", Load::Rate(200)),
    ("one tree imported, 2000 files/s", Load::Rate(2_000)),
    ("one tree imported, 10000 files/s", Load::Rate(10_000)),
    ("one tree imported, camera names", Load::Camera),
    ("one tree imported, files modified now", Load::ModifiedNow),
    ("64 users import", Load::Users(64)),
    ("new users in id order", Load::NewUsers(8)),
    ("reads, Zipf 0.99", Load::Reads(0.99)),
    ("reads, Zipf 1.2", Load::Reads(1.2)),
];

/// A request for a node, the same for all layouts, with the second in which it arrives: none before the load begins.
pub type Request = (Option<usize>, Access, Rc<Node>);

/// What arrives of a load, in this order: so many files are imported or read, and so many a second. The directories
/// that a file needs are made along with it.
pub struct Arrivals {
    pub requests: Vec<Request>,
    pub count: usize,
    pub rate: usize,
}

impl Load {
    /// The same each time for the same seed. Errors only if the popularity of files has no distribution, as with a
    /// negative exponent.
    pub fn arrivals(self, tree: &Tree, seed: u64) -> anyhow::Result<Arrivals> {
        let files = tree.files.len();
        let count = if matches!(self, Self::Reads(_)) && files > 0 { 50_000 } else { files };
        let rate = if let Self::Rate(rate) = self { rate } else { count.div_ceil(SECONDS).max(1) };
        let mut random = StdRng::seed_from_u64(seed);
        let mut requests = self.import(tree, rate, seed, &mut random);
        if let Self::Reads(exponent) = self {
            requests.iter_mut().for_each(|(second, ..)| *second = None);
            let files = requests.iter().map(|(.., node)| node).filter(|node| !node.is_directory);
            let mut popular: Vec<Rc<Node>> = files.cloned().collect();
            popular.shuffle(&mut random);
            let zipf = Zipf::new(popular.len().max(1) as f64, exponent)?;
            for read in 0..count {
                // A rank, from 1.
                let rank = zipf.sample(&mut random) as usize;
                let Some(node) = popular.get(rank.saturating_sub(1)).cloned() else { continue };
                requests.push((Some(read / rate), Access::Read, node));
            }
        }
        Ok(Arrivals { requests, count, rate })
    }

    /// Each user's files are a part of the tree, and come in its order; a rest that is less than one each does not.
    fn import(self, tree: &Tree, rate: usize, seed: u64, random: &mut StdRng) -> Vec<Request> {
        let users = if let Self::Users(users) = self { users } else { 1 };
        let each = tree.files.len() / users;
        let mut parts: Vec<_> = tree.files.chunks(each.max(1)).map(<[_]>::iter).collect();
        let mut turns: Vec<usize> = (0..each * users).map(|turn| turn % users).collect();
        turns.shuffle(random);
        let (mut nodes, mut requests) = (HashMap::<String, Rc<Node>>::new(), Vec::new());
        for (n, user) in turns.into_iter().enumerate() {
            let Some(file) = parts.get_mut(user).and_then(Iterator::next) else { continue };
            let creator = format!("user{:06}", if let Self::NewUsers(few) = self { n / few } else { user });
            let has_home = matches!(self, Self::Users(_) | Self::NewUsers(_));
            let home = if has_home { format!("/home/{creator}") } else { "/home".to_owned() };
            let name = if self == Self::Camera { format!("IMG_{:08}.JPG", n + 1) } else { file.name.clone() };
            let path = format!("{}/{name}", tree.dir(file).replacen("/home", &home, 1));
            let added = Timestamp::from_ms(NOW + (n as f64 / rate as f64 * 1000.0) as i64);
            let modified = if self == Self::ModifiedNow { added } else { Timestamp::from_ms(file.modified) };
            let times = [(Clock::Modified, modified), (Clock::Added, added)];
            let mut parent: Option<Rc<Node>> = None;
            for end in path.match_indices('/').map(|(at, _)| at).chain([path.len()]) {
                let (path, below) = path.split_at(end);
                let (number, is_directory) = (nodes.len() as u64, !below.is_empty());
                let node = nodes.entry(path.to_owned()).or_insert_with(|| {
                    let (parent, path, creator, id) =
                        (parent.clone(), path.to_owned(), creator.clone(), id(number, seed));
                    Rc::new(Node { parent, path, is_directory, number, id, creator, times })
                });
                // The root is not made, nor is what was there.
                if number > 0 && node.number == number {
                    requests.push((Some(n / rate), Access::Write, node.clone()));
                }
                parent = Some(node.clone());
            }
        }
        requests
    }
}
