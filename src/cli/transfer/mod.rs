//! What import and export share: how they are counted, shown, stopped and summed up.

mod progress;
mod tally;

use std::io::{self, Write};
use std::time::Duration;

use super::Ended;
use super::remote::patience::Patience;
use super::stop::Stop;
use clap::Args;
use progress::Progress;
pub use tally::{Note, Tally, Total, UnderWay};

#[derive(Args)]
pub struct Pace {
    /// How many files are under way at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), default_value = "16")]
    jobs: u16,
    /// How long to go on trying when the server does not answer.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    patience: u32,
}

impl Pace {
    pub fn jobs(&self) -> usize {
        self.jobs.into()
    }

    pub fn patience(&self) -> Patience {
        Patience(Duration::from_secs(self.patience.into()))
    }
}

/// How a transfer came to its end.
enum End {
    All,
    Interrupted,
    GivenUp,
}

/// The exit code of who is interrupted twice.
const KILLED: i32 = 130;

/// Does the work until it is done, somebody asks for an end, or there is no sense in going on; then sums it up.
///
/// `done` says what was done to a file, as `sent`. The exit code of a transfer that was interrupted is that of one
/// with failures.
pub async fn run(tally: &Tally, done: &str, work: impl Future<Output = ()>) -> io::Result<Ended> {
    let mut stop = Stop::new()?;
    let mut progress = Progress::new(done);
    let end = tokio::select! {
        () = work => End::All,
        () = stop.asked() => End::Interrupted,
        () = tally.hopeless() => End::GivenUp,
        never = progress.tell(tally) => match never {},
    };
    // Whoever asks again does not want to wait for what is written to the disk just now.
    tokio::spawn(async move {
        stop.asked().await;
        std::process::exit(KILLED);
    });
    progress.clear();
    let mut out = io::stdout().lock();
    tally.print(&mut out)?;
    let left = match &end {
        End::All => "",
        End::Interrupted => "; interrupted: run it again to go on",
        End::GivenUp => "; given up, since one after the other fails: run it again to go on",
    };
    writeln!(out, "{}{left}", tally.in_words(done))?;
    out.flush()?;
    Ok(if matches!(end, End::All) && tally.failed() == 0 { Ended::Done } else { Ended::WithFailures })
}
