//! Where a table is cut into regions, and the region of a row key.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::REGIONS;

/// Keys of a table that are kept at most to find its quantiles: each region then holds its sixteenth of the rows to
/// about one percent.
const SAMPLE: usize = 1 << 17;

/// How the split keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splitting {
    /// Before there is data, by dividing the key space, as HBase's `UniformSplit` does.
    Even,
    /// At the quantiles of the table's own cells, as a cluster has split it after they were written.
    Quantiles,
}

impl Splitting {
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Quantiles => "at quantiles",
        }
    }

    /// What it costs, if anything.
    pub fn cost(self) -> Option<&'static str> {
        match self {
            Self::Even => Some("a region in which no key falls is idle for good"),
            Self::Quantiles => None,
        }
    }
}

/// The first bytes that keys can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// All 256 values, split at 0x10, 0x20, ...
    Binary,
    /// Printable ASCII, 0x20 to 0x7e: what an operator expects of names and paths without looking at them. That all
    /// paths begin with the same bytes is what such a division cannot know.
    Text,
}

/// The regions of a table: the first ends before the first split key, each other one starts with its own.
#[derive(Clone, Debug)]
pub struct Splits(Vec<Vec<u8>>);

impl Splits {
    pub fn even(alphabet: Alphabet) -> Self {
        let (first, letters) = match alphabet {
            Alphabet::Binary => (0, 256),
            Alphabet::Text => (0x20, 0x7f - 0x20),
        };
        Self((1..REGIONS).map(|n| vec![(first + n * letters / REGIONS) as u8]).collect())
    }

    /// The region of a key, from 0.
    pub fn region(&self, key: &[u8]) -> usize {
        self.0.partition_point(|split| split.as_slice() <= key)
    }
}

/// A sample of a table's cells by their row keys, each with the same chance (Vitter's algorithm R, "Random sampling
/// with a reservoir", ACM TOMS 11, 1985): all of them while they are few.
///
/// A row counts as often as it was written, since a row of many cells is larger. One that holds more than a
/// sixteenth has a region for itself, and leaves others without a row: no region ends within a row.
pub struct Sample {
    kept: Vec<Vec<u8>>,
    seen: usize,
    random: StdRng,
}

impl Sample {
    pub fn new(seed: u64) -> Self {
        Self { kept: Vec::new(), seen: 0, random: StdRng::seed_from_u64(seed) }
    }

    pub fn push(&mut self, key: &[u8]) {
        self.seen += 1;
        if self.kept.len() < SAMPLE {
            self.kept.push(key.to_vec());
        } else if let Some(kept) = self.kept.get_mut(self.random.random_range(0..self.seen)) {
            kept.clear();
            kept.extend_from_slice(key);
        }
    }

    pub fn into_splits(mut self) -> Splits {
        self.kept.sort_unstable();
        let (kept, mut splits) = (self.kept.len(), Vec::with_capacity(REGIONS - 1));
        for n in 1..REGIONS {
            splits.extend(self.kept.get(n * kept / REGIONS).cloned());
        }
        Splits(splits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_key_is_the_first_of_its_region() {
        let binary = Splits::even(Alphabet::Binary);
        for (key, region) in [
            (b"".as_slice(), 0),
            (b"\x0f\xff", 0),
            (b"\x10", 1),
            (b"\x10\x00", 1),
            (b"\x1f\xff", 1),
            (b"\x20", 2),
            (b"\xef\xff", 14),
            (b"\xf0", 15),
            (b"\xff\xff", 15),
        ] {
            assert_eq!(binary.region(key), region, "{key:?}");
        }
        // 0x20 + 95 / 16 is 0x25, 0x20 + 15 * 95 / 16 is 0x79.
        let text = Splits::even(Alphabet::Text);
        let regions = [b"\x24~".as_slice(), b"\x25", b"x~", b"y", b"~"].map(|key| text.region(key));
        assert_eq!(regions, [0, 1, 14, 15, 15]);
    }

    #[test]
    fn quantiles_give_each_region_as_many_keys() {
        let mut sample = Sample::new(1);
        for n in (0..160u8).rev() {
            sample.push(&[n]);
        }
        let splits = sample.into_splits();
        let mut counts = [0; REGIONS];
        for n in 0..160u8 {
            counts[splits.region(&[n])] += 1;
        }
        assert_eq!(counts, [10; REGIONS]);
    }

    #[test]
    fn a_sample_stays_bounded_and_even() {
        let mut sample = Sample::new(1);
        for n in 0..4 * SAMPLE as u32 {
            sample.push(&n.to_be_bytes());
        }
        assert_eq!(sample.kept.len(), SAMPLE);
        let splits = sample.into_splits();
        let mut counts = [0; REGIONS];
        for n in 0..4 * SAMPLE as u32 {
            counts[splits.region(&n.to_be_bytes())] += 1;
        }
        let share = 4 * SAMPLE / REGIONS;
        assert!(counts.iter().all(|count| (share * 95 / 100..share * 105 / 100).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_row_larger_than_a_region_leaves_others_idle() {
        let mut sample = Sample::new(1);
        for n in 0..16u8 {
            sample.push(&[n.max(8)]);
        }
        let splits = sample.into_splits();
        assert_eq!(splits.region(&[7]), 0);
        assert_eq!((splits.region(&[8]), splits.region(&[9]), splits.region(&[15])), (8, 9, 15));
    }

    #[test]
    fn a_table_without_rows_is_one_region() {
        assert_eq!(Sample::new(1).into_splits().region(b"a"), 0);
    }
}
