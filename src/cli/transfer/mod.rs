//! Shared code of `import` and `export`: options, progress, interruption, and the summary.

mod progress;

use std::io::{self, Write};
use std::time::Duration;

use super::CommandOutcome;
use super::signals::StopSignals;
use crate::client::retry::RetryPolicy;
use crate::client::stats::TransferStats;
use clap::Args;
use progress::TransferProgress;

#[derive(Args)]
pub struct TransferArgs {
    /// Leave a file as it is that is there with other content or another time; each is named.
    #[arg(long)]
    no_overwrite: bool,
    /// How many files are under way at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), default_value = "16")]
    jobs: u16,
    /// How long to go on trying when the server does not answer.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    patience: u32,
}

impl TransferArgs {
    /// Whether files with other content are replaced.
    pub fn overwrite(&self) -> bool {
        !self.no_overwrite
    }

    pub fn jobs(&self) -> usize {
        self.jobs.into()
    }

    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy(Duration::from_secs(self.patience.into()))
    }
}

/// How a transfer ended.
enum TransferEnd {
    All,
    Interrupted,
    GivenUp,
}

/// The exit code after a second interruption.
const KILLED: i32 = 130;

/// Runs a transfer until it is complete, interrupted or given up, then prints the summary.
///
/// `done` is the verb of the summary, such as `sent`. An interrupted transfer has the exit code of one with failures.
pub async fn run(stats: &TransferStats, done: &str, work: impl Future<Output = ()>) -> io::Result<CommandOutcome> {
    let mut stop = StopSignals::new()?;
    let mut progress = TransferProgress::new(done);
    let end = tokio::select! {
        () = work => TransferEnd::All,
        _ = stop.recv() => TransferEnd::Interrupted,
        () = stats.given_up() => TransferEnd::GivenUp,
        never = progress.show(stats) => match never {},
    };
    // A second signal ends the process at once, without waiting for writes to the local disk.
    tokio::spawn(async move {
        stop.recv().await;
        std::process::exit(KILLED);
    });
    progress.clear();
    let mut out = io::stdout().lock();
    stats.print(&mut out)?;
    let left = match &end {
        TransferEnd::All => "",
        TransferEnd::Interrupted => "; interrupted: run it again to go on",
        TransferEnd::GivenUp => {
            "; given up, since one after the other fails: mend the cause, then run it again to go on"
        }
    };
    writeln!(out, "{}{left}", stats.summary(done))?;
    out.flush()?;
    Ok(if matches!(end, TransferEnd::All) && stats.failed() == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::WithFailures
    })
}
