//! A whole run: every part after the other, the report written anew after each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::data::Tree;
use crate::layout_run::{LayoutRun, Stage, clear};
use crate::layouts::postgres::Postgres;
use crate::machine;
use crate::measure::{Pace, bar};
use crate::options::{Instead, Options};
use crate::regions;
use crate::report;
use crate::report::model::{Meta, Report};
use crate::server::{http, limits, process};

/// A report that grows, and where it is written.
pub struct Run<'a> {
    options: &'a Options,
    /// Holds the stores; removed when it is dropped.
    scratch: tempfile::TempDir,
    start: Instant,
    report: Report,
    pace: Pace,
}

impl<'a> Run<'a> {
    /// Errors if there is no place for the stores or the report, before anything is measured.
    pub fn new(options: &'a Options, pace: Pace) -> Result<Self> {
        let scratch = options.scratch().context("there is no place for the stores: name one with --dir")?;
        room(scratch.path(), options.files())?;
        options.check()?;
        let meta = Meta {
            version: env!("CARGO_PKG_VERSION").into(),
            started: Timestamp::now().round(jiff::Unit::Second)?.to_string(),
            seed: options.seed,
            files: options.files().into(),
            clients: options.clients as usize,
            rounds: options.measures_layouts().then(|| options.rounds()),
            quick: options.quick,
            machine: machine::describe(scratch.path()),
            versions: versions(),
            ..Meta::default()
        };
        let run = Self { options, scratch, start: Instant::now(), report: Report { meta, ..Report::default() }, pace };
        report::write(&run.report, &options.out)?;
        Ok(run)
    }

    /// The report, and why it is not whole.
    pub async fn all(mut self) -> (Report, Result<()>) {
        let ended = self.parts().await;
        self.report.meta.complete = ended.is_ok();
        if let Err(error) = &ended {
            self.report.meta.notes.push(format!("{error:#}"));
        }
        let written = self.write();
        (self.report, ended.and(written))
    }

    async fn parts(&mut self) -> Result<()> {
        if let Some(url) = &self.options.postgres {
            Postgres::reach(url).await?;
        }
        if self.options.measures_layouts() {
            let title = bar("making the tree")?;
            let tree = Arc::new(Tree::new(self.options.files(), self.options.seed));
            title.finish_and_clear();
            self.report.meta.directories = tree.dirs.len() as u64;
            self.regions(&tree).await?;
            self.layouts(tree).await?;
        }
        self.http().await?;
        self.limits().await
    }

    async fn regions(&mut self, tree: &Arc<Tree>) -> Result<()> {
        self.pace.go_on()?;
        let title = bar("regions")?;
        let (tree, seed, told) = (tree.clone(), self.options.seed, title.clone());
        let counted = move || regions::all(&tree, seed, &|what| told.set_message(what.to_owned()));
        (self.report.regions, self.report.hot_spots) = tokio::task::spawn_blocking(counted).await??;
        title.finish_and_clear();
        self.write()
    }

    /// Loads every layout, and then measures all of them in each round, in another order each time, so that no layout
    /// always comes first.
    async fn layouts(&mut self, tree: Arc<Tree>) -> Result<()> {
        let stage = Stage {
            tree,
            folder: self.scratch.path().to_owned(),
            pace: self.pace.clone(),
            seed: self.options.seed,
            memory: self.options.memory,
            postgres: self.options.postgres.clone(),
        };
        let measured = self.rounds(&stage).await;
        let mut cleared = Ok(());
        for kind in self.options.layouts() {
            cleared = cleared.and(clear(&stage.folder.join(kind.name())));
        }
        if let Some(url) = &stage.postgres {
            cleared = cleared.and(Postgres::remove(url).await);
        }
        measured.and(cleared)
    }

    async fn rounds(&mut self, stage: &Stage) -> Result<()> {
        let mut layouts = Vec::new();
        for kind in self.options.layouts() {
            let layout = LayoutRun::load(kind, stage).await.with_context(|| format!("layout {}", kind.name()))?;
            self.add(&layout)?;
            layouts.push(layout);
        }
        let mut random = StdRng::seed_from_u64(self.options.seed);
        for number in 0..self.options.rounds() {
            eprintln!("round {} of {}", number + 1, self.options.rounds());
            layouts.shuffle(&mut random);
            for layout in &mut layouts {
                let measured = layout.round(stage, number).await;
                self.add(layout)?;
                measured.with_context(|| format!("layout {}", layout.name()))?;
            }
        }
        Ok(())
    }

    /// Writes down what is known of a layout.
    fn add(&mut self, layout: &LayoutRun) -> Result<()> {
        self.report.layouts.insert(layout.name().into(), layout.operations());
        self.report.costs.insert(layout.name().into(), layout.costs());
        self.write()
    }

    /// On a server of its own, or on the one that was named.
    async fn http(&mut self) -> Result<()> {
        self.pace.go_on()?;
        let Some(mut asked) = self.options.http() else { return Ok(()) };
        let data = self.scratch.path().join("http");
        let server = match &self.options.instead {
            Some(Instead::Http(_)) => None,
            _ => Some(process::Server::start(&data, self.options.memory)?),
        };
        if let Some(server) = &server {
            asked.url = server.url("/");
        }
        let stop = self.pace.stop.clone();
        let done = http::run(&asked, &stop, |run| {
            self.report.http.push(run);
            self.write()
        })
        .await;
        drop(server);
        clear(&data)?;
        self.pace.go_on()?;
        done
    }

    async fn limits(&mut self) -> Result<()> {
        let Some(asked) = self.options.limits() else { return Ok(()) };
        let (scratch, pace) = (self.scratch.path().to_owned(), self.pace.clone());
        limits::all(&asked, &scratch, &pace, |limit| {
            self.report.limits.push(limit);
            self.write()
        })
        .await
    }

    fn write(&mut self) -> Result<()> {
        self.report.meta.seconds = self.start.elapsed().as_secs_f64();
        report::write(&self.report, &self.options.out)
    }
}

/// An error if the disk has no room for all layouts and the copy of one, as far as can be foreseen.
fn room(folder: &Path, files: u32) -> Result<()> {
    const BYTES_A_FILE: u64 = 4_000;
    let free = rustix::fs::statvfs(folder).map(|disk| disk.f_bavail * disk.f_frsize)?;
    let needed = u64::from(files) * BYTES_A_FILE + (4 << 30);
    anyhow::ensure!(
        free >= needed,
        "{} has {} MiB left and a run of {files} files may take {}: make room, or name another folder with --dir",
        folder.display(),
        free >> 20,
        needed >> 20,
    );
    Ok(())
}

fn versions() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("rowdrive".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("sqlite".to_owned(), rusqlite::version().to_owned()),
    ])
}
