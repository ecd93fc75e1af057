//! One run: the same tree into each layout, each operation measured, the writes' regions counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use bytes::Bytes;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::{Attributes, Digest, Location};
use rowdrive::table::Tables;

use crate::Options;
use crate::data::{CONTENT, DAY, DAYS, FIRST_DAY, File, Tree};
use crate::measure::{Figures, measure};
use crate::naive::Naive;
use crate::regions::hottest_share;
use crate::uuid_layout::UuidLayout;

/// Files of a time page.
const TIME_PAGE: usize = 100;

/// What was measured of one layout.
pub struct Results {
    pub layout: &'static str,
    pub operations: Vec<(&'static str, Figures)>,
    /// By table.
    pub hottest: BTreeMap<&'static str, f64>,
}

/// How often each operation runs.
struct Counts {
    stats: usize,
    lists: usize,
    naive_times: usize,
    uuid_times: usize,
}

pub async fn all(options: &Options) -> anyhow::Result<Vec<Results>> {
    let tree = Arc::new(Tree::new(options.size, options.seed));
    let at_a_time = options.clients as usize;
    let counts = Counts { stats: tree.files.len(), lists: 2_000, naive_times: 5, uuid_times: 2_000 };
    let scratch = options.scratch()?;
    let naive = naive(&tree, at_a_time, &counts, scratch.path(), options.seed).await?;
    let uuid = uuid(&tree, at_a_time, &counts, scratch.path(), options.seed).await?;
    Ok(vec![naive, uuid])
}

fn attributes(file: &File) -> Attributes {
    Attributes {
        size: CONTENT as u64,
        mime: "image/jpeg".into(),
        creator: "loadtest".into(),
        modified: Timestamp::from_ms(file.modified),
        added: Timestamp::from_ms(file.modified),
        digest: Digest(std::array::from_fn(|i| file.name.as_bytes().get(i).copied().unwrap_or(7))),
        location: Location::Inline,
    }
}

/// Content that does not compress, the same for every file: only its size matters here.
fn content() -> Bytes {
    (0..CONTENT).map(|i| ((i * 2_654_435_761) >> 7) as u8).collect::<Vec<u8>>().into()
}

/// Start of each period of 30 days to ask for.
fn periods(count: usize) -> Vec<i64> {
    (0..count as i64).map(|n| FIRST_DAY + n * 37 % (DAYS - 30) * DAY).collect()
}

fn picked(tree: &Tree, count: usize, seed: u64) -> Vec<String> {
    let picks = tree.picks(count, seed);
    picks.into_iter().filter_map(|at| tree.files.get(at)).map(|file| tree.path(file)).collect()
}

fn folders(tree: &Tree, count: usize) -> Vec<String> {
    tree.folders().into_iter().map(str::to_owned).cycle().take(count).collect()
}

/// Paths, attributes and content of all files, in the order of the import.
fn uploads(tree: &Tree) -> Vec<(String, Attributes)> {
    tree.files.iter().map(|file| (tree.path(file), attributes(file))).collect()
}

async fn naive(tree: &Tree, at_a_time: usize, counts: &Counts, dir: &Path, seed: u64) -> anyhow::Result<Results> {
    let store = Rocks::open(&dir.join("naive"), RocksOptions::default())?;
    let layout = Naive::create(Tables::new(Arc::new(store))).await?;
    for dir in &tree.dirs {
        layout.mkdir(dir.clone()).await?;
    }
    let content = content();
    let l = &layout;
    let create = measure("naive: create", at_a_time, uploads(tree), |(path, attributes)| {
        let (l, content) = (l.clone(), content.clone());
        async move { l.create_file(path, attributes, content).await }
    });
    let create = create.await?;
    let stat = measure("naive: stat", at_a_time, picked(tree, counts.stats, seed), |path| {
        let l = l.clone();
        async move { l.stat(path).await.map(|_| ()) }
    });
    let stat = stat.await?;
    let mut lists = Vec::new();
    for (title, attributes) in [("naive: list", false), ("naive: list with attributes", true)] {
        let list = measure(title, at_a_time, folders(tree, counts.lists), |path| {
            let l = l.clone();
            async move {
                l.list(path, attributes).await?;
                Ok(())
            }
        });
        lists.push(list.await?);
    }
    let time = measure("naive: time range", 1, periods(counts.naive_times), |from| {
        let l = l.clone();
        async move {
            ensure!(l.time_range(from, from + 30 * DAY, TIME_PAGE).await? > 0, "no file in a month");
            Ok(())
        }
    });
    let time = time.await?;
    let keys = tree.files.iter().map(|file| Naive::keys(&tree.path(file)));
    Ok(results("naive", create, stat, lists, time, keys))
}

async fn uuid(tree: &Tree, at_a_time: usize, counts: &Counts, dir: &Path, seed: u64) -> anyhow::Result<Results> {
    let store = Rocks::open(&dir.join("uuid"), RocksOptions::default())?;
    let layout = UuidLayout::create(Tables::new(Arc::new(store)), &dir.join("content")).await?;
    for dir in &tree.dirs {
        layout.mkdir(dir.clone()).await?;
    }
    let content = content();
    let l = &layout;
    let create = measure("uuid: create", at_a_time, uploads(tree), |(path, attributes)| {
        let (l, content) = (l.clone(), content.clone());
        async move { l.create_file(path, attributes, content).await }
    });
    let create = create.await?;
    let stat = measure("uuid: stat", at_a_time, picked(tree, counts.stats, seed), |path| {
        let l = l.clone();
        async move { l.stat(path).await }
    });
    let stat = stat.await?;
    let mut lists = Vec::new();
    for title in ["uuid: list", "uuid: list with attributes"] {
        let list = measure(title, at_a_time, folders(tree, counts.lists), |path| {
            let l = l.clone();
            async move {
                l.list(path).await?;
                Ok(())
            }
        });
        lists.push(list.await?);
    }
    let time = measure("uuid: time range", at_a_time, periods(counts.uuid_times), |from| {
        let l = l.clone();
        async move {
            ensure!(l.time_range(from, from + 30 * DAY, TIME_PAGE).await? > 0, "no file in a month");
            Ok(())
        }
    });
    let time = time.await?;
    layout.close().await;
    let dir_of = |file: &File| tree.dirs.get(file.dir).map_or("", String::as_str);
    let keys = tree.files.iter().map(|file| UuidLayout::keys(dir_of(file), &file.name, file.modified));
    Ok(results("uuid", create, stat, lists, time, keys))
}

fn results(
    layout: &'static str,
    create: Figures,
    stat: Figures,
    lists: Vec<Figures>,
    time: Figures,
    keys: impl Iterator<Item = Vec<(&'static str, Vec<u8>)>>,
) -> Results {
    let mut by_table: BTreeMap<&'static str, Vec<Vec<u8>>> = BTreeMap::new();
    for (table, key) in keys.flatten() {
        by_table.entry(table).or_default().push(key);
    }
    let hottest = by_table.into_iter().map(|(table, keys)| (table, hottest_share(&keys))).collect();
    let names = ["list", "list with attributes"];
    let mut operations = vec![("create", create), ("stat", stat)];
    operations.extend(names.into_iter().zip(lists));
    operations.push(("time range", time));
    Results { layout, operations, hottest }
}
