//! Which requests arrive, and when: at simulated seconds, and no client waits for an answer.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Zipf};

use super::keys::{Action, Dir, Request};
use crate::data::Tree;

/// Files of the tree at most, in loads that are compared: the first of it, with all files of their folders.
const MOST_FILES: usize = 100_000;
const READS: usize = 50_000;
/// When requests begin to arrive, in milliseconds since 1970: after the times of the tree's files.
const NOW: i64 = 1_800_000_000_000;
/// Files of a new user.
const FEW: usize = 8;
/// Seconds of a load: three for each region, so that an import which fills one region after another fills one alone in
/// most of them.
const SECONDS: usize = 50;
/// Requests a second at most. An even load over 16 regions then has a hottest one of 1.05 times the mean by chance.
const FASTEST: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// All files of the tree, folder by folder.
    WholeTree,
    /// At most 100,000 of them, as in all other loads.
    OneTree,
    /// So many a second.
    AtRate(usize),
    /// One tree whose files have names as a camera gives them: numbers that go on from folder to folder or, with true,
    /// begin again in each.
    CameraNames(bool),
    /// One tree whose files were all modified now.
    JustModified,
    /// So many users in turns, each a part of the tree below a home of its own.
    Users(usize),
    /// Users in the order of their names; each stores a few files and never comes back.
    NewUsers,
    /// Reads of files by path after the import of one tree; their popularity follows Zipf's law with this exponent.
    Reads(f64),
}

/// Takes each request with its second.
pub type Arrived<'a> = dyn FnMut(f64, &Request<'_>) + 'a;

impl Load {
    pub fn name(self) -> String {
        match self {
            Self::WholeTree => "whole tree imported".to_owned(),
            Self::OneTree => "one tree imported".to_owned(),
            Self::AtRate(rate) => format!("one tree imported, {rate} files/s"),
            Self::CameraNames(false) => "one tree imported, camera names".to_owned(),
            Self::CameraNames(true) => "one tree imported, camera names by folder".to_owned(),
            Self::JustModified => "one tree imported, files modified now".to_owned(),
            Self::Users(users) => format!("{users} users import"),
            Self::NewUsers => "new users in id order".to_owned(),
            Self::Reads(exponent) => format!("reads, Zipf {exponent}"),
        }
    }

    /// The load that writes the rows which this one finds: itself, if it writes any.
    pub fn data(self) -> Self {
        if let Self::Reads(_) = self { Self::OneTree } else { self }
    }

    /// Requests, and how many arrive in a second, of a tree of so many files. The directories that a file needs are made
    /// along with it.
    pub fn arrival_rate(self, files: usize) -> (usize, usize) {
        let requests = match self {
            Self::WholeTree => files,
            Self::Reads(_) if files > 0 => READS,
            _ => files.min(MOST_FILES),
        };
        let rate = if let Self::AtRate(rate) = self { rate } else { requests.div_ceil(SECONDS).min(FASTEST) };
        (requests, rate.max(1))
    }

    /// Replays the load; the same each time for the same seed.
    ///
    /// Errors only if the popularity of files has no distribution, as with a negative exponent.
    pub fn replay(self, tree: &Tree, seed: u64, arrived: &mut Arrived<'_>) -> anyhow::Result<()> {
        let (requests, rate) = self.arrival_rate(tree.files.len());
        let second = |request: usize| request as f64 / rate as f64;
        let mut clients = Clients { load: self, tree, numbers: HashMap::new(), named: HashMap::new(), last: 0 };
        let Self::Reads(exponent) = self else {
            // Each user's files are a part of the tree, and come in its order; a rest that is less than one each does not.
            let users = if let Self::Users(users) = self { users } else { 1 };
            let each = requests / users.max(1);
            let mut turns: Vec<usize> = (0..each * users).map(|turn| turn / each).collect();
            turns.shuffle(&mut StdRng::seed_from_u64(seed));
            let mut files: Vec<usize> = (0..users).map(|user| user * each).collect();
            for (request, user) in turns.into_iter().enumerate() {
                let Some(file) = files.get_mut(user) else { continue };
                let user = if self == Self::NewUsers { request / FEW } else { user };
                clients.request(Action::Create, user, *file, second(request), arrived);
                *file += 1;
            }
            return Ok(());
        };
        let mut popular: Vec<usize> = (0..self.data().arrival_rate(tree.files.len()).0).collect();
        popular.iter().for_each(|file| clients.request(Action::Create, 0, *file, 0.0, &mut |_, _| {}));
        let mut random = StdRng::seed_from_u64(seed);
        popular.shuffle(&mut random);
        let zipf = Zipf::new(popular.len().max(1) as f64, exponent)?;
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
    /// Of directories and of files, by path; the greatest of them is `last`.
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
        let path = match (self.load, folder.match_indices('/').nth(1)) {
            // A home replaces the first component.
            (Load::Users(_) | Load::NewUsers, Some((at, _))) => format!("/home/{creator}{}", folder.split_at(at).1),
            (Load::Users(_) | Load::NewUsers, None) => format!("/home/{creator}"),
            _ => folder.clone(),
        };
        let name = if let Load::CameraNames(by_folder) = self.load {
            let number = self.named.entry(by_folder.then_some(file.dir)).or_insert(0);
            *number += 1;
            format!("IMG_{number:08}.JPG")
        } else {
            file.name.clone()
        };
        let path = format!("{path}/{name}");
        // After every time of the tree.
        let added = NOW + (at * 1000.0) as i64;
        let modified = if self.load == Load::JustModified { added } else { file.modified };
        let mut dirs = vec![Dir { number: 0, path: "" }];
        for (end, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
            let (child, below) = path.split_at(end);
            let made = self.numbers.get(child).copied();
            let number = made.unwrap_or(self.last + 1);
            if made.is_none() {
                self.last = number;
                self.numbers.insert(child.to_owned(), number);
            }
            let action = if below.is_empty() { action } else { Action::Mkdir };
            if below.is_empty() || made.is_none() {
                let creator = &creator;
                arrived(at, &Request { action, dirs: &dirs, number, path: child, creator, modified, added });
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
        let arrived = &mut |at: f64, request: &Request<'_>| {
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
        for (load, last) in [(Load::OneTree, 49.9), (Load::AtRate(200), 499.0 / 200.0)] {
            assert_eq!(creates(load).into_iter().map(|(path, _)| path).collect::<Vec<_>>(), paths());
            let (requests, mut made) = (requests(load), BTreeSet::from([""]));
            assert!(requests.is_sorted_by_key(|(at, ..)| *at) && requests.last().unwrap().0 == last);
            for (_, action, path, _) in &requests {
                assert!(made.contains(path.rsplit_once('/').unwrap().0), "{path}");
                assert!(*action == Action::Create || made.insert(path), "{path}");
            }
        }
    }

    #[test]
    fn a_load_takes_fifty_seconds_unless_it_is_large() {
        let rates = [0, 1_000, 20_000, 1_000_000, 2_000_000].map(|files| Load::WholeTree.arrival_rate(files).1);
        assert_eq!(rates, [1, 20, 400, 20_000, 20_000]);
        assert_eq!(Load::OneTree.arrival_rate(125_000), (100_000, 2_000));
        assert_eq!(Load::AtRate(200).arrival_rate(125_000), (100_000, 200));
        assert_eq!([0, 1_000].map(|files| Load::Reads(0.8).arrival_rate(files)), [(0, 1), (50_000, 1_000)]);
    }

    #[test]
    fn cameras_count_on_or_by_folder() {
        let tree = Tree::new(500, 7);
        let second = (1..500).find(|n| tree.files[*n].dir != tree.files[0].dir).unwrap();
        let named = |number: usize| format!("{}/IMG_{number:08}.JPG", tree.dirs[tree.files[second].dir]);
        let found = [false, true].map(|by_folder| creates(Load::CameraNames(by_folder)).swap_remove(second).0);
        assert_eq!(found, [named(second + 1), named(1)]);
    }

    #[test]
    fn each_user_has_a_home_and_each_file_comes_once() {
        for (load, users, early) in [(Load::Users(10), 10, 10), (Load::NewUsers, 63, 7)] {
            let creates = creates(load);
            // `/home` of the tree becomes the home.
            let found: BTreeSet<_> = creates.iter().map(|(path, user)| path.replace(&format!("/{user}"), "")).collect();
            assert_eq!(found, paths().into_iter().collect());
            let some = |n: usize| creates.iter().take(n).map(|(_, user)| user).collect::<BTreeSet<_>>().len();
            assert_eq!((some(500), some(50)), (users, early));
            assert!(creates.iter().all(|(path, user)| path.starts_with(&format!("/home/{user}/"))));
        }
    }

    #[test]
    fn reads_are_skewed_as_zipf_says_and_only_of_files_there_are() {
        let (mut counts, all) = (HashMap::new(), paths());
        requests(Load::Reads(1.2)).into_iter().for_each(|(_, _, path, _)| *counts.entry(path).or_insert(0.0) += 1.0);
        assert!(counts.keys().all(|path| all.contains(path)));
        let mut shares: Vec<f64> = counts.into_values().map(|count| count / READS as f64).collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        // 1 / (1^-1.2 + ... + 500^-1.2) is 0.2410; 2^-1.2 of that is 0.1049.
        assert!((shares[0] - 0.2410).abs() < 0.005 && (shares[1] - 0.1049).abs() < 0.005, "{:?}", &shares[..2]);
    }
}
