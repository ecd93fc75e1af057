//! What clients ask for, and when: requests at simulated seconds, which nobody waits for.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Zipf};

use super::keys::{Dir, File, Request};
use super::pace::Pace;
use super::users::{self, Turns, User};
use crate::data::{DAY, DAYS, FIRST_DAY, Tree};

/// When the simulated requests begin: after every time at which a file of the tree was modified.
const NOW: i64 = FIRST_DAY + DAYS * DAY;

/// A load on the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// One tree, folder by folder.
    OneTree,
    /// So many users at a time, each a part of the tree below a home of its own.
    Users(usize),
    /// Users in the order of their names; each stores a few files and never comes back.
    NewUsers,
    /// One tree whose files were all modified now.
    JustModified,
    /// Reads of single files by path after the import of one tree; their popularity follows Zipf's law with this
    /// exponent.
    Reads(f64),
}

/// Takes each request with its second.
pub type Replayed<'a> = dyn FnMut(f64, &Request<'_>) + 'a;

impl Load {
    pub fn name(self) -> String {
        match self {
            Self::OneTree => "one tree imported".to_owned(),
            Self::Users(users) => format!("{users} users import"),
            Self::NewUsers => "new users in id order".to_owned(),
            Self::JustModified => "one tree imported, files modified now".to_owned(),
            Self::Reads(exponent) => format!("reads, Zipf {exponent}"),
        }
    }

    /// The load that brings the rows which this one meets: itself, if it writes them.
    pub fn data(self) -> Self {
        if let Self::Reads(_) = self { Self::OneTree } else { self }
    }

    /// Replays the load on as many files of the tree as its pace says; the same each time for the same seed.
    ///
    /// Errors only if the popularity of files has no distribution, as with a negative exponent.
    pub fn replay(self, tree: &Tree, pace: &Pace, seed: u64, each: &mut Replayed<'_>) -> anyhow::Result<()> {
        let files = pace.files;
        let (users, at_a_time) = match self {
            Self::OneTree | Self::JustModified => (vec![User::whole(files)], 1),
            Self::Users(users) => (users::parts(files, users), users),
            Self::NewUsers => (users::newcomers(files), 1),
            Self::Reads(exponent) => return read(tree, pace, exponent, seed, each),
        };
        let mut import = Import::new(tree, &users, self == Self::JustModified);
        for (request, (user, file)) in Turns::new(&users, at_a_time, seed).enumerate() {
            import.create(user, pace.position(file), pace.second(request), each);
        }
        Ok(())
    }
}

/// An import under way: which directories there are by now.
struct Import<'a> {
    tree: &'a Tree,
    /// By directory of the tree.
    parents: Vec<Option<usize>>,
    users: &'a [User],
    just_modified: bool,
    /// By user and directory of the tree.
    made: HashMap<(usize, usize), Dir>,
    /// In which the first directory of each user is made.
    top: Dir,
    number: u64,
}

impl<'a> Import<'a> {
    fn new(tree: &'a Tree, users: &'a [User], just_modified: bool) -> Self {
        let at: HashMap<&str, usize> = tree.dirs.iter().enumerate().map(|(at, dir)| (dir.as_str(), at)).collect();
        let parent = |dir: &String| dir.rsplit_once('/').and_then(|(parent, _)| at.get(parent).copied());
        let parents = tree.dirs.iter().map(parent).collect();
        let top = Dir { number: 0, path: users.first().map_or("/", User::top).to_owned() };
        Self { tree, parents, users, just_modified, made: HashMap::new(), top, number: 0 }
    }

    /// Makes the directories that a file needs, all in the same moment, and the file.
    fn create(&mut self, user: usize, file: usize, at: f64, each: &mut Replayed<'_>) {
        let tree = self.tree;
        let Some(file) = tree.files.get(file) else { return };
        self.mkdirs(user, file.dir, at, each);
        self.number += 1;
        let (Some(dir), Some(owner)) = (self.made.get(&(user, file.dir)), self.users.get(user)) else { return };
        let added = NOW + (at * 1000.0) as i64;
        let modified = if self.just_modified { added } else { file.modified };
        let file = File { number: self.number, name: &file.name, creator: &owner.name, modified, added };
        each(at, &Request::Create { dir, file });
    }

    fn mkdirs(&mut self, user: usize, dir: usize, at: f64, each: &mut Replayed<'_>) {
        let missing: Vec<usize> = self.ancestors(dir).take_while(|d| !self.made.contains_key(&(user, *d))).collect();
        for dir in missing.into_iter().rev() {
            let (Some(path), Some(owner)) = (self.tree.dirs.get(dir), self.users.get(user)) else { return };
            self.number += 1;
            let new = Dir { number: self.number, path: owner.path(path) };
            let parent = self.parents.get(dir).copied().flatten();
            let parent = parent.and_then(|parent| self.made.get(&(user, parent))).unwrap_or(&self.top);
            each(at, &Request::Mkdir { parent, dir: &new });
            self.made.insert((user, dir), new);
        }
    }

    /// The directory itself, its parent, and so on up to the first level.
    fn ancestors(&self, dir: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(dir), |dir| self.parents.get(*dir).copied().flatten())
    }
}

fn read(tree: &Tree, pace: &Pace, exponent: f64, seed: u64, each: &mut Replayed<'_>) -> anyhow::Result<()> {
    let users = [User::whole(pace.files)];
    let mut import = Import::new(tree, &users, false);
    let mut numbers: Vec<u64> = Vec::with_capacity(pace.files);
    for file in 0..pace.files {
        import.create(0, pace.position(file), 0.0, &mut |_, _| {});
        numbers.push(import.number);
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut popular: Vec<usize> = (0..numbers.len()).collect();
    popular.shuffle(&mut random);
    let zipf = Zipf::new(popular.len() as f64, exponent)?;
    let mut dirs: Vec<&Dir> = Vec::new();
    for request in 0..pace.requests {
        // A rank, from 1.
        let rank = zipf.sample(&mut random) as usize;
        let Some(file) = popular.get(rank.saturating_sub(1)).copied() else { continue };
        let (Some(number), Some(found)) = (numbers.get(file), tree.files.get(pace.position(file))) else { continue };
        dirs.clear();
        dirs.extend(import.ancestors(found.dir).filter_map(|dir| import.made.get(&(0, dir))));
        dirs.push(&import.top);
        dirs.reverse();
        each(pace.second(request), &Request::Read { dirs: &dirs, file: *number, name: &found.name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds and a line for each request.
    fn lines(load: Load, tree: &Tree, files: usize) -> Vec<(f64, String)> {
        let mut all = Vec::new();
        let each = &mut |at: f64, request: &Request<'_>| {
            all.push((
                at,
                match request {
                    Request::Mkdir { parent, dir } => format!("mkdir {} in {}", dir.path, parent.path),
                    Request::Create { dir, file } => format!("create {}/{} of {}", dir.path, file.name, file.creator),
                    Request::Read { dirs, name, .. } => format!("read {}/{name}", dirs.last().unwrap().path),
                },
            ));
        };
        load.replay(tree, &Pace::of(load, files), 3, each).unwrap();
        all
    }

    fn creates(lines: &[(f64, String)]) -> Vec<&str> {
        lines.iter().map(|(_, line)| line.as_str()).filter(|line| line.starts_with("create")).collect()
    }

    #[test]
    fn a_tree_comes_in_order_and_parents_before_children() {
        let tree = Tree::new(500, 7);
        let lines = lines(Load::OneTree, &tree, 500);
        assert_eq!(lines[0], (0.0, "mkdir /home in /".to_owned()));
        assert_eq!(lines[1], (0.0, "mkdir /home/photos in /home".to_owned()));
        let expected: Vec<String> = tree.files.iter().map(|f| format!("create {} of loadtest", tree.path(f))).collect();
        assert_eq!(creates(&lines), expected);
        // 10 a second: 50 seconds in all.
        assert!(lines.is_sorted_by_key(|(at, _)| *at));
        assert_eq!(lines.last().unwrap().0, 49.9);
        let mut made = vec!["/".to_owned()];
        for (_, line) in &lines {
            if let Some((dir, parent)) = line.strip_prefix("mkdir ").and_then(|line| line.split_once(" in ")) {
                assert!(made.iter().any(|m| m == parent) && !made.iter().any(|m| m == dir), "{line}");
                made.push(dir.to_owned());
            }
        }
    }

    #[test]
    fn each_user_has_a_home_and_all_files_are_stored_once() {
        let tree = Tree::new(500, 7);
        let lines = lines(Load::Users(8), &tree, 500);
        let creates = creates(&lines);
        let mut names: Vec<&str> =
            creates.iter().map(|l| l.rsplit_once('/').unwrap().1.split_once(' ').unwrap().0).collect();
        let mut all: Vec<&str> = tree.files.iter().map(|f| f.name.as_str()).collect();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
        for line in &creates {
            let owner = line.rsplit_once(" of ").unwrap().1;
            assert!(line.starts_with(&format!("create /home/{owner}/photos/")), "{line}");
        }
        // At once: each of them within the first requests.
        let mut early: Vec<&str> = creates.iter().take(80).map(|l| l.rsplit_once(' ').unwrap().1).collect();
        early.sort_unstable();
        early.dedup();
        assert_eq!(early.len(), 8);
        assert!(lines.iter().any(|(_, line)| line == "mkdir /home/user000001 in /home"));
    }

    #[test]
    fn new_users_come_one_after_another() {
        let tree = Tree::new(500, 7);
        let lines = lines(Load::NewUsers, &tree, 500);
        let owners: Vec<&str> = creates(&lines).iter().map(|l| l.rsplit_once(' ').unwrap().1).collect();
        assert!(owners.is_sorted());
        assert_eq!((owners[0], owners[7], owners[8]), ("user000001", "user000001", "user000002"));
        assert_eq!(owners.len(), 500);
    }

    #[test]
    fn reads_are_skewed_as_zipf_says_and_only_of_files_there_are() {
        let tree = Tree::new(1_000, 7);
        let lines = lines(Load::Reads(1.2), &tree, 1_000);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, line) in &lines {
            *counts.entry(line).or_default() += 1;
        }
        let all: Vec<String> = tree.files.iter().map(|f| format!("read {}", tree.path(f))).collect();
        assert!(counts.keys().all(|line| all.iter().any(|a| a == line)));
        let mut shares: Vec<f64> = counts.values().map(|count| *count as f64 / lines.len() as f64).collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        // 1 / (1^-1.2 + ... + 1000^-1.2) is 0.2306; 2^-1.2 of that is 0.1004.
        assert!((shares[0] - 0.2306).abs() < 0.005 && (shares[1] - 0.1004).abs() < 0.005, "{:?}", &shares[..2]);
    }

    #[test]
    fn a_load_repeats_with_its_seed() {
        let tree = Tree::new(300, 7);
        for load in [Load::Users(8), Load::Reads(0.99)] {
            assert_eq!(lines(load, &tree, 300), lines(load, &tree, 300));
        }
    }
}
