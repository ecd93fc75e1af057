//! `rowdrive stat`: what a running server knows of a file or directory.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value};

use super::Ended;
use super::ask::{Ask, Result};
use super::local::shown;
use super::remote::Place;

/// Show what the drive knows of a file or folder.
#[derive(Args)]
pub struct Stat {
    #[arg(value_name = "/PATH", value_parser = Place::parse)]
    path: Place,
    #[command(flatten)]
    ask: Ask,
}

/// In the order in which they are shown. The name is the end of the path.
const MEMBERS: [&str; 9] = ["path", "kind", "size", "type", "modified", "added", "creator", "id", "digest"];

impl Stat {
    pub fn run(self) -> Result<Ended> {
        self.ask.run(async |remote, out| {
            let target = (&self.path.path, self.path.is_directory());
            let text = remote.text(remote.about(Method::GET, "stat", target, &[])).await?;
            if self.ask.json {
                return Ok(writeln!(out, "{text}")?);
            }
            let entry: Map<String, Value> = remote.parse(&text)?;
            for member in MEMBERS {
                match entry.get(member) {
                    Some(Value::String(value)) => writeln!(out, "{member:<9} {}", shown(value.as_ref()))?,
                    Some(value) => writeln!(out, "{member:<9} {value}")?,
                    None => {}
                }
            }
            Ok(())
        })
    }
}
