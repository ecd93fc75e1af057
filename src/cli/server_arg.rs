//! `--server`: which server a subcommand talks to, and `--ca`: whom it trusts.

use std::path::PathBuf;

use clap::Args;
use reqwest::Url;

use crate::client::{ClientError, DriveClient};

#[derive(Args)]
pub struct ServerArg {
    /// The server to talk to; with a user name, as in http://tom@127.0.0.1:8080, that user adds the files.
    #[arg(long, value_name = "URL", env = "ROWDRIVE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// The certificate of the CA that issued the one of an https server, in PEM; without it, the CAs of this system count.
    #[arg(long, value_name = "FILE", env = "ROWDRIVE_CA")]
    ca: Option<PathBuf>,
}

impl ServerArg {
    pub fn client(&self) -> Result<DriveClient, ClientError> {
        DriveClient::new(&self.server, self.ca.as_deref())
    }
}

fn server(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "write it as http://127.0.0.1:8080".to_owned())?;
    match (url.scheme(), url.host_str(), url.query(), url.fragment()) {
        ("http" | "https", Some(_), None, None) => Ok(url),
        ("http" | "https", ..) => Err("write it as http://127.0.0.1:8080".to_owned()),
        (other, ..) => Err(format!("the server speaks http or https, not {other}")),
    }
}
