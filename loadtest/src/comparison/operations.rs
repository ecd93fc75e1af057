//! What is measured of each layout: the same operations on the same paths, in this order; and their requests.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rowdrive::schema::index::by_time::Clock;

use super::loops::Pacing::{self, Many, One, Rate};
use crate::data::{
    self, ARCHIVE, CAMERA, COVER, CREATORS, DAY, DAYS, FIRST_DAY, FIRST_YEAR, HOME, SHARED, Tree, YEARS,
};
use crate::layouts::kinds::Kind;
use crate::layouts::{Layout, List, NewFile, Period, Verdict, split};
use Request::{Create, Delete, Find, Modify, Overwrite, Read, Rename, Stat};

/// Files of a page, in a folder or of a time.
const PAGE: usize = 100;
const PERIOD: i64 = 30;
/// Paths that are drawn from at most: of a larger tree a random part.
const PATHS: usize = 500_000;
/// Files between two moves of one file, at least: many times as many as there are clients.
const RESTING: usize = 2_000;
/// The exponent of YCSB's Zipf distribution.
const SKEW: f64 = 0.99;
/// Tries of one overwrite: of 64 clients that want the same file, each group of commits lets one succeed.
const ATTEMPTS: usize = 1_000;
/// Requests of a mix until its files come again in the same order.
const DRAWS: usize = 1 << 16;
/// Days of times without relation to folders, and of those that follow them.
const SCATTERED: (i64, i64) = (FIRST_DAY, DAYS);
const IN_FOLDERS: (i64, i64) = (FIRST_YEAR, YEARS * 365);

pub struct Operation {
    pub name: &'static str,
    pub loops: &'static [Pacing],
    pub request: Nth,
}

/// The request of this number in a round; none if there are no more.
pub type Nth = fn(&Inputs, usize) -> Option<Request>;

impl Operation {
    /// Why a layout cannot do it.
    pub fn refusal(&self, kind: Kind) -> Option<&'static str> {
        match self.name {
            "added_period" if !kind.keeps_added() => Some("the drive sets the time of addition itself"),
            "create_same_name" if !kind.names_repeat() => {
                Some("the row key is the name: there is room for one file of a name in the whole drive")
            }
            _ => None,
        }
    }
}

const BOTH: &[Pacing] = &[One, Many];

const fn operation(name: &'static str, loops: &'static [Pacing], request: Nth) -> Operation {
    Operation { name, loops, request }
}

/// Reads first, while the tables are as they were loaded; renames of folders last, since they change paths.
pub const ALL: [Operation; 26] = [
    operation("stat", &[One, Many, Rate(5_000)], |i, n| i.path(1, n).map(Stat)),
    operation("stat_deep", BOTH, |i, n| any(&i.deep, n).map(Stat)),
    operation("list", BOTH, |i, n| any(&i.folders, n).map(|path| Request::List(path, List::Names))),
    operation("list_folders", BOTH, |i, n| any(&i.years, n).map(|path| Request::List(path, List::Names))),
    operation("list_attributes", &[One, Many, Rate(1_000)], |i, n| {
        any(&i.folders, n).map(|path| Request::List(path, List::Attributes))
    }),
    operation("list_page_first", BOTH, |_, _| Some(page(CAMERA, String::new()))),
    operation("list_page_deep", BOTH, |i, n| any(&i.page_starts, n).map(|name| page(CAMERA, name))),
    operation("find_name", BOTH, |i, n| i.path(2, n).map(|path| Find(split(&path).1.to_owned()))),
    operation("time_period", BOTH, |i, n| i.counted(i.period(n, IN_FOLDERS))),
    operation("time_period_scattered", BOTH, |i, n| i.counted(i.period(n, SCATTERED))),
    // Folders of about an eighth of all files each.
    operation("time_period_under", BOTH, |i, n| {
        Some(Request::Period(Period { under: format!("{SHARED}/s{}", 2000 + n % 3), ..i.period(n, SCATTERED) }, 0))
    }),
    operation("added_period", BOTH, |i, n| {
        Some(Request::Period(Period { clock: Clock::Added, ..i.period(n, SCATTERED) }, 0))
    }),
    operation("creator_period", BOTH, |i, n| {
        let creator = Some(format!("user{:02}", n as i64 % CREATORS));
        Some(Request::Period(Period { creator, ..i.period(n, SCATTERED) }, 0))
    }),
    operation("ycsb_a", &[Many], |i, n| i.mix(n, [50, 50, 0, 0, 0])),
    operation("ycsb_b", &[Many], |i, n| i.mix(n, [95, 5, 0, 0, 0])),
    operation("ycsb_c", &[Many], |i, n| i.mix(n, [100, 0, 0, 0, 0])),
    operation("ycsb_d", &[Many], |i, n| i.latest(n)),
    operation("ycsb_e", &[Many], |i, n| i.mix(n, [0, 0, 95, 5, 0])),
    operation("ycsb_f", &[Many], |i, n| i.mix(n, [50, 0, 0, 0, 50])),
    Operation { loops: &[One, Many, Rate(1_000)], ..CREATE },
    operation("create_same_name", BOTH, |i, n| i.create(n, &format!("same-{}", n / i.folders.len().max(1)))),
    OVERWRITE,
    MOVE_FILE,
    operation("delete", BOTH, |i, n| i.free.1.get(n).cloned().map(Delete)),
    RENAME_FOLDER,
    operation("rename_deep", &[One], |_, n| rename(n, ARCHIVE.to_owned(), format!("{ARCHIVE}-renamed"))),
];

/// What content makes a difference to.
pub const WITH_CONTENT: [Operation; 5] =
    [operation("read", BOTH, |i, n| i.path(1, n).map(Read)), CREATE, OVERWRITE, MOVE_FILE, RENAME_FOLDER];

const CREATE: Operation = operation("create", BOTH, |i, n| i.create(n, &format!("new-{n:08}")));

/// Another time in each request: if values repeated, the condition on the old one could hold after another's write.
const OVERWRITE: Operation = operation("overwrite", BOTH, |i, n| {
    Some(Overwrite(file(i.path(3, n)?, FIRST_DAY + DAY + n as i64, i.content.clone())))
});

/// There and back again. With too few files nothing is moved back: the first move may still be under way.
const MOVE_FILE: Operation = operation("move_file", BOTH, |i, n| {
    let (files, _to_delete) = &i.free;
    let here = any(files, n).filter(|_| n < files.len() || files.len() > RESTING)?;
    let there = format!("{HOME}/moved-{}", here.replace('/', "-"));
    rename(n / files.len(), here, there)
});

const RENAME_FOLDER: Operation =
    operation("rename_folder", &[One], |_, n| rename(n, CAMERA.to_owned(), format!("{CAMERA}-renamed")));

/// Back and forth. A folder cannot be renamed by two clients at a time.
fn rename(turn: usize, here: String, there: String) -> Option<Request> {
    Some(if turn.is_multiple_of(2) { Rename(here, there) } else { Rename(there, here) })
}

fn page(folder: &str, after: String) -> Request {
    Request::List(folder.to_owned(), List::Page { after, limit: PAGE })
}

pub fn file(path: String, modified: i64, content: Bytes) -> NewFile {
    NewFile { path, attributes: data::attributes(modified), content }
}

fn any(all: &[String], n: usize) -> Option<String> {
    all.get(n % all.len().max(1)).cloned()
}

/// What all layouts use in a round: shuffled once, by a seed of this round, which decides on files, folders and their order.
pub struct Inputs {
    tree: Arc<Tree>,
    first_period: i64,
    /// Of the files that are stored.
    content: Bytes,
    clients: usize,
    /// Of files that all layouts have room for; and those of them in folders six deep.
    paths: Vec<String>,
    deep: Vec<String>,
    folders: Vec<String>,
    /// The folders of years: each has those of its months, and no files.
    years: Vec<String>,
    /// Names in the largest folder but for its last page.
    page_starts: Vec<String>,
    /// Files to move, and other files to delete: none of the folders that are renamed, so that these stay whole.
    free: (Vec<String>, Vec<String>),
    /// When the files were modified, in order.
    times: Vec<i64>,
    /// For each request of a mix: the rank of its file, from 1, by a Zipf distribution, and a number below 100.
    draws: Vec<(usize, u32)>,
}

impl Inputs {
    pub fn new(tree: Arc<Tree>, seed: u64, content: Bytes, clients: usize) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut files: Vec<_> = tree.files.iter().filter(|file| file.name != COVER).collect();
        let mut times: Vec<i64> = files.iter().map(|file| file.modified).collect();
        times.sort_unstable();
        let camera = tree.files.iter().filter(|file| tree.dir(file) == CAMERA).map(|file| file.name.clone());
        let mut page_starts: Vec<String> = camera.collect();
        page_starts.truncate(page_starts.len().saturating_sub(PAGE).max(1));
        files.shuffle(&mut random);
        let paths: Vec<String> = files.into_iter().map(|file| tree.path(file)).take(PATHS).collect();
        let is_year = |dir: &&String| split(dir).0 == HOME && split(dir).1.starts_with('2');
        let years = tree.dirs.iter().filter(is_year).cloned().collect();
        // Of events: all that hold files, but for the largest and the deep ones.
        let mut folders: Vec<String> = tree.dirs.iter().filter(|dir| dir.contains("event")).cloned().collect();
        page_starts.shuffle(&mut random);
        folders.shuffle(&mut random);
        let deep = paths.iter().filter(|path| path.starts_with(ARCHIVE)).cloned().collect();
        let is_free = |path: &&String| !path.starts_with(CAMERA) && !path.starts_with(ARCHIVE);
        let mut movable: Vec<String> = paths.iter().filter(is_free).cloned().collect();
        let deletable = movable.split_off(movable.len() / 2);
        let (free, first_period) = ((movable, deletable), (seed >> 32) as i64 * 11);
        let ranks = Zipf::new(paths.len().max(1) as f64, SKEW)?.sample_iter(StdRng::seed_from_u64(seed));
        let draws = ranks.map(|rank| (rank as usize, random.random_range(0..100))).take(DRAWS).collect();
        Ok(Self { tree, first_period, content, clients, paths, deep, folders, years, page_starts, free, times, draws })
    }

    /// The paths of each turn begin with another tenth, so that no operation reads again what the one before has read.
    pub fn path(&self, turn: usize, n: usize) -> Option<String> {
        any(&self.paths, self.paths.len() / 10 * turn + n)
    }

    /// The period of request `n`: of all folders, by time of modification.
    fn period(&self, n: usize, (first, days): (i64, i64)) -> Period {
        let from = first + (self.first_period + n as i64) * 37 % (days - PERIOD) * DAY;
        let (to, under) = (from + PERIOD * DAY, String::new());
        Period { clock: Clock::Modified, creator: None, from, to, under, limit: PAGE }
    }

    /// A request for this period, with the number of files that it must find at least.
    fn counted(&self, period: Period) -> Option<Request> {
        let before = |end| self.times.partition_point(|time| *time < end);
        let least = (before(period.to) - before(period.from)).min(PAGE);
        Some(Request::Period(period, least))
    }

    fn new_path(&self, n: usize, name: &str) -> Option<String> {
        any(&self.folders, n).map(|folder| format!("{folder}/{name}.jpg"))
    }

    fn create(&self, n: usize, name: &str) -> Option<Request> {
        Some(Create(file(self.new_path(n, name)?, FIRST_DAY + n as i64, self.content.clone())))
    }

    /// Of a hundred requests so many stats, overwrites, pages, creates, and stats with an overwrite of the same file.
    fn mix(&self, n: usize, [stats, overwrites, pages, creates, _]: [u32; 5]) -> Option<Request> {
        let (rank, dice) = *self.draws.get(n % DRAWS)?;
        // The most popular are the last ones.
        let path = self.paths.get(self.paths.len().checked_sub(rank)?)?.clone();
        let modified = FIRST_DAY + 1 + n as i64;
        Some(if dice < stats {
            Stat(path)
        } else if dice < stats + overwrites {
            Overwrite(file(path, modified, Bytes::new()))
        } else if dice < stats + overwrites + pages {
            page(split(&path).0, String::new())
        } else if dice < stats + overwrites + pages + creates {
            self.create(n, &format!("mix-{n:08}"))?
        } else {
            Modify(file(path, modified, Bytes::new()))
        })
    }

    /// A create among twenty, and stats of what was created last, by a Zipf distribution of its age.
    fn latest(&self, n: usize) -> Option<Request> {
        let name = |n| format!("latest-{n:08}");
        if n.is_multiple_of(20) {
            return self.create(n, &name(n));
        }
        let (age, _) = *self.draws.get(n % DRAWS)?;
        // The newest files may not be stored yet.
        let Some(recent) = (n / 20 + 1).checked_sub(self.clients * 4 + age) else {
            let old = self.tree.files.iter().rev().skip(age - 1).find(|file| file.name != COVER)?;
            return Some(Stat(self.tree.path(old)));
        };
        self.new_path(recent * 20, &name(recent * 20)).map(Stat)
    }
}

#[derive(Clone, Debug)]
pub enum Request {
    Stat(String),
    Read(String),
    /// The children of a directory, of which there is at least one.
    List(String, List),
    /// A name that one file has.
    Find(String),
    /// At least so many files are found, newest first.
    Period(Period, usize),
    Create(NewFile),
    Overwrite(NewFile),
    /// A stat, and then an overwrite of the same file.
    Modify(NewFile),
    Rename(String, String),
    Delete(String),
}

impl Request {
    /// An error if the layout does not answer as it should.
    pub async fn send(self, layout: Arc<dyn Layout>) -> Result<()> {
        let is_right = match &self {
            Self::Stat(path) => layout.stat(path).await?.is_some(),
            Self::Read(path) => layout.read(path).await?.is_some_and(|content| !content.is_empty()),
            Self::List(path, ask) => layout.list(path, ask).await?.is_some_and(|children| !children.is_empty()),
            Self::Find(name) => layout.find(name).await?.len() == 1,
            Self::Period(period, least) => {
                let found = layout.period(period).await?;
                found.len() >= *least && found.iter().is_sorted_by(|(one, _), (next, _)| one >= next)
            }
            Self::Create(file) => layout.put(file, true).await? == Verdict::Done,
            Self::Overwrite(file) => overwrite(&*layout, file).await?,
            Self::Modify(file) => layout.stat(&file.path).await?.is_some() && overwrite(&*layout, file).await?,
            Self::Rename(from, to) => layout.rename(from, to).await? == Verdict::Done,
            Self::Delete(path) => layout.delete(path).await? == Verdict::Done,
        };
        // Content may be long.
        ensure!(is_right, "a wrong answer to {}", format!("{self:?}").chars().take(300).collect::<String>());
        Ok(())
    }
}

async fn overwrite(layout: &dyn Layout, file: &NewFile) -> Result<bool> {
    // Another client may overwrite the same file meanwhile: read it again, as the drive itself does.
    for _ in 0..ATTEMPTS {
        if layout.put(file, false).await? == Verdict::Done {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_the_shares_and_the_skew_of_their_names() {
        let inputs = Inputs::new(Arc::new(Tree::new(2_000, 1)), 1, Bytes::new(), 64).unwrap();
        let cases: [(Nth, &str, usize); 7] = [
            (|i, n| i.mix(n, [95, 5, 0, 0, 0]), "Overwrite", 500),
            (|i, n| i.mix(n, [0, 0, 95, 5, 0]), "Create", 500),
            (|i, n| i.mix(n, [0, 0, 95, 5, 0]), "List", 9_500),
            (|i, n| i.mix(n, [50, 0, 0, 0, 50]), "Modify", 5_000),
            (|i, n| i.mix(n, [50, 0, 0, 0, 50]), "Stat", 5_000),
            (|i, n| i.latest(n), "Create", 500),
            (|i, n| i.latest(n), "Stat", 9_500),
        ];
        for (nth, name, expected) in cases {
            let all = (0..10_000).map(|n| format!("{:?}", nth(&inputs, n).unwrap()));
            let count = all.filter(|request| request.starts_with(name)).count();
            assert!(count.abs_diff(expected) < 200, "{name}: {count}");
        }
        // The first of 2,000 has 1 / sum(1 / n^0.99) of all: an eighth.
        let first = Some(format!("Stat({:?})", inputs.paths.last().unwrap()));
        let hits = (0..10_000).filter(|n| inputs.mix(*n, [100, 0, 0, 0, 0]).map(|one| format!("{one:?}")) == first);
        assert!((1_050..1_400).contains(&hits.count()));
    }
}
