//! `rowdrive stat`: shows the attributes of a file or directory of a running server.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use rowdrive::api::path;
use serde_json::{Map, Value};

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::request::{RequestArgs, Result};
use crate::local_fs::printable;

/// Show what the drive knows of a file or folder.
#[derive(Args)]
pub struct Stat {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: PathArg,
    #[command(flatten)]
    request: RequestArgs,
}

/// The shown members, in this order; `name` is left out, since the path ends with it.
const MEMBERS: [&str; 9] = ["path", "kind", "size", "type", "modified", "added", "creator", "id", "digest"];

impl Stat {
    pub fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let target = (&self.path.path, self.path.is_directory());
            let text = client.text(client.path_request(Method::GET, path::STAT, target, &[])).await?;
            if self.request.json {
                return Ok(writeln!(out, "{text}")?);
            }
            let entry: Map<String, Value> = client.parse(&text)?;
            for member in MEMBERS {
                match entry.get(member) {
                    Some(Value::String(value)) => writeln!(out, "{member:<9} {}", printable(value.as_ref()))?,
                    Some(value) => writeln!(out, "{member:<9} {value}")?,
                    None => {}
                }
            }
            Ok(())
        })
    }
}
