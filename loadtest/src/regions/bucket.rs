//! What regions can serve: a token bucket each, filled by a simulated clock.

use super::REGIONS;

/// How many times its fair share of the offered load a region can serve.
const HEADROOM: f64 = 2.0;

/// The buckets of a table's regions. A request takes a token or is refused; none waits.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// Tokens a second, and the most that a bucket holds: the burst is one second.
    refill: f64,
    buckets: [Bucket; REGIONS],
    offered: u64,
    served: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    /// Seconds, when the tokens were counted.
    at: f64,
}

impl Buckets {
    /// Full buckets at second 0, for a table of which so many requests a second are asked.
    pub fn new(offered_per_second: f64) -> Self {
        // A region of a table that is hardly used still serves a request.
        let refill = (HEADROOM * offered_per_second / REGIONS as f64).max(1.0);
        Self { refill, buckets: [Bucket { tokens: refill, at: 0.0 }; REGIONS], offered: 0, served: 0 }
    }

    /// A request of a region at a second, which never goes back.
    pub fn request(&mut self, region: usize, at: f64) {
        self.offered += 1;
        let Some(bucket) = self.buckets.get_mut(region) else { return };
        bucket.tokens = (bucket.tokens + (at - bucket.at) * self.refill).min(self.refill);
        bucket.at = at;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            self.served += 1;
        }
    }

    /// Served through offered; 1 of nothing.
    pub fn achieved(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.served as f64 / self.offered as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_serves_its_burst_and_then_its_refill() {
        // 32 a second over 16 regions: 2 each, so 4 tokens a second and at most 4.
        let mut buckets = Buckets::new(32.0);
        for _ in 0..6 {
            buckets.request(3, 0.0);
        }
        assert_eq!((buckets.served, buckets.offered), (4, 6));
        // A quarter of a second is one token.
        buckets.request(3, 0.25);
        buckets.request(3, 0.25);
        assert_eq!((buckets.served, buckets.offered), (5, 8));
        // Ten seconds are no more than four.
        for _ in 0..6 {
            buckets.request(3, 10.25);
        }
        assert_eq!((buckets.served, buckets.offered), (9, 14));
        // Another region was full all the time.
        buckets.request(4, 10.25);
        assert_eq!((buckets.served, buckets.offered), (10, 15));
        assert_eq!(buckets.achieved(), 10.0 / 15.0);
    }

    #[test]
    fn an_even_load_is_served_whole_and_one_region_an_eighth() {
        let (mut even, mut one) = (Buckets::new(1600.0), Buckets::new(1600.0));
        for n in 0..160_000u32 {
            let at = f64::from(n) / 1600.0;
            even.request(n as usize % REGIONS, at);
            one.request(0, at);
        }
        assert_eq!(even.achieved(), 1.0);
        // 200 a second and a first burst of 200, of 1,600 a second over 100 seconds.
        assert!((one.achieved() - 20_200.0 / 160_000.0).abs() < 1e-4, "{}", one.achieved());
    }
}
