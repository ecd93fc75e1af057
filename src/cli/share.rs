//! `rowdrive share`: links for people without an account.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use reqwest::Method;
use rowdrive::api::account::{ShareJson, ShareModeJson, ShareRequest, SharesJson};
use rowdrive::api::path;

use super::expiry_arg::ExpiryArg;
use super::path_arg::PathArg;
use super::request::{Out, RequestArgs, Result, of_user};
use super::secret_arg::SecretArg;
use super::{CommandOutcome, name_arg, password_prompt, size_arg};
use crate::local_fs::printable;

/// Make, list and revoke shares, by whose links people without an account download or upload files.
#[derive(Args)]
pub struct ShareArgs {
    #[command(subcommand)]
    command: ShareCommand,
}

#[derive(Subcommand)]
enum ShareCommand {
    List(List),
    Add(Add),
    Remove(Remove),
}

/// List the shares of a folder or file; without one, those of a user.
#[derive(Args)]
struct List {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: Option<PathArg>,
    /// Those that another user has made, for an admin.
    #[arg(long, value_name = "NAME", value_parser = name_arg::user)]
    of: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Make a link. It is printed this once, and its id on standard error.
#[derive(Args)]
struct Add {
    /// The folder, with all that is in it, or the file; with --upload, the folder that takes the files.
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: PathArg,
    /// A link to add files by, which shows nothing; without it, one to list and download by.
    #[arg(long)]
    upload: bool,
    /// With --upload: how much all files together may have, as in 512MiB; without it, 10GiB.
    #[arg(long, value_name = "SIZE", value_parser = size_arg::parse, requires = "upload")]
    #[arg(allow_negative_numbers = true)]
    bytes: Option<u64>,
    /// After how many downloads it is used up; without it, never.
    #[arg(long, value_name = "N", conflicts_with = "upload")]
    downloads: Option<u64>,
    /// When it expires, as in 2027-01-01T00:00:00Z, or how long from now on, as in 7d; without it, never.
    #[arg(long, value_name = "TIME")]
    expires: Option<ExpiryArg>,
    /// Give it a password, which is asked for here.
    #[arg(long)]
    with_password: bool,
    /// A file with the password of the link, so that it is not asked for; only its owner, or its group, may read it.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Revoke a share: its link gets the answer of a wrong link then.
#[derive(Args)]
struct Remove {
    #[command(flatten)]
    share: SecretArg,
}

impl ShareArgs {
    pub fn run(self) -> Result<CommandOutcome> {
        match self.command {
            ShareCommand::List(list) => list.run(),
            ShareCommand::Add(add) => add.run(),
            ShareCommand::Remove(remove) => remove.share.revoke(path::SHARES),
        }
    }
}

impl List {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let mut query: Vec<_> = self.path.iter().map(|path| ("path", path.path.as_str())).collect();
            query.extend(of_user(self.of.as_ref()));
            let items = |page: SharesJson| (page.shares, page.next);
            self.request.list((client, out), (path::SHARES, &query), items, line).await
        })
    }
}

impl Add {
    fn run(self) -> Result<CommandOutcome> {
        let Self { path, upload, bytes, downloads, expires, with_password, new_password_file, request } = self;
        let expires = expires.map(ExpiryArg::rfc3339);
        let mode = if upload { ShareModeJson::Upload } else { ShareModeJson::Read };
        request.run(async |client, out| {
            let is_locked = with_password || new_password_file.is_some();
            let password = is_locked.then(|| password_prompt::new("the link", new_password_file.as_deref()));
            let (text, expires, password) = (path.text.clone(), expires.clone(), password.transpose()?);
            let asked = ShareRequest { path: text, mode, password, expires, downloads, bytes };
            let made = client.text(client.resource_request(Method::POST, path::SHARES, &[]).json(&asked)).await?;
            let link = |out: &mut Out, share: &ShareJson| {
                writeln!(out, "{}{}", client.display_url(), share.url.as_deref().unwrap_or_default())?;
                super::say(&format!("rowdrive: to revoke the share: rowdrive share remove {}", share.id));
                Ok(())
            };
            request.print((client, out), &made, link)?;
            if client.is_of_this_machine() {
                super::say(
                    "rowdrive: this link works on this machine alone: make it with the --server that others reach",
                );
            }
            if path.path.is_root() {
                super::say(of_whole_drive(mode));
            }
            Ok(())
        })
    }
}

/// The warning of a link to `/`.
fn of_whole_drive(mode: ShareModeJson) -> &'static str {
    match mode {
        ShareModeJson::Read => {
            "rowdrive: this link shows the whole drive, with the homes of all users, to everyone who has it"
        }
        ShareModeJson::Upload => "rowdrive: by this link everyone who has it adds files at the top of the whole drive",
    }
}

/// Prints a share in one line: its id, what it is of, and what bounds it.
fn line(out: &mut Out, share: &ShareJson) -> io::Result<()> {
    let ShareJson { id, path, user, mode, password, expires, downloads, bytes, created, .. } = share;
    write!(out, "{id}  ")?;
    match path {
        Some(path) => write!(out, "{}", printable(path.as_ref()))?,
        None => write!(out, "what it was of is gone")?,
    }
    let mode = match mode {
        ShareModeJson::Read => "read",
        ShareModeJson::Upload => "upload",
    };
    write!(out, "  {mode}  by {}", printable(user.as_ref()))?;
    if let Some(downloads) = downloads {
        write!(out, "  {downloads} downloads left")?;
    }
    if let Some(bytes) = bytes {
        write!(out, "  {} left", HumanBytes(*bytes))?;
    }
    if *password {
        write!(out, "  with a password")?;
    }
    write!(out, "  made {created}")?;
    match expires {
        Some(expires) => writeln!(out, "  until {expires}"),
        None => writeln!(out),
    }
}
