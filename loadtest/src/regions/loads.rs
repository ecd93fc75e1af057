//! Which requests arrive, and when: at simulated seconds, and no client waits for an answer.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Zipf};

use super::keys::{Action, Dir, SimulatedRequest};
use crate::data::Tree;

/// Seconds of a load: three for each region, so that an import which fills one region after another fills one alone in
/// most of them.
const SECONDS: usize = 50;
/// When requests begin to arrive, in milliseconds since 1970: after the times of the tree's files.
const NOW: i64 = 1_800_000_000_000;

/// A load: an import of a whole tree, folder by folder, or reads after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub name: &'static str,
    /// Requests a second; none for as many as take 50 seconds. Of 50,000 files at 10,000 a second, each second goes
    /// over three regions, so that keys in order have a ratio of 5.
    rate: Option<usize>,
    /// So many users at a time, each with a part of the tree below a home of its own; 0 for one without a home.
    users: usize,
    /// Files of a user who never comes back; the next one in the order of their names follows.
    few: Option<usize>,
    /// Names as a camera gives them: numbers that go on from folder to folder or, with true, begin again in each.
    camera: Option<bool>,
    modified_now: bool,
    /// 50,000 reads of files by path; their popularity follows Zipf's law with this exponent.
    reads: Option<f64>,
}

pub const IMPORT: Load =
    Load { name: "one tree imported", rate: None, users: 0, few: None, camera: None, modified_now: false, reads: None };

/// In the order of the report.
pub const LOADS: [Load; 11] = [
    IMPORT,
    Load { name: "one tree imported, 200 files/s", rate: Some(200), ..IMPORT },
    Load { name: "one tree imported, 2000 files/s", rate: Some(2_000), ..IMPORT },
    Load { name: "one tree imported, 10000 files/s", rate: Some(10_000), ..IMPORT },
    Load { name: "one tree imported, camera names", camera: Some(false), ..IMPORT },
    Load { name: "one tree imported, camera names by folder", camera: Some(true), ..IMPORT },
    Load { name: "one tree imported, files modified now", modified_now: true, ..IMPORT },
    Load { name: "64 users import", users: 64, ..IMPORT },
    Load { name: "new users in id order", users: 1, few: Some(8), ..IMPORT },
    Load { name: "reads, Zipf 0.99", reads: Some(0.99), ..IMPORT },
    Load { name: "reads, Zipf 1.2", reads: Some(1.2), ..IMPORT },
];

/// Takes each request with its second.
pub type Arrived<'a> = dyn FnMut(f64, &SimulatedRequest<'_>) + 'a;

impl Load {
    /// The load that writes the rows which this one finds: itself, if it writes any.
    pub fn data(self) -> Self {
        Self { reads: None, ..self }
    }

    /// Requests, and how many arrive in a second, of a tree of so many files. The directories that a file needs are
    /// made along with it.
    pub fn arrival_rate(self, files: usize) -> (usize, usize) {
        let requests = if self.reads.is_some() && files > 0 { 50_000 } else { files };
        (requests, self.rate.unwrap_or(requests.div_ceil(SECONDS).max(1)))
    }

    /// Replays the load; the same each time for the same seed.
    ///
    /// Errors only if the popularity of files has no distribution, as with a negative exponent.
    pub fn replay(self, tree: &Tree, seed: u64, arrived: &mut Arrived<'_>) -> anyhow::Result<()> {
        let files = tree.files.len();
        let (requests, rate) = self.arrival_rate(files);
        let second = |request: usize| request as f64 / rate as f64;
        let mut clients = Clients { load: self, tree, numbers: HashMap::new(), named: HashMap::new(), last: 0 };
        let mut random = StdRng::seed_from_u64(seed);
        // Each user's files are a part of the tree, and come in its order; a rest that is less than one each does not.
        let users = self.users.max(1);
        let mut turns: Vec<usize> = (0..files / users * users).map(|turn| turn % users).collect();
        turns.shuffle(&mut random);
        let mut next: Vec<usize> = (0..users).map(|user| files / users * user).collect();
        for (request, user) in turns.into_iter().enumerate() {
            let Some(file) = next.get_mut(user) else { continue };
            let user = self.few.map_or(user, |few| request / few);
            clients.request(Action::Create, user, *file, second(request), &mut |at, request| {
                if self.reads.is_none() {
                    arrived(at, request);
                }
            });
            *file += 1;
        }
        let Some(exponent) = self.reads else { return Ok(()) };
        let mut popular: Vec<usize> = (0..files).collect();
        popular.shuffle(&mut random);
        let zipf = Zipf::new(files.max(1) as f64, exponent)?;
        for request in 0..requests {
            // A rank, from 1.
            let rank = zipf.sample(&mut random) as usize;
            if let Some(file) = popular.get(rank.saturating_sub(1)) {
                clients.request(Action::Read, 0, *file, second(request), arrived);
            }
        }
        Ok(())
    }
}

/// What the clients of a load have made.
struct Clients<'a> {
    load: Load,
    tree: &'a Tree,
    /// Of directories and, if they are read, of files, by path; `last` is the greatest of all.
    numbers: HashMap<String, u64>,
    last: u64,
    /// Files to which a camera gave names, by folder or in all.
    named: HashMap<Option<usize>, u32>,
}

impl Clients<'_> {
    /// A request for a file, after those for the directories that it needs, all in the same moment.
    fn request(&mut self, action: Action, user: usize, file: usize, at: f64, arrived: &mut Arrived<'_>) {
        let Some(file) = self.tree.files.get(file) else { return };
        let Some(folder) = self.tree.dirs.get(file.dir) else { return };
        let creator = format!("user{user:06}");
        // A home replaces the first component.
        let (_, below) = folder.split_at(folder.match_indices('/').nth(1).map_or(folder.len(), |(at, _)| at));
        let path = if self.load.users > 0 { format!("/home/{creator}{below}") } else { folder.clone() };
        let name = if let Some(by_folder) = self.load.camera {
            let number = self.named.entry(by_folder.then_some(file.dir)).or_insert(0);
            *number += 1;
            format!("IMG_{number:08}.JPG")
        } else {
            file.name.clone()
        };
        let path = format!("{path}/{name}");
        let added = NOW + (at * 1000.0) as i64;
        let modified = if self.load.modified_now { added } else { file.modified };
        let mut dirs = vec![Dir { number: 0, path: "" }];
        for (end, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
            let (child, below) = path.split_at(end);
            let made = self.numbers.get(child).copied();
            let number = made.unwrap_or(self.last + 1);
            self.last = self.last.max(number);
            let is_file = below.is_empty();
            if made.is_none() && (!is_file || self.load.reads.is_some()) {
                self.numbers.insert(child.to_owned(), number);
            }
            if is_file || made.is_none() {
                let (action, creator) = (if is_file { action } else { Action::Mkdir }, &creator);
                arrived(at, &SimulatedRequest { action, dirs: &dirs, number, path: child, creator, modified, added });
            }
            dirs.push(Dir { number, path: child });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Second, action, path and creator of each request of 500 files.
    fn requests(load: Load) -> Vec<(f64, Action, String, String)> {
        let mut all = Vec::new();
        let arrived = &mut |at: f64, request: &SimulatedRequest<'_>| {
            assert_eq!(request.dirs.last().unwrap().path, request.path.rsplit_once('/').unwrap().0);
            all.push((at, request.action, request.path.to_owned(), request.creator.to_owned()));
        };
        load.replay(&Tree::new(500, 7), 3, arrived).unwrap();
        all
    }

    /// Path and creator of each file.
    fn creates(load: Load) -> Vec<(String, String)> {
        let creates = requests(load).into_iter().filter(|(_, action, ..)| *action == Action::Create);
        creates.map(|(_, _, path, creator)| (path, creator)).collect()
    }

    fn paths() -> Vec<String> {
        let tree = Tree::new(500, 7);
        tree.files.iter().map(|file| format!("{}/{}", tree.dirs[file.dir], file.name)).collect()
    }

    #[test]
    fn a_tree_comes_in_order_and_parents_before_children() {
        for (load, last) in [(IMPORT, 49.9), (Load { rate: Some(200), ..IMPORT }, 499.0 / 200.0)] {
            assert_eq!(creates(load).into_iter().map(|(path, _)| path).collect::<Vec<_>>(), paths());
            let (requests, mut made) = (requests(load), BTreeSet::from([""]));
            assert!(requests.is_sorted_by_key(|(at, ..)| *at) && requests.last().unwrap().0 == last);
            for (_, action, path, _) in &requests {
                let parent = path.rsplit_once('/').unwrap().0;
                assert!(made.contains(parent) && (*action == Action::Create || made.insert(path)), "{path}");
            }
        }
        let [import, reads] = [None, Some(0.8)].map(|reads| Load { reads, ..IMPORT });
        let rates = [0, 1_000, 50_000].map(|files| import.arrival_rate(files));
        assert_eq!(rates, [(0, 1), (1_000, 20), (50_000, 1_000)]);
        assert_eq!([0, 1_000].map(|files| reads.arrival_rate(files)), [(0, 1), (50_000, 1_000)]);
    }

    #[test]
    fn each_user_has_a_home_each_file_comes_once_and_cameras_count() {
        for (together, few, users, early) in [(10, None, 10, 10), (1, Some(8), 63, 7)] {
            let creates = creates(Load { users: together, few, ..IMPORT });
            // `/home` of the tree becomes the home.
            let found: BTreeSet<_> = creates.iter().map(|(path, user)| path.replace(&format!("/{user}"), "")).collect();
            assert_eq!(found, paths().into_iter().collect());
            let some = |n: usize| creates.iter().take(n).map(|(_, user)| user).collect::<BTreeSet<_>>().len();
            assert_eq!((some(500), some(50)), (users, early));
            assert!(creates.iter().all(|(path, user)| path.starts_with(&format!("/home/{user}/"))));
        }
        let tree = Tree::new(500, 7);
        let second = (1..500).find(|n| tree.files[*n].dir != tree.files[0].dir).unwrap();
        let named = |number: usize| format!("{}/IMG_{number:08}.JPG", tree.dirs[tree.files[second].dir]);
        let found =
            [false, true].map(|by_folder| creates(Load { camera: Some(by_folder), ..IMPORT }).swap_remove(second).0);
        assert_eq!(found, [named(second + 1), named(1)]);
    }

    #[test]
    fn reads_are_skewed_as_zipf_says_and_only_of_files_there_are() {
        let (mut counts, all) = (HashMap::new(), paths());
        let reads = Load { reads: Some(1.2), ..IMPORT };
        requests(reads).into_iter().for_each(|(_, _, path, _)| *counts.entry(path).or_insert(0.0) += 1.0);
        assert!(counts.keys().all(|path| all.contains(path)));
        let mut shares: Vec<f64> = counts.into_values().map(|count| count / 50_000.0).collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        // 1 / (1^-1.2 + ... + 500^-1.2) is 0.2410; 2^-1.2 of that is 0.1049.
        assert!((shares[0] - 0.2410).abs() < 0.005 && (shares[1] - 0.1049).abs() < 0.005, "{:?}", &shares[..2]);
    }
}
