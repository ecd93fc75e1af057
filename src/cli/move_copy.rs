//! `rowdrive mv` and `rowdrive cp`: another place for what a running server holds, or a second one.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::Ended;
use super::ask::{Ask, Result};
use super::local::shown;
use super::remote::Place;

/// Move or rename a file or folder. The target is the new path in full; its folder must be there.
#[derive(Args)]
pub struct Mv {
    #[command(flatten)]
    paths: Paths,
}

/// Copy a file, or a folder with all that it holds. The target is the new path in full; its folder must be there.
///
/// A copy of a folder that was interrupted is completed by the same command with --overwrite.
#[derive(Args)]
pub struct Cp {
    #[command(flatten)]
    paths: Paths,
}

#[derive(Args)]
struct Paths {
    #[arg(value_name = "FROM", value_parser = Place::parse)]
    from: Place,
    #[arg(value_name = "TO", value_parser = Place::parse)]
    to: Place,
    /// Replace a file that is there; a copy of a folder goes into one that is there.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    ask: Ask,
}

#[derive(Deserialize)]
struct Answer {
    path: String,
    copied: Option<Copied>,
}

#[derive(Deserialize)]
struct Copied {
    directories: u64,
    files: u64,
    bytes: u64,
}

impl Mv {
    pub fn run(self) -> Result<Ended> {
        self.paths.post("move")
    }
}

impl Cp {
    pub fn run(self) -> Result<Ended> {
        self.paths.post("copy")
    }
}

impl Paths {
    /// Without a limit of time: a folder takes as long as it is large.
    fn post(&self, resource: &str) -> Result<Ended> {
        self.ask.run(async |remote, out| {
            let asked = json!({ "from": self.from.text, "to": self.to.text, "overwrite": self.overwrite });
            let text = remote.text(remote.request(Method::POST, resource, &[]).json(&asked)).await?;
            if self.ask.json {
                return Ok(writeln!(out, "{text}")?);
            }
            let answer: Answer = remote.parse(&text)?;
            write!(out, "{}", shown(answer.path.as_ref()))?;
            if let Some(Copied { directories, files, bytes }) = answer.copied {
                write!(out, ": {files} files ({bytes} bytes) and {directories} folders copied")?;
            }
            Ok(writeln!(out)?)
        })
    }
}
