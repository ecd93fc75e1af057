//! What a row-key design costs, and how close the drive comes to the limits of its machine: two commands, two pages.
//!
//! Read in this order:
//!
//! - [`options`] and [`run`]: the command line, and a whole run
//! - [`data`]: the tree of files; [`layouts`]: the ways to lay it out; [`comparison`]: how they are measured
//! - [`regions`]: how evenly row keys spread load
//! - [`limits`]: the server under load, and beside what the machine can do; `limits.py` measures it
//! - [`report`]: the results as files and pages; [`machine`]: what they say of the machine
//! - [`progress`], [`stats`]: what all of them use

mod comparison;
mod data;
mod layouts;
mod limits;
mod machine;
mod options;
mod progress;
mod regions;
mod report;
mod run;
mod stats;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use options::Options;
use run::Run;

/// The allocator of `rowdrive`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match run_command(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run_command(options: Options) -> Result<()> {
    let (stop, stopped) = watch::channel(false);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let scratch = options.scratch().context("there is no place for the stores: name one with --dir")?;
    let left = scratch.path().to_owned();
    tokio::spawn(async move {
        // At the first signal the results so far are written; at a second Ctrl-C the program ends at once. SIGTERM may
        // come twice: a shell repeats it.
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // Before the message: printing fails if the terminal is gone.
        stop.send_replace(true);
        progress::say("ending: Ctrl-C to end at once");
        if interrupt.recv().await.is_some() {
            progress::say(format_args!("remove what is left: {}", left.display()));
            std::process::exit(130);
        }
    });
    let (report, folder, ended) = Run::new(&options, scratch, progress::Stop(stopped))?.run_to_end().await;
    if let Some(report) = report {
        let _ = writeln!(std::io::stdout(), "{}", report::text::render(&report, folder.as_deref()));
    }
    ended
}
