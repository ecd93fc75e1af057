//! `rowdrive find`: files of a running server by their names.

use std::io::Write;

use clap::Args;
use reqwest::Method;

use super::Ended;
use super::ask::{Ask, Result, line};
use super::remote::{Page, Place};

/// Find files by name, wherever they are; upper and lower case are one.
#[derive(Args)]
pub struct Find {
    /// The name, or how it starts with a star behind, as in 'cat*'.
    name: String,
    /// Only below this folder.
    #[arg(long, value_name = "/PATH", value_parser = Place::parse)]
    under: Option<Place>,
    /// With size and time.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    ask: Ask,
}

/// Entries asked for at once: the most that the server gives.
const PAGE: &str = "10000";

impl Find {
    pub fn run(self) -> Result<Ended> {
        self.ask.run(async |remote, out| {
            let mut cursor: Option<String> = None;
            loop {
                let mut query = vec![("name", self.name.as_str()), ("limit", PAGE)];
                query.extend(self.under.as_ref().map(|under| ("under", under.path.as_str())));
                query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
                let text = remote.text(remote.request(Method::GET, "find", &query)).await?;
                let page: Page = remote.parse(&text)?;
                if self.ask.json {
                    writeln!(out, "{text}")?;
                } else {
                    for entry in &page.entries {
                        line(out, entry, &entry.path, self.long)?;
                    }
                }
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => return Ok(()),
                }
            }
        })
    }
}
