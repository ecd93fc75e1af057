//! Whether a backup still makes progress, or hangs on a disk that does not answer.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// A backup that makes progress uses at least this much processor time within `TIMEOUT`, also on a slow disk.
const LEAST_USED: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_mins(30);

/// Measures the progress of this process by the processor time that it has used.
pub struct Watchdog {
    used: fn() -> Duration,
    last: (Instant, Duration),
}

impl Watchdog {
    pub fn new() -> Self {
        Self::measured(processor_time)
    }

    fn measured(used: fn() -> Duration) -> Self {
        Self { used, last: (Instant::now(), used()) }
    }

    /// False once there was no progress for too long.
    pub fn is_progressing(&mut self) -> bool {
        let used = (self.used)();
        if used.saturating_sub(self.last.1) >= LEAST_USED {
            self.last = (Instant::now(), used);
        }
        self.last.0.elapsed() < TIMEOUT
    }
}

fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(used.tv_sec), u32::try_from(used.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    static USED: AtomicU64 = AtomicU64::new(0);

    #[tokio::test(start_paused = true)]
    async fn work_without_progress_for_half_an_hour_counts_as_hanging() {
        let mut watchdog = Watchdog::measured(|| Duration::from_millis(USED.load(Ordering::Relaxed)));
        for minute in 0..120 {
            assert!(watchdog.is_progressing(), "minute {minute}");
            // For two hours, some work in each half hour.
            if minute % 20 == 0 {
                USED.fetch_add(60, Ordering::Relaxed);
            }
            tokio::time::advance(Duration::from_mins(1)).await;
        }
        tokio::time::advance(Duration::from_mins(30)).await;
        assert!(!watchdog.is_progressing());
    }

    #[test]
    fn processor_time_grows_with_work() {
        let (before, mut sum) = (processor_time(), 0u64);
        while processor_time() < before + Duration::from_millis(20) {
            sum = sum.wrapping_add(1);
        }
        assert!(sum > 0);
    }
}
