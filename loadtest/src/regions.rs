//! Where writes land: regions are ranges of row keys with equally many rows, as a cluster that has balanced
//! itself would have them.

/// How many regions a table is cut into.
pub const REGIONS: usize = 16;
/// Writes in one window: what arrives at about the same time.
const WINDOW: usize = 1_000;

/// The share of the hottest region, averaged over windows of writes in their order: 1/16 when writes spread
/// evenly, 1 when each window lands in one region.
pub fn hottest_share(keys: &[Vec<u8>]) -> f64 {
    let mut sorted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let splits: Vec<&[u8]> = (1..REGIONS).filter_map(|n| sorted.get(n * sorted.len() / REGIONS).copied()).collect();
    let shares: Vec<f64> = keys
        .chunks(WINDOW)
        .map(|window| {
            let mut counts = [0usize; REGIONS];
            for key in window {
                let region = splits.partition_point(|split| *split <= key.as_slice());
                if let Some(count) = counts.get_mut(region) {
                    *count += 1;
                }
            }
            counts.iter().max().copied().unwrap_or_default() as f64 / window.len().max(1) as f64
        })
        .collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_keys_are_hot_and_round_robin_is_even() {
        let ordered: Vec<Vec<u8>> = (0..16_000u32).map(|n| n.to_be_bytes().to_vec()).collect();
        assert!((hottest_share(&ordered) - 1.0).abs() < 1e-9);
        let spread: Vec<Vec<u8>> = (0..16_000u32).map(|n| (n % 16 * 1_000 + n / 16).to_be_bytes().to_vec()).collect();
        assert!(hottest_share(&spread) < 0.07);
        let one: Vec<Vec<u8>> = vec![vec![1]; 10];
        assert!((hottest_share(&one) - 1.0).abs() < 1e-9);
    }
}
