//! `rowdrive rm`: removes a file or directory of a running server.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use rowdrive::api::entry::EntryJson;
use rowdrive::api::path;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::request::{RequestArgs, Result};

/// Remove a file, or an empty folder.
///
/// With --json it prints what the drive knew of it.
#[derive(Args)]
pub struct Rm {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: PathArg,
    /// Remove a folder with all that it holds.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    request: RequestArgs,
}

impl Rm {
    pub fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let target = (&self.path.path, self.path.is_directory());
            let text = client.text(client.path_request(Method::GET, path::STAT, target, &[])).await?;
            let entry: EntryJson<'static> = client.parse(&text)?;
            let directory = entry.is_directory();
            let query: &[_] = if directory && self.recursive { &[("recursive", "true")] } else { &[] };
            // Without a time limit: the time for a folder depends on its size.
            client.send(client.path_request(Method::DELETE, path::FS, (&self.path.path, directory), query)).await?;
            if self.request.json {
                writeln!(out, "{text}")?;
            }
            Ok(())
        })
    }
}
