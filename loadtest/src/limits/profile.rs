//! Where the time goes that a missed goal takes: samples of `perf` as a flame graph (Brendan Gregg, "The Flame Graph",
//! Communications of the ACM 59, 2016).

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph;

use super::beside::beside;
use crate::progress::bar;
use crate::report::model::Limit;

/// Samples a second of each core: no divisor of what else goes by the clock.
const FREQUENCY: &str = "499";
/// Whole stacks: the compiler keeps no frame pointers.
const STACKS: &str = "dwarf,16384";
/// The folder of the report that they are in.
const FOLDER: &str = "profiles";

/// Makes flame graphs, if they are wanted.
pub struct Profiles {
    /// The folder of the report.
    report: Option<PathBuf>,
}

impl Profiles {
    pub fn new(report: Option<PathBuf>) -> Self {
        Self { report }
    }

    /// Samples a process while it works, if any of these goals is missed, and says in those where the flame graph is:
    /// `work` is what they measure, once more. Without `perf`, or if it may not look, they say so. What an earlier run
    /// has left of a goal that is met now is removed.
    pub async fn add<T>(
        &self,
        limits: &mut [Limit],
        process: u32,
        work: impl Future<Output = Result<T>>,
    ) -> Result<()> {
        let (Some(report), Some(first)) = (&self.report, limits.first()) else { return Ok(()) };
        let file = format!("{FOLDER}/{}.svg", slug(&first.operation));
        let path = report.join(&file);
        if limits.iter().all(|limit| limit.met) {
            return if path.exists() { Ok(std::fs::remove_file(path)?) } else { Ok(()) };
        }
        let title = first.operation.clone();
        let bar = bar(&format!("limits: profile of {title}"))?;
        let drawn = sampled(process, title, &path, work).await?;
        bar.finish_and_clear();
        for limit in limits.iter_mut().filter(|limit| !limit.met) {
            match &drawn {
                Ok(()) => limit.profile = Some(file.clone()),
                Err(why) => {
                    let notes = limit.note.take().into_iter().chain([format!("no profile: {why:#}")]);
                    limit.note = Some(notes.collect::<Vec<_>>().join("; "));
                }
            }
        }
        Ok(())
    }
}

/// The outer error is the work's, the inner one says why there is no flame graph of it.
async fn sampled<T>(
    process: u32,
    title: String,
    path: &Path,
    work: impl Future<Output = Result<T>>,
) -> Result<Result<()>> {
    let samples = tempfile::NamedTempFile::new()?;
    let mut perf = Command::new("perf");
    perf.args(["record", "--freq", FREQUENCY, "--call-graph", STACKS, "--pid", &process.to_string(), "--output"]);
    let Some((told, _)) = beside(perf.arg(samples.path()), work).await? else {
        return Ok(Err(anyhow::anyhow!("perf is not installed")));
    };
    if samples.as_file().metadata()?.len() == 0 {
        let said = String::from_utf8_lossy(&told.stderr);
        let why = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("perf has no samples").to_owned();
        return Ok(Err(anyhow::anyhow!(why)));
    }
    let path = path.to_owned();
    Ok(tokio::task::spawn_blocking(move || draw(samples.path(), title, &path)).await?)
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

/// As `upload-4-kib-durable-32-clients`.
fn slug(operation: &str) -> String {
    let words = operation.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(met: bool) -> Limit {
        Limit { operation: "stat, 32 clients (a)".into(), met, ..Limit::default() }
    }

    #[tokio::test]
    async fn goals_that_are_met_are_not_sampled_and_lose_their_old_profile() {
        let report = tempfile::tempdir().unwrap();
        let old = report.path().join("profiles/stat-32-clients-a.svg");
        std::fs::create_dir_all(old.parent().unwrap()).unwrap();
        std::fs::write(&old, "old").unwrap();
        let mut limits = [limit(true)];
        let never = async { anyhow::bail!("not to be run") as Result<()> };
        let profiles = Profiles::new(Some(report.path().to_owned()));
        profiles.add(&mut limits, std::process::id(), never).await.unwrap();
        assert_eq!((old.exists(), &limits[0].profile), (false, &None));
    }

    #[tokio::test]
    async fn a_missed_goal_has_a_flame_graph_or_says_why_not() {
        let report = tempfile::tempdir().unwrap();
        let mut limits = [limit(false), limit(true)];
        let busy = async {
            let busy = tokio::task::spawn_blocking(|| (0..200_000_000_u64).fold(1, |a: u64, b| a.wrapping_mul(b | 1)));
            Ok(std::hint::black_box(busy.await?))
        };
        let profiles = Profiles::new(Some(report.path().to_owned()));
        profiles.add(&mut limits, std::process::id(), busy).await.unwrap();
        match (&limits[0].profile, &limits[0].note) {
            (Some(file), None) => {
                let drawn = std::fs::read_to_string(report.path().join(file)).unwrap();
                assert!(drawn.contains("stat, 32 clients (a)") && drawn.contains("samples"), "{drawn}");
            }
            (None, Some(why)) => assert!(why.starts_with("no profile: "), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!((&limits[1].profile, &limits[1].note), (&None, &None));
    }
}
