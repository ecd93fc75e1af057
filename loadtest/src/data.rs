//! The tree of files that every layout stores: seeded, so that a run can be repeated.
//!
//! | folder | part of the files | folders | times |
//! |---|---|---|---|
//! | [`CAMERA`] | a tenth | one, flat | 2025, in the order of the names |
//! | [`ARCHIVE`] | a tenth | six deep below it, about 50 files each | follow the folders |
//! | `/home/photos/<year>` | four tenths | year, month, event | follow the folders |
//! | [`SHARED`] | four tenths | year, month, event | [`FIRST_DAY`] and three years, without relation to the folder |
//!
//! Names are counted as a camera counts them, folder after folder; below [`SHARED`] they are dealt over the folders.

use std::collections::HashSet;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};

/// A file that is to be stored.
#[derive(Clone, Debug)]
pub struct File {
    /// The directory it lies in, as an index of [`Tree::dirs`].
    pub dir: usize,
    pub name: String,
    /// Milliseconds since 1970.
    pub modified: i64,
}

/// Directories, parents before children, and files in the order of an import: folder by folder.
pub struct Tree {
    /// Full paths without the root.
    pub dirs: Vec<String>,
    pub files: Vec<File>,
}

/// 2022-01-01, the first day of times without relation to folders; they span [`DAYS`].
pub const FIRST_DAY: i64 = 1_640_995_200_000;
pub const DAY: i64 = 86_400_000;
pub const DAYS: i64 = 3 * 365;
/// 2000-01-01, the first day of times that follow folders, without those of [`ARCHIVE`].
pub const FIRST_YEAR: i64 = 946_684_800_000;
/// Years of times that follow folders.
pub const YEARS: i64 = 20;

/// Below it lies everything.
pub const HOME: &str = "/home/photos";
/// The largest folder: what a camera or a telephone leaves.
pub const CAMERA: &str = "/home/photos/camera";
/// The root of a deep tree.
pub const ARCHIVE: &str = "/home/photos/archive";
/// Folders whose files come from many people.
pub const SHARED: &str = "/home/photos/shared";
/// The name that a file of each folder has, beside those that are like no other.
pub const COVER: &str = "cover.jpg";

/// Files of a folder, about.
const FOLDER: u32 = 50;
/// Levels below [`ARCHIVE`], and folders of each.
const DEPTH: u32 = 6;
const FAN: u32 = 4;

/// A folder with files, and the first day and the days of their times.
struct Folder {
    dir: usize,
    from: i64,
    days: i64,
}

impl Tree {
    pub fn new(files: u32, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut dirs = ["/home", HOME, CAMERA, ARCHIVE, SHARED].map(str::to_owned).to_vec();
        let mut made: HashSet<String> = dirs.iter().cloned().collect();
        let folders = (files / FOLDER).max(10);
        let archive: Vec<Folder> = (0..folders / 10)
            .map(|n| {
                let level = |level: u32| format!("/{}{}", char::from(b'a' + level as u8), n / FAN.pow(level));
                let below: String = (0..DEPTH).rev().map(level).collect();
                let dir = make(&mut dirs, &mut made, &format!("{ARCHIVE}{below}"));
                // The nineties, in the order of the folders.
                Folder { dir, from: FIRST_YEAR - 3_650 * DAY + i64::from(n) * DAY % (3_600 * DAY), days: 1 }
            })
            .collect();
        // Each folder has a name of its own, since one layout has room for no other.
        let mut event = |root: &str, years: i64, event: u32| {
            let (year, month) = (i64::from(event) % years, i64::from(event) / years % 12);
            let top = root.rsplit('/').next().unwrap_or_default();
            let path = format!("{root}{0}/{top}{0}-{1:02}/{top}event-{event:07}", 2000 + year, month + 1);
            let from = FIRST_YEAR + year * 365 * DAY + month * 30 * DAY;
            Folder { dir: make(&mut dirs, &mut made, &path), from, days: 28 }
        };
        let own: Vec<Folder> = (0..folders * 4 / 10).map(|n| event(&format!("{HOME}/"), YEARS, n)).collect();
        let shared: Vec<Folder> = (0..folders * 4 / 10).map(|n| event(&format!("{SHARED}/s"), DAYS / 365, n)).collect();
        let camera = [Folder { dir: 2, from: FIRST_DAY + DAYS * DAY, days: 365 }];

        let mut all = Vec::with_capacity(files as usize);
        let tenth = files / 10;
        for (part, folders) in [(tenth, &camera[..]), (tenth, &archive), (tenth * 4, &own)] {
            in_order(part, folders, &mut all, &mut random);
        }
        for n in all.len() as u32..files {
            let modified = FIRST_DAY + random.random_range(0..DAYS * DAY);
            let Some(folder) = shared.get(random.random_range(0..shared.len())) else { continue };
            all.push(File { dir: folder.dir, name: name(n), modified });
        }
        let order = |a: &File, b: &File| (dirs.get(a.dir), &a.name).cmp(&(dirs.get(b.dir), &b.name));
        all.sort_by(order);
        let mut before = None;
        for file in &mut all {
            if before.replace(file.dir) != Some(file.dir) {
                file.name = COVER.to_owned();
            }
        }
        all.sort_by(order);
        Self { dirs, files: all }
    }

    /// The folders of events: all that hold files, but for the largest and the deep ones.
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

fn name(n: u32) -> String {
    format!("IMG_{n:08}.jpg")
}

/// The position of a directory, which is made with its parents if it is missing.
fn make(dirs: &mut Vec<String>, made: &mut HashSet<String>, path: &str) -> usize {
    for end in path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]) {
        let dir = path.get(..end).unwrap_or_default();
        if made.insert(dir.to_owned()) {
            dirs.push(dir.to_owned());
        }
    }
    dirs.len() - 1
}

/// Files whose names and times rise from folder to folder.
fn in_order(files: u32, folders: &[Folder], all: &mut Vec<File>, random: &mut StdRng) {
    let each = (files / folders.len().max(1) as u32).max(1);
    for n in 0..files {
        let at = u64::from(n) * folders.len() as u64 / u64::from(files);
        let Some(folder) = folders.get(at as usize) else { continue };
        let step = folder.days * DAY / i64::from(each);
        let modified = folder.from + i64::from(n % each) * step + random.random_range(0..step.max(1));
        all.push(File { dir: folder.dir, name: name(all.len() as u32), modified });
    }
}

/// A file's attributes and its content, if that is measured. Digests compress no better than those of any content.
pub fn attributes(modified: i64) -> Attributes {
    Attributes {
        size: 0,
        mime: "image/jpeg".into(),
        creator: format!("user{:02}", modified.rem_euclid(CREATORS)),
        modified: Timestamp::from_ms(modified),
        added: Timestamp::from_ms(FIRST_DAY + (modified - FIRST_YEAR).rem_euclid(DAYS * DAY)),
        digest: Digest(StdRng::seed_from_u64(modified as u64).random()),
        location: ContentLocation::Inline,
    }
}

/// Users who have stored the files.
pub const CREATORS: i64 = 20;

/// Bytes that do not compress.
pub fn content(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(length as u64).fill_bytes(&mut bytes);
    bytes.into()
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
        assert!(tree.files.is_sorted_by_key(|f| (tree.dir(f), &f.name)));
        let paths: HashSet<_> = tree.files.iter().map(|f| tree.path(f)).collect();
        assert_eq!(paths.len(), 2_000);
    }

    #[test]
    fn the_parts_of_a_tree_are_as_the_table_says() {
        let tree = Tree::new(5_000, 7);
        let below = |root: &str| tree.files.iter().filter(|file| tree.dir(file).starts_with(root)).collect::<Vec<_>>();
        assert_eq!([below(CAMERA).len(), below(ARCHIVE).len(), below(SHARED).len()], [500, 500, 2_000]);
        assert!(below(ARCHIVE).iter().all(|file| tree.path(file).matches('/').count() == 3 + DEPTH as usize + 1));
        let used: HashSet<_> = tree.files.iter().map(|file| file.dir).collect();
        assert_eq!(tree.files.iter().filter(|file| file.name == COVER).count(), used.len());
        let names: HashSet<_> = tree.dirs.iter().map(|dir| dir.rsplit('/').next().unwrap()).collect();
        assert_eq!(names.len(), tree.dirs.len());
        // Times follow the folders in one half, and not in the other.
        let january = |root: &str| below(root).iter().map(|file| file.modified).max().unwrap();
        assert!(january(&format!("{HOME}/2000")) < FIRST_YEAR + 365 * DAY);
        assert!(january(&format!("{SHARED}/s2000")) > FIRST_DAY + 360 * DAY);
    }
}
