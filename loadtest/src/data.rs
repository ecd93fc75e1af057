//! The tree of files that every layout holds: seeded, so that a run can be repeated.

use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};

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

/// Below it lies everything.
pub const HOME: &str = "/home/photos";
/// The folder in which one file in ten lies: what a camera or a telephone leaves.
pub const CAMERA: &str = "/home/photos/camera";
/// The name that a file of each folder has, beside those that are like no other.
pub const COVER: &str = "cover.jpg";

impl Tree {
    /// Years, months and events, as a photo library has them, of about 50 files each, and one folder of a tenth of
    /// all files. One file of each event has the same name, all others have their own.
    pub fn new(files: u32, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut dirs = ["/home", HOME, CAMERA].map(str::to_owned).to_vec();
        let mut events = Vec::new();
        let mut made = HashSet::new();
        for event in 0..(files / 50).max(4) as usize {
            let year = 2000 + event % 25;
            let month = event / 25 % 12 + 1;
            let parents = [format!("{HOME}/{year}"), format!("{HOME}/{year}/{year}-{month:02}")];
            for dir in &parents {
                if made.insert(dir.clone()) {
                    dirs.push(dir.clone());
                }
            }
            let [_, parent] = parents;
            events.push(dirs.len());
            dirs.push(format!("{parent}/event-{event:07}"));
        }
        let mut all = Vec::with_capacity(files as usize);
        for n in 0..files {
            let in_camera = random.random_ratio(1, 10);
            let dir =
                if in_camera { 2 } else { events.get(random.random_range(0..events.len())).copied().unwrap_or(2) };
            let modified = FIRST_DAY + random.random_range(0..DAYS * DAY);
            all.push(File { dir, name: format!("IMG_{n:08}.jpg"), modified });
        }
        all.sort_by(|a, b| (dirs.get(a.dir), &a.name).cmp(&(dirs.get(b.dir), &b.name)));
        let mut before = None;
        for file in &mut all {
            if before.replace(file.dir) != Some(file.dir) {
                file.name = COVER.to_owned();
            }
        }
        all.sort_by(|a, b| (dirs.get(a.dir), &a.name).cmp(&(dirs.get(b.dir), &b.name)));
        Self { dirs, files: all }
    }

    /// The folders of events: all that hold files, but for the largest.
    pub fn folders(&self) -> Vec<&str> {
        self.dirs.iter().filter(|d| d.contains("event")).map(String::as_str).collect()
    }

    /// The same in random order.
    pub fn shuffled_folders(&self, seed: u64) -> Vec<&str> {
        let mut all = self.folders();
        all.shuffle(&mut StdRng::seed_from_u64(seed));
        all
    }

    /// Files in random order.
    pub fn shuffled(&self, seed: u64) -> Vec<&File> {
        let mut all: Vec<_> = self.files.iter().collect();
        all.shuffle(&mut StdRng::seed_from_u64(seed ^ 0x5eed));
        all
    }

    pub fn dir(&self, file: &File) -> &str {
        self.dirs.get(file.dir).map_or("", String::as_str)
    }

    pub fn path(&self, file: &File) -> String {
        format!("{}/{}", self.dir(file), file.name)
    }
}

/// Files without content: what lies in content files costs all layouts the same. Digests compress no better than those
/// of any content.
pub fn attributes(modified: i64) -> Attributes {
    Attributes {
        size: 0,
        mime: "image/jpeg".into(),
        creator: "loadtest".into(),
        modified: Timestamp::from_ms(modified),
        added: Timestamp::from_ms(modified),
        digest: Digest(StdRng::seed_from_u64(modified as u64).random()),
        location: ContentLocation::Inline,
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
        let paths: HashSet<_> = tree.files.iter().map(|f| tree.path(f)).collect();
        assert_eq!(paths.len(), 2_000);
    }

    #[test]
    fn names_of_directories_are_there_once_and_one_name_of_a_file_everywhere() {
        let tree = Tree::new(2_000, 7);
        let names: HashSet<_> = tree.dirs.iter().map(|dir| dir.rsplit_once('/').unwrap().1).collect();
        assert_eq!(names.len(), tree.dirs.len());
        let used: HashSet<_> = tree.files.iter().map(|file| file.dir).collect();
        assert_eq!(tree.files.iter().filter(|file| file.name == COVER).count(), used.len());
        let camera = tree.files.iter().filter(|file| tree.dir(file) == CAMERA).count();
        assert!((150..250).contains(&camera), "{camera}");
    }
}
