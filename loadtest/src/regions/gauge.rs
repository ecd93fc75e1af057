//! How evenly the requests of one table fall on its regions, second by second.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Binomial, Distribution};

use super::REGIONS;
use super::bucket::Buckets;
use super::splits::Splits;
use crate::report::model::Spread;
use crate::stats::{gini, mean, median};

/// Windows of the heat map at most.
const HEAT: usize = 60;
/// Windows that [`floor`] looks at.
const FLOOR_WINDOWS: usize = 1_001;

/// Requests by region.
type Counts = [u32; REGIONS];

/// Counts the requests of a table by its regions.
pub struct Gauge {
    splits: Splits,
    buckets: Buckets,
    /// The window that is counted, and its second.
    window: Counts,
    second: u64,
    totals: [u64; REGIONS],
    /// By window in which there was a request.
    hottest: Vec<f64>,
    ginis: Vec<f64>,
    /// Every so many windows.
    heat: Vec<Counts>,
    stride: u64,
}

impl Gauge {
    /// For a table of which so many requests a second are asked on average.
    pub fn new(splits: Splits, offered_per_second: f64) -> Self {
        Self {
            splits,
            buckets: Buckets::new(offered_per_second),
            window: [0; REGIONS],
            second: 0,
            totals: [0; REGIONS],
            hottest: Vec::new(),
            ginis: Vec::new(),
            heat: Vec::new(),
            stride: 1,
        }
    }

    /// A request at a second, which never goes back.
    pub fn request(&mut self, at: f64, key: &[u8]) {
        while self.second < at as u64 {
            self.close_window();
        }
        let region = self.splits.region(key);
        self.buckets.request(region, at);
        if let (Some(count), Some(total)) = (self.window.get_mut(region), self.totals.get_mut(region)) {
            *count += 1;
            *total += 1;
        }
    }

    /// The spread of a load of so many seconds. A rest of less than a second is in no mean and no median, unless it is
    /// all there is: few requests are never even.
    pub fn finish(mut self, seconds: f64) -> Spread {
        while self.second < seconds as u64 {
            self.close_window();
        }
        if self.hottest.is_empty() {
            self.close_window();
        }
        let total: u64 = self.totals.iter().sum();
        let most = self.totals.iter().max().copied().unwrap_or_default();
        Spread {
            hottest_over_mean: median(&self.hottest),
            worst: 0.0,
            floor: 0.0,
            gini: mean(&self.ginis),
            hottest_share: most as f64 / total.max(1) as f64,
            idle_regions: self.totals.iter().filter(|total| **total == 0).count(),
            achieved: self.buckets.achieved(),
            heat: self.heat.iter().map(|counts| counts.to_vec()).collect(),
        }
    }

    fn close_window(&mut self) {
        let requests: u32 = self.window.iter().sum();
        if requests > 0 {
            self.hottest.push(over_mean(&self.window));
            self.ginis.push(gini(&self.window));
        }
        if self.second.is_multiple_of(self.stride) {
            if self.heat.len() == HEAT {
                // The load is longer than the map: every other window goes.
                let mut keep = [true, false].into_iter().cycle();
                self.heat.retain(|_| keep.next().unwrap_or_default());
                self.stride *= 2;
            }
            if self.second.is_multiple_of(self.stride) {
                self.heat.push(self.window);
            }
        }
        self.window = [0; REGIONS];
        self.second += 1;
    }
}

/// Requests of the hottest region through the mean of all.
fn over_mean(counts: &Counts) -> f64 {
    let sum: u32 = counts.iter().sum();
    let most = counts.iter().max().copied().unwrap_or_default();
    f64::from(most) * REGIONS as f64 / f64::from(sum.max(1))
}

/// What [`Spread::hottest_over_mean`] is by chance alone, when each of so many requests a window falls on any of the 16
/// regions with the same chance: 1.05 of 20,000, 1.22 of 1,000. No layout does better unless it deals its keys out.
///
/// The median over windows drawn from the multinomial distribution, region by region from conditional binomial ones
/// (Devroye, "Non-Uniform Random Variate Generation", 1986, section XI.1.4). The same each time.
///
/// Errors never: the chances are between 0 and 1.
pub fn floor(requests: u32) -> anyhow::Result<f64> {
    let mut random = StdRng::seed_from_u64(0);
    let mut hottest = Vec::with_capacity(FLOOR_WINDOWS);
    for _ in 0..FLOOR_WINDOWS {
        let (mut left, mut counts) = (requests, [0; REGIONS]);
        for (count, regions) in counts.iter_mut().zip((1..=REGIONS).rev()) {
            *count = Binomial::new(u64::from(left), 1.0 / regions as f64)?.sample(&mut random) as u32;
            left = left.saturating_sub(*count);
        }
        hottest.push(over_mean(&counts));
    }
    Ok(median(&hottest))
}

/// The [`floor`] to read a spread beside: that of the median of its windows' requests.
pub fn floor_of(spread: &Spread) -> anyhow::Result<f64> {
    let requests = spread.heat.iter().map(|window| window.iter().sum::<u32>()).filter(|sum| *sum > 0);
    floor(median(&requests.map(f64::from).collect::<Vec<_>>()) as u32)
}

#[cfg(test)]
mod tests {
    use super::super::splits::Alphabet;
    use super::*;

    fn gauge() -> Gauge {
        Gauge::new(Splits::even(Alphabet::Binary), 16.0)
    }

    #[test]
    fn the_spread_of_three_windows_by_hand() {
        let mut gauge = gauge();
        // All 16 in one region; 8 and 8 in two; one in each.
        for n in 0..16u8 {
            gauge.request(f64::from(n) / 16.0, &[0x10]);
        }
        for n in 0..16u8 {
            gauge.request(1.0 + f64::from(n) / 16.0, &[n % 2 * 0x10]);
        }
        for n in 0..16u8 {
            gauge.request(2.0 + f64::from(n) / 16.0, &[n * 0x10]);
        }
        let spread = gauge.finish(3.0);
        // 16, 8 and 1.
        assert_eq!(spread.hottest_over_mean, 8.0);
        // 15/16, 14/16 and 0.
        assert!((spread.gini - (15.0 + 14.0) / 16.0 / 3.0).abs() < 1e-12, "{}", spread.gini);
        assert_eq!(spread.hottest_share, 25.0 / 48.0);
        assert_eq!(spread.idle_regions, 0);
        assert_eq!(spread.heat.len(), 3);
        assert_eq!((spread.heat[0][1], spread.heat[1][0], spread.heat[2][15]), (16, 8, 1));
    }

    #[test]
    fn regions_without_requests_are_idle_and_windows_without_are_not_counted() {
        let mut gauge = gauge();
        gauge.request(0.0, &[0]);
        gauge.request(3.0, &[0xff]);
        let spread = gauge.finish(5.0);
        assert_eq!((spread.hottest_over_mean, spread.idle_regions, spread.heat.len()), (16.0, 14, 5));
    }

    #[test]
    fn a_rest_of_a_second_counts_only_alone() {
        let mut whole = gauge();
        (0..16u8).for_each(|n| whole.request(0.5, &[n * 0x10]));
        whole.request(1.0, &[0]);
        let spread = whole.finish(1.1);
        assert_eq!((spread.hottest_over_mean, spread.hottest_share), (1.0, 2.0 / 17.0));
        let mut alone = gauge();
        alone.request(0.0, &[0]);
        assert_eq!(alone.finish(0.1).hottest_over_mean, 16.0);
        let nothing = gauge().finish(0.0);
        assert_eq!((nothing.hottest_over_mean, nothing.idle_regions, nothing.achieved), (0.0, 16, 1.0));
    }

    #[test]
    fn a_long_load_keeps_every_so_many_windows() {
        let mut gauge = gauge();
        for n in 0..500u32 {
            (0..=n).for_each(|_| gauge.request(f64::from(n), &[0]));
        }
        let heat: Vec<u32> = gauge.finish(500.0).heat.iter().map(|window| window[0]).collect();
        let expected: Vec<u32> = (0..500).step_by(16).map(|n| n + 1).collect();
        assert_eq!(heat, expected);
    }

    #[test]
    fn chance_alone_is_never_even() {
        assert_eq!(floor(1).unwrap(), 16.0);
        // About 1 + 1.77 sqrt(15 / n): the mean of the largest of 16 normal variates is 1.766.
        for (requests, about) in [(1_000, 1.216), (4_000, 1.108), (20_000, 1.048)] {
            let floor = floor(requests).unwrap();
            assert!((floor - about).abs() < 0.01, "{requests}: {floor}");
        }
        let spread = Spread { heat: vec![vec![500; 2], vec![0; 2], vec![500; 2]], ..Spread::default() };
        assert_eq!(floor_of(&spread).unwrap(), floor(1_000).unwrap());
    }
}
