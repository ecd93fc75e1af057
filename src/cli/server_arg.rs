//! `--server`: which server a subcommand talks to, `--ca`: whom it trusts, and as which user it asks.

use std::path::PathBuf;

use clap::Args;
use reqwest::Url;

use super::password_prompt;
use crate::client::credential::{Credential, CredentialError, password_from};
use crate::client::{ClientError, DriveClient, ServerAccess};

#[derive(Args)]
pub struct ServerArg {
    /// The server to talk to. On a drive without users, a name as in http://tom@127.0.0.1:8080 is that of who adds the
    /// files.
    #[arg(long, value_name = "URL", env = "ROWDRIVE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// The certificate of the CA that issued the one of an https server, in PEM; without it, the CAs of this system
    /// count.
    #[arg(long, value_name = "FILE", env = "ROWDRIVE_CA")]
    ca: Option<PathBuf>,
    /// A file with a token, as whose user to ask; only its owner, or its group, may read it.
    #[arg(long, value_name = "FILE", env = "ROWDRIVE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// The user to ask as, in place of that of a token; his password is asked for.
    #[arg(long, value_name = "NAME", value_parser = user)]
    user: Option<String>,
    /// A file with the password of --user, so that it is not asked for; only its owner, or its group, may read it.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Send password or token without TLS, also to another machine: everyone on the way can read it.
    #[arg(long)]
    insecure_http: bool,
}

impl ServerArg {
    /// Asks for the password, if no file has it.
    pub fn client(&self) -> Result<DriveClient, ClientError> {
        let (server, ca, insecure_http) = (&self.server, self.ca.as_deref(), self.insecure_http);
        DriveClient::new(ServerAccess { server, ca, credential: self.credential()?, insecure_http })
    }

    fn credential(&self) -> Result<Option<Credential>, CredentialError> {
        let Some(name) = &self.user else {
            return self.token_file.as_deref().map(Credential::token_from).transpose();
        };
        let password = match &self.password_file {
            Some(path) => password_from(path)?,
            None => password_prompt::present(name)?,
        };
        Ok(Some(Credential::Password { name: name.clone(), password }))
    }
}

fn server(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "write it as http://127.0.0.1:8080".to_owned())?;
    if url.password().is_some() {
        return Err(
            "no password in the address, where others can read it: use --user, and perhaps --password-file".to_owned()
        );
    }
    match (url.scheme(), url.host_str(), url.query(), url.fragment()) {
        ("http" | "https", Some(_), None, None) => Ok(url),
        ("http" | "https", ..) => Err("write it as http://127.0.0.1:8080".to_owned()),
        (other, ..) => Err(format!("the server speaks http or https, not {other}")),
    }
}

/// A name that can be sent with a password (RFC 7617).
fn user(text: &str) -> Result<String, &'static str> {
    let is_name = !text.is_empty() && !text.contains(|c: char| c == ':' || c.is_control());
    if is_name { Ok(text.to_owned()) } else { Err("write the name of a user, as tom") }
}
