//! A whole run: every part after the other, the report written anew after each.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use procfs::{Current, Meminfo};

use crate::comparison;
use crate::comparison::loops::slow;
use crate::data::Tree;
use crate::limits::{self, Found};
use crate::machine;
use crate::options::{Options, SCRATCH};
use crate::progress::{Stop, bar, say};
use crate::regions;
use crate::report::folder::{Folder, try_lock};
use crate::report::model::{Meta, Report};

/// A report that grows, and where it is written.
pub struct Run<'a> {
    options: &'a Options,
    /// Holds the stores; removed when it is dropped.
    scratch: tempfile::TempDir,
    /// Its lock shows other runs that this one goes on.
    _stores: File,
    out: Folder,
    start: Instant,
    report: Report,
    stop: Stop,
}

impl<'a> Run<'a> {
    /// Fails before anything is measured: without room, without a program, or if the report cannot be written there.
    pub fn new(options: &'a Options, scratch: tempfile::TempDir, stop: Stop) -> Result<Self> {
        let stores = File::open(scratch.path())?;
        stores.lock()?;
        tell_of_others(scratch.path());
        room(scratch.path(), options)?;
        if let Some(args) = options.script_arguments() {
            limits::check(scratch.path(), &args)?;
        }
        let layouts = options.comparison(scratch.path());
        let meta = Meta {
            version: env!("CARGO_PKG_VERSION").into(),
            started: Timestamp::now().round(jiff::Unit::Second)?.to_string(),
            seed: options.seed,
            files: options.files().into(),
            clients: layouts.as_ref().map(|of| of.clients),
            rounds: layouts.as_ref().map(|of| of.rounds),
            quick: options.quick,
            machine: machine::describe(scratch.path()),
            versions: machine::versions()?,
            ..Meta::default()
        };
        let out = Folder::lock(&options.out)?;
        if machine::file_system(scratch.path()).as_deref() == Some("tmpfs") {
            say("The stores are in memory (tmpfs), where a sync costs nothing: name a folder on a disk with --dir.");
        }
        let (start, report) = (Instant::now(), Report { meta, ..Report::default() });
        Ok(Self { options, scratch, _stores: stores, out, start, report, stop })
    }

    /// The report, none if nothing was measured; its folder, none if it is not written; and why it is not whole.
    pub async fn run_to_end(mut self) -> (Option<Report>, Option<PathBuf>, Result<()>) {
        let ended = self.parts().await;
        self.report.meta.complete = ended.is_ok();
        if let Err(error) = &ended {
            self.report.meta.notes.push(format!("{error:#}"));
        }
        let is_begun = ended.is_ok() || self.report.meta.seconds > 0.0;
        let written = if is_begun { write(&mut self.report, self.start, &mut self.out) } else { Ok(()) };
        (is_begun.then_some(self.report), written.is_ok().then(|| self.out.path()), ended.and(written))
    }

    async fn parts(&mut self) -> Result<()> {
        if let Some(layouts) = self.options.comparison(self.scratch.path()) {
            let title = bar("making the tree")?;
            let tree = Arc::new(Tree::new(self.options.files(), self.options.seed));
            title.finish_and_clear();
            self.report.meta.directories = Some(tree.dirs.len() as u64);
            self.regions(layouts.kinds.iter().map(|kind| kind.name()).collect()).await?;
            self.layouts(&layouts, tree).await?;
        }
        self.limits().await
    }

    async fn regions(&mut self, asked: Vec<String>) -> Result<()> {
        self.stop.check()?;
        let title = bar("hot spots")?;
        let (files, seed) = (self.options.files(), self.options.seed);
        let counted = move || regions::simulate(files, seed, |layout| asked.iter().any(|asked| asked == layout));
        (self.report.regions, self.report.hot_spots) = tokio::task::spawn_blocking(counted).await??;
        title.finish_and_clear();
        if self.report.hot_spots.is_empty() { Ok(()) } else { write(&mut self.report, self.start, &mut self.out) }
    }

    async fn layouts(&mut self, options: &comparison::Options, tree: Arc<Tree>) -> Result<()> {
        self.report.meta.settings = settings(options);
        let (out, start) = (&mut self.out, self.start);
        let mut keep = |report: &mut Report| write(report, start, out);
        comparison::run(options, tree, &self.stop, &mut self.report, &mut keep).await
    }

    async fn limits(&mut self) -> Result<()> {
        self.stop.check()?;
        let Some(args) = self.options.script_arguments() else { return Ok(()) };
        let (scratch, stop) = (self.scratch.path().to_owned(), self.stop.clone());
        limits::run(&scratch, &args, &stop, |found| {
            match found {
                Found::Http(run) => self.report.http.push(run),
                Found::Limit(limit) => self.report.limits.push(limit),
            }
            write(&mut self.report, self.start, &mut self.out)
        })
        .await
    }
}

fn write(report: &mut Report, start: Instant, out: &mut Folder) -> Result<()> {
    report.meta.seconds = start.elapsed().as_secs_f64();
    if let Some(earlier) = out.write(report)? {
        say(format_args!("the report of an earlier run is now in {}", earlier.display()));
    }
    Ok(())
}

/// Names the folders of stores beside this one that no run has locked: those of runs that were killed. They take room.
fn tell_of_others(scratch: &Path) {
    for other in scratch.parent().and_then(|dir| dir.read_dir().ok()).into_iter().flatten().flatten() {
        let is_folder = other.file_type().is_ok_and(|of| of.is_dir());
        if is_folder && other.file_name().to_string_lossy().starts_with(SCRATCH) && try_lock(&other.path()).is_ok() {
            say(format_args!("{} is of a killed run, and unused: remove it", other.path().display()));
        }
    }
}

/// An error if the disk has no room for all layouts and their copies, or the memory none for what they keep in it, as far
/// as can be foreseen.
fn room(folder: &Path, options: &Options) -> Result<()> {
    const BYTES_A_FILE: u64 = 500;
    /// Twice 4 KiB, as a file and in the drive, with what the file systems and the store add.
    const BYTES_WITH_CONTENT: u64 = 12_000;
    let layouts = options.comparison(folder).map_or(1, |of| of.kinds.len() as u64);
    let files = u64::from(options.files());
    let cached = (files * BYTES_A_FILE * 2).min(options.memory as u64);
    let with_content = options.script_arguments().map_or(0, |_| BYTES_WITH_CONTENT);
    let memory = Meminfo::current()?.mem_available.unwrap_or(u64::MAX);
    let disk = comparison::free_space(folder)?;
    for (what, free, needed, instead) in [
        ("memory", memory, cached * layouts + files * BYTES_A_FILE, "give less --memory, or fewer --layouts"),
        ("disk space", disk, files * (layouts * BYTES_A_FILE + with_content) + (4 << 30), "name another --dir"),
    ] {
        let [has, takes] = [free, needed].map(|bytes| bytes >> 20);
        let why = format!("{has} MiB of {what} are free and a run of {files} files may take {takes}: {instead}");
        ensure!(free >= needed, why);
    }
    Ok(())
}

/// How the layouts are measured, as far as it differs from run to run.
fn settings(options: &comparison::Options) -> BTreeMap<String, String> {
    let (ms, clients, slow) = (options.loop_length.as_millis(), options.clients, slow(options.loop_length));
    let set_rate = match options.at_rate_length.as_millis() {
        0 => "not measured in a quick run".to_owned(),
        ms => format!("{ms} ms; requests begin each millisecond"),
    };
    let [memory, half, four] = [options.memory >> 20, ms as usize / 2, ms as usize * 4];
    [
        ("memory of each store", format!("{memory} MiB, with the write buffers")),
        ("a loop", format!("{ms} ms with one client and with {clients}, after {half} ms that are not counted")),
        ("before the first loop", format!("each store is read whole; {four} ms of stats with {clients} clients")),
        ("a slow request", format!("takes longer than {slow:?}: one client sends it, for one loop")),
        ("a set rate", set_rate),
    ]
    .map(|(name, setting)| (name.to_owned(), setting))
    .into()
}
