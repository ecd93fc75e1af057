//! Figures of many numbers: their median, and how unequal shares are.

/// The middle value, or the mean of the two in the middle; 0 of nothing. Its argument is not sorted.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    (lower + upper) / 2.0
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
        assert_eq!([median(&[]), median(&[6.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 9.0])], [0.0, 2.0, 3.0]);
        // 2 * (1 + 4 + 9 + 16) / (4 * 10) - 5 / 4
        assert_eq!([gini(&[1, 0, 0, 0]), gini(&[1, 1, 1, 1]), gini(&[4, 1, 3, 2])], [0.75, 0.0, 0.25]);
        assert_eq!([gini(&[]), gini(&[0, 0])], [0.0, 0.0]);
    }
}
