//! What is measured of each layout: the same operations on the same paths, in this order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rowdrive::schema::index::by_time::Clock;

use super::loops::Clients;
use super::requests::Request;
use crate::data::{ARCHIVE, CAMERA, COVER, CREATORS, DAY, DAYS, FIRST_DAY, FIRST_YEAR, HOME, SHARED, Tree, YEARS};
use crate::layouts::kinds::Kind;
use crate::layouts::{List, Period};

/// Files of a page, in a folder or of a time.
const PAGE: usize = 100;
/// Days of a period.
const PERIOD: i64 = 30;
/// Paths that are drawn from at most: of a larger tree a random part.
const PATHS: usize = 500_000;
/// Files between two moves of one file, at least: many times as many as there are clients.
const RESTING: usize = 2_000;
/// The exponent of YCSB's Zipf distribution.
const SKEW: f64 = 0.99;

/// What the requests of an operation are made of.
pub struct Context<'a> {
    pub round: &'a Inputs,
    pub kind: Kind,
}

/// What all layouts use in a round: shuffled once, by a seed of this round, which decides on files, folders and their order.
pub struct Inputs {
    pub tree: Arc<Tree>,
    pub seed: u64,
    /// Of the files that are stored.
    pub content: Bytes,
    pub clients: usize,
    /// When files were modified, in order.
    times: Arc<Vec<i64>>,
    /// By the turn of an operation, and whether a name may be in two directories.
    paths: Mutex<HashMap<(u64, bool), Paths>>,
}

impl Inputs {
    pub fn new(tree: Arc<Tree>, seed: u64, content: Bytes, clients: usize) -> Self {
        let files = tree.files.iter().filter(|file| file.name != COVER);
        let mut times: Vec<i64> = files.map(|file| file.modified).collect();
        times.sort_unstable();
        Self { tree, seed, content, clients, times: Arc::new(times), paths: Mutex::default() }
    }

    fn paths(&self, turn: u64, names_repeat: bool) -> Paths {
        let mut known = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let shuffled = || {
            let files = self.tree.shuffled(self.seed ^ turn).into_iter();
            let files = files.filter(|file| names_repeat || file.name != COVER);
            Arc::new(files.map(|file| self.tree.path(file)).take(PATHS).collect())
        };
        known.entry((turn, names_repeat)).or_insert_with(shuffled).clone()
    }
}

/// Again and again.
fn cycle(all: Paths) -> impl Iterator<Item = String> + Send {
    (0..all.len()).cycle().filter_map(move |at| all.get(at).cloned())
}

/// Shuffled.
type Paths = Arc<Vec<String>>;

pub type Requests = Box<dyn Iterator<Item = Request> + Send>;

pub struct Operation {
    pub name: &'static str,
    pub clients: Clients,
    /// In this round. The reason, if the layout cannot do it.
    pub requests: fn(&Context<'_>) -> Result<Requests, &'static str>,
}

const BOTH: Clients = Clients::OneAndMany { rate: None };

const fn at(rate: f64) -> Clients {
    Clients::OneAndMany { rate: Some(rate) }
}

const fn operation(
    name: &'static str,
    clients: Clients,
    requests: fn(&Context<'_>) -> Result<Requests, &'static str>,
) -> Operation {
    Operation { name, clients, requests }
}

/// Reads first, while the tables are as they were loaded; renames of folders last, since they change paths.
pub const ALL: [Operation; 26] = [
    operation("stat", at(5_000.0), |c| boxed(c.paths(1).map(Request::Stat))),
    operation("stat_deep", BOTH, |c| boxed(c.paths_below(ARCHIVE, 1).map(Request::Stat))),
    operation("list", BOTH, |c| boxed(c.folders().map(|path| Request::List(path, List::Names)))),
    operation("list_folders", BOTH, |c| boxed(c.folders_of_folders().map(|path| Request::List(path, List::Names)))),
    operation("list_attributes", at(1_000.0), |c| boxed(c.folders().map(|path| Request::List(path, List::Attributes)))),
    operation("list_page_first", BOTH, |_| boxed(std::iter::repeat_with(|| page(String::new())))),
    operation("list_page_deep", BOTH, |c| boxed(c.random_pages())),
    operation("find_name", BOTH, |c| boxed(c.paths(2).filter_map(name).map(Request::Find))),
    operation("time_period", BOTH, |c| boxed(c.counted_periods((FIRST_YEAR, YEARS * 365)))),
    operation("time_period_scattered", BOTH, |c| boxed(c.counted_periods((FIRST_DAY, DAYS)))),
    operation("time_period_under", BOTH, |c| boxed(c.periods_under())),
    operation("added_period", BOTH, |c| match c.kind.keeps_added() {
        true => boxed(c.periods((FIRST_DAY, DAYS), Clock::Added).map(|period| Request::Period(period, 0))),
        false => Err("the drive sets the time of addition itself"),
    }),
    operation("creator_period", BOTH, |c| boxed(c.creator_periods())),
    operation("ycsb_a", Clients::Many, |c| c.mix([50, 50, 0, 0, 0])),
    operation("ycsb_b", Clients::Many, |c| c.mix([95, 5, 0, 0, 0])),
    operation("ycsb_c", Clients::Many, |c| c.mix([100, 0, 0, 0, 0])),
    operation("ycsb_d", Clients::Many, |c| c.latest()),
    operation("ycsb_e", Clients::Many, |c| c.mix([0, 0, 95, 5, 0])),
    operation("ycsb_f", Clients::Many, |c| c.mix([50, 0, 0, 0, 50])),
    operation("create", at(1_000.0), |c| boxed(c.new_files("new"))),
    operation("create_same_name", BOTH, |c| match c.kind.names_repeat() {
        true => boxed(c.same_names()),
        false => Err("the row key is the name: there is room for one file of a name in the whole drive"),
    }),
    OVERWRITE,
    MOVE_FILE,
    operation("delete", BOTH, |c| boxed(c.movable().1.into_iter().map(Request::Delete))),
    RENAME_FOLDER,
    operation("rename_deep", Clients::One, |_| boxed(renames(ARCHIVE))),
];

/// What content makes a difference to.
pub const WITH_CONTENT: [Operation; 5] = [
    operation("read", BOTH, |c| boxed(c.paths(1).map(Request::Read))),
    operation("create", BOTH, |c| boxed(c.new_files("new"))),
    OVERWRITE,
    MOVE_FILE,
    RENAME_FOLDER,
];

const OVERWRITE: Operation = operation("overwrite", BOTH, |c| {
    let content = c.round.content.clone();
    // Another value each time: a condition on the old one would hold whatever another client has written meanwhile.
    let overwrite =
        move |(path, n)| Request::Put { path, modified: FIRST_DAY + DAY + n, content: content.clone(), is_new: false };
    boxed(c.paths(3).zip(0..).map(overwrite))
});

const MOVE_FILE: Operation = operation("move_file", BOTH, |c| {
    let to = |path: &str| format!("{HOME}/moved-{}", path.replace('/', "-"));
    let files: Vec<(String, String)> = c.movable().0.into_iter().map(|path| (to(&path), path)).collect();
    // There and back again, as long as a file's turn comes so late that it has arrived.
    let turns = if files.len() > RESTING { usize::MAX } else { files.len() };
    let moves = (0..turns).filter_map(move |n| {
        let (there, here) = files.get(n % files.len())?.clone();
        let is_back = n / files.len() % 2 == 1;
        Some(if is_back {
            Request::Rename { from: there, to: here }
        } else {
            Request::Rename { from: here, to: there }
        })
    });
    boxed(moves)
});

const RENAME_FOLDER: Operation = operation("rename_folder", Clients::One, |_| boxed(renames(CAMERA)));

fn boxed(requests: impl Iterator<Item = Request> + Send + 'static) -> Result<Requests, &'static str> {
    Ok(Box::new(requests))
}

fn page(after: String) -> Request {
    Request::List(CAMERA.to_owned(), List::Page { after, limit: PAGE })
}

/// The name of a path, if only one file has it.
fn name(path: String) -> Option<String> {
    path.rsplit_once('/').map(|(_, name)| name.to_owned()).filter(|name| name != COVER)
}

/// A folder, back and forth: one cannot be renamed by two clients at a time.
fn renames(folder: &'static str) -> impl Iterator<Item = Request> + Send {
    let names = [folder.to_owned(), format!("{folder}-renamed")];
    (0..).map(move |n| {
        let [one, other] = names.clone();
        if n % 2 == 0 { Request::Rename { from: one, to: other } } else { Request::Rename { from: other, to: one } }
    })
}

impl Context<'_> {
    fn all_paths(&self, turn: u64) -> Paths {
        self.round.paths(turn, self.kind.names_repeat())
    }

    /// Paths of files that the layout has room for, shuffled, again and again.
    fn paths(&self, turn: u64) -> impl Iterator<Item = String> + Send + use<> {
        cycle(self.all_paths(turn))
    }

    /// For a store that is to be warm.
    pub fn stats(&self) -> impl Iterator<Item = Request> + Send + use<> {
        self.paths(9).map(Request::Stat)
    }

    fn paths_below(&self, root: &str, turn: u64) -> impl Iterator<Item = String> + Send + use<> {
        let all = self.all_paths(turn);
        cycle(Arc::new(all.iter().filter(|path| path.starts_with(root)).cloned().collect()))
    }

    fn folders(&self) -> impl Iterator<Item = String> + Send + use<> {
        let folders = self.round.tree.shuffled_folders(self.round.seed);
        cycle(Arc::new(folders.into_iter().map(str::to_owned).collect()))
    }

    /// The folders of years: each has those of its months, and no files.
    fn folders_of_folders(&self) -> impl Iterator<Item = String> + Send + use<> {
        let is_year =
            |dir: &&String| dir.strip_prefix(HOME).is_some_and(|name| name.len() == 5 && name.starts_with("/2"));
        cycle(Arc::new(self.round.tree.dirs.iter().filter(is_year).cloned().collect()))
    }

    /// Pages that begin anywhere in the largest folder but for its last page.
    fn random_pages(&self) -> impl Iterator<Item = Request> + Send + use<> {
        let camera = self.round.tree.files.iter().filter(|file| self.round.tree.dir(file) == CAMERA);
        let mut names: Vec<String> = camera.map(|file| file.name.clone()).collect();
        names.truncate(names.len().saturating_sub(PAGE).max(1));
        let mut random = StdRng::seed_from_u64(self.round.seed);
        std::iter::repeat_with(move || {
            page(names.get(random.random_range(0..names.len())).cloned().unwrap_or_default())
        })
    }

    /// Periods of these days, from a first one on; other periods in each round.
    fn periods(&self, (first, days): (i64, i64), clock: Clock) -> impl Iterator<Item = Period> + Send + use<> {
        let turn = (self.round.seed >> 32) as i64 * 11;
        (0..).map(move |n| {
            let from = first + (turn + n) * 37 % (days - PERIOD) * DAY;
            let to = from + PERIOD * DAY;
            Period { clock, creator: None, from, to, under: String::new(), limit: PAGE }
        })
    }

    /// Periods of modification, with the number of files that there are at least.
    fn counted_periods(&self, days: (i64, i64)) -> impl Iterator<Item = Request> + Send + use<> {
        let times = self.round.times.clone();
        self.periods(days, Clock::Modified).map(move |period| {
            let before = |end| times.partition_point(|time| *time < end);
            let least = (before(period.to) - before(period.from)).min(period.limit);
            Request::Period(period, least)
        })
    }

    /// Below folders of about an eighth of all files each, whose times are scattered.
    fn periods_under(&self) -> impl Iterator<Item = Request> + Send + use<> {
        let years: Vec<String> = (2000..2003).map(|year| format!("{SHARED}/s{year}")).collect();
        let periods = self.periods((FIRST_DAY, DAYS), Clock::Modified).zip(years.into_iter().cycle());
        periods.map(|(period, under)| Request::Period(Period { under, ..period }, 0))
    }

    fn creator_periods(&self) -> impl Iterator<Item = Request> + Send + use<> {
        let periods = self.periods((FIRST_DAY, DAYS), Clock::Modified).zip((0..CREATORS).cycle());
        periods.map(|(period, n)| Request::Period(Period { creator: Some(format!("user{n:02}")), ..period }, 0))
    }

    fn new_files(&self, prefix: &'static str) -> impl Iterator<Item = Request> + Send + use<> {
        let content = self.round.content.clone();
        self.folders().enumerate().map(move |(n, folder)| {
            let path = format!("{folder}/{prefix}-{n:08}.jpg");
            Request::Put { path, modified: FIRST_DAY + n as i64, content: content.clone(), is_new: true }
        })
    }

    fn same_names(&self) -> impl Iterator<Item = Request> + Send + use<> {
        let folders = self.round.tree.folders().len().max(1);
        self.folders().enumerate().map(move |(n, folder)| {
            let path = format!("{folder}/same-{}.jpg", n / folders);
            Request::Put { path, modified: FIRST_DAY + n as i64, content: Bytes::new(), is_new: true }
        })
    }

    /// Files to move and files to delete, each once: a file that has moved is not where it was. The folders that are
    /// renamed stay whole.
    fn movable(&self) -> (Vec<String>, Vec<String>) {
        let all = self.all_paths(4);
        let is_free = |path: &&String| !path.starts_with(CAMERA) && !path.starts_with(ARCHIVE);
        let mut paths: Vec<String> = all.iter().filter(is_free).cloned().collect();
        let deleted = paths.split_off(paths.len() / 2);
        (paths, deleted)
    }

    /// Of a hundred requests so many stats, overwrites, pages, uploads, and stats with an overwrite of the same file; files
    /// by a Zipf distribution.
    fn mix(&self, of_hundred: [u32; 5]) -> Result<Requests, &'static str> {
        let (paths, mut new) = (self.all_paths(5), self.new_files("mix"));
        let zipf = Zipf::new(paths.len().max(1) as f64, SKEW).map_err(|_| "there are no files")?;
        let mut random = StdRng::seed_from_u64(self.round.seed);
        let mut modified = FIRST_DAY;
        boxed(std::iter::from_fn(move || {
            let path = paths.get(zipf.sample(&mut random) as usize - 1).or(paths.first())?.clone();
            let mut dice = random.random_range(0..100);
            let mut is = |share: u32| {
                let is_so = dice < share;
                dice = dice.wrapping_sub(share);
                is_so
            };
            let [stat, overwrite, pages, create, _] = of_hundred;
            modified += 1;
            Some(if is(stat) {
                Request::Stat(path)
            } else if is(overwrite) {
                Request::Put { path, modified, content: Bytes::new(), is_new: false }
            } else if is(pages) {
                let folder = path.rsplit_once('/')?.0.to_owned();
                Request::List(folder, List::Page { after: String::new(), limit: PAGE })
            } else if is(create) {
                new.next()?
            } else {
                Request::Modify { path, modified }
            })
        }))
    }

    /// Uploads, and stats of what was uploaded last, by a Zipf distribution of its age.
    fn latest(&self) -> Result<Requests, &'static str> {
        // The newest files may not be stored yet.
        let under_way = self.round.clients * 4;
        let newest = self.round.tree.files.iter().rev();
        let newest = newest.filter(|file| self.kind.names_repeat() || file.name != COVER).take(PATHS);
        let old: Vec<String> = newest.map(|file| self.round.tree.path(file)).collect();
        let mut new = self.new_files("latest");
        let zipf = Zipf::new(old.len().max(1) as f64, SKEW).map_err(|_| "there are no files")?;
        let mut random = StdRng::seed_from_u64(self.round.seed);
        let mut stored: Vec<String> = Vec::new();
        boxed(std::iter::from_fn(move || {
            if random.random_ratio(1, 20) {
                let request = new.next()?;
                if let Request::Put { path, .. } = &request {
                    stored.push(path.clone());
                }
                return Some(request);
            }
            let age = zipf.sample(&mut random) as usize;
            let recent = stored.len().checked_sub(under_way + age).and_then(|at| stored.get(at));
            Some(Request::Stat(recent.or(old.get(age - 1)).or(old.first())?.clone()))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn mixes_have_the_shares_and_the_skew_of_their_names() {
        let tree = Arc::new(Tree::new(2_000, 1));
        let round = Inputs::new(tree, 1, Bytes::new(), 64);
        let context = Context { round: &round, kind: Kind::FullPath };
        let drawn = |requests: Result<Requests, _>| requests.unwrap().take(10_000).collect::<Vec<_>>();
        let share = |all: &[Request], is: fn(&Request) -> bool| all.iter().filter(|request| is(request)).count();
        let b = drawn(context.mix([95, 5, 0, 0, 0]));
        assert!((9_400..9_600).contains(&share(&b, |request| matches!(request, Request::Stat(_)))));
        assert!((400..600).contains(&share(&b, |request| matches!(request, Request::Put { is_new: false, .. }))));
        let e = drawn(context.mix([0, 0, 95, 5, 0]));
        assert!((9_400..9_600).contains(&share(&e, |request| matches!(request, Request::List(..)))));
        assert!((400..600).contains(&share(&e, |request| matches!(request, Request::Put { is_new: true, .. }))));
        let f = drawn(context.mix([50, 0, 0, 0, 50]));
        assert!((4_800..5_200).contains(&share(&f, |request| matches!(request, Request::Modify { .. }))));
        // The first of 2,000 has 1 / sum(1 / n^0.99) of all: an eighth.
        let first = &context.all_paths(5)[0];
        let hits = b.iter().filter(|request| matches!(request, Request::Stat(path) if path == first)).count();
        assert!((1_000..1_350).contains(&hits), "{hits}");
        let d = drawn(context.latest());
        assert!((400..600).contains(&share(&d, |request| matches!(request, Request::Put { is_new: true, .. }))));
    }

    #[test]
    fn what_moves_is_not_deleted_or_renamed_with_its_folder() {
        let tree = Arc::new(Tree::new(2_000, 1));
        let round = Inputs::new(tree, 1, Bytes::new(), 64);
        let context = Context { round: &round, kind: Kind::FullPath };
        let (moved, deleted) = context.movable();
        let all: HashSet<&String> = moved.iter().chain(&deleted).collect();
        assert_eq!((all.len(), moved.len().abs_diff(deleted.len()) <= 1), (1_600, true));
        assert!(all.iter().all(|path| !path.starts_with(CAMERA) && !path.starts_with(ARCHIVE)));
    }
}
