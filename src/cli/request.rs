//! What the subcommands share that are one request, or a few: the server, `--json`, and how they end.

use std::io::{self, BufWriter, Stdout, Write};

use clap::Args;
use indicatif::HumanBytes;
use reqwest::RequestBuilder;

use super::Ended;
use super::local::shown;
use super::remote::{Entry, Page, Remote, RemoteError, Server};

#[derive(Args)]
pub struct Ask {
    #[command(flatten)]
    server: Server,
    /// Print the server's JSON; of what comes in pages, one page a line.
    #[arg(long)]
    pub json: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskFailed {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("the answer cannot be printed: {0}")]
    Print(#[from] io::Error),
}

pub type Result<T> = std::result::Result<T, AskFailed>;

pub type Out = BufWriter<Stdout>;

impl Ask {
    /// Asks, and prints the answer. What the server refuses is told with what to do about it, and with `--json` as
    /// JSON too.
    pub fn run(&self, asked: impl AsyncFnOnce(&Remote, &mut Out) -> Result<()>) -> Result<Ended> {
        let mut out = BufWriter::new(io::stdout());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = Remote::new(&self.server).map_err(AskFailed::from);
        let done = done.and_then(|remote| runtime.block_on(asked(&remote, &mut out)));
        match done.and_then(|()| Ok(out.flush()?)) {
            Ok(()) => Ok(Ended::Done),
            Err(AskFailed::Remote(RemoteError::Refused(refusal))) => {
                super::say(&format!("rowdrive: {refusal}"));
                if self.json && !refusal.kind.is_empty() {
                    writeln!(out, "{}", refusal.body.trim_end())?;
                    out.flush()?;
                }
                Ok(Ended::WithFailures)
            }
            // Whoever reads it has had enough.
            Err(AskFailed::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Ended::Done),
            Err(error) => Err(error),
        }
    }
}

/// Entries asked for at once: the most that the server gives.
const PAGE: &str = "10000";

impl Ask {
    /// Prints all pages of what `asked` asks for, given a query that says which; `text` is what is shown of an entry.
    pub async fn pages(
        &self,
        (remote, out): (&Remote, &mut Out),
        long: bool,
        asked: impl Fn(&[(&str, &str)]) -> RequestBuilder,
        text: impl Fn(&Entry) -> &str,
    ) -> Result<()> {
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![("limit", PAGE)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let answer = remote.text(asked(&query)).await?;
            let page: Page = remote.parse(&answer)?;
            if self.json {
                writeln!(out, "{answer}")?;
            } else {
                for entry in &page.entries {
                    line(out, entry, text(entry), long)?;
                }
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// A file or directory in one line; a directory ends with a slash.
pub fn line(out: &mut Out, entry: &Entry, text: &str, long: bool) -> io::Result<()> {
    if long {
        let size = if entry.is_directory() { "-".to_owned() } else { HumanBytes(entry.size).to_string() };
        write!(out, "{size:>12}  {}  ", entry.modified)?;
    }
    let slash = if entry.is_directory() && !text.ends_with('/') { "/" } else { "" };
    writeln!(out, "{}{slash}", shown(text.as_ref()))
}
