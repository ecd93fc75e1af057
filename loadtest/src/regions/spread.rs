//! How evenly a load falls on regions, second by second, and how much of it they serve.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Binomial, Distribution};

use crate::report::model::{REGIONS, Spread};
use crate::stats::{gini, median};

/// Windows of the heat map at most.
const HEAT: usize = 60;
/// Windows that [`floor`] draws.
const FLOOR_WINDOWS: usize = 1_001;
/// How many times its fair share of the offered load a region can serve.
const HEADROOM: f64 = 2.0;

/// Requests by region, or by the server that holds it, in one second.
pub type Window = [u32; REGIONS];

/// The spread of a load of so many seconds. A rest of less than a second is no window, unless it is all there is:
/// few requests are never even. Fails as [`floor`] does: never.
pub fn spread(windows: &[Window], seconds: f64) -> anyhow::Result<Spread> {
    let totals: Window = std::array::from_fn(|region| windows.iter().filter_map(|window| window.get(region)).sum());
    let achieved = achieved(windows, requests(&totals) / seconds.max(1.0));
    let windows = windows.get(..(seconds as usize).max(1)).unwrap_or(windows);
    let busy: Vec<&Window> = windows.iter().filter(|window| requests(window) > 0.0).collect();
    let each = |figure: fn(&Window) -> f64| busy.iter().map(|window| figure(window)).collect::<Vec<f64>>();
    let hottest = each(over_mean);
    let stride = windows.len().div_ceil(HEAT).next_power_of_two();
    Ok(Spread {
        hottest_over_mean: median(&hottest),
        hottest_per_second: median(&each(most)),
        floor: floor(median(&each(requests)) as u32)?,
        worst: hottest.into_iter().fold(0.0, f64::max),
        gini: each(|window| gini(window)).iter().sum::<f64>() / busy.len().max(1) as f64,
        hottest_share: over_mean(&totals) / REGIONS as f64,
        idle_regions: totals.iter().filter(|total| **total == 0).count(),
        achieved,
        heat: windows.iter().step_by(stride).map(|window| window.to_vec()).collect(),
    })
}

fn requests(window: &Window) -> f64 {
    window.iter().copied().map(f64::from).sum()
}

fn most(window: &Window) -> f64 {
    window.iter().max().copied().unwrap_or_default().into()
}

/// Requests of the hottest region divided by the mean of all.
fn over_mean(window: &Window) -> f64 {
    most(window) * REGIONS as f64 / requests(window).max(1.0)
}

/// [`Spread::floor`]: the median of windows in which each request falls on any of the 16 regions with the same chance.
/// 1.05 of 20,000 requests, 1.22 of 1,000. The same each time. Windows have the multinomial distribution, drawn region
/// by region from conditional binomial ones (Devroye, "Non-Uniform Random Variate Generation", 1986, section XI.1.4).
/// Never fails: the chances are between 0 and 1.
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

/// Served requests divided by offered ones; 1 of nothing. A region has a token bucket, which is full at first, and has room for
/// the tokens of one second. A request takes a token or is refused; none waits. The tokens of a second are there for
/// all its requests.
pub fn achieved(windows: &[Window], offered_per_second: f64) -> f64 {
    // A region of a table that is hardly used still serves a request.
    let refill = (HEADROOM * offered_per_second / REGIONS as f64).max(1.0);
    let (mut buckets, mut offered, mut served) = ([refill; REGIONS], 0.0, 0.0);
    for window in windows {
        for (tokens, requests) in buckets.iter_mut().zip(window) {
            let (requests, available) = (f64::from(*requests), *tokens + refill);
            let taken = requests.min(available);
            *tokens = (available - taken).min(refill);
            (offered, served) = (offered + requests, served + taken);
        }
    }
    if offered == 0.0 { 1.0 } else { served / offered }
}
