//! The whole drive, content included, in a simulation: on a store and a disk in memory, below a scheduler that draws
//! from a seed which call runs next, which fault it gets, and where the process stops.
//!
//! - `scheduler`: the scheduler; `store`, `disk`: the simulated parts, whose calls it delays, refuses, loses and tears
//! - `workload`: the requests of clients, drawn from the seed; `client`: sends them, and records the answers
//! - `history`: whether one order explains all answers; `view`: whether all kinds of reads agree
//! - `case`: a run from the first call to the last check; `shrink`: the smallest case that fails
//!
//! `ROWDRIVE_SEEDS=1000000` runs more seeds; `ROWDRIVE_SIM_CASE=...` runs one case again, and prints its calls.

mod case;
mod client;
mod disk;
mod history;
mod scheduler;
mod shrink;
mod store;
mod view;
mod workload;

use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use case::{SimCase, run};
use shrink::shrink;

/// The number of seeds in a normal test run.
const SEEDS: u64 = 10_000;

#[test]
fn no_seed_breaks_a_promise() {
    if let Ok(case) = env::var("ROWDRIVE_SIM_CASE") {
        return replay(&case.parse().expect("ROWDRIVE_SIM_CASE is a case"));
    }
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, count) = (number("ROWDRIVE_FIRST_SEED").unwrap_or(0), number("ROWDRIVE_SEEDS").unwrap_or(SEEDS));
    let (next, failed) = (AtomicU64::new(first), Mutex::new(None));
    let (calls, gave_up) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let work = || {
        while failed.lock().unwrap().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            match run(&SimCase::from_seed(seed), false) {
                Ok(ended) => {
                    calls.fetch_add(ended.calls, Ordering::Relaxed);
                    gave_up.fetch_add(ended.gave_up, Ordering::Relaxed);
                }
                Err(_) => {
                    failed.lock().unwrap().get_or_insert(seed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failed = *failed.lock().unwrap();
    if let Some(seed) = failed {
        println!("seed {seed} fails; the search for the smallest failing case begins");
        replay(&shrink(&SimCase::from_seed(seed)));
    }
    let (calls, gave_up) = (calls.into_inner(), gave_up.into_inner());
    println!("{count} seeds from {first} on, {calls} calls, {gave_up} too tangled, in {:?}", begun.elapsed());
    // A search that gives up proves nothing.
    assert!(gave_up * 100 <= count, "{gave_up} histories of {count} seeds are too tangled to be judged");
}

/// Runs a case again, and prints all its calls if it fails.
fn replay(case: &SimCase) {
    let Err(failure) = run(case, true) else {
        println!("{case} ends well");
        return;
    };
    failure.log.iter().for_each(|line| println!("{line}"));
    let work = case.work();
    println!("{} clients, {:?}, writers wait {} ms", work.clients, work.faults, work.patience);
    case.ops(&work).iter().for_each(|(client, op)| println!("client {client}: {op:?}"));
    panic!(
        "{}\nto run it again: ROWDRIVE_SIM_CASE={case} cargo test --test all -- sim::no_seed --nocapture",
        failure.what
    );
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    for seed in 0..20 {
        let case = SimCase::from_seed(seed);
        let ended = || run(&case, false).map_err(|failure| failure.what).unwrap();
        let first = ended();
        assert!(first.calls > 10, "seed {seed} makes no calls");
        assert_eq!(first, ended(), "seed {seed}");
    }
}

#[test]
fn a_printed_case_parses_back() {
    for case in [
        SimCase::from_seed(7),
        SimCase { schedule: 3, left_out: 9, ..SimCase::from_seed(1) },
        SimCase { kept: Some(vec![4, 20]), ..SimCase::from_seed(2) },
        SimCase { kept: Some(Vec::new()), ..SimCase::from_seed(2) },
    ] {
        assert_eq!(case.to_string().parse(), Ok(case));
    }
}
