//! The command line: one file for each subcommand.
//!
//! `serve`, `check`, `migrate`, `backup` and `restore` open a data folder; [`config`] gathers the settings of `serve`.
//! `completions` and `man` print scripts and manuals of the command line. The others are [clients](crate::client) of a
//! running server: `import` and `export` are [transfers](transfer) between it and [local](crate::local_fs) folders, the
//! rest send one [request] or two. `user` does some of its work while the server is stopped.
//!
//! Exit codes: 0 done, 1 done with failures (each named), 2 wrong usage, 3 could not run.

mod backup;
mod check;
mod completions;
mod config;
mod duration_arg;
mod expiry_arg;
mod export;
mod files;
mod find;
mod grant;
mod import;
mod log;
mod ls;
mod man;
mod migrate;
mod mkdir;
mod move_copy;
mod name_arg;
mod password_prompt;
mod path_arg;
mod period_arg;
mod process_metrics;
mod request;
mod restore;
mod rm;
mod secret_arg;
mod serve;
mod server_arg;
mod share;
mod signals;
mod size_arg;
mod stat;
mod token;
mod transfer;
mod user;

use std::error::Error;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use config::{ConfigError, Invocation, ServeSettings};
use log::LogFormat;
use rowdrive::table::StoreError;
use tracing::level_filters::LevelFilter;

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
    Check(check::CheckArgs),
    Migrate(migrate::Migrate),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Ls(ls::Ls),
    Stat(stat::Stat),
    Files(files::Files),
    Find(find::Find),
    Mkdir(mkdir::Mkdir),
    Mv(move_copy::Mv),
    Cp(move_copy::Cp),
    Rm(rm::Rm),
    User(user::UserArgs),
    Token(token::TokenArgs),
    Share(share::ShareArgs),
    Grant(grant::GrantArgs),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    fn run(self, settings: &ServeSettings) -> Result<CommandOutcome, Box<dyn Error>> {
        Ok(match self {
            Self::Serve(serve) => serve.run(settings)?,
            Self::Check(check) => check.run()?,
            Self::Migrate(migrate) => migrate.run()?,
            Self::Backup(backup) => backup.run()?,
            Self::Restore(restore) => restore.run()?,
            Self::Import(import) => import.run()?,
            Self::Export(export) => export.run()?,
            Self::Ls(ls) => ls.run()?,
            Self::Stat(stat) => stat.run()?,
            Self::Files(files) => files.run()?,
            Self::Find(find) => find.run()?,
            Self::Mkdir(mkdir) => mkdir.run()?,
            Self::Mv(mv) => mv.run()?,
            Self::Cp(cp) => cp.run()?,
            Self::Rm(rm) => rm.run()?,
            Self::User(user) => user.run()?,
            Self::Token(token) => token.run()?,
            Self::Share(share) => share.run()?,
            Self::Grant(grant) => grant.run()?,
            Self::Completions(completions) => completions.run()?,
            Self::Man(man) => man.run()?,
        })
    }
}

/// The outcome of a subcommand that could run.
enum CommandOutcome {
    Done,
    /// Each failure has been printed.
    WithFailures,
    /// The arguments do not fit together; why has been printed.
    WrongUsage,
}

const WITH_FAILURES: u8 = 1;

const WRONG_USAGE: u8 = 2;

/// The command line was valid, and the command failed.
const COULD_NOT_RUN: u8 = 3;

/// Runs the command line.
pub fn run() -> ExitCode {
    // In a thread of its own: the allocator caches freed memory for each living thread. For the first one that would be half
    // a MiB of a server at rest.
    let parsed = match thread::Builder::new().spawn(parse) {
        Ok(parsing) => parsing.join().unwrap_or_else(|panic| resume_unwind(panic)),
        // The system allows no further thread.
        Err(_) => parse(),
    };
    let (cli, settings) = match parsed {
        Ok(command) => command,
        Err(code) => return code,
    };
    let (log_format, level) = match &cli.command {
        Command::Serve(serve) => (serve.log_format(), LevelFilter::INFO),
        // It may ask for a password, on the same terminal.
        Command::User(_) => (LogFormat::Auto, LevelFilter::WARN),
        _ => (LogFormat::Auto, LevelFilter::INFO),
    };
    if let Err(error) = log::start(log_format, level) {
        return refused(&error, COULD_NOT_RUN);
    }
    exit_code(cli.command.run(&settings))
}

/// The command and its settings; or, if all is done, or the configuration is not valid, the exit code. clap ends the
/// process here itself, after help and for wrong arguments.
fn parse() -> Result<(Cli, ServeSettings), ExitCode> {
    match config::read(Cli::command()) {
        Ok(Invocation::Run(matches, settings)) => {
            Ok((Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()), settings))
        }
        Ok(Invocation::Print(settings)) => {
            Err(print(&settings).map_or_else(|error| refused(&*error, COULD_NOT_RUN), |()| ExitCode::SUCCESS))
        }
        Err(error @ ConfigError::Wrong { .. }) => Err(refused(&error, WRONG_USAGE)),
        Err(error @ ConfigError::Unreadable(..)) => Err(refused(&error, COULD_NOT_RUN)),
    }
}

fn exit_code(outcome: Result<CommandOutcome, Box<dyn Error>>) -> ExitCode {
    let (code, error) = match outcome {
        Ok(CommandOutcome::Done) => (ExitCode::SUCCESS, None),
        Ok(CommandOutcome::WithFailures) => (ExitCode::from(WITH_FAILURES), None),
        Ok(CommandOutcome::WrongUsage) => (ExitCode::from(WRONG_USAGE), None),
        Err(error) => (ExitCode::from(COULD_NOT_RUN), Some(format!("rowdrive: {error}"))),
    };
    log::end(error);
    code
}

fn refused(error: &dyn Error, code: u8) -> ExitCode {
    say(&format!("rowdrive: {error}"));
    ExitCode::from(code)
}

fn print(settings: &ServeSettings) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    out.write_all(settings.file()?.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a line on standard error. An error is ignored: the disk of a log may be full.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// What the user can do about a store that cannot be opened.
fn recovery_hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::Damaged(_) => {
            ". Nothing was changed. `rowdrive serve --degraded` serves what is left for reading, to be exported; or restore \
             a backup"
        }
        _ => "",
    }
}
