//! `rowdrive find`: files of a running server by their names.

use clap::Args;
use reqwest::Method;
use rowdrive::api::path;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::request::{MODIFIED, RequestArgs, Result};

/// Find files by name, wherever they are; upper and lower case are one.
#[derive(Args)]
pub struct Find {
    /// The name, or how it starts with a star behind, as in 'cat*'.
    name: String,
    /// Only below this folder.
    #[arg(long, value_name = "/PATH", value_parser = PathArg::parse)]
    under: Option<PathArg>,
    /// With size and time.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    request: RequestArgs,
}

impl Find {
    pub fn run(self) -> Result<CommandOutcome> {
        if self.name.trim_end_matches('*').contains('*') {
            super::say("rowdrive: only a star at the end matches anything; the others are parts of the name");
        }
        self.request.run(async |client, out| {
            let request = |page: &[(&str, &str)]| {
                let mut query = vec![("name", self.name.as_str())];
                query.extend(self.under.as_ref().map(|under| ("under", under.path.as_str())));
                query.extend(page);
                client.resource_request(Method::GET, path::FIND, &query)
            };
            let found =
                self.request.pages((client, out), self.long.then_some(MODIFIED), request, |entry| &entry.path).await?;
            if !self.request.json && found == 0 && !self.name.ends_with('*') {
                super::say(
                    "rowdrive: no file has this whole name; a star at the end finds the names that begin with it",
                );
            }
            Ok(())
        })
    }
}
