//! `rowdrive mkdir`: makes a directory on a running server.

use std::io::Write;

use clap::Args;
use reqwest::Method;
use rowdrive::api::path;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::request::{RequestArgs, Result};

/// Make a folder, with the folders above it that are missing.
///
/// A folder that is there already is left as it is.
#[derive(Args)]
pub struct Mkdir {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: PathArg,
    #[command(flatten)]
    request: RequestArgs,
}

impl Mkdir {
    pub fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let made = client.text(client.path_request(Method::PUT, path::FS, (&self.path.path, true), &[])).await?;
            if self.request.json {
                writeln!(out, "{made}")?;
            }
            Ok(())
        })
    }
}
