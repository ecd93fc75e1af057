//! The smallest case that fails: without unnecessary faults and requests.

use std::time::{Duration, Instant};

use super::case::{FAULTS, SimCase, run};

/// How many orders of the same calls are tried before an item counts as necessary.
const SCHEDULES: u64 = 40;
/// The search ends after this time, with the smallest case so far.
const TIME: Duration = Duration::from_secs(30);

/// A smaller case that fails too, for any reason.
pub fn shrink(case: &SimCase) -> SimCase {
    let until = Instant::now() + TIME;
    let mut best = case.clone();
    let every = 0..case.work().ops.len();
    best.kept = Some(every.filter(|at| case.kept.as_ref().is_none_or(|kept| kept.contains(at))).collect());
    for fault in 0..FAULTS {
        let smaller = SimCase { left_out: best.left_out | 1 << fault, ..best.clone() };
        best = fails(&smaller, until).unwrap_or(best);
    }
    // Leaves out half of the requests, then a quarter, and so on down to single requests.
    let mut chunk = best.kept.as_ref().map_or(0, Vec::len).div_ceil(2);
    while chunk > 0 && Instant::now() < until {
        let mut from = 0;
        while from < best.kept.as_ref().map_or(0, Vec::len) {
            let mut kept = best.kept.clone().unwrap_or_default();
            kept.drain(from..kept.len().min(from + chunk));
            match fails(&SimCase { kept: Some(kept), ..best.clone() }, until) {
                Some(smaller) => best = smaller,
                None => from += chunk,
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    best
}

/// The case in an order of calls in which it fails.
fn fails(case: &SimCase, until: Instant) -> Option<SimCase> {
    let orders = std::iter::once(case.schedule).chain(0..SCHEDULES);
    let mut cases = orders.map(|schedule| SimCase { schedule, ..case.clone() });
    cases.find(|case| Instant::now() < until && run(case, false).is_err())
}
