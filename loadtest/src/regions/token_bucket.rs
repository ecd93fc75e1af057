//! How much of its load a region serves: a token bucket for each region.

/// How many times its fair share of the offered load a region can serve.
const HEADROOM: f64 = 2.0;

/// Served through offered requests; 1 of nothing. A window is one second.
///
/// A bucket is full at first, and has room for the tokens of one second. A request takes a token or is refused; none
/// waits. The tokens of a second are there for all its requests.
pub fn achieved<const N: usize>(windows: &[[u32; N]], offered_per_second: f64) -> f64 {
    // A region of a table that is hardly used still serves a request.
    let refill = (HEADROOM * offered_per_second / N as f64).max(1.0);
    let (mut buckets, mut offered, mut served) = ([refill; N], 0.0, 0.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_serves_its_burst_and_then_its_refill() {
        // 4 a second over 2 regions: a refill of 4. The first region serves 8 of 9, and then 4 of 6; it saves 3 of 4,
        // serves 7 of 8, and after two idle seconds no more than 8.
        let hot = [9, 6, 1, 8, 0, 0, 9];
        assert_eq!(achieved(&hot.map(|requests| [requests, 0]), 4.0), (8 + 4 + 1 + 7 + 8) as f64 / 33.0);
        // The other one has a bucket of its own, and a table that is hardly used has one token.
        assert_eq!((achieved(&[[9, 8], [0, 4]], 4.0), achieved(&[[2, 0]], 0.1)), (20.0 / 21.0, 1.0));
        assert_eq!((achieved(&[[0, 0]], 0.0), achieved(&[[100; 16]; 100], 1_600.0)), (1.0, 1.0));
    }
}
