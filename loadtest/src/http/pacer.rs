//! Says when a request is due, from a thread that does nothing but wait for the next one.
//!
//! Tokio's timers go by milliseconds, which is longer than many of the latencies that are measured here, and a thread
//! that spins would take a core from the server. A sleeping thread wakes within some tens of microseconds.

use std::time::Instant;

use anyhow::Context;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::schedule::Schedule;

/// Each time of the schedule, from `start` on, comes out of the receiver when it is there, and stays there until it is
/// taken. The thread ends with the schedule, or at the next time after the receiver is gone.
pub fn pace(schedule: Schedule, start: Instant) -> anyhow::Result<UnboundedReceiver<Instant>> {
    let (tell, due) = unbounded_channel();
    let body = move || {
        // The kernel may be 50 us late otherwise, to save power.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        for after in schedule {
            let at = start + after;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if tell.send(at).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("pacer".into()).spawn(body).context("starting a thread")?;
    Ok(due)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::schedule::Arrivals;

    #[tokio::test]
    async fn times_come_in_order_and_never_early() {
        let schedule = || Schedule::new(Arrivals::Poisson, 2_000.0, Duration::from_millis(100), 3, (0, 1)).unwrap();
        let start = Instant::now();
        let mut due = pace(schedule(), start).unwrap();
        let mut came = Vec::new();
        while let Some(at) = due.recv().await {
            assert!(Instant::now() >= at);
            came.push(at - start);
        }
        assert_eq!(came, schedule().collect::<Vec<_>>());
    }
}
