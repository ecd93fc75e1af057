//! `rowdrive files`: files of a running server by their times.

use clap::Args;
use reqwest::Method;
use rowdrive::api::path;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::period_arg::{PeriodArg, TimeArg};
use super::request::{RequestArgs, Result};

/// List the files of a period, newest first, wherever they are. Without a period: all files.
#[derive(Args)]
pub struct Files {
    /// The period: a year, a month or a day, as in 2026, 2026-01 or 2026-01-02; in UTC, as the times that --long shows.
    #[arg(long = "in", value_name = "PERIOD", value_parser = PeriodArg::parse, conflicts_with_all = ["from", "to"])]
    period: Option<PeriodArg>,
    /// From this time on: the start of a year, a month or a day, or an instant, as in 2026-01-02T03:04:05+08:00.
    #[arg(long, value_name = "TIME", value_parser = TimeArg::parse)]
    from: Option<TimeArg>,
    /// Up to this time, which does not belong to the period.
    #[arg(long, value_name = "TIME", value_parser = TimeArg::parse)]
    to: Option<TimeArg>,
    /// By the time when a file was uploaded, not by the time that it came with.
    #[arg(long)]
    added: bool,
    /// Only below this folder.
    #[arg(long, value_name = "/PATH", value_parser = PathArg::parse)]
    under: Option<PathArg>,
    /// Only of this type, as in 'image/*' or image/jpeg.
    #[arg(long = "type", value_name = "TYPE")]
    media_type: Option<String>,
    /// Only what this user has uploaded.
    #[arg(long, value_name = "USER")]
    creator: Option<String>,
    /// The oldest file first.
    #[arg(long)]
    oldest_first: bool,
    /// With size and time; with --added still the time that the file came with.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    request: RequestArgs,
}

impl Files {
    pub fn run(self) -> Result<CommandOutcome> {
        let query = self.query();
        self.request.run(async |client, out| {
            let request = |page: &[(&str, &str)]| {
                client.resource_request(Method::GET, path::FILES, &[query.as_slice(), page].concat())
            };
            self.request.pages((client, out), self.long, request, |entry| &entry.path).await?;
            Ok(())
        })
    }

    fn query(&self) -> Vec<(&str, &str)> {
        let period = self.period.as_ref();
        let from = self.from.as_ref().or(period.map(|period| &period.from));
        let to = self.to.as_ref().or(period.and_then(|period| period.to.as_ref()));
        [
            ("from", from.map(|time| time.0.as_str())),
            ("to", to.map(|time| time.0.as_str())),
            ("clock", self.added.then_some("added")),
            ("under", self.under.as_ref().map(|under| under.path.as_str())),
            ("type", self.media_type.as_deref()),
            ("creator", self.creator.as_deref()),
            ("order", self.oldest_first.then_some("asc")),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}
