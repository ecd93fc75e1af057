//! Which requests arrive, and when: at simulated seconds, and no client waits for an answer.

use std::collections::HashMap;
use std::rc::Rc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Zipf};
use rowdrive::schema::Timestamp;

use super::keys::{Access, Node, id};
use crate::data::Tree;

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
    /// The numbers begin again in each folder.
    CameraByFolder,
    ModifiedNow,
    /// So many users at a time, each with a part of the tree below a home of its own.
    Users(usize),
    /// One user after the other, in the order of their names, each with a home and so many files.
    NewUsers(usize),
    /// 50,000 reads of files by path after it; their popularity follows Zipf's law with this exponent.
    Reads(f64),
}

/// By name, in the order of the report.
pub const LOADS: [(&str, Load); 11] = [
    ("one tree imported", Load::Import),
    ("one tree imported, 200 files/s", Load::Rate(200)),
    ("one tree imported, 2000 files/s", Load::Rate(2_000)),
    ("one tree imported, 10000 files/s", Load::Rate(10_000)),
    ("one tree imported, camera names", Load::Camera),
    ("one tree imported, camera names by folder", Load::CameraByFolder),
    ("one tree imported, files modified now", Load::ModifiedNow),
    ("64 users import", Load::Users(64)),
    ("new users in id order", Load::NewUsers(8)),
    ("reads, Zipf 0.99", Load::Reads(0.99)),
    ("reads, Zipf 1.2", Load::Reads(1.2)),
];

/// A client's request for a node, the same for all layouts, in a second of the load; in none if it is before it.
pub type Request = (Option<usize>, Access, Rc<Node>);

/// What arrives of a load, in this order.
pub struct Arrivals {
    pub requests: Vec<Request>,
    /// Files that are imported or read. The directories that a file needs are made along with it.
    pub count: usize,
    /// How many of them a second.
    pub rate: usize,
}

impl Load {
    /// The same each time for the same seed.
    ///
    /// Errors only if the popularity of files has no distribution, as with a negative exponent.
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
        let (mut nodes, mut folders, mut requests) = (HashMap::<String, Rc<Node>>::new(), HashMap::new(), Vec::new());
        for (n, user) in turns.into_iter().enumerate() {
            let Some(file) = parts.get_mut(user).and_then(Iterator::next) else { continue };
            let creator = format!("user{:06}", if let Self::NewUsers(few) = self { n / few } else { user });
            let has_home = matches!(self, Self::Users(_) | Self::NewUsers(_));
            let home = if has_home { format!("/home/{creator}") } else { "/home".to_owned() };
            let name = match self {
                Self::Camera => format!("IMG_{:08}.JPG", n + 1),
                Self::CameraByFolder => format!("IMG_{:08}.JPG", n + 1 - *folders.entry(file.dir).or_insert(n)),
                _ => file.name.clone(),
            };
            let path = format!("{}/{name}", tree.dir(file).replacen("/home", &home, 1));
            let added = NOW + (n as f64 / rate as f64 * 1000.0) as i64;
            let modified = if self == Self::ModifiedNow { added } else { file.modified };
            let [modified, added] = [modified, added].map(Timestamp::from_ms);
            let mut parent: Option<Rc<Node>> = None;
            for end in path.match_indices('/').map(|(at, _)| at).chain([path.len()]) {
                let (path, below) = path.split_at(end);
                let (number, is_directory) = (nodes.len() as u64, !below.is_empty());
                let node = nodes.entry(path.to_owned()).or_insert_with(|| {
                    let (parent, path, creator) = (parent.clone(), path.to_owned(), creator.clone());
                    let id = id(number, seed);
                    Rc::new(Node { parent, path, is_directory, number, id, creator, modified, added })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The files that 500 files let a load write, or read.
    fn files(load: Load, access: Access) -> Vec<Rc<Node>> {
        let requests = load.arrivals(&Tree::new(500, 7), 3).unwrap().requests.into_iter();
        requests.filter(|(_, by, node)| *by == access && !node.is_directory).map(|(.., node)| node).collect()
    }

    fn paths() -> Vec<String> {
        let tree = Tree::new(500, 7);
        tree.files.iter().map(|file| tree.path(file)).collect()
    }

    #[test]
    fn a_tree_comes_in_order_and_parents_before_children() {
        let mut arrivals = Load::Import.arrivals(&Tree::new(500, 7), 3).unwrap();
        for ((.., node), number) in arrivals.requests.iter().zip(1..) {
            let parent = node.parent.as_ref().unwrap();
            assert_eq!((node.number, parent.path.as_str()), (number, node.path.rsplit_once('/').unwrap().0));
            assert!(parent.number < number, "{}", node.path);
        }
        arrivals.requests.retain(|(.., node)| !node.is_directory);
        assert!(arrivals.requests.iter().map(|(.., file)| &file.path).eq(&paths()));
        for (load, expected) in [
            (Load::Import, (1_000, 20, Some(49))),
            (Load::Rate(300), (1_000, 300, Some(3))),
            (Load::Reads(0.8), (50_000, 1_000, Some(49))),
        ] {
            let found = load.arrivals(&Tree::new(1_000, 7), 3).unwrap();
            assert!(found.requests.is_sorted_by_key(|(second, ..)| *second));
            let (last, ..) = found.requests.last().unwrap();
            assert_eq!((found.count, found.rate, *last), expected, "{load:?}");
        }
    }

    #[test]
    fn each_user_has_a_home_each_file_comes_once_and_cameras_count() {
        for (load, users, early) in [(Load::Users(10), 10, 10), (Load::NewUsers(8), 63, 7)] {
            let files = files(load, Access::Write);
            // `/home` of the tree becomes the home.
            let found = files.iter().map(|file| file.path.replace(&format!("/home/{}/", file.creator), "/home/"));
            assert_eq!(found.collect::<BTreeSet<_>>(), paths().into_iter().collect());
            let some = |n: usize| files.iter().take(n).map(|file| &file.creator).collect::<BTreeSet<_>>().len();
            assert_eq!((some(500), some(50)), (users, early));
        }
        let tree = Tree::new(500, 7);
        let second = (1..500).find(|n| tree.files[*n].dir != tree.files[0].dir).unwrap();
        let named = |number: usize| format!("{}/IMG_{number:08}.JPG", tree.dir(&tree.files[second]));
        let found = [Load::Camera, Load::CameraByFolder].map(|load| files(load, Access::Write)[second].path.clone());
        assert_eq!(found, [named(second + 1), named(1)]);
    }

    #[test]
    fn reads_are_skewed_as_zipf_says() {
        let mut counts = HashMap::new();
        let reads = files(Load::Reads(1.2), Access::Read);
        reads.iter().for_each(|file| *counts.entry(&file.path).or_insert(0.0) += 1.0 / 50_000.0);
        let mut shares: Vec<f64> = counts.into_values().collect();
        shares.sort_unstable_by(|a, b| b.total_cmp(a));
        // 1 / (1^-1.2 + ... + 500^-1.2) is 0.2410; 2^-1.2 of that is 0.1049.
        assert!((shares[0] - 0.2410).abs() < 0.005 && (shares[1] - 0.1049).abs() < 0.005, "{:?}", &shares[..2]);
    }
}
