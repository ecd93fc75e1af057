//! The command line: one file a subcommand.
//!
//! `serve` and `check` open a data folder. The others talk to a running server as any client does ([`remote`]):
//! `import` and `export` are [transfers](transfer) between it and [local] folders, the rest [ask] once or twice.
//!
//! Exit codes: 0 done, 1 done with failures (each named), 2 wrong usage, 3 could not run.

mod ask;
mod check;
mod export;
mod find;
mod import;
mod local;
mod ls;
mod relocate;
mod remote;
mod rm;
mod serve;
mod size;
mod stat;
mod transfer;

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
    Import(import::Import),
    Export(export::Export),
    Ls(ls::Ls),
    Stat(stat::Stat),
    Find(find::Find),
    Mv(relocate::Mv),
    Cp(relocate::Cp),
    Rm(rm::Rm),
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
        Command::Import(import) => import.run().map_err(|error| error.to_string()),
        Command::Export(export) => export.run().map_err(|error| error.to_string()),
        Command::Ls(ls) => ls.run().map_err(|error| error.to_string()),
        Command::Stat(stat) => stat.run().map_err(|error| error.to_string()),
        Command::Find(find) => find.run().map_err(|error| error.to_string()),
        Command::Mv(mv) => mv.run().map_err(|error| error.to_string()),
        Command::Cp(cp) => cp.run().map_err(|error| error.to_string()),
        Command::Rm(rm) => rm.run().map_err(|error| error.to_string()),
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
