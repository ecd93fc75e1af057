//! `rowdrive ls`: what a directory of a running server holds.

use std::io::Write;

use clap::Args;
use reqwest::Method;

use super::Ended;
use super::ask::{Ask, AskFailed, Out, Result, line};
use super::remote::{Entry, Page, Place, Remote, RemoteError};

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

/// Entries asked for at once: the most that the server gives.
const PAGE: &str = "10000";

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
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![("limit", PAGE)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let text = remote.text(remote.about(Method::GET, "fs", (&self.path.path, true), &query)).await?;
            let page: Page = remote.parse(&text)?;
            if self.ask.json {
                writeln!(out, "{text}")?;
            } else {
                for entry in &page.entries {
                    line(out, entry, &entry.name, self.long)?;
                }
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn file(&self, remote: &Remote, out: &mut Out) -> Result<()> {
        let text = remote.text(remote.about(Method::GET, "stat", (&self.path.path, false), &[])).await?;
        let entry: Entry = remote.parse(&text)?;
        Ok(if self.ask.json { writeln!(out, "{text}") } else { line(out, &entry, &entry.name, self.long) }?)
    }
}
