//! What is measured of a layout: the same operations on the same paths.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::data::{CAMERA, COVER, DAY, DAYS, FIRST_DAY, HOME, Tree, attributes};
use crate::layouts::{Layout, Period, Verdict};
use crate::measure::{Pace, Round, measure};
use crate::report::model::Measured;
use crate::summary::figures;
use crate::work::Meter;

/// Files of a page, in a folder or of a time.
const PAGE: usize = 100;
/// Days of a period.
const PERIOD: i64 = 30;

/// An error if a change was not made that nothing stands in the way of.
fn done(verdict: Verdict, path: &str) -> Result<()> {
    ensure!(verdict == Verdict::Done, "{path}: {verdict:?}");
    Ok(())
}

/// The rounds of each operation of a layout, by name.
#[derive(Default)]
pub struct Samples {
    rounds: BTreeMap<&'static str, Vec<Round>>,
    unsupported: BTreeMap<&'static str, &'static str>,
}

impl Samples {
    pub fn operations(&self) -> BTreeMap<String, Measured> {
        let rounds = self.rounds.iter().map(|(name, rounds)| (*name, Measured::Figures(Box::new(figures(rounds)))));
        let unsupported =
            self.unsupported.iter().map(|(name, why)| (*name, Measured::Unsupported { unsupported: (*why).into() }));
        rounds.chain(unsupported).map(|(name, measured)| (name.to_owned(), measured)).collect()
    }
}

/// Measures one round of all operations.
pub struct Bench<'a, L> {
    layout: L,
    tree: Arc<Tree>,
    pace: Pace,
    meter: Meter,
    /// Of this round: it decides which files and folders are used, and in which order.
    seed: u64,
    samples: &'a mut Samples,
}

impl<'a, L: Layout> Bench<'a, L> {
    pub fn new(layout: L, (tree, pace, meter): (Arc<Tree>, Pace, Meter), seed: u64, samples: &'a mut Samples) -> Self {
        Self { layout, tree, pace, meter, seed, samples }
    }

    /// Reads first, while the tables are as they were loaded. The samples have what there is if it ends early.
    pub async fn all(mut self) -> Result<()> {
        self.stat().await?;
        self.lists().await?;
        self.queries().await?;
        self.changes().await?;
        self.moves().await
    }

    async fn time<T, F>(
        &mut self,
        name: &'static str,
        items: impl Iterator<Item = T> + Send + 'static,
        run: impl Fn(L, T) -> F + Send + Sync + 'static,
    ) -> Result<()>
    where
        T: Send + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.time_with(name, self.pace.clone(), items, run).await
    }

    async fn time_with<T, F>(
        &mut self,
        name: &'static str,
        pace: Pace,
        items: impl Iterator<Item = T> + Send + 'static,
        run: impl Fn(L, T) -> F + Send + Sync + 'static,
    ) -> Result<()>
    where
        T: Send + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let title = format!("{}: {}", L::NAME, name.replace('_', " "));
        let layout = self.layout.clone();
        let first = self.samples.rounds.get(name).and_then(|rounds| rounds.first());
        let is_slow = first.map(|round| round.many.is_none());
        let round = measure(&title, &pace, &self.meter, is_slow, items, move |item| run(layout.clone(), item)).await?;
        self.samples.rounds.entry(name).or_default().push(round);
        Ok(())
    }

    /// Paths of files that the layout has room for, shuffled, again and again.
    fn paths(&self, turn: u64) -> impl Iterator<Item = String> + Send + use<L> {
        let tree = self.tree.clone();
        let unique = L::NAMES_REPEAT;
        let files = tree.shuffled(self.seed ^ turn).into_iter().filter(move |file| unique || file.name != COVER);
        let paths: Vec<String> = files.map(|file| tree.path(file)).take(500_000).collect();
        paths.into_iter().cycle()
    }

    fn folders(&self) -> impl Iterator<Item = String> + Send + use<L> {
        let folders: Vec<String> = self.tree.shuffled_folders(self.seed).into_iter().map(str::to_owned).collect();
        folders.into_iter().cycle()
    }

    async fn stat(&mut self) -> Result<()> {
        let paths = self.paths(1);
        self.time("stat", paths, |layout, path| async move {
            ensure!(layout.stat(&path).await?.is_some(), "{path} is missing");
            Ok(())
        })
        .await
    }

    async fn lists(&mut self) -> Result<()> {
        let folders = self.folders();
        self.time("list", folders, |layout, path| async move {
            ensure!(layout.list(&path).await?.is_some(), "{path} is missing");
            Ok(())
        })
        .await?;
        let folders = self.folders();
        self.time("list_attributes", folders, |layout, path| async move {
            ensure!(layout.list_attributes(&path).await?.is_some(), "{path} is missing");
            Ok(())
        })
        .await?;
        let tree = self.tree.clone();
        let camera: Vec<&str> =
            tree.files.iter().filter(|file| tree.dir(file) == CAMERA).map(|file| file.name.as_str()).collect();
        for (name, at) in [("list_page_first", 0), ("list_page_deep", camera.len() * 9 / 10)] {
            let after = if at == 0 { "" } else { camera.get(at).copied().unwrap_or_default() };
            let afters = std::iter::repeat(after.to_owned());
            self.time(name, afters, |layout, after| async move {
                let page = layout.page(CAMERA, &after, PAGE).await?.unwrap_or_default();
                ensure!(!page.is_empty(), "{CAMERA} has no page after {after:?}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn queries(&mut self) -> Result<()> {
        let names = self.paths(2).map(|path| path.rsplit_once('/').map_or(String::new(), |(_, name)| name.to_owned()));
        let names = names.filter(|name| name != COVER);
        self.time("find_name", names, |layout, name| async move {
            ensure!(layout.find(&name).await?.len() == 1, "{name} is not there once");
            Ok(())
        })
        .await?;
        self.periods("time_period", vec![String::new()]).await?;
        let years = (2000..2025).map(|year| format!("{HOME}/{year}"));
        self.periods("time_period_under", years.filter(|year| self.tree.dirs.contains(year)).collect()).await
    }

    /// Periods below these directories, again and again; other periods in each round.
    async fn periods(&mut self, name: &'static str, under: Vec<String>) -> Result<()> {
        let first = (self.seed >> 32) as usize * 11;
        let asks = under.into_iter().cycle().enumerate().map(move |(n, under)| {
            let from = FIRST_DAY + (first + n) as i64 * 37 % (DAYS - PERIOD) * DAY;
            Period { from, to: from + PERIOD * DAY, under, limit: PAGE }
        });
        self.time(name, asks, |layout, period| async move {
            layout.period(&period).await?;
            Ok(())
        })
        .await
    }

    async fn changes(&mut self) -> Result<()> {
        let new = self.folders().enumerate().map(|(n, folder)| format!("{folder}/new-{n:08}.jpg"));
        self.time("create", new, |layout, path| async move {
            done(layout.create(&path, &attributes(FIRST_DAY)).await?, &path)
        })
        .await?;
        if L::NAMES_REPEAT {
            let folders = self.tree.folders().len().max(1);
            let same = self.folders().enumerate().map(move |(n, folder)| format!("{folder}/same-{}.jpg", n / folders));
            self.time("create_same_name", same, |layout, path| async move {
                done(layout.create(&path, &attributes(FIRST_DAY)).await?, &path)
            })
            .await?;
        } else {
            let why = "the row key is the name: there is room for one file of a name in the whole drive";
            self.samples.unsupported.insert("create_same_name", why);
        }
        let paths = self.paths(3);
        self.time("overwrite", paths, |layout, path| async move {
            done(layout.overwrite(&path, &attributes(FIRST_DAY + DAY)).await?, &path)
        })
        .await
    }

    async fn moves(&mut self) -> Result<()> {
        // Each once: a file that has moved is not where it was. The largest folder stays whole, since it is renamed at
        // last.
        let many = self.tree.files.len().min(200_000);
        let mut moved: Vec<String> = self.paths(4).take(many).filter(|path| !path.starts_with(CAMERA)).collect();
        let mut seen = HashSet::new();
        moved.retain(|path| seen.insert(path.clone()));
        let deleted = moved.split_off(moved.len() / 2);
        self.time("move_file", moved.into_iter(), |layout, path| async move {
            let to = format!("{HOME}/moved-{}", path.replace('/', "-"));
            done(layout.move_file(&path, &to).await?, &path)
        })
        .await?;
        self.time(
            "delete",
            deleted.into_iter(),
            |layout, path| async move { done(layout.delete(&path).await?, &path) },
        )
        .await?;
        // One folder cannot be renamed by two clients at a time.
        let names = [CAMERA.to_owned(), format!("{HOME}/renamed")];
        let turns = (0..).map(move |n| {
            let [one, other] = names.clone();
            if n % 2 == 0 { (one, other) } else { (other, one) }
        });
        self.time_with("rename_folder", self.pace.alone(), turns, |layout, (from, to)| async move {
            done(layout.rename_folder(&from, &to).await?, &from)
        })
        .await
    }
}
