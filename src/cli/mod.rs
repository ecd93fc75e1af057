//! The command line: one file a subcommand.
//!
//! Exit codes: 0 done, 1 done with failures (each named), 2 wrong usage, 3 could not run.

mod check;
mod serve;
mod size;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A cloud drive of your own: one program, one data folder.
#[derive(Parser)]
#[command(name = "rowdrive", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Check(check::Check),
}

/// How a subcommand ended that could do its work.
enum Ended {
    Done,
    /// What failed has been named.
    WithFailures,
}

const WITH_FAILURES: u8 = 1;

/// It was clear what to do, and it could not be done.
const COULD_NOT_RUN: u8 = 3;

/// Wrong usage ends in here, with exit code 2 and the reason.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let done = match cli.command {
        Command::Serve(serve) => serve.run().map(|()| Ended::Done).map_err(|error| error.to_string()),
        Command::Check(check) => check.run().map_err(|error| error.to_string()),
    };
    match done {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::WithFailures) => ExitCode::from(WITH_FAILURES),
        Err(error) => {
            eprintln!("rowdrive: {error}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// JSON lines, so that nothing a client names can look like a line of its own. `RUST_LOG` says how much.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_writer(std::io::stderr).with_env_filter(filter).init();
}
