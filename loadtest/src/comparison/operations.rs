//! What is measured of each layout: the same operations on the same paths, in this order.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rowdrive::schema::index::by_time::Clock;

use super::loops::Pacing::{self, Many, One, Rate};
use super::requests::Request;
use crate::data::{
    self, ARCHIVE, CAMERA, COVER, CREATORS, DAY, DAYS, FIRST_DAY, FIRST_YEAR, HOME, SHARED, Tree, YEARS,
};
use crate::layouts::kinds::Kind;
use crate::layouts::{List, NewFile, Period, split};

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

pub type Requests = Box<dyn Iterator<Item = Request> + Send>;

pub struct Operation {
    pub name: &'static str,
    pub loops: &'static [Pacing],
    /// Why a layout cannot do it.
    pub lacks: fn(Kind) -> Option<&'static str>,
    /// In this round.
    pub requests: fn(&Inputs) -> Requests,
}

const BOTH: &[Pacing] = &[One, Many];

const fn operation(name: &'static str, loops: &'static [Pacing], requests: fn(&Inputs) -> Requests) -> Operation {
    Operation { name, loops, lacks: |_| None, requests }
}

/// Reads first, while the tables are as they were loaded; renames of folders last, since they change paths.
pub const ALL: [Operation; 26] = [
    operation("stat", &[One, Many, Rate(5_000)], |i| each(i.paths(1), Request::Stat)),
    operation("stat_deep", BOTH, |i| each(i.deep_paths(), Request::Stat)),
    operation("list", BOTH, |i| each(i.folders(), |path| Request::List(path, List::Names))),
    operation("list_folders", BOTH, |i| each(i.years(), |path| Request::List(path, List::Names))),
    operation("list_attributes", &[One, Many, Rate(1_000)], |i| {
        each(i.folders(), |path| Request::List(path, List::Attributes))
    }),
    operation("list_page_first", BOTH, |_| each(std::iter::repeat(""), |after| page(CAMERA, after))),
    operation("list_page_deep", BOTH, |i| i.random_pages()),
    operation("find_name", BOTH, |i| each(i.paths(2), |path| Request::Find(split(&path).1.to_owned()))),
    operation("time_period", BOTH, |i| i.periods((FIRST_YEAR, YEARS * 365), |_, all, least| (all, least))),
    operation("time_period_scattered", BOTH, |i| i.periods((FIRST_DAY, DAYS), |_, all, least| (all, least))),
    operation("time_period_under", BOTH, |i| {
        // Folders of about an eighth of all files each.
        let under = |n| format!("{SHARED}/s{}", 2000 + n % 3);
        i.periods((FIRST_DAY, DAYS), move |n, all, _| (Period { under: under(n), ..all }, 0))
    }),
    Operation {
        lacks: |kind| (!kind.keeps_added()).then_some("the drive sets the time of addition itself"),
        ..operation("added_period", BOTH, |i| {
            i.periods((FIRST_DAY, DAYS), |_, all, _| (Period { clock: Clock::Added, ..all }, 0))
        })
    },
    operation("creator_period", BOTH, |i| {
        let creator = |n| Some(format!("user{:02}", n % CREATORS));
        i.periods((FIRST_DAY, DAYS), move |n, all, _| (Period { creator: creator(n), ..all }, 0))
    }),
    operation("ycsb_a", &[Many], |i| i.mix([50, 50, 0, 0, 0])),
    operation("ycsb_b", &[Many], |i| i.mix([95, 5, 0, 0, 0])),
    operation("ycsb_c", &[Many], |i| i.mix([100, 0, 0, 0, 0])),
    operation("ycsb_d", &[Many], |i| i.latest()),
    operation("ycsb_e", &[Many], |i| i.mix([0, 0, 95, 5, 0])),
    operation("ycsb_f", &[Many], |i| i.mix([50, 0, 0, 0, 50])),
    Operation { loops: &[One, Many, Rate(1_000)], ..CREATE },
    Operation {
        lacks: |kind| match kind.names_repeat() {
            true => None,
            false => Some("the row key is the name: there is room for one file of a name in the whole drive"),
        },
        ..operation("create_same_name", BOTH, |i| {
            let folders = i.folders.len().max(1);
            each(i.new_files(move |n| format!("same-{}", n / folders)), Request::Create)
        })
    },
    OVERWRITE,
    MOVE_FILE,
    operation("delete", BOTH, |i| each(i.movable().1.into_iter(), Request::Delete)),
    RENAME_FOLDER,
    operation("rename_deep", &[One], |_| renames(ARCHIVE)),
];

/// What content makes a difference to.
pub const WITH_CONTENT: [Operation; 5] =
    [operation("read", BOTH, |i| each(i.paths(1), Request::Read)), CREATE, OVERWRITE, MOVE_FILE, RENAME_FOLDER];

const CREATE: Operation = operation("create", BOTH, |i| each(i.new_files(|n| format!("new-{n:08}")), Request::Create));

const OVERWRITE: Operation = operation("overwrite", BOTH, |i| {
    let content = i.content.clone();
    // Another value each time: a condition on the old one would hold whatever another client has written meanwhile.
    each(i.paths(3).zip(FIRST_DAY + DAY..), move |(path, modified)| {
        Request::Overwrite(file(path, modified, content.clone()))
    })
});

const MOVE_FILE: Operation = operation("move_file", BOTH, |i| {
    let (files, _) = i.movable();
    // There and back again, as long as a file's turn comes so late that it has arrived.
    let turns = if files.len() > RESTING { usize::MAX } else { files.len() };
    each(0..turns, move |n| {
        let here = files.get(n % files.len()).cloned().unwrap_or_default();
        let there = format!("{HOME}/moved-{}", here.replace('/', "-"));
        there_or_back(n / files.len(), here, there)
    })
});

const RENAME_FOLDER: Operation = operation("rename_folder", &[One], |_| renames(CAMERA));

/// A folder, back and forth: one cannot be renamed by two clients at a time.
fn renames(folder: &'static str) -> Requests {
    each(0.., move |n| there_or_back(n, folder.to_owned(), format!("{folder}-renamed")))
}

fn there_or_back(turn: usize, here: String, there: String) -> Request {
    if turn.is_multiple_of(2) { Request::Rename(here, there) } else { Request::Rename(there, here) }
}

fn each<T>(all: impl Iterator<Item = T> + Send + 'static, of: impl Fn(T) -> Request + Send + 'static) -> Requests {
    Box::new(all.map(of))
}

fn page(folder: &str, after: &str) -> Request {
    Request::List(folder.to_owned(), List::Page { after: after.to_owned(), limit: PAGE })
}

fn file(path: String, modified: i64, content: Bytes) -> NewFile {
    NewFile { path, attributes: data::attributes(modified), content }
}

/// Again and again, the first time from this place on.
fn cycle(all: Arc<Vec<String>>, from: usize) -> impl Iterator<Item = String> + Send {
    (from..all.len()).chain((0..all.len()).cycle()).filter_map(move |at| all.get(at).cloned())
}

/// What all layouts use in a round: shuffled once, by a seed of this round, which decides on files, folders and their order.
pub struct Inputs {
    tree: Arc<Tree>,
    seed: u64,
    /// Of the files that are stored.
    content: Bytes,
    clients: usize,
    /// Of files that all layouts have room for.
    paths: Arc<Vec<String>>,
    folders: Arc<Vec<String>>,
    /// When the files were modified, in order.
    times: Arc<Vec<i64>>,
    /// Ranks of `paths`, from 1.
    popularity: Zipf<f64>,
}

impl Inputs {
    pub fn new(tree: Arc<Tree>, seed: u64, content: Bytes, clients: usize) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut files: Vec<_> = tree.files.iter().filter(|file| file.name != COVER).collect();
        let mut times: Vec<i64> = files.iter().map(|file| file.modified).collect();
        times.sort_unstable();
        files.shuffle(&mut random);
        let paths: Vec<String> = files.into_iter().map(|file| tree.path(file)).take(PATHS).collect();
        let popularity = Zipf::new(paths.len().max(1) as f64, SKEW)?;
        let mut folders: Vec<String> = tree.folders().into_iter().map(str::to_owned).collect();
        folders.shuffle(&mut random);
        let [paths, folders] = [paths, folders].map(Arc::new);
        Ok(Self { tree, seed, content, clients, paths, folders, times: Arc::new(times), popularity })
    }

    /// Shuffled paths, again and again: those of each turn begin with another tenth, so that no operation reads again
    /// what the one before has read.
    pub fn paths(&self, turn: usize) -> impl Iterator<Item = String> + Send + use<> {
        cycle(self.paths.clone(), self.paths.len() / 10 * turn)
    }

    fn deep_paths(&self) -> impl Iterator<Item = String> + Send + use<> {
        let deep = self.paths.iter().filter(|path| path.starts_with(ARCHIVE)).cloned();
        cycle(Arc::new(deep.collect()), 0)
    }

    fn folders(&self) -> impl Iterator<Item = String> + Send + use<> {
        cycle(self.folders.clone(), 0)
    }

    /// The folders of years: each has those of its months, and no files.
    fn years(&self) -> impl Iterator<Item = String> + Send + use<> {
        let is_year = |dir: &&String| split(dir).0 == HOME && split(dir).1.starts_with('2');
        cycle(Arc::new(self.tree.dirs.iter().filter(is_year).cloned().collect()), 0)
    }

    /// Pages that begin anywhere in the largest folder but for its last page.
    fn random_pages(&self) -> Requests {
        let camera = self.tree.files.iter().filter(|file| self.tree.dir(file) == CAMERA);
        let mut names: Vec<String> = camera.map(|file| file.name.clone()).collect();
        names.truncate(names.len().saturating_sub(PAGE).max(1));
        let mut random = StdRng::seed_from_u64(self.seed);
        Box::new(std::iter::repeat_with(move || page(CAMERA, names.choose(&mut random).map_or("", String::as_str))))
    }

    /// Periods of these days, from a first one on; other periods in each round. `ask` gets the number of a period, the
    /// period for all files by their times of modification, and the number of files that it has at least.
    fn periods<F>(&self, (first, days): (i64, i64), ask: F) -> Requests
    where
        F: Fn(i64, Period, usize) -> (Period, usize) + Send + 'static,
    {
        let (turn, times) = ((self.seed >> 32) as i64 * 11, self.times.clone());
        each(0.., move |n| {
            let from = first + (turn + n) * 37 % (days - PERIOD) * DAY;
            let (to, under) = (from + PERIOD * DAY, String::new());
            let before = |end| times.partition_point(|time| *time < end);
            let all = Period { clock: Clock::Modified, creator: None, from, to, under, limit: PAGE };
            let (period, least) = ask(n, all, (before(to) - before(from)).min(PAGE));
            Request::Period(period, least)
        })
    }

    /// In random folders.
    fn new_files<N>(&self, name: N) -> impl Iterator<Item = NewFile> + Send + use<N>
    where
        N: Fn(usize) -> String + Send,
    {
        let content = self.content.clone();
        self.folders()
            .enumerate()
            .map(move |(n, folder)| file(format!("{folder}/{}.jpg", name(n)), FIRST_DAY + n as i64, content.clone()))
    }

    /// Files to move and files to delete, each once: a file that has moved is not where it was. The folders that are
    /// renamed stay whole.
    fn movable(&self) -> (Vec<String>, Vec<String>) {
        let is_free = |path: &&String| !path.starts_with(CAMERA) && !path.starts_with(ARCHIVE);
        let mut paths: Vec<String> = self.paths.iter().filter(is_free).cloned().collect();
        let deleted = paths.split_off(paths.len() / 2);
        (paths, deleted)
    }

    /// Of a hundred requests so many stats, overwrites, pages, uploads, and stats with an overwrite of the same file; files
    /// by a Zipf distribution.
    fn mix(&self, [stats, overwrites, pages, creates, _]: [u32; 5]) -> Requests {
        let (paths, popularity) = (self.paths.clone(), self.popularity);
        let mut new = self.new_files(|n| format!("mix-{n:08}"));
        let mut random = StdRng::seed_from_u64(self.seed);
        Box::new((FIRST_DAY + 1..).map_while(move |modified| {
            // The most popular are the last ones.
            let rank = popularity.sample(&mut random) as usize;
            let path = paths.get(paths.len().checked_sub(rank)?)?.clone();
            let dice = random.random_range(0..100);
            Some(if dice < stats {
                Request::Stat(path)
            } else if dice < stats + overwrites {
                Request::Overwrite(file(path, modified, Bytes::new()))
            } else if dice < stats + overwrites + pages {
                page(split(&path).0, "")
            } else if dice < stats + overwrites + pages + creates {
                Request::Create(new.next()?)
            } else {
                Request::Modify(file(path, modified, Bytes::new()))
            })
        }))
    }

    /// Uploads, and stats of what was uploaded last, by a Zipf distribution of its age.
    fn latest(&self) -> Requests {
        // The newest files may not be stored yet.
        let under_way = self.clients * 4;
        let (tree, popularity) = (self.tree.clone(), self.popularity);
        let mut new = self.new_files(|n| format!("latest-{n:08}"));
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut stored: Vec<String> = Vec::new();
        let draws = std::iter::repeat_with(move || {
            if random.random_ratio(1, 20) {
                let file = new.next()?;
                stored.push(file.path.clone());
                return Some(Request::Create(file));
            }
            let age = popularity.sample(&mut random) as usize;
            let recent = stored.len().checked_sub(under_way + age).and_then(|at| stored.get(at)).cloned();
            let old = tree.files.len().checked_sub(age).and_then(|at| tree.files.get(at));
            let old = || old.filter(|file| file.name != COVER).map(|file| tree.path(file));
            recent.or_else(old).map(Request::Stat)
        });
        Box::new(draws.flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn inputs() -> Inputs {
        Inputs::new(Arc::new(Tree::new(2_000, 1)), 1, Bytes::new(), 64).unwrap()
    }

    #[test]
    fn mixes_have_the_shares_and_the_skew_of_their_names() {
        let inputs = inputs();
        for (requests, few, expected) in [
            (inputs.mix([95, 5, 0, 0, 0]), "Overwrite", 500),
            (inputs.mix([0, 0, 95, 5, 0]), "Create", 500),
            (inputs.mix([0, 0, 95, 5, 0]), "List", 9_500),
            (inputs.mix([50, 0, 0, 0, 50]), "Modify", 5_000),
            (inputs.mix([50, 0, 0, 0, 50]), "Stat", 5_000),
            (inputs.latest(), "Create", 500),
        ] {
            let count = requests.take(10_000).filter(|one| format!("{one:?}").starts_with(few)).count();
            assert!(count.abs_diff(expected) < 200, "{few}: {count}");
        }
        // The first of 2,000 has 1 / sum(1 / n^0.99) of all: an eighth.
        let first = inputs.paths.last().unwrap();
        let stats = inputs.mix([100, 0, 0, 0, 0]).take(10_000);
        let hits = stats.filter(|one| matches!(one, Request::Stat(path) if path == first)).count();
        assert!((1_050..1_400).contains(&hits), "{hits}");
    }

    #[test]
    fn what_moves_is_not_deleted_or_renamed_with_its_folder() {
        let inputs = inputs();
        let (moved, deleted) = inputs.movable();
        let all: HashSet<&String> = moved.iter().chain(&deleted).collect();
        assert!(all.len() > 1_500 && all.len() == moved.len() + deleted.len(), "{}", all.len());
        assert!(moved.len().abs_diff(deleted.len()) <= 1);
        assert!(all.iter().all(|path| !path.starts_with(CAMERA) && !path.starts_with(ARCHIVE)));
    }
}
