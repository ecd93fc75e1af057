//! What is measured of a layout: the same operations on the same paths.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::data::{CAMERA, COVER, DAY, DAYS, FIRST_DAY, HOME, Tree, attributes};
use crate::layouts::{Layout, Period, Verdict};
use crate::measure::{Pace, measure};
use crate::report::model::Measured;

/// Files of a page, in a folder or of a time.
const PAGE: usize = 100;
/// Days of a period.
const PERIOD: i64 = 30;

/// An error if a change was not made that nothing stands in the way of.
fn done(verdict: Verdict, path: &str) -> Result<()> {
    ensure!(verdict == Verdict::Done, "{path}: {verdict:?}");
    Ok(())
}

/// Whoever measures.
pub struct Bench<L> {
    layout: L,
    tree: Arc<Tree>,
    pace: Pace,
    seed: u64,
    found: BTreeMap<String, Measured>,
}

impl<L: Layout> Bench<L> {
    pub fn new(layout: L, tree: Arc<Tree>, pace: Pace, seed: u64) -> Self {
        Self { layout, tree, pace, seed, found: BTreeMap::new() }
    }

    /// Reads first, while the tables are as they were loaded. `found` has what there is if it ends early.
    pub async fn all(mut self) -> (BTreeMap<String, Measured>, Result<()>) {
        let ended = async {
            self.reads().await?;
            self.lists().await?;
            self.queries().await?;
            self.changes().await?;
            self.moves().await
        };
        let ended = ended.await;
        (self.found, ended)
    }

    async fn time<T, F>(
        &mut self,
        name: &str,
        pace: Pace,
        items: impl IntoIterator<Item = T>,
        run: impl Fn(L, T) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let title = format!("{}: {}", L::NAME, name.replace('_', " "));
        let layout = &self.layout;
        let figures = measure(&title, &pace, items, |item| run(layout.clone(), item)).await?;
        self.found.insert(name.to_owned(), Measured::Figures(figures));
        Ok(())
    }

    /// Paths of files that the layout has room for, shuffled, again and again.
    fn paths(&self, turn: u64) -> impl Iterator<Item = String> + use<L> {
        let tree = self.tree.clone();
        let unique = L::NAMES_REPEAT;
        let files = tree.shuffled(self.seed ^ turn).into_iter().filter(move |file| unique || file.name != COVER);
        let paths: Vec<String> = files.map(|file| tree.path(file)).take(500_000).collect();
        paths.into_iter().cycle()
    }

    fn folders(&self) -> impl Iterator<Item = String> + use<L> {
        let folders: Vec<String> = self.tree.folders().into_iter().map(str::to_owned).collect();
        folders.into_iter().cycle()
    }

    async fn reads(&mut self) -> Result<()> {
        let (pace, paths) = (self.pace.clone(), self.paths(1));
        self.time("stat", pace, paths, |layout, path| async move {
            ensure!(layout.stat(&path).await?.is_some(), "{path} is missing");
            Ok(())
        })
        .await
    }

    async fn lists(&mut self) -> Result<()> {
        let pace = self.pace.clone();
        let folders = self.folders();
        self.time("list", pace.clone(), folders, |layout, path| async move {
            ensure!(layout.list(&path).await?.is_some(), "{path} is missing");
            Ok(())
        })
        .await?;
        let folders = self.folders();
        self.time("list_attributes", pace.clone(), folders, |layout, path| async move {
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
            self.time(name, pace.clone(), afters, |layout, after| async move {
                let page = layout.page(CAMERA, &after, PAGE).await?.unwrap_or_default();
                ensure!(!page.is_empty(), "{CAMERA} has no page after {after:?}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn queries(&mut self) -> Result<()> {
        let pace = self.pace.clone();
        let names = self.paths(2).map(|path| path.rsplit_once('/').map_or(String::new(), |(_, name)| name.to_owned()));
        let names = names.filter(|name| name != COVER);
        self.time("find_name", pace.clone(), names, |layout, name| async move {
            ensure!(layout.find(&name).await?.len() == 1, "{name} is not there once");
            Ok(())
        })
        .await?;
        self.periods("time_period", vec![String::new()]).await?;
        let years = (2000..2025).map(|year| format!("{HOME}/{year}"));
        self.periods("time_period_under", years.filter(|year| self.tree.dirs.contains(year)).collect()).await
    }

    /// Periods below these directories, again and again.
    async fn periods(&mut self, name: &str, under: Vec<String>) -> Result<()> {
        let asks = under.into_iter().cycle().enumerate().map(|(n, under)| {
            let from = FIRST_DAY + n as i64 * 37 % (DAYS - PERIOD) * DAY;
            Period { from, to: from + PERIOD * DAY, under, limit: PAGE }
        });
        let pace = self.pace.clone();
        self.time(name, pace, asks, |layout, period| async move {
            layout.period(&period).await?;
            Ok(())
        })
        .await
    }

    async fn changes(&mut self) -> Result<()> {
        let pace = self.pace.clone();
        let new = self.folders().enumerate().map(|(n, folder)| format!("{folder}/new-{n:08}.jpg"));
        self.time("create", pace.clone(), new, |layout, path| async move {
            done(layout.create(&path, &attributes(FIRST_DAY)).await?, &path)
        })
        .await?;
        if L::NAMES_REPEAT {
            let folders: Vec<String> = self.tree.folders().into_iter().map(str::to_owned).collect();
            let same = (0..)
                .flat_map(move |n| folders.clone().into_iter().map(move |folder| format!("{folder}/same-{n}.jpg")));
            self.time("create_same_name", pace.clone(), same, |layout, path| async move {
                done(layout.create(&path, &attributes(FIRST_DAY)).await?, &path)
            })
            .await?;
        } else {
            let unsupported = "the row key is the name: there is room for one file of a name in the whole drive".into();
            self.found.insert("create_same_name".into(), Measured::Unsupported { unsupported });
        }
        let paths = self.paths(3);
        self.time("overwrite", pace, paths, |layout, path| async move {
            done(layout.overwrite(&path, &attributes(FIRST_DAY + DAY)).await?, &path)
        })
        .await
    }

    async fn moves(&mut self) -> Result<()> {
        let pace = self.pace.clone();
        // Each once: a file that has moved is not where it was.
        let many = self.tree.files.len().min(200_000);
        // The largest folder stays whole, since it is renamed at last.
        let mut paths: Vec<String> = self.paths(4).take(many).filter(|path| !path.starts_with(CAMERA)).collect();
        paths.sort_unstable();
        paths.dedup();
        let deleted = paths.split_off(paths.len() / 2);
        self.time("move_file", pace.clone(), paths, |layout, path| async move {
            let to = format!("{HOME}/moved-{}", path.replace('/', "-"));
            done(layout.move_file(&path, &to).await?, &path)
        })
        .await?;
        self.time(
            "delete",
            pace.clone(),
            deleted,
            |layout, path| async move { done(layout.delete(&path).await?, &path) },
        )
        .await?;
        let names = [CAMERA.to_owned(), format!("{HOME}/renamed")];
        let turns = (0..10).map(move |n| {
            let [one, other] = names.clone();
            if n % 2 == 0 { (one, other) } else { (other, one) }
        });
        self.time("rename_folder", pace.one_at_a_time(), turns, |layout, (from, to)| async move {
            done(layout.rename_folder(&from, &to).await?, &from)
        })
        .await
    }
}
