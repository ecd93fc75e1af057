//! The paths that the clients share: few enough that operations conflict, and in trees.
//!
//! Directories of one level are siblings, so that moved files stay among these paths. Names of files and of directories
//! differ: a path is always one or always the other.

use rand::RngExt;
use rand::rngs::StdRng;

use super::history::Path;

/// The trees that are copied: many files in few directories, and few files in a deep chain.
pub const WIDE: &str = "/m/wide";
pub const DEEP: &str = "/m/deep";
const DIRECTORIES: usize = 12;
const FILES: usize = 100;
const LEVELS: usize = 50;

const NAMES: [&str; 4] = ["f0.txt", "f1.jpg", "f2", "f3.bin"];

pub fn file(dice: &mut StdRng) -> Path {
    let directory = directory_of(dice, [5, 3, 2]);
    format!("{directory}/{}", NAMES[dice.random_range(0..NAMES.len())]).into()
}

/// The files that can be in a directory.
pub fn files_in(directory: &str) -> impl Iterator<Item = Path> + '_ {
    NAMES.into_iter().map(move |name| format!("{directory}/{name}").into())
}

fn directory_of(dice: &mut StdRng, most: [usize; 3]) -> String {
    let levels = dice.random_range(1..=3);
    let parts = ["g", "d", "e"].into_iter().zip(most).take(levels);
    parts.map(|(name, most)| format!("/{name}{}", dice.random_range(0..most))).collect()
}

pub fn directory(dice: &mut StdRng) -> String {
    directory_of(dice, [5, 3, 2])
}

/// Two directories of the same level; the second one often does not exist.
pub fn two_directories(dice: &mut StdRng) -> (String, String) {
    let from = directory(dice);
    let more = [7, 5, 4];
    loop {
        let to = directory_of(dice, more);
        if to.matches('/').count() == from.matches('/').count() && to != from {
            return (from, to);
        }
    }
}

/// A target for copies of large trees.
pub fn slot(dice: &mut StdRng) -> String {
    format!("/w/s{}", dice.random_range(0..4))
}

/// A path of a file below a directory.
pub fn below(directory: &str, dice: &mut StdRng) -> Path {
    if directory.starts_with("/w/") {
        let name = if dice.random_bool(0.8) {
            wide(dice.random_range(0..DIRECTORIES), dice.random_range(0..FILES))
        } else {
            deep(dice.random_range(0..LEVELS))
        };
        return format!("{directory}{name}").into();
    }
    let levels = directory.matches('/').count();
    let inner = if levels < 3 && dice.random_bool(0.5) { ["/d0", "/e0"][levels - 1] } else { "" };
    format!("{directory}{inner}/{}", NAMES[dice.random_range(0..NAMES.len())]).into()
}

fn wide(directory: usize, file: usize) -> String {
    format!("/d{directory:02}/f{file:03}")
}

fn deep(level: usize) -> String {
    format!("{}/f", "/x".repeat(level + 1))
}

/// All files of the trees that are copied.
pub fn masters() -> Vec<Path> {
    let wide = (0..DIRECTORIES).flat_map(|d| (0..FILES).map(move |f| format!("{WIDE}{}", wide(d, f)).into()));
    wide.chain((0..LEVELS).map(|level| format!("{DEEP}{}", deep(level)).into())).collect()
}
