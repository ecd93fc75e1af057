//! `rowdrive ls`: what a directory of a running server holds.

use std::io::Write;

use clap::Args;
use reqwest::Method;

use super::Ended;
use super::ask::{Ask, AskFailed, Out, Result, line};
use super::remote::{Entry, Place, Remote, RemoteError};

/// List a folder of the drive: folders first, then files, each by name.
#[derive(Args)]
pub struct Ls {
    #[arg(value_name = "/PATH", value_parser = Place::parse, default_value = "/")]
    path: Place,
    /// With size and time.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    ask: Ask,
}

impl Ls {
    pub fn run(self) -> Result<Ended> {
        self.ask.run(async |remote, out| match self.list(remote, out).await {
            // What is no directory may be a file, which is listed alone, as `ls` does.
            Err(AskFailed::Remote(RemoteError::Refused(refusal)))
                if refusal.kind == "not-found" && !self.path.is_directory() =>
            {
                self.file(remote, out).await
            }
            listed => listed,
        })
    }

    async fn list(&self, remote: &Remote, out: &mut Out) -> Result<()> {
        let asked = |page: &[(&str, &str)]| remote.about(Method::GET, "fs", (&self.path.path, true), page);
        self.ask.pages((remote, out), self.long, asked, |entry| &entry.name).await
    }

    async fn file(&self, remote: &Remote, out: &mut Out) -> Result<()> {
        let text = remote.text(remote.about(Method::GET, "stat", (&self.path.path, false), &[])).await?;
        let entry: Entry = remote.parse(&text)?;
        Ok(if self.ask.json { writeln!(out, "{text}") } else { line(out, &entry, &entry.name, self.long) }?)
    }
}
