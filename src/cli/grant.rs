//! `rowdrive grant`: the rights of users on folders of a running server.

use std::io::{self, Write};

use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use rowdrive::api::account::{GrantJson, GrantRequest, GrantsJson};
use rowdrive::api::path;
use rowdrive::api::rights::{RightJson, in_words};

use super::path_arg::PathArg;
use super::request::{Out, RequestArgs, Result, of_user};
use super::{CommandOutcome, name_arg};
use crate::local_fs::printable;

/// Give users rights on folders, list them, take them back.
#[derive(Args)]
pub struct GrantArgs {
    #[command(subcommand)]
    command: GrantCommand,
}

#[derive(Subcommand)]
enum GrantCommand {
    List(List),
    Set(Set),
    Remove(Remove),
}

/// List the grants on a folder; without one those that you have given, for an admin all.
#[derive(Args)]
struct List {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: Option<PathArg>,
    /// Only grants to this user.
    #[arg(long, value_name = "NAME", value_parser = name_arg::grantee)]
    to: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Give a user rights on a folder and all below it, in place of those that you gave before.
#[derive(Args)]
struct Set {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: PathArg,
    /// Who gets them; '*' is every user, guests too.
    #[arg(value_name = "NAME", value_parser = name_arg::grantee)]
    to: String,
    /// With spaces or commas between them.
    #[arg(value_name = "RIGHT", value_enum, value_delimiter = ',', required = true)]
    rights: Vec<RightArg>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Take rights back: what you have given, as an admin what anyone has.
#[derive(Args)]
struct Remove {
    #[arg(value_name = "/PATH", value_parser = PathArg::parse)]
    path: PathArg,
    /// From whom they are taken back; '*' are those that every user has.
    #[arg(value_name = "NAME", value_parser = name_arg::grantee)]
    from: String,
    #[command(flatten)]
    request: RequestArgs,
}

/// A right on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RightArg {
    /// To list, download and find what is there.
    Read,
    /// To add, replace, move and delete what is in it, too.
    Write,
    /// To give others what one has there oneself.
    Share,
}

impl RightArg {
    pub fn json(self) -> RightJson {
        match self {
            Self::Read => RightJson::Read,
            Self::Write => RightJson::Write,
            Self::Share => RightJson::Share,
        }
    }
}

impl GrantArgs {
    pub fn run(self) -> Result<CommandOutcome> {
        match self.command {
            GrantCommand::List(list) => list.run(),
            GrantCommand::Set(set) => set.run(),
            GrantCommand::Remove(remove) => remove.run(),
        }
    }
}

impl List {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let mut query: Vec<_> = self.path.iter().map(|path| ("path", path.path.as_str())).collect();
            query.extend(of_user(self.to.as_ref()));
            let items = |page: GrantsJson| (page.grants, page.next);
            self.request.list((client, out), (path::GRANTS, &query), items, line).await
        })
    }
}

impl Set {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let (path, user) = (self.path.text.clone(), self.to.clone());
            let asked = GrantRequest { path, user, rights: self.rights.iter().map(|right| right.json()).collect() };
            let answer = client.text(client.resource_request(Method::PUT, path::GRANTS, &[]).json(&asked)).await?;
            self.request.print((client, out), &answer, line)
        })
    }
}

impl Remove {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, _| {
            let query = [("path", self.path.path.as_str()), ("user", self.from.as_str())];
            client.send(client.resource_request(Method::DELETE, path::GRANTS, &query)).await?;
            Ok(())
        })
    }
}

/// Prints a grant in one line.
fn line(out: &mut Out, grant: &GrantJson) -> io::Result<()> {
    let GrantJson { path, user, rights, by } = grant;
    let (path, user) = (printable(path.as_ref()), printable(user.as_ref()));
    let by = by.as_ref().map(|by| format!("  by {}", printable(by.as_ref()))).unwrap_or_default();
    writeln!(out, "{path}  {user}  {}{by}", in_words(rights))
}
