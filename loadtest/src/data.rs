//! The tree of files that every layout holds: seeded, so that a run can be repeated.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Bytes of content of each file: small, so that keys and rows are what is measured.
pub const CONTENT: usize = 1024;

/// A file that is to be stored.
#[derive(Clone, Debug)]
pub struct File {
    /// The directory it lies in, as an index of [`Tree::dirs`].
    pub dir: usize,
    pub name: String,
    /// Milliseconds since 1970, over three years.
    pub modified: i64,
}

/// Directories, parents before children, and files in the order of an import: folder by folder.
pub struct Tree {
    /// Full paths without the root.
    pub dirs: Vec<String>,
    pub files: Vec<File>,
}

pub const FIRST_DAY: i64 = 1_640_995_200_000;
pub const DAY: i64 = 86_400_000;
pub const DAYS: i64 = 3 * 365;

impl Tree {
    /// Years, months and events, as a photo library has them; about 50 files a folder, some much larger.
    pub fn new(files: u32, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let folders = (files / 50).max(4) as usize;
        let mut dirs = vec!["/home".to_owned(), "/home/photos".to_owned()];
        for folder in 0..folders {
            let year = format!("/home/photos/{}", 2000 + folder % 25);
            let month = format!("{year}/{:02}-month", folder / 25 % 12);
            for dir in [&year, &month] {
                if !dirs.contains(dir) {
                    dirs.push(dir.clone());
                }
            }
            dirs.push(format!("{month}/event-{folder:07}"));
        }
        let events: Vec<usize> =
            (0..dirs.len()).filter(|i| dirs.get(*i).is_some_and(|d| d.contains("event"))).collect();
        let mut all: Vec<File> = (0..files)
            .map(|n| {
                // One file in ten lies in one of the four largest folders.
                let among = if random.random_ratio(1, 10) { events.len().min(4) } else { events.len() };
                let dir = events.get(random.random_range(0..among)).copied().unwrap_or_default();
                let modified = FIRST_DAY + random.random_range(0..DAYS * DAY);
                File { dir, name: format!("IMG_{n:08}.jpg"), modified }
            })
            .collect();
        all.sort_by(|a, b| (dirs.get(a.dir), &a.name).cmp(&(dirs.get(b.dir), &b.name)));
        Self { dirs, files: all }
    }

    /// Directories that hold files.
    pub fn folders(&self) -> Vec<&str> {
        self.dirs.iter().filter(|d| d.contains("event")).map(String::as_str).collect()
    }

    /// Positions of files in random order, as often as asked for.
    pub fn picks(&self, count: usize, seed: u64) -> Vec<usize> {
        let mut random = StdRng::seed_from_u64(seed ^ 0x5eed);
        let mut all: Vec<usize> = (0..self.files.len()).collect();
        all.shuffle(&mut random);
        all.into_iter().cycle().take(count).collect()
    }

    pub fn path(&self, file: &File) -> String {
        format!("{}/{}", self.dirs.get(file.dir).map_or("", String::as_str), file.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_whole_and_repeats_with_its_seed() {
        let tree = Tree::new(2_000, 7);
        assert_eq!(tree.files.len(), 2_000);
        for (at, dir) in tree.dirs.iter().enumerate() {
            let parent = dir.rsplit_once('/').unwrap().0;
            assert!(parent.is_empty() || tree.dirs[..at].iter().any(|d| d == parent), "{dir}");
        }
        let again = Tree::new(2_000, 7);
        assert!(tree.files.iter().zip(&again.files).all(|(a, b)| a.name == b.name && a.modified == b.modified));
        assert!(tree.files.is_sorted_by_key(|f| tree.path(f)));
    }
}
