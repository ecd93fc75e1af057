//! Load over HTTP on a running drive: how many requests a second it answers, and how long they take at a part of that.
//!
//! `base` is the server, `client` a connection to it; `closed` and `open` are the two loops, each on the threads of
//! `generator`, a connection of it being a `worker` that counts into a `tally`; `schedule` says when an open loop
//! sends and `pacer` waits for it. `shape` is the tree that requests go to, `prepare` uploads and removes it, `mixes`
//! makes the requests, `run` puts it all together.
//!
//! Everything lies below `/loadtest` on the server. What is there and was not made by a load test is left alone.

mod base;
mod client;
mod closed;
mod generator;
mod mixes;
mod open;
mod pacer;
mod prepare;
mod run;
mod schedule;
mod shape;
mod tally;
#[cfg(test)]
mod test_server;

mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use indicatif::ProgressBar;
use tokio::sync::watch;

pub use base::Base;
pub use closed::closed_loop;
pub use mixes::Mix;
pub use prepare::clean_up;
pub use run::run;
pub use schedule::Arrivals;

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Remove what earlier runs have left on the server, and do nothing else.
    #[arg(long)]
    pub clean_up: bool,
    /// Where the server is.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/")]
    pub url: String,
    /// What is asked for; all of it unless told.
    #[arg(long, value_enum, value_name = "MIX", value_delimiter = ',', default_values_t = Mix::ALL)]
    pub mix: Vec<Mix>,
    /// Connections of each run.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,
    /// Threads that make the load: more of them if a run says that these had no time left.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// How long a run lasts; there are five for each mix.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Files in the tree that is uploaded first, if it is not there from an earlier time.
    #[arg(long, value_name = "NUMBER", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub files: u32,
    /// Seed of everything random.
    #[arg(skip)]
    pub seed: u64,
    /// When requests of the open loops are sent.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub arrivals: Arrivals,
}

/// What a run shows meanwhile, and what ends it early.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Hidden by itself where there is no terminal.
    pub bar: ProgressBar,
    /// True once the run is to end, as by Ctrl-C. A sender that is gone never ends it.
    pub stop: watch::Receiver<bool>,
}

impl Progress {
    pub fn new(stop: watch::Receiver<bool>) -> Self {
        Self { bar: ProgressBar::new(0), stop }
    }

    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }
}

/// What the threads of a loop share with whoever waits for it.
#[derive(Clone, Debug)]
struct Control {
    stop: watch::Receiver<bool>,
    /// Requests answered so far, for the progress bar.
    answered: Arc<AtomicU64>,
}

impl Control {
    fn new(stop: watch::Receiver<bool>) -> Self {
        Self { stop, answered: Arc::default() }
    }

    /// A loop that nobody ends early.
    fn unwatched() -> Self {
        Self::new(watch::channel(false).1)
    }
}

/// Returns when `stop` becomes true, and never if it cannot any more.
async fn stopping(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
