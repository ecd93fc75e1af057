//! The tree that requests go to: seeded, so that a later run finds the one that is there.
//!
//! Sizes are log-normal with a heavy tail, as file systems have them (Douceur and Bolosky, "A Large-Scale Study of
//! File-System Contents", 1999: a median of 4 KiB; Mitzenmacher, "Dynamic Models for File Sizes and Double Pareto
//! Distributions", 2004), but clipped, so that thousands of files are some hundred megabytes: about 25 KiB a file.

use std::ops::Range;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Pareto, Zipf};

/// The folder on the server that holds whatever this program stores.
pub const ROOT: &str = "/loadtest";

/// Half of the files are smaller, in bytes.
const MEDIAN: f64 = 4096.0;
/// Of the logarithm: 68 % of the files are within a factor of 6 around the median.
const SIGMA: f64 = 1.8;
/// One file in so many is of the heavy tail: 128 KiB or more, a tenth of those ten times as large.
const TAIL_IN: u32 = 100;
const TAIL_FROM: f64 = 128.0 * 1024.0;
const TAIL_EXPONENT: f64 = 1.1;
pub const LARGEST: u32 = 4 << 20;

/// Files of a small folder, about.
const IN_A_FOLDER: u32 = 20;
/// These hold three files in ten together.
const HUGE_FOLDERS: usize = 3;

/// Random bytes that contents are parts of: more than the largest file, so that contents differ.
const CONTENT: usize = LARGEST as usize + (1 << 20);

/// The exponent of popularity that YCSB has (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", 2010).
const ZIPF: f64 = 0.99;

/// 2023-01-01, in seconds since 1970, and the days from then on over which files are spread.
const FIRST_DAY: i64 = 1_672_531_200;
const DAY: i64 = 86_400;
pub const DAYS: i64 = 3 * 365;

/// A file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Index of its folder.
    pub folder: u32,
    /// Bytes.
    pub size: u32,
    /// Seconds since 1970.
    pub modified: i64,
}

/// A tree below [`ROOT`].
#[derive(Debug)]
pub struct Shape {
    /// Path of all of it, which tells its seed and its number of files.
    pub root: String,
    /// Paths.
    pub folders: Vec<String>,
    pub files: Vec<File>,
    /// Indexes of files, the most popular one first.
    popular: Vec<u32>,
    popularity: Zipf<f64>,
    content: Bytes,
}

impl Shape {
    /// # Errors
    ///
    /// If there are no files.
    pub fn new(seed: u64, files: u32) -> anyhow::Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let root = format!("{ROOT}/tree-{seed}-{files}");
        let huge = (0..HUGE_FOLDERS).map(|n| format!("{root}/all-{n}"));
        let small = (0..files / IN_A_FOLDER).map(|n| format!("{root}/year-{}/month-{:02}/event-{n:05}", n % 3, n % 12));
        let folders: Vec<String> = huge.chain(small).collect();
        let (body, tail) = (LogNormal::new(MEDIAN.ln(), SIGMA)?, Pareto::new(TAIL_FROM, TAIL_EXPONENT)?);
        let files: Vec<File> = (0..files)
            .map(|_| {
                let among = if random.random_ratio(3, 10) { 0..HUGE_FOLDERS } else { HUGE_FOLDERS..folders.len() };
                let among = if among.is_empty() { 0..HUGE_FOLDERS } else { among };
                let size =
                    if random.random_ratio(1, TAIL_IN) { tail.sample(&mut random) } else { body.sample(&mut random) };
                File {
                    folder: random.random_range(among) as u32,
                    size: (size as u32).clamp(1, LARGEST),
                    modified: FIRST_DAY + random.random_range(0..DAYS * DAY),
                }
            })
            .collect();
        let mut popular: Vec<u32> = (0..files.len() as u32).collect();
        popular.shuffle(&mut random);
        let popularity = Zipf::new(files.len() as f64, ZIPF)?;
        let mut content = vec![0; CONTENT];
        random.fill_bytes(&mut content);
        Ok(Self { root, folders, files, popular, popularity, content: content.into() })
    }

    /// The path of the file at an index.
    pub fn path(&self, at: usize) -> String {
        let folder = self.files.get(at).map_or("", |file| self.folder(file.folder));
        format!("{folder}/file-{at:07}.bin")
    }

    pub fn folder(&self, at: u32) -> &str {
        self.folders.get(at as usize).map_or(&self.root, String::as_str)
    }

    /// Content of so many bytes, up to [`LARGEST`], out of random ones: which, says `number`.
    pub fn content(&self, number: u64, size: u32) -> Bytes {
        let size = size.min(LARGEST) as usize;
        let start = (number.wrapping_mul(4099) % (CONTENT - size + 1) as u64) as usize;
        self.content.slice(start..start + size)
    }

    /// Draws a file: its index is by Zipf's law, over files in random order.
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        let rank = self.popularity.sample(random) as usize;
        self.popular.get(rank.saturating_sub(1)).copied().unwrap_or_default() as usize
    }

    /// A period of `days` that lies among the files' times, in seconds since 1970.
    pub fn draw_period(&self, random: &mut impl Rng, days: i64) -> Range<i64> {
        let first = FIRST_DAY + random.random_range(0..=(DAYS - days).max(0)) * DAY;
        first..first + days * DAY
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| u64::from(file.size)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_repeats_with_its_seed() {
        let (one, again, other) =
            (Shape::new(7, 1_000).unwrap(), Shape::new(7, 1_000).unwrap(), Shape::new(8, 1_000).unwrap());
        assert_eq!((&one.files, &one.folders, &one.popular), (&again.files, &again.folders, &again.popular));
        assert_eq!(one.content(5, 100), again.content(5, 100));
        assert_ne!(one.files, other.files);
        assert_ne!(one.root, other.root);
        assert_eq!(one.files.len(), 1_000);
        // 1,000 / 20 small ones, and the huge ones.
        assert_eq!(one.folders.len(), 53);
        assert!((0..1_000).all(|at| one.path(at).starts_with("/loadtest/tree-7-1000/")));
    }

    #[test]
    fn sizes_and_folders_are_as_described() {
        let shape = Shape::new(1, 20_000).unwrap();
        let mut sizes: Vec<u32> = shape.files.iter().map(|file| file.size).collect();
        sizes.sort_unstable();
        assert!((3_700..4_600).contains(&sizes[10_000]), "{}", sizes[10_000]);
        assert!(*sizes.last().unwrap() <= LARGEST && *sizes.first().unwrap() >= 1);
        // One percent of the tail, all of it 128 KiB or more; of the rest ln(32) / 1.8 = 1.93 deviations: 2.7 %.
        let large = sizes.iter().filter(|size| **size >= 128 << 10).count();
        assert!((550..950).contains(&large), "{large}");
        let mean = shape.bytes() / 20_000;
        assert!((18 << 10..34 << 10).contains(&mean), "{mean}");
        let huge = shape.files.iter().filter(|file| file.folder < 3).count();
        assert!((5_500..6_500).contains(&huge), "{huge}");
    }

    #[test]
    fn some_files_are_far_more_popular_than_others() {
        let shape = Shape::new(1, 1_000).unwrap();
        let mut random = StdRng::seed_from_u64(3);
        let mut drawn = vec![0; 1_000];
        for _ in 0..100_000 {
            drawn[shape.draw(&mut random)] += 1;
        }
        // The sum of 1 / k^0.99 over 1 to 1,000 is 7.73: the first has 12.9 %, the tenth 1.32 %, the last 0.014 %.
        let of = |rank: usize| drawn[shape.popular[rank - 1] as usize];
        assert!((12_400..13_500).contains(&of(1)), "{}", of(1));
        assert!((1_100..1_550).contains(&of(10)), "{}", of(10));
        assert!(of(1_000) < 60, "{}", of(1_000));
    }
}
