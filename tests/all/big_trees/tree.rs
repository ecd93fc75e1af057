//! The trees of these tests, and a drive that contains one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use rowdrive::drive::{Drive, Node, PutOptions, Written, whole_body};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::schema::{DrivePath, Timestamp, subtree_op};
use rowdrive::table::{RowQuery, RowRange, ScanQuery, Tables};
use std::ops::Bound;
use tempfile::TempDir;
use uuid::Uuid;

/// How many requests run at the same time while a tree is made.
const AT_A_TIME: usize = 64;
/// A file name that no other file has, and a period of the clock `modified` that contains no other file.
pub const NEEDLE: &str = "needle";
pub const NEEDLES: [Timestamp; 2] = [Timestamp::from_ms(1_000), Timestamp::from_ms(2_000)];

/// The directories and files of a tree, by path from its root: `""` is the root, `/a/b` lies below it.
pub struct Tree {
    /// Parents before children.
    pub directories: Vec<String>,
    pub files: Vec<String>,
    /// Files that the watchers search by name and by time.
    pub needles: Vec<String>,
}

impl Tree {
    /// A single directory with this many files.
    pub fn wide(files: usize) -> Self {
        let needle = files / 5;
        let name = |n| if n % needle == 7 { format!("/{NEEDLE}-{n:06}") } else { format!("/file-{n:06}.txt") };
        Self::new(vec![String::new()], (0..files).map(name).collect())
    }

    /// 10 directories of 10 of 100 each, and a long chain below the last one; every tenth directory has a file.
    pub fn deep() -> Self {
        let mut directories = vec![String::new()];
        for a in 0..10 {
            directories.push(format!("/a{a}"));
            for b in 0..10 {
                directories.push(format!("/a{a}/b{b}"));
                directories.extend((0..100).map(|c| format!("/a{a}/b{b}/c{c:02}")));
            }
        }
        let mut chain = "/a9/b9/c99".to_owned();
        for level in 0..40 {
            chain.push_str(&format!("/d{level}"));
            directories.push(chain.clone());
        }
        let file = |(n, directory)| {
            let name = if n % 3_000 == 0 { NEEDLE } else { "file" };
            format!("{directory}/{name}-{n}")
        };
        let files = directories.iter().enumerate().step_by(10).map(file).collect();
        Self::new(directories, files)
    }

    fn new(directories: Vec<String>, files: Vec<String>) -> Self {
        let needles: Vec<_> = files.iter().filter(|file| file.contains(NEEDLE)).cloned().collect();
        assert!(needles.len() > 2, "{needles:?}");
        Self { directories, files, needles }
    }

    /// How many children each directory has.
    pub fn children(&self) -> BTreeMap<&str, usize> {
        let mut children: BTreeMap<_, _> = self.directories.iter().map(|path| (path.as_str(), 0)).collect();
        for path in self.directories.iter().chain(&self.files).filter(|path| !path.is_empty()) {
            let (parent, _) = path.rsplit_once('/').unwrap();
            *children.get_mut(parent).unwrap() += 1;
        }
        children
    }
}

pub fn path(base: &str, below: &str) -> DrivePath {
    DrivePath::parse(&format!("{base}{below}")).unwrap()
}

pub fn id(node: &Node) -> Uuid {
    match node {
        Node::File { entry, .. } => entry.id.0,
        Node::Directory { entry, .. } => entry.id.0,
    }
}

/// The content of each small file.
pub const CONTENT: &[u8] = b"tiny";

pub async fn put(drive: &Drive, path: &DrivePath, modified: Option<Timestamp>) -> rowdrive::drive::Result<Written> {
    let options = PutOptions { modified, parents: false, ..PutOptions::new("text/plain", "eva") };
    Ok(drive.unrestricted().put(path, options, whole_body(CONTENT)).await?)
}

/// A drive on an engine and a data folder of its own.
pub struct TestDrive {
    pub drive: Drive,
    pub tables: Tables,
    pub rocks: Arc<Rocks>,
    folder: TempDir,
}

impl TestDrive {
    pub async fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    async fn open(folder: TempDir) -> Self {
        let rocks = Rocks::open(&folder.path().join("db"), RocksOptions::with_memory(128 << 20)).unwrap();
        let rocks = Arc::new(rocks);
        let tables = Tables::new(rocks.clone());
        migrate::up(&tables).await.unwrap();
        let drive = Drive::open(tables.clone(), &folder.path().join("content")).await.unwrap();
        Self { drive, tables, rocks, folder }
    }

    /// Opens the same store again: the counters of the engine start at zero.
    pub async fn reopened(self) -> Self {
        let Self { drive, tables, rocks, folder } = self;
        drive.idle().await;
        drive.close().await;
        rocks.close().await;
        drop((drive, tables, rocks));
        Self::open(folder).await
    }

    /// Creates the tree at `base`. Returns the ids of its files and directories.
    pub async fn make(&self, base: &str, tree: &Tree) -> HashMap<String, Uuid> {
        let mut ids = HashMap::new();
        // One level after the other: parents are created before their children.
        let mut levels: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
        for path in &tree.directories {
            levels.entry(path.matches('/').count()).or_default().push(path);
        }
        for level in levels.into_values() {
            let made = stream::iter(level).map(|below| async move {
                let made = self.drive.unrestricted().mkdir(&path(base, below), "eva", false).await?;
                rowdrive::drive::Result::Ok((below.clone(), id(&made.node)))
            });
            ids.extend(made.buffer_unordered(AT_A_TIME).try_collect::<Vec<_>>().await.unwrap());
        }
        let made = stream::iter(&tree.files).map(|below| async move {
            let modified = tree.needles.contains(below).then_some(NEEDLES[0]);
            let made = put(&self.drive, &path(base, below), modified).await?;
            rowdrive::drive::Result::Ok((below.clone(), id(&made.node)))
        });
        ids.extend(made.buffer_unordered(AT_A_TIME).try_collect::<Vec<_>>().await.unwrap());
        assert_eq!(ids.len(), tree.directories.len() + tree.files.len());
        ids
    }

    /// Waits until no record of an operation is left: the work after the answer is done too.
    pub async fn finished(&self) {
        while self.rows(subtree_op::TABLE).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Counts the rows of a table that have a cell in the family `cf`.
    pub async fn rows(&self, table: &'static str) -> usize {
        let mut range = RowRange::all();
        let mut rows = 0;
        loop {
            let (query, limit) = (RowQuery::families(&["cf"]), 10_000);
            let query = ScanQuery { table, range: range.clone(), row_query: query, limit, reverse: false };
            let page = self.tables.scan(&query).await.unwrap();
            let Some((last, _)) = page.last() else { return rows };
            rows += page.len();
            range.from = Bound::Excluded(last.clone());
        }
    }
}
