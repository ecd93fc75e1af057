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
mod process;
mod relocate;
mod remote;
mod rm;
mod serve;
mod size;
mod stat;
mod stop;
mod transfer;

use std::error::Error;
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

impl Command {
    fn run(self) -> Result<Ended, Box<dyn Error>> {
        Ok(match self {
            Self::Serve(serve) => serve.run()?,
            Self::Check(check) => check.run()?,
            Self::Import(import) => import.run()?,
            Self::Export(export) => export.run()?,
            Self::Ls(ls) => ls.run()?,
            Self::Stat(stat) => stat.run()?,
            Self::Find(find) => find.run()?,
            Self::Mv(mv) => mv.run()?,
            Self::Cp(cp) => cp.run()?,
            Self::Rm(rm) => rm.run()?,
        })
    }
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
    match cli.command.run() {
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
