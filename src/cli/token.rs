//! `rowdrive token`: what programs of a user send in place of his password.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use reqwest::Method;
use rowdrive::api::account::{TokenJson, TokenRequest, TokensJson};
use rowdrive::api::path;
use rowdrive::api::rights::in_words;

use super::expiry_arg::ExpiryArg;
use super::grant::RightArg;
use super::path_arg::PathArg;
use super::request::{Out, RequestArgs, RequestError, Result, of_user};
use super::secret_arg::SecretArg;
use super::{CommandOutcome, name_arg};
use crate::local_fs::printable;

/// Make, list and revoke tokens, which programs send in place of a password.
#[derive(Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    List(List),
    Add(Add),
    Remove(Remove),
}

/// List the tokens of a user.
#[derive(Args)]
struct List {
    /// Those of another user, for an admin.
    #[arg(long, value_name = "NAME", value_parser = name_arg::user)]
    of: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Make a token. It is printed this once, or written to a new file that nobody else can read.
#[derive(Args)]
struct Add {
    /// What it is for, as in phone.
    #[arg(value_name = "NAME")]
    name: String,
    /// The one folder that it is for; without it, the token may do all that its user may.
    #[arg(long, value_name = "/PATH", value_parser = PathArg::parse)]
    path: Option<PathArg>,
    /// Its rights there, with commas between them; without it all three, as far as its user has them.
    #[arg(long, value_name = "RIGHTS", value_enum, value_delimiter = ',', requires = "path")]
    rights: Vec<RightArg>,
    /// When it expires, as in 2027-01-01T00:00:00Z, or how long from now on, as in 7d; without it, never.
    #[arg(long, value_name = "TIME")]
    expires: Option<ExpiryArg>,
    /// The new file for the token, for --token-file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Revoke a token.
#[derive(Args)]
struct Remove {
    #[command(flatten)]
    token: SecretArg,
}

/// Why a token was not made, or not written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the file {0} cannot be made, so no token is: {1}")]
    File(PathBuf, io::Error),
}

impl TokenArgs {
    pub fn run(self) -> Result<CommandOutcome, TokenError> {
        Ok(match self.command {
            TokenCommand::List(list) => list.run()?,
            TokenCommand::Add(add) => add.run()?,
            TokenCommand::Remove(remove) => remove.token.revoke(path::TOKENS)?,
        })
    }
}

impl List {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let items = |page: TokensJson| (page.tokens, page.next);
            self.request.list((client, out), (path::TOKENS, &of_user(self.of.as_ref())), items, line).await
        })
    }
}

impl Add {
    fn run(self) -> Result<CommandOutcome, TokenError> {
        // Before the token: it is told once.
        let mut file = self.out.as_deref().map(NewFile::create).transpose()?;
        let outcome = self.request.run(async |client, out| {
            let rights = self.rights.iter().map(|right| right.json()).collect::<Vec<_>>();
            let asked = TokenRequest {
                name: self.name.clone(),
                path: self.path.as_ref().map(|path| path.text.clone()),
                rights: Some(rights).filter(|rights| !rights.is_empty()),
                expires: self.expires.map(ExpiryArg::rfc3339),
            };
            let answer = client.text(client.resource_request(Method::POST, path::TOKENS, &[]).json(&asked)).await?;
            let made: TokenJson = client.parse(&answer)?;
            match &mut file {
                Some(file) => file.keep(made.secret.as_deref().unwrap_or_default())?,
                None if self.request.json => return Ok(writeln!(out, "{answer}")?),
                None => return Ok(writeln!(out, "{}", made.secret.as_deref().unwrap_or_default())?),
            }
            if self.request.json {
                return Ok(writeln!(
                    out,
                    "{}",
                    serde_json::to_string(&TokenJson { secret: None, ..made }).map_err(io::Error::from)?
                )?);
            }
            Ok(line(out, &made)?)
        })?;
        Ok(outcome)
    }
}

/// A file for a token, removed unless a token is in it.
struct NewFile<'a> {
    path: &'a Path,
    file: File,
    is_kept: bool,
}

impl<'a> NewFile<'a> {
    fn create(path: &'a Path) -> Result<Self, TokenError> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| TokenError::File(path.to_owned(), error))?;
        Ok(Self { path, file, is_kept: false })
    }

    fn keep(&mut self, secret: &str) -> io::Result<()> {
        let written = writeln!(self.file, "{secret}").and_then(|()| self.file.sync_all());
        self.is_kept = written.is_ok();
        written.map_err(|error| {
            let file = self.path.display();
            io::Error::other(format!(
                "{file} does not take the token: {error}. List your tokens, and remove the new one"
            ))
        })
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _removed = fs::remove_file(self.path);
        }
    }
}

/// Prints a token in one line, without its secret.
fn line(out: &mut Out, token: &TokenJson) -> io::Result<()> {
    let TokenJson { id, name, account, path, rights, expires, created, .. } = token;
    write!(out, "{id}  {}", printable(name.as_ref()))?;
    match (account, path) {
        (true, _) => write!(out, "  account")?,
        (false, Some(path)) => write!(out, "  {}  {}", printable(path.as_ref()), in_words(rights))?,
        (false, None) => write!(out, "  its folder is gone")?,
    }
    write!(out, "  made {created}")?;
    match expires {
        Some(expires) => writeln!(out, "  until {expires}"),
        None => writeln!(out),
    }
}
