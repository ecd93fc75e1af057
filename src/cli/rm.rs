//! `rowdrive rm`: removes a file or directory of a running server.

use std::io::Write;

use clap::Args;
use reqwest::Method;

use super::Ended;
use super::ask::{Ask, Result};
use super::remote::{Entry, Place};

/// Remove a file, or an empty folder.
///
/// With --json it prints what the drive knew of it.
#[derive(Args)]
pub struct Rm {
    #[arg(value_name = "/PATH", value_parser = Place::parse)]
    path: Place,
    /// Remove a folder with all that it holds.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    ask: Ask,
}

impl Rm {
    pub fn run(self) -> Result<Ended> {
        self.ask.run(async |remote, out| {
            let target = (&self.path.path, self.path.is_directory());
            let text = remote.text(remote.about(Method::GET, "stat", target, &[])).await?;
            let entry: Entry = remote.parse(&text)?;
            let directory = entry.is_directory();
            let query: &[_] = if directory && self.recursive { &[("recursive", "true")] } else { &[] };
            // Without a limit of time: a folder takes as long as it is large.
            remote.send(remote.about(Method::DELETE, "fs", (&self.path.path, directory), query)).await?;
            if self.ask.json {
                writeln!(out, "{text}")?;
            }
            Ok(())
        })
    }
}
