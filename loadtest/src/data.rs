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

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use rand::rngs::StdRng;
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

/// Directories by path, so parents before children, and files in the order of an import: folder by folder.
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
    path: String,
    from: i64,
    days: i64,
}

impl Tree {
    pub fn new(files: u32, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (folders, tenth) = ((files / FOLDER).max(10), files / 10);
        let camera = [Folder { path: CAMERA.to_owned(), from: FIRST_DAY + DAYS * DAY, days: 365 }];
        let deep = |n: u32| {
            let level = |level: u32| format!("/{}{}", char::from(b'a' + level as u8), n / FAN.pow(level));
            let below: String = (0..DEPTH).rev().map(level).collect();
            // The nineties, in the order of the folders.
            let from = FIRST_YEAR - 3_650 * DAY + i64::from(n) * DAY % (3_600 * DAY);
            Folder { path: format!("{ARCHIVE}{below}"), from, days: 1 }
        };
        let archive: Vec<Folder> = (0..folders / 10).map(deep).collect();
        // Each folder has a name of its own, since one layout has room for no other.
        let event = |root: &str, years: i64, event: u32| {
            let (year, month) = (i64::from(event) % years, i64::from(event) / years % 12);
            let top = root.rsplit('/').next().unwrap_or_default();
            let path = format!("{root}{0}/{top}{0}-{1:02}/{top}event-{event:07}", 2000 + year, month + 1);
            Folder { path, from: FIRST_YEAR + year * 365 * DAY + month * 30 * DAY, days: 28 }
        };
        let own: Vec<Folder> = (0..folders * 4 / 10).map(|n| event(&format!("{HOME}/"), YEARS, n)).collect();
        let shared: Vec<Folder> = (0..folders * 4 / 10).map(|n| event(&format!("{SHARED}/s"), DAYS / 365, n)).collect();

        let paths = [&camera[..], &archive, &own, &shared].into_iter().flatten().map(|folder| folder.path.as_str());
        let all = paths.chain([ARCHIVE, SHARED]).flat_map(|path| Path::new(path).ancestors()).filter_map(Path::to_str);
        let dirs: BTreeSet<String> = all.filter(|dir| *dir != "/").map(str::to_owned).collect();
        let dirs: Vec<String> = dirs.into_iter().collect();
        let dir = |folder: &Folder| dirs.binary_search(&folder.path).unwrap_or_default();

        let name = |n: usize| format!("IMG_{n:08}.jpg");
        let mut all = Vec::with_capacity(files as usize);
        for (part, folders) in [(tenth, &camera[..]), (tenth, &archive), (tenth * 4, &own)] {
            // Names and times rise from folder to folder.
            let each = (part / folders.len().max(1) as u32).max(1);
            for n in 0..part {
                let at = u64::from(n) * folders.len() as u64 / u64::from(part);
                let Some(folder) = folders.get(at as usize) else { continue };
                let step = folder.days * DAY / i64::from(each);
                let modified = folder.from + i64::from(n % each) * step + random.random_range(0..step.max(1));
                all.push(File { dir: dir(folder), name: name(all.len()), modified });
            }
        }
        for n in all.len()..files as usize {
            let modified = FIRST_DAY + random.random_range(0..DAYS * DAY);
            let Some(folder) = shared.get(random.random_range(0..shared.len())) else { continue };
            all.push(File { dir: dir(folder), name: name(n), modified });
        }
        let order = |a: &File, b: &File| (a.dir, &a.name).cmp(&(b.dir, &b.name));
        all.sort_by(order);
        for first in all.chunk_by_mut(|a, b| a.dir == b.dir).filter_map(<[File]>::first_mut) {
            first.name = COVER.to_owned();
        }
        all.sort_by(order);
        Self { dirs, files: all }
    }

    pub fn dir(&self, file: &File) -> &str {
        self.dirs.get(file.dir).map_or("", String::as_str)
    }

    pub fn path(&self, file: &File) -> String {
        format!("{}/{}", self.dir(file), file.name)
    }
}

/// The attributes of a file. Digests compress no better than those of any content.
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_tree_is_whole_and_its_parts_are_as_the_table_says() {
        let tree = Tree::new(5_000, 7);
        let has_parent = |dir: &str| tree.dirs.iter().any(|above| above == dir.rsplit_once('/').unwrap().0);
        assert!(tree.dirs.iter().all(|dir| dir == "/home" || has_parent(dir)));
        assert!(tree.dirs.is_sorted() && tree.files.is_sorted_by_key(|file| (tree.dir(file), &file.name)));
        let again = Tree::new(5_000, 7);
        assert!(tree.files.iter().zip(&again.files).all(|(a, b)| a.name == b.name && a.modified == b.modified));
        assert_eq!(tree.files.iter().map(|file| tree.path(file)).collect::<HashSet<_>>().len(), 5_000);
        let below = |root: &str| tree.files.iter().filter(|file| tree.dir(file).starts_with(root)).collect::<Vec<_>>();
        assert_eq!([below(CAMERA).len(), below(ARCHIVE).len(), below(SHARED).len()], [500, 500, 2_000]);
        assert!(below(ARCHIVE).iter().all(|file| tree.path(file).matches('/').count() == 3 + DEPTH as usize + 1));
        let used: HashSet<_> = tree.files.iter().map(|file| file.dir).collect();
        assert_eq!(tree.files.iter().filter(|file| file.name == COVER).count(), used.len());
        let names: HashSet<_> = tree.dirs.iter().map(|dir| dir.rsplit('/').next().unwrap()).collect();
        assert_eq!(names.len(), tree.dirs.len());
        // Times follow the folders in one half, and not in the other.
        let last = |root: &str| below(root).iter().map(|file| file.modified).max().unwrap();
        assert!(last(&format!("{HOME}/2000")) < FIRST_YEAR + 365 * DAY);
        assert!(last(&format!("{SHARED}/s2000")) > FIRST_DAY + 360 * DAY);
    }
}
