//! `rowdrive user`: the users of a running server, and what the operator does with them while it is stopped.

mod offline;
mod quota;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use reqwest::Method;
use rowdrive::api::account::{NewUserRequest, SessionJson, UserChangeRequest, UserJson, UsersJson};
use rowdrive::api::path;

use super::path_arg::PathArg;
use super::request::{Out, RequestArgs, Result};
use super::{CommandOutcome, name_arg, password_prompt};
use crate::client::DriveClient;
use crate::local_fs::printable;
use offline::{FirstUser, ResetAdmin};
use quota::Quota;

/// Make, list and change the users of a drive.
#[derive(Args)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    Add(Add),
    List(List),
    Passwd(Passwd),
    Disable(Disable),
    Enable(Enable),
    Promote(Promote),
    Demote(Demote),
    Quota(Quota),
    Remove(Remove),
    ResetAdmin(ResetAdmin),
}

/// Make a user. On a drive without users: the first one, an admin.
///
/// The first one is made with --data, while the server is stopped. From then on every request proves who sends it.
#[derive(Args)]
struct Add {
    /// 1 to 64 letters, marks and digits, and . _ - @ + after the first one.
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    /// A name for people.
    #[arg(long, value_name = "TEXT")]
    display: Option<String>,
    /// An admin may do everything, and makes the others.
    #[arg(long)]
    admin: bool,
    /// The folder on which the user gets all rights, made if it is missing; without it a new one, /home/NAME.
    #[arg(long, value_name = "/PATH", value_parser = PathArg::parse)]
    home: Option<PathArg>,
    /// No folder: a guest, who sees what others give him.
    #[arg(long, conflicts_with = "home")]
    no_home: bool,
    /// A file with the new user's password, so that it is not asked for; only its owner, or its group, may read it.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    /// The data folder, made if it is missing, to make the first user in it while no server runs.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["user", "password_file"])]
    data: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArgs,
}

/// List all users, each with what he has, and may have.
#[derive(Args)]
struct List {
    #[command(flatten)]
    request: RequestArgs,
}

/// Give a user a new password, which revokes his other sessions. An admin does it for every user.
#[derive(Args)]
struct Passwd {
    /// Whose; without it, that of who asks.
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: Option<String>,
    /// A file with the new password, so that it is not asked for; only its owner, or its group, may read it.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Disable a user until he is enabled: his sessions are revoked, his tokens are not valid, his shares are suspended.
#[derive(Args)]
struct Disable {
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    #[command(flatten)]
    request: RequestArgs,
}

/// Enable a disabled user: he may log in, and his tokens and shares work again.
#[derive(Args)]
struct Enable {
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    #[command(flatten)]
    request: RequestArgs,
}

/// Make a user an admin, who may do everything.
#[derive(Args)]
struct Promote {
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    #[command(flatten)]
    request: RequestArgs,
}

/// Make an admin a user who may do what was given to him. The last admin stays one.
#[derive(Args)]
struct Demote {
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    #[command(flatten)]
    request: RequestArgs,
}

/// Remove a user. His files stay, and his name is never given again.
#[derive(Args)]
struct Remove {
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    #[command(flatten)]
    request: RequestArgs,
}

impl UserArgs {
    pub fn run(self) -> Result<CommandOutcome, Box<dyn Error>> {
        Ok(match self.command {
            UserCommand::Add(add) => add.run()?,
            UserCommand::List(list) => list.run()?,
            UserCommand::Passwd(passwd) => passwd.run()?,
            UserCommand::Disable(Disable { name, request }) => set_disabled(&request, &name, true)?,
            UserCommand::Enable(Enable { name, request }) => set_disabled(&request, &name, false)?,
            UserCommand::Promote(Promote { name, request }) => set_admin(&request, &name, true)?,
            UserCommand::Demote(Demote { name, request }) => set_admin(&request, &name, false)?,
            UserCommand::Quota(quota) => quota.run()?,
            UserCommand::Remove(remove) => remove.run()?,
            UserCommand::ResetAdmin(reset) => reset.run()?,
        })
    }
}

impl Add {
    fn run(self) -> Result<CommandOutcome, Box<dyn Error>> {
        let Self { name, display, admin, home, no_home, new_password_file, data, request } = self;
        if let Some(data) = data {
            let home = if no_home { None } else { Some(home.map(|home| home.path)) };
            let first = FirstUser { name, display, home, new_password_file, json: request.json };
            return Ok(first.make(&data)?);
        }
        let home = if no_home { Some(None) } else { home.map(|home| Some(home.text)) };
        Ok(request.run(async |client, out| {
            let password = password_prompt::new(&name, new_password_file.as_deref())?;
            let (name, display, admin) = (name.clone(), display.clone(), admin.then_some(true));
            let asked = NewUserRequest { name, password, display, admin, quota: None, home: home.clone() };
            let made = client.text(client.resource_request(Method::POST, path::USERS, &[]).json(&asked)).await?;
            request.print((client, out), &made, line)?;
            // It may be a folder of others.
            if let Some(Some(home)) = &home {
                super::say(&format!("rowdrive: {} has all rights on {home} and on all that is in it", asked.name));
            }
            Ok(())
        })?)
    }
}

impl List {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let items = |page: UsersJson| (page.users, page.next);
            self.request.list((client, out), (path::USERS, &[]), items, quota::line).await
        })
    }
}

impl Passwd {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let SessionJson { user: asks, admin, .. } = client.session().await?;
            let named = self.name.as_deref().or(asks.as_deref()).unwrap_or_default();
            // Finds out how the name is written, and that there is such a user, before a password is asked for.
            let user: UserJson = client.json(request_of(client, Method::GET, named)).await?;
            let is_own = asks.as_ref() == Some(&user.name);
            let sent = client.credential().and_then(|credential| credential.password());
            let old = match sent {
                // An admin needs no old one.
                _ if admin || !is_own => None,
                Some(sent) => Some(sent.to_owned()),
                None => Some(password_prompt::present(&user.name)?),
            };
            let password = Some(password_prompt::new(&user.name, self.new_password_file.as_deref())?);
            let change = UserChangeRequest { password, old, ..UserChangeRequest::default() };
            let changed = client.text(request_of(client, Method::PATCH, &user.name).json(&change)).await?;
            // Whose it is may not have been asked for.
            super::say(&format!("rowdrive: the password of {} is changed", printable(user.name.as_ref())));
            self.request.print((client, out), &changed, line)
        })
    }
}

fn set_disabled(request: &RequestArgs, name: &str, disabled: bool) -> Result<CommandOutcome> {
    change(request, name, &UserChangeRequest { disabled: Some(disabled), ..UserChangeRequest::default() })
}

fn set_admin(request: &RequestArgs, name: &str, admin: bool) -> Result<CommandOutcome> {
    change(request, name, &UserChangeRequest { admin: Some(admin), ..UserChangeRequest::default() })
}

fn change(request: &RequestArgs, name: &str, change: &UserChangeRequest) -> Result<CommandOutcome> {
    request.run(async |client, out| {
        let changed = client.text(request_of(client, Method::PATCH, name).json(change)).await?;
        request.print((client, out), &changed, line)
    })
}

impl Remove {
    fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            client.send(request_of(client, Method::DELETE, &self.name)).await?;
            if !self.request.json {
                let name = printable(self.name.as_ref());
                writeln!(
                    out,
                    "{name} is removed, with his sessions, tokens, shares and grants. His files stay, and his name is \
                     never given again."
                )?;
            }
            Ok(())
        })
    }
}

/// A request for one user.
fn request_of(client: &DriveClient, method: Method, name: &str) -> reqwest::RequestBuilder {
    client.resource_request(method, &[path::USERS, "/", &path::encode(name)].concat(), &[])
}

/// Prints a user in one line.
fn line(out: &mut Out, user: &UserJson) -> io::Result<()> {
    words(out, user)?;
    writeln!(out)
}

/// Prints the name of a user, what is special about him, and his name for people.
fn words(out: &mut Out, user: &UserJson) -> io::Result<()> {
    write!(out, "{}", printable(user.name.as_ref()))?;
    for (is, what) in [(user.admin, "admin"), (user.disabled, "disabled")] {
        if is {
            write!(out, "  {what}")?;
        }
    }
    if !user.display.is_empty() {
        write!(out, "  {}", printable(user.display.as_ref()))?;
    }
    Ok(())
}
