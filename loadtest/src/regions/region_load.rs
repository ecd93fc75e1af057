//! The load of the regions of a table, or of the servers that hold them, second by second.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Binomial, Distribution};

use super::token_bucket::achieved;
use crate::report::model::REGIONS;
use crate::report::model::Spread;
use crate::stats::{gini, mean, median};

/// Windows of the heat map at most.
const HEAT: usize = 60;
/// Windows that [`floor`] draws.
const FLOOR_WINDOWS: usize = 1_001;

/// Requests by region, in one window of a second.
type Window = [u32; REGIONS];

#[derive(Default)]
pub struct RegionLoad {
    windows: Vec<Window>,
}

impl RegionLoad {
    pub fn count(&mut self, at: f64, region: usize) {
        let second = at as usize;
        if self.windows.len() <= second {
            self.windows.resize(second + 1, [0; REGIONS]);
        }
        if let Some(count) = self.windows.get_mut(second).and_then(|window| window.get_mut(region)) {
            *count += 1;
        }
    }

    /// The spread of a load of so many seconds. A rest of less than a second is no window, unless it is all there is:
    /// few requests are never even. Errors never: [`floor`].
    pub fn spread(mut self, seconds: f64) -> anyhow::Result<Spread> {
        let mut totals = [0; REGIONS];
        for window in &self.windows {
            totals.iter_mut().zip(window).for_each(|(total, count)| *total += u64::from(*count));
        }
        let (total, most): (u64, _) = (totals.iter().sum(), totals.iter().max().copied().unwrap_or_default());
        let achieved = achieved(&self.windows, total as f64 / seconds.max(1.0));
        self.windows.resize((seconds as usize).max(1), [0; REGIONS]);
        let busy: Vec<&Window> = self.windows.iter().filter(|window| window.iter().any(|count| *count > 0)).collect();
        let each = |figure: fn(&Window) -> f64| busy.iter().map(|window| figure(window)).collect::<Vec<f64>>();
        let hottest = each(over_mean);
        let stride = self.windows.len().div_ceil(HEAT).next_power_of_two();
        Ok(Spread {
            hottest_over_mean: median(&hottest),
            floor: floor(median(&each(requests)) as u32)?,
            worst: hottest.into_iter().fold(0.0, f64::max),
            gini: mean(&each(|window| gini(window))),
            hottest_share: most as f64 / total.max(1) as f64,
            idle_regions: totals.iter().filter(|total| **total == 0).count(),
            achieved,
            heat: self.windows.iter().step_by(stride).map(|window| window.to_vec()).collect(),
        })
    }
}

fn requests(window: &Window) -> f64 {
    window.iter().copied().map(f64::from).sum()
}

/// Requests of the hottest region through the mean of all.
fn over_mean(window: &Window) -> f64 {
    let most = window.iter().max().copied().unwrap_or_default();
    f64::from(most) * REGIONS as f64 / requests(window).max(1.0)
}

/// [`Spread::floor`]: the median of windows in which each request falls on any of the 16 regions with the same chance.
/// 1.05 of 20,000 requests, 1.22 of 1,000. The same each time.
///
/// Windows have the multinomial distribution, drawn region by region from conditional binomial ones (Devroye,
/// "Non-Uniform Random Variate Generation", 1986, section XI.1.4). Errors never: the chances are between 0 and 1.
pub fn floor(requests: u32) -> anyhow::Result<f64> {
    let mut random = StdRng::seed_from_u64(0);
    let mut hottest = Vec::with_capacity(FLOOR_WINDOWS);
    for _ in 0..FLOOR_WINDOWS {
        let (mut left, mut window) = (requests, [0; REGIONS]);
        for (count, regions) in window.iter_mut().zip((1..=REGIONS).rev()) {
            *count = Binomial::new(u64::from(left), 1.0 / regions as f64)?.sample(&mut random) as u32;
            left = left.saturating_sub(*count);
        }
        hottest.push(over_mean(&window));
    }
    Ok(median(&hottest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spread of requests, each a second and a region.
    fn spread(seconds: f64, requests: impl IntoIterator<Item = (f64, usize)>) -> Spread {
        let mut load = RegionLoad::default();
        requests.into_iter().for_each(|(at, region)| load.count(at, region));
        load.spread(seconds).unwrap()
    }

    #[test]
    fn the_spread_of_three_windows_by_hand() {
        // All 16 in one region; 8 and 8 in two; one in each.
        let request = |n: usize| (n as f64 / 16.0, [1, n % 2, n % 16][n / 16]);
        let spread = spread(3.0, (0..48).map(request));
        // 16, 8 and 1.
        assert_eq!((spread.hottest_over_mean, spread.worst), (8.0, 16.0));
        // 15/16, 14/16 and 0.
        assert!((spread.gini - (15.0 + 14.0) / 16.0 / 3.0).abs() < 1e-12, "{}", spread.gini);
        assert_eq!((spread.hottest_share, spread.idle_regions), (25.0 / 48.0, 0));
        assert_eq!((spread.heat.len(), spread.floor), (3, floor(16).unwrap()));
        assert_eq!((spread.heat[0][1], spread.heat[1][0], spread.heat[2][15]), (16, 8, 1));
        // Each region has a bucket of 2 and as many a second: 4 of 16, 4 and 2 of 8 and 8, all of 16.
        assert_eq!(spread.achieved, (4.0 + 6.0 + 16.0) / 48.0);
    }

    #[test]
    fn windows_without_requests_and_a_rest_of_a_second_are_not_counted() {
        let found = spread(5.0, [(0.0, 0), (3.0, 15)]);
        assert_eq!((found.hottest_over_mean, found.idle_regions, found.heat.len()), (16.0, 14, 5));
        let rest = spread(1.1, (0..16).map(|n| (0.5, n)).chain([(1.0, 0)]));
        assert_eq!((rest.hottest_over_mean, rest.worst, rest.hottest_share), (1.0, 1.0, 2.0 / 17.0));
        // Unless it is all there is.
        assert_eq!((spread(0.1, [(0.0, 0)]).worst, spread(0.0, []).worst), (16.0, 0.0));
        // The heat map of a long load has every so many.
        let requests = (0..500).flat_map(|second| vec![(second as f64, 0); second + 1]);
        let heat: Vec<u32> = spread(500.0, requests).heat.iter().map(|window| window[0]).collect();
        assert_eq!(heat, (0..500).step_by(16).map(|n| n + 1).collect::<Vec<u32>>());
    }

    #[test]
    fn chance_alone_is_never_even() {
        assert_eq!(floor(1).unwrap(), 16.0);
        // About 1 + 1.77 sqrt(15 / n): the mean of the largest of 16 normal variates is 1.766.
        for (requests, about) in [(1_000, 1.216), (4_000, 1.108), (20_000, 1.048)] {
            let floor = floor(requests).unwrap();
            assert!((floor - about).abs() < 0.01, "{requests}: {floor}");
        }
    }
}
