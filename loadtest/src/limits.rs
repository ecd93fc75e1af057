//! The server under load, and beside what its machine can do. A Python script measures both: this runs it, and takes each
//! result as soon as it is known.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::progress::{Stop, bar};
use crate::report::model::{HttpRun, Limit};

const SCRIPT: &str = include_str!("../limits.py");

/// A result, as the script prints it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Found {
    Http(HttpRun),
    Limit(Limit),
}

/// A line of the script.
enum Line {
    Out(String),
    Err(String),
}

/// The script while it runs: it is ended when this is dropped.
struct Running(Child);

impl Running {
    /// Asks it to stop what it has started, and to end.
    fn end(&self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing is sent to a process that was waited for.
        if let Ok(None) = self.0.try_wait() {
            self.end();
            let _ = self.0.wait();
        }
    }
}

/// An error if a program is missing that the script calls.
pub fn check_programs() -> Result<()> {
    for (name, package) in [("python3", "python3"), ("wrk", "wrk")] {
        let found = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
        ensure!(
            !is_missing,
            "{name} is missing: `apt-get install {package}`; only `loadtest layouts` needs none of it"
        );
    }
    let program = program()?;
    ensure!(program.exists(), "{} is missing: `make program` builds it", program.display());
    Ok(())
}

/// The server that is measured lies beside this program.
fn program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("rowdrive"))
}

/// Runs the script in a folder until it ends, or until the user asks for the end. `keep` is given each result.
pub async fn run(
    told: &[String],
    scratch: &Path,
    stop: &Stop,
    mut keep: impl FnMut(Found) -> Result<()>,
) -> Result<()> {
    let script = scratch.join("limits.py");
    std::fs::write(&script, SCRIPT)?;
    let mut command = Command::new("python3");
    command.arg(script).args(told).arg("--dir").arg(scratch).arg("--program").arg(program()?);
    // In a group of its own: Ctrl-C on a terminal is for this program alone, which then ends it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().context("python3")?);
    let (send, mut lines) = unbounded_channel();
    read(running.0.stdout.take(), send.clone(), Line::Out);
    read(running.0.stderr.take(), send, Line::Err);
    let bar = bar("limits")?;
    let (mut last, mut is_ending) = (String::new(), false);
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = stop.asked(), if !is_ending => {
                is_ending = true;
                running.end();
                continue;
            }
        };
        match line {
            Some(Line::Out(line)) if line.starts_with('{') => keep(serde_json::from_str(&line).context(line)?)?,
            // A table of other programs.
            Some(Line::Out(line)) => bar.suspend(|| println!("{line}")),
            Some(Line::Err(line)) if bar.is_hidden() => eprintln!("{line}"),
            Some(Line::Err(line)) if line.starts_with("limits: ") => bar.set_message(line),
            Some(Line::Err(line)) => last = line,
            None => break,
        }
    }
    bar.finish_and_clear();
    let status = tokio::task::spawn_blocking(move || running.0.wait()).await??;
    stop.go_on()?;
    match status.success() {
        true => Ok(()),
        false => bail!("{last}"),
    }
}

/// Sends all lines, from a thread of its own.
fn read(pipe: Option<impl Read + Send + 'static>, to: UnboundedSender<Line>, line: fn(String) -> Line) {
    let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
    std::thread::spawn(move || lines.map(line).all(|line| to.send(line).is_ok()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_script_hold() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("limits.py");
        let done = Command::new("python3").args(["-B", "-m", "doctest", "-v"]).arg(script).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success() && said.contains("\n0 failed") || said.contains(" passed.\n"), "{said}");
        assert!(!said.contains("\n0 passed"), "{said}");
    }
}
