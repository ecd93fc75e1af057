//! `--server`: which server a subcommand talks to.

use clap::Args;
use reqwest::Url;

#[derive(Args)]
pub struct ServerArg {
    /// The server to talk to; with a user name, as in http://tom@127.0.0.1:8080, that user adds the files.
    #[arg(long, value_name = "URL", env = "ROWDRIVE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:8080")]
    pub server: Url,
}

fn server(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "write it as http://127.0.0.1:8080".to_owned())?;
    match (url.scheme(), url.host_str(), url.query(), url.fragment()) {
        ("http", Some(_), None, None) => Ok(url),
        ("http", ..) => Err("write it as http://127.0.0.1:8080".to_owned()),
        (other, ..) => Err(format!("the server speaks http, not {other}")),
    }
}
