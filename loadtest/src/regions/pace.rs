//! How many requests come in a simulated second.

use super::loads::Load;

/// Seconds that an import takes: three for each region, so that one that fills region by region fills one alone in
/// most of them.
const SECONDS: usize = 50;
/// Files a second at most, and what a tree of 1,000,000 comes to. Even of a perfectly even load the hottest of 16
/// regions then has only 1.05 times the mean ([`floor`](super::gauge::floor)).
const FASTEST: usize = 20_000;
/// Files of the tree that the loads with remedies use at most: 1,000 a second, a floor of 1.22. They are taken evenly
/// from all of it: large folders keep their share, and a window goes over as many folders as when the whole tree is
/// imported.
const MOST_FILES: usize = 50_000;
/// Reads of a load of reads: 1,000 a second too.
const READS: usize = 50_000;

/// The length of a load and its constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Files of the tree that are used.
    pub files: usize,
    /// Files that it has.
    of: usize,
    /// Creations of a file or reads. The directories that a file needs are made along with it.
    pub requests: usize,
    per_second: usize,
}

impl Pace {
    /// For the import of all files. A small tree has fewer a second: 400 if it has 20,000, a floor of 1.35.
    pub fn import(files: usize) -> Self {
        Self::new(files, files, files)
    }

    /// For a load that is compared with others.
    pub fn of(load: Load, files: usize) -> Self {
        let used = files.min(MOST_FILES);
        match load {
            Load::Reads(_) => Self::new(used, files, if used == 0 { 0 } else { READS }),
            _ => Self::new(used, files, used),
        }
    }

    fn new(files: usize, of: usize, requests: usize) -> Self {
        Self { files, of, requests, per_second: requests.div_ceil(SECONDS).clamp(1, FASTEST) }
    }

    /// The position in the tree of a file that is used, counted from 0.
    pub fn position(&self, file: usize) -> usize {
        file * self.of / self.files.max(1)
    }

    /// When a request comes, counted from 0.
    pub fn second(&self, request: usize) -> f64 {
        request as f64 / self.per_second as f64
    }

    /// How long the load takes.
    pub fn seconds(&self) -> f64 {
        self.second(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_takes_fifty_seconds_unless_it_is_large() {
        let rates = [1_000, 20_000, 1_000_000, 10_000_000].map(|files| Pace::import(files).per_second);
        assert_eq!(rates, [20, 400, 20_000, 20_000]);
        assert_eq!((Pace::import(1_000_000).seconds(), Pace::import(10_000_000).seconds()), (50.0, 500.0));
        let reads = Pace::of(Load::Reads(0.99), 1_000);
        assert_eq!((reads.files, reads.requests, reads.per_second), (1_000, 50_000, 1_000));
        assert_eq!(Pace::of(Load::Users(8), 1_000_000).per_second, 1_000);
        assert_eq!(Pace::of(Load::Reads(0.8), 0).seconds(), 0.0);
    }

    #[test]
    fn the_files_of_a_large_tree_are_taken_from_all_of_it() {
        let pace = Pace::of(Load::OneTree, 125_000);
        assert_eq!([0, 1, 2, 3, 49_999].map(|file| pace.position(file)), [0, 2, 5, 7, 124_997]);
        let whole = Pace::import(250_000);
        assert_eq!([0, 1, 249_999].map(|file| whole.position(file)), [0, 1, 249_999]);
    }

    #[test]
    fn whole_seconds_are_exact() {
        // 49 a second: 49 times the nearest number to 1/49 is less than 1.
        let pace = Pace::import(49 * 50);
        for second in 0..50 {
            assert_eq!(pace.second(49 * second), second as f64);
            assert!(second == 0 || pace.second(49 * second - 1) < second as f64);
        }
    }
}
