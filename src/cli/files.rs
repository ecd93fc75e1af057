//! `rowdrive files`: files of a running server by their times.

use clap::Args;
use reqwest::Method;
use rowdrive::api::path;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::period_arg::{PeriodArg, TimeArg};
use super::request::{MODIFIED, RequestArgs, Result, TimeOf};

/// List the files of a period, newest first, wherever they are. Without a period: all files.
#[derive(Args)]
pub struct Files {
    /// The period: a year, a month or a day, as in 2026, 2026-01 or 2026-01-02; in UTC, as the times that --long shows.
    #[arg(long = "in", value_name = "PERIOD", value_parser = PeriodArg::parse, conflicts_with_all = ["from", "to"])]
    period: Option<PeriodArg>,
    /// From this time on: an instant, as in 2026-01-02T03:04:05+08:00, or the start of a year, a month or a day.
    #[arg(long, value_name = "TIME", value_parser = TimeArg::parse)]
    from: Option<TimeArg>,
    /// Before this time, given in the same way: --to 2026-02 ends with January.
    #[arg(long, value_name = "TIME", value_parser = TimeArg::parse)]
    to: Option<TimeArg>,
    /// By the time when a file was uploaded, not by its modified time.
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
    /// With size and the time that counts: the modified time, or with --added that of the upload.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    request: RequestArgs,
}

impl Files {
    pub fn run(self) -> Result<CommandOutcome> {
        let bounds = self.bounds();
        if let [Some(from), Some(to)] = bounds
            && from >= to
        {
            super::say(
                "rowdrive: the period is empty: --to has to be later than --from, and a year, a month or a day means its \
                 start. --in takes a whole one",
            );
            return Ok(CommandOutcome::WrongUsage);
        }
        let query = self.query(bounds);
        let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let time: TimeOf = if self.added { |entry| entry.added.as_str() } else { MODIFIED };
        self.request.run(async |client, out| {
            let request = |page: &[(&str, &str)]| {
                client.resource_request(Method::GET, path::FILES, &[query.as_slice(), page].concat())
            };
            let long = self.long.then_some(time);
            let found = self.request.pages((client, out), long, request, |entry| &entry.path).await?;
            if !self.request.json && found == 0 {
                super::say(&format!("rowdrive: there is no file{}", self.in_words()));
            }
            Ok(())
        })
    }

    /// What is asked for.
    fn in_words(&self) -> String {
        let parts = [
            self.period.map(|_| " in this period, whose days begin in UTC".to_owned()),
            self.from.or(self.to).map(|_| " in this period".to_owned()),
            self.under.as_ref().map(|under| format!(" below {}", under.path)),
            self.media_type.as_ref().map(|media_type| format!(" of the type {media_type}")),
            self.creator.as_ref().map(|creator| format!(" of the creator {creator}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(",")
    }

    /// Of the period: from, to.
    fn bounds(&self) -> [Option<TimeArg>; 2] {
        match self.period {
            Some(PeriodArg { from, to }) => [Some(from), to],
            None => [self.from, self.to],
        }
    }

    fn query(&self, [from, to]: [Option<TimeArg>; 2]) -> Vec<(&'static str, String)> {
        [
            ("from", from.map(TimeArg::rfc3339)),
            ("to", to.map(TimeArg::rfc3339)),
            ("clock", self.added.then(|| "added".to_owned())),
            ("under", self.under.as_ref().map(|under| under.path.to_string())),
            ("type", self.media_type.clone()),
            ("creator", self.creator.clone()),
            ("order", self.oldest_first.then(|| "asc".to_owned())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}
