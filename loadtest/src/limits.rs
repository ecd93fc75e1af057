//! The server under load, and beside what its machine can do. A Python script measures both: this runs it, and takes each
//! result as soon as it is known.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::progress::{Stop, bar, say};
use crate::report::model::{HttpRun, Limit};

/// A result, as the script prints it.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Found {
    Http(HttpRun),
    Limit(Limit),
}

/// Writes the script into a folder. Returns the command that runs it for the server that lies beside this program.
fn script(folder: &Path, args: &[String]) -> Result<Command> {
    let path = folder.join("limits.py");
    std::fs::write(&path, include_str!("../limits.py"))?;
    let mut command = Command::new("python3");
    command.arg(path).args(args).arg("--with-parent").arg("--dir").arg(folder);
    command.arg("--program").arg(std::env::current_exe()?.with_file_name("rowdrive"));
    // In a group of its own: Ctrl-C on a terminal is for this program alone, which then ends the script.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// An error if a program is missing that the script calls.
pub fn check(folder: &Path, args: &[String]) -> Result<()> {
    let python = "python3 is missing: `apt-get install python3`; only `loadtest layouts` needs no such program";
    let done = script(folder, args)?.arg("--check").output().context(python)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr).trim_end());
    Ok(())
}

struct Running(Child);

impl Running {
    /// Asks it to stop what it has started.
    fn end(&self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.end();
            let _ = self.0.wait();
        }
    }
}

/// Runs the script until it ends, or the user asks for that. `keep` is given each result.
pub async fn run(folder: &Path, args: &[String], stop: &Stop, mut keep: impl FnMut(Found) -> Result<()>) -> Result<()> {
    let mut running = Running(script(folder, args)?.spawn()?);
    let (send, mut lines) = unbounded_channel();
    read(running.0.stdout.take(), send.clone(), Ok);
    read(running.0.stderr.take(), send, Err);
    let (bar, mut is_ending, mut why) = (bar("limits")?, false, String::new());
    loop {
        tokio::select! {
            () = stop.asked(), if !is_ending => {
                is_ending = true;
                running.end();
            }
            line = lines.recv() => match line {
                Some(Ok(found)) if found.starts_with('{') => keep(serde_json::from_str(&found).context(found)?)?,
                // A table of other programs.
                Some(Ok(table)) => bar.suspend(|| drop(writeln!(std::io::stdout(), "{table}"))),
                Some(Err(progress)) if progress.starts_with("limits: ") && !bar.is_hidden() => bar.set_message(progress),
                Some(Err(said)) => {
                    bar.suspend(|| say(&said));
                    why = if said.starts_with("limits: ") { why } else { said };
                }
                None => break,
            },
        }
    }
    bar.finish_and_clear();
    stop.check()?;
    let status = running.0.wait()?;
    ensure!(status.success(), "{}", if why.is_empty() { format!("limits.py: {status}") } else { why });
    Ok(())
}

/// Sends the lines of a pipe, from a thread.
fn read<T: Send + 'static>(pipe: Option<impl Read + Send + 'static>, to: UnboundedSender<T>, line: fn(String) -> T) {
    let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
    std::thread::spawn(move || lines.map(line).all(|line| to.send(line).is_ok()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_in_the_script_hold() {
        let python = ["-B", "-m", "doctest", "-v", concat!(env!("CARGO_MANIFEST_DIR"), "/limits.py")];
        let done = Command::new("python3").args(python).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success() && said.contains("items passed all tests"), "{said}");
    }
}
