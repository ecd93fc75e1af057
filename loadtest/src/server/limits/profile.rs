//! Tools that look into a process while it works, where they are installed: `perf` samples where the time goes that a
//! missed goal takes, for a flame graph (Brendan Gregg, "The Flame Graph", Communications of the ACM 59, 2016), and
//! `strace` counts system calls.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph;
use rustix::process::{Pid, Signal, kill_process};

use crate::progress::bar;
use crate::server::Limit;

/// What a tool needs to begin.
const BEGIN: Duration = Duration::from_millis(300);
/// Samples a second of each core: no divisor of what else goes by the clock.
const FREQUENCY: &str = "499";
/// Whole stacks: the compiler keeps no frame pointers.
const STACKS: &str = "dwarf,16384";

/// Samples a process while it works, if any of these goals is missed, and names the flame graph in those: `work` is what
/// they measure, once more. If there is none, they say why. `report`: its folder, if flame graphs are wanted. That of an
/// earlier run is removed.
pub async fn profile<T>(
    report: Option<&Path>,
    rows: &mut [Limit],
    process: u32,
    work: impl Future<Output = Result<T>>,
) -> Result<()> {
    let (Some(report), Some(first)) = (report, rows.first()) else { return Ok(()) };
    let title = first.operation.clone();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let file = format!("profiles/{}.svg", words.collect::<Vec<_>>().join("-").to_ascii_lowercase());
    let path = report.join(&file);
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    if rows.iter().all(|row| row.met) {
        return Ok(());
    }
    let bar = bar(&format!("limits: profile of {title}"))?;
    let drawn = sampled(process, title, path, work).await;
    bar.finish_and_clear();
    for row in rows.iter_mut().filter(|row| !row.met) {
        match &drawn {
            Ok(()) => row.profile = Some(file.clone()),
            Err(why) => {
                let notes = row.note.take().into_iter().chain([format!("no profile: {why:#}")]);
                row.note = Some(notes.collect::<Vec<_>>().join("; "));
            }
        }
    }
    Ok(())
}

async fn sampled<T>(process: u32, title: String, path: PathBuf, work: impl Future<Output = Result<T>>) -> Result<()> {
    let samples = tempfile::NamedTempFile::new()?;
    let mut perf = Command::new("perf");
    perf.args(["record", "--freq", FREQUENCY, "--call-graph", STACKS, "--pid", &process.to_string(), "--output"]);
    let (output, _) = beside(perf.arg(samples.path()), work).await?.context("perf is not installed")?;
    if samples.as_file().metadata()?.len() == 0 {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(said.trim().lines().next().unwrap_or("perf has no samples").to_owned());
    }
    tokio::task::spawn_blocking(move || draw(samples.path(), title, &path)).await?
}

fn draw(samples: &Path, title: String, path: &Path) -> Result<()> {
    let mut perf = Command::new("perf");
    // Inlined functions are left out: to look each of them up takes minutes.
    perf.args(["script", "--force", "--no-inline", "--input"]).arg(samples);
    let mut script = perf.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("perf script")?;
    let lines = BufReader::new(script.stdout.take().context("perf script has no output")?);
    let mut folded = Vec::new();
    Folder::default().collapse(lines, &mut folded).context("the samples cannot be read")?;
    ensure!(script.wait()?.success(), "perf script failed");
    std::fs::create_dir_all(path.parent().context("no folder")?)?;
    let mut file = BufWriter::new(File::create(path)?);
    let mut options = flamegraph::Options::default();
    options.title = title;
    flamegraph::from_reader(&mut options, folded.as_slice(), &mut file).context("the flame graph cannot be drawn")?;
    Ok(file.flush()?)
}

/// The system calls of a process while it works; none where there is no strace.
pub async fn system_calls<T>(process: u32, work: impl Future<Output = Result<T>>) -> Result<Option<(u64, T)>> {
    let mut strace = Command::new("strace");
    strace.args(["--follow-forks", "--summary-only", "--attach", &process.to_string()]);
    let Some((output, done)) = beside(&mut strace, work).await? else { return Ok(None) };
    Ok(total(&String::from_utf8_lossy(&output.stderr)).map(|calls| (calls, done)))
}

/// The calls in the last line of strace's summary, as `100.00    0.1    3    4242    17 total`.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().rfind(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Runs a tool from a moment before some work until it is done, and then interrupts it: what both have given. Nothing,
/// and no work is done, where there is no such tool.
async fn beside<T>(tool: &mut Command, work: impl Future<Output = Result<T>>) -> Result<Option<(Output, T)>> {
    let Ok(child) = tool.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn() else {
        return Ok(None);
    };
    tokio::time::sleep(BEGIN).await;
    let done = work.await;
    kill_process(Pid::from_child(&child), Signal::INT)?;
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
    Ok(Some((output, done?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(met: bool) -> Limit {
        Limit { operation: "stat, 32 clients (a)".into(), met, ..Limit::default() }
    }

    #[tokio::test]
    async fn a_missed_goal_has_a_flame_graph_or_says_why_not_and_a_met_one_loses_it() {
        let report = tempfile::tempdir().unwrap();
        let path = report.path().join("profiles/stat-32-clients-a.svg");
        let mut rows = [row(false), row(true)];
        let busy = async {
            let busy = tokio::task::spawn_blocking(|| (0..200_000_000_u64).fold(1, |a: u64, b| a.wrapping_mul(b | 1)));
            Ok(std::hint::black_box(busy.await?))
        };
        profile(Some(report.path()), &mut rows, std::process::id(), busy).await.unwrap();
        match (&rows[0].profile, &rows[0].note) {
            (Some(file), None) => {
                assert_eq!(report.path().join(file), path);
                let drawn = std::fs::read_to_string(&path).unwrap();
                assert!(drawn.contains("stat, 32 clients (a)") && drawn.contains("samples"), "{drawn}");
            }
            (None, Some(why)) => assert!(why.starts_with("no profile: "), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!((&rows[1].profile, &rows[1].note), (&None, &None));
        let never = async { anyhow::bail!("not to be run") as Result<()> };
        profile(Some(report.path()), &mut [row(true)], std::process::id(), never).await.unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn the_calls_are_those_of_the_last_line() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       60.00    0.400000           4    100000           sendto\n\
                       100.00    0.700000           3    210000       120 total\n";
        assert_eq!((total(summary), total("strace: attach: no")), (Some(210_000), None));
    }
}
