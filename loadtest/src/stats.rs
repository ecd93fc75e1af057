//! Figures of many numbers: mean, median, percentiles, and how unequal shares are.

use hdrhistogram::Histogram;

const PERCENTILES: [f64; 10] = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0];

/// The arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The middle value, or the mean of the two in the middle; 0 of nothing. Its argument is not sorted.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    (lower + upper) / 2.0
}

/// Values by percentile. A percentile with fewer than ten samples above it is left out, since it is chance; the least
/// and the greatest are always there, if there is any sample.
pub fn curve(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let samples = histogram.len() as f64;
    let supported = |percentile: f64| match percentile {
        0.0 | 100.0 => samples > 0.0,
        // Tenths of a thousandth: 100 - 99.9 has a rounding error that would leave the percentile out.
        _ => (samples * (100.0 - percentile) / 100.0 * 1e4).round() >= 1e5,
    };
    let supported = PERCENTILES.into_iter().filter(|percentile| supported(*percentile));
    supported.map(|percentile| (percentile, histogram.value_at_percentile(percentile))).collect()
}

/// The Gini coefficient of counts: 0 if all are equal, (n - 1) / n if one of n has everything; 0 of nothing.
///
/// With `x` ascending and `i` from 1: `2 * sum(i * x_i) / (n * sum(x)) - (n + 1) / n` (Damgaard and Weiner,
/// "Describing inequality in plant size or fecundity", Ecology 81, 2000, without the correction for small samples).
pub fn gini(counts: &[u32]) -> f64 {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    let n = sorted.len() as f64;
    let sum: f64 = sorted.iter().map(|x| f64::from(*x)).sum();
    if sum == 0.0 {
        return 0.0;
    }
    let ranked: f64 = sorted.iter().zip(1u32..).map(|(x, i)| f64::from(*x) * f64::from(i)).sum();
    2.0 * ranked / (n * sum) - (n + 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_figures_of_few_numbers() {
        assert_eq!((mean(&[]), mean(&[1.0, 2.0, 6.0])), (0.0, 3.0));
        assert_eq!([median(&[]), median(&[6.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 9.0])], [0.0, 2.0, 3.0]);
        // 2 * (1 + 4 + 9 + 16) / (4 * 10) - 5 / 4
        assert_eq!([gini(&[1, 0, 0, 0]), gini(&[1, 1, 1, 1]), gini(&[4, 1, 3, 2])], [0.75, 0.0, 0.25]);
        assert_eq!([gini(&[]), gini(&[0, 0])], [0.0, 0.0]);
    }

    #[test]
    fn a_curve_goes_as_far_as_its_samples() {
        let of = |count| {
            let mut histogram = Histogram::new_with_bounds(1, 10_000_000, 3).unwrap();
            (1..=count).for_each(|value| histogram.record(value * 1_000).unwrap());
            curve(&histogram)
        };
        let percentiles = |count| of(count).into_iter().map(|(percentile, _)| percentile).collect::<Vec<_>>();
        assert!(percentiles(0).is_empty());
        assert_eq!(percentiles(19), [0.0, 100.0]);
        // Ten of twenty lie above the median.
        assert_eq!(percentiles(20), [0.0, 50.0, 100.0]);
        assert_eq!(percentiles(1000), [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0]);
        assert_eq!(*percentiles(10_000).iter().nth_back(1).unwrap(), 99.9);
        // Three digits: 500,000 within a thousandth.
        let (_, median) = of(1000)[1];
        assert!((499_500..=500_500).contains(&median), "{median}");
    }
}
