//! What the subcommands share that are one request, or a few: the server, `--json`, and how they end.

use std::io::{self, BufWriter, Stdout, Write};

use clap::Args;
use indicatif::HumanBytes;

use super::Ended;
use super::local::shown;
use super::remote::{Entry, Remote, RemoteError, Server};

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
                eprintln!("rowdrive: {refusal}");
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

/// A file or directory in one line; a directory ends with a slash.
pub fn line(out: &mut Out, entry: &Entry, text: &str, long: bool) -> io::Result<()> {
    if long {
        let size = if entry.is_directory() { "-".to_owned() } else { HumanBytes(entry.size).to_string() };
        write!(out, "{size:>12}  {}  ", entry.modified)?;
    }
    let slash = if entry.is_directory() && !text.ends_with('/') { "/" } else { "" };
    writeln!(out, "{}{slash}", shown(text.as_ref()))
}
