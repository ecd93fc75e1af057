//! Shared code of the subcommands that send one request, or a few: the server, `--json`, and the exit code.

use std::io::{self, BufWriter, Stdout, Write};

use clap::Args;
use indicatif::HumanBytes;
use reqwest::{Method, RequestBuilder};
use rowdrive::api::entry::EntryJson;
use rowdrive::api::entry::ListPage;
use serde::de::DeserializeOwned;

use super::CommandOutcome;
use super::server_arg::ServerArg;
use crate::client::credential::CredentialError;
use crate::client::{ClientError, DriveClient, rights};
use crate::local_fs::printable;

#[derive(Args)]
pub struct RequestArgs {
    #[command(flatten)]
    server: ServerArg,
    /// Print the server's JSON; of what comes in pages, one page a line.
    #[arg(long)]
    pub json: bool,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the answer cannot be printed: {0}")]
    Print(#[from] io::Error),
}

/// Asking for a password needs no answer of the server.
impl From<CredentialError> for RequestError {
    fn from(error: CredentialError) -> Self {
        Self::Client(error.into())
    }
}

pub type Result<T, E = RequestError> = std::result::Result<T, E>;

pub type Out = BufWriter<Stdout>;

impl RequestArgs {
    /// Runs `work`, which sends requests and prints the answers. A problem is printed with what to do about it, and
    /// with `--json` as JSON too.
    pub fn run(&self, work: impl AsyncFnOnce(&DriveClient, &mut Out) -> Result<()>) -> Result<CommandOutcome> {
        let mut out = BufWriter::new(io::stdout());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(async {
            let client = self.server.client()?;
            match work(&client, &mut out).await {
                Err(RequestError::Client(ClientError::Problem(problem))) => {
                    // What was printed before does not wait for another answer.
                    out.flush()?;
                    let problem = rights::explained(&client, *problem).await;
                    Err(RequestError::Client(ClientError::Problem(Box::new(problem))))
                }
                done => done,
            }
        });
        match done.and_then(|()| Ok(out.flush()?)) {
            Ok(()) => Ok(CommandOutcome::Done),
            Err(RequestError::Client(ClientError::Problem(problem))) => {
                super::say(&format!("rowdrive: {problem}"));
                if self.json && problem.is_of_drive() {
                    writeln!(out, "{}", problem.body.trim_end())?;
                    out.flush()?;
                }
                Ok(CommandOutcome::WithFailures)
            }
            // The reader has closed the pipe.
            Err(RequestError::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(CommandOutcome::Done),
            Err(error) => Err(error),
        }
    }
}

/// The time of an entry that a long line shows.
pub type TimeOf = for<'a> fn(&'a EntryJson<'static>) -> &'a str;

/// The modified time.
pub const MODIFIED: TimeOf = |entry| entry.modified.as_str();

/// Entries of a page: the most that the server allows.
const PAGE: &str = "10000";

impl RequestArgs {
    /// Prints all pages of a list, and returns how many entries there are. `long`: the time for long lines. `request` makes
    /// the request for the page of a query; `text` is the text for an entry.
    pub async fn pages(
        &self,
        (client, out): (&DriveClient, &mut Out),
        long: Option<TimeOf>,
        request: impl Fn(&[(&str, &str)]) -> RequestBuilder,
        text: impl for<'a> Fn(&'a EntryJson<'static>) -> &'a str,
    ) -> Result<usize> {
        let items = |page: ListPage<'static>| (page.entries, page.next);
        let print = |out: &mut Out, entry: &EntryJson<'static>| line(out, entry, text(entry), long);
        self.all_pages((client, out), request, items, print).await
    }

    /// Prints an answer: as it is, or the item in it as text.
    pub fn print<T: DeserializeOwned>(
        &self,
        (client, out): (&DriveClient, &mut Out),
        answer: &str,
        print: impl Fn(&mut Out, &T) -> io::Result<()>,
    ) -> Result<()> {
        if self.json {
            return Ok(writeln!(out, "{answer}")?);
        }
        Ok(print(out, &client.parse(answer)?)?)
    }

    /// Prints all pages of a resource, with this query.
    pub async fn list<P: DeserializeOwned, T>(
        &self,
        (client, out): (&DriveClient, &mut Out),
        (resource, query): (&str, &[(&str, &str)]),
        items: impl Fn(P) -> (Vec<T>, Option<String>),
        print: impl Fn(&mut Out, &T) -> io::Result<()>,
    ) -> Result<()> {
        let request = |page: &[(&str, &str)]| client.resource_request(Method::GET, resource, &[query, page].concat());
        self.all_pages((client, out), request, items, print).await?;
        Ok(())
    }

    /// Prints all pages of any list, and returns how many items there are. `items`: those of a page, and its cursor to
    /// the next one; `print` prints one as text.
    async fn all_pages<P: DeserializeOwned, T>(
        &self,
        (client, out): (&DriveClient, &mut Out),
        request: impl Fn(&[(&str, &str)]) -> RequestBuilder,
        items: impl Fn(P) -> (Vec<T>, Option<String>),
        print: impl Fn(&mut Out, &T) -> io::Result<()>,
    ) -> Result<usize> {
        let (mut cursor, mut count) = (None::<String>, 0);
        loop {
            let mut query = vec![("limit", PAGE)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let answer = client.text(request(&query)).await?;
            let (page, next) = items(client.parse(&answer)?);
            count += page.len();
            if self.json {
                writeln!(out, "{answer}")?;
            } else {
                page.iter().try_for_each(|item| print(out, item))?;
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(count),
            }
        }
    }
}

/// The query parameter for what is of another user.
pub fn of_user(of: Option<&String>) -> Vec<(&str, &str)> {
    of.iter().map(|name| ("user", name.as_str())).collect()
}

/// Prints a file or directory in one line, a long one with size and time; the name of a directory ends with a slash.
pub fn line(out: &mut Out, entry: &EntryJson<'static>, text: &str, long: Option<TimeOf>) -> io::Result<()> {
    if let Some(time) = long {
        let size = if entry.is_directory() { "-".to_owned() } else { HumanBytes(entry.bytes()).to_string() };
        write!(out, "{size:>12}  {}  ", time(entry))?;
    }
    let slash = if entry.is_directory() && !text.ends_with('/') { "/" } else { "" };
    writeln!(out, "{}{slash}", printable(text.as_ref()))
}
