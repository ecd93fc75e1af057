//! `rowdrive ls`: lists a directory of a running server.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use rowdrive::api::entry::EntryJson;
use rowdrive::api::path;
use rowdrive::api::problem::ProblemKind;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::request::{MODIFIED, Out, RequestArgs, RequestError, Result, line};
use crate::client::{ClientError, DriveClient};

/// List a folder of the drive: folders first, then files, each by name.
#[derive(Args)]
pub struct Ls {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse, default_value = "/")]
    path: PathArg,
    /// With size and time.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    request: RequestArgs,
}

impl Ls {
    pub fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| match self.list(client, out).await {
            // If it is no directory it may be a file: list that alone, as `ls` does.
            Err(RequestError::Client(ClientError::Problem(problem)))
                if problem.is(ProblemKind::NotFound) && !self.path.is_directory() =>
            {
                self.file(client, out).await
            }
            listed => listed,
        })
    }

    async fn list(&self, client: &DriveClient, out: &mut Out) -> Result<()> {
        let request = |page: &[(&str, &str)]| client.path_request(Method::GET, path::FS, (&self.path.path, true), page);
        self.request.pages((client, out), self.long.then_some(MODIFIED), request, |entry| &entry.name).await?;
        Ok(())
    }

    async fn file(&self, client: &DriveClient, out: &mut Out) -> Result<()> {
        let text = client.text(client.path_request(Method::GET, path::STAT, (&self.path.path, false), &[])).await?;
        let entry: EntryJson<'static> = client.parse(&text)?;
        Ok(if self.request.json {
            writeln!(out, "{text}")
        } else {
            line(out, &entry, &entry.name, self.long.then_some(MODIFIED))
        }?)
    }
}
