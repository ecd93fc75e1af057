//! From a directory's id to its path: up the `dirid` table to the root. Paths are cached.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::drive::error::Result;
use crate::drive::settings::USUAL_PATH_BYTES;
use crate::schema::dir_parent::{self, DirParent};
use crate::schema::path::LEVELS;
use crate::schema::{CF, DirId, DrivePath, Name};
use crate::table::store::Result as StoreResult;
use crate::table::{Outcome, RowQuery, StoreError, Tables};

/// The links from a directory up, as they were read. Two equal walks with a read between them prove that
/// the path was this one when the read was made: operation ids tell a directory that moved away and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirPath {
    /// From the directory up.
    links: Vec<(DirId, DirParent)>,
    /// None if the links do not reach the root: the directory is gone, or moved while they were read.
    pub path: Option<DrivePath>,
}

impl DirPath {
    fn new(links: Vec<(DirId, DirParent)>, whole: bool) -> Self {
        let names: Vec<Name> = links.iter().rev().map(|(_, link)| link.name.clone()).collect();
        Self { path: DrivePath::from_names(&names).ok().filter(|_| whole), links }
    }

    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let links: usize = self.links.iter().map(|link| size_of_val(link) + link.1.name.as_str().len()).sum();
        size_of::<Self>() + links + self.path.as_ref().map_or(0, |path| path.as_str().len())
    }

    /// Whether the directory is `scope` or lies below it.
    pub fn is_within(&self, scope: DirId) -> bool {
        scope == DirId::ROOT || self.links.iter().any(|(id, _)| *id == scope)
    }
}

/// Counts moves, so that the one process that writes the store knows whether any was running since.
#[derive(Default)]
pub struct MoveEpoch {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl MoveEpoch {
    /// Before a write that may move something.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// After it, once it is known what became of it.
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends a plan that counts. What is not known to have ended may yet happen: then nothing counts as unchanged any more.
    pub async fn counted(&self, commit: impl Future<Output = StoreResult<Outcome>>) -> StoreResult<Outcome> {
        self.begin();
        let outcome = commit.await;
        if !matches!(outcome, Err(StoreError::Unknown { .. })) {
            self.end();
        }
        outcome
    }

    /// The epoch: read before whatever must not have changed.
    pub fn now(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether no move was running at any time since this epoch was read.
    pub fn unchanged_since(&self, epoch: u64) -> bool {
        self.begun.load(Ordering::SeqCst) == epoch
    }
}

pub struct DirPathCache {
    tables: Tables,
    pub moves: Arc<MoveEpoch>,
    /// Paths with the mark before them. One is good as long as no directory move has begun since.
    kept: Kept,
    pub counts: PathCacheCounts,
}

/// Paths, each with the mark before it, by directory.
///
/// The hasher has fixed keys, so that a seeded run evicts the same walks each time. Ids are random: nobody can choose
/// ones that collide.
type Kept = Cache<DirId, (u64, Arc<DirPath>), Weight, BuildHasherDefault<DefaultHasher>>;

fn kept(bytes: usize) -> Kept {
    Cache::with(
        bytes / USUAL_PATH_BYTES,
        bytes as u64,
        Weight,
        BuildHasherDefault::default(),
        DefaultLifecycle::default(),
    )
}

/// What a kept walk takes of the memory for all.
#[derive(Clone)]
struct Weight;

impl Weighter<DirId, (u64, Arc<DirPath>)> for Weight {
    fn weight(&self, _: &DirId, (_, walk): &(u64, Arc<DirPath>)) -> u64 {
        (size_of::<(DirId, u64, Arc<DirPath>)>() + walk.bytes()) as u64
    }
}

/// How many walks were kept ones, and how many were read from rows.
#[derive(Clone, Debug, Default)]
pub struct PathCacheCounts {
    pub kept: Counter,
    pub read: Counter,
}

impl DirPathCache {
    /// Keeps walks of so many bytes in all.
    pub fn new(tables: Tables, bytes: usize) -> Self {
        Self { tables, moves: Arc::default(), kept: kept(bytes), counts: PathCacheCounts::default() }
    }

    /// Paths through another handle of the store, with the same counts but none of the walks that are kept.
    pub fn sharing(&self, tables: Tables, bytes: usize) -> Self {
        Self { tables, moves: self.moves.clone(), kept: kept(bytes), counts: self.counts.clone() }
    }

    /// A walk by the store's rows as they are now.
    pub async fn fresh(&self, dir: DirId) -> Result<DirPath> {
        let found = self.climb(&[dir]).await?.pop();
        Ok(found.map_or_else(|| DirPath::new(Vec::new(), false), |(_, walk)| walk))
    }

    /// Paths of many directories, kept ones where they are still good. All of them hold if no directory move
    /// was running since an epoch that was read before.
    pub async fn many(&self, dirs: &[DirId]) -> Result<HashMap<DirId, Arc<DirPath>>> {
        let epoch = self.moves.now();
        let mut found = HashMap::with_capacity(dirs.len());
        let mut wanted = Vec::new();
        for dir in dirs {
            match self.kept.get(dir) {
                Some((kept, walk)) if self.moves.unchanged_since(kept) => {
                    found.insert(*dir, walk);
                }
                _ => wanted.push(*dir),
            }
        }
        self.counts.kept.inc_by(found.len() as u64);
        self.counts.read.inc_by(wanted.len() as u64);
        for (dir, walk) in self.climb(&wanted).await? {
            let walk = Arc::new(walk);
            if walk.path.is_some() && self.moves.unchanged_since(epoch) {
                self.kept.insert(dir, (epoch, walk.clone()));
            }
            found.insert(dir, walk);
        }
        Ok(found)
    }

    /// One `get_many` for each level. The walks come in the order of `dirs`: it decides which ones are kept.
    async fn climb(&self, dirs: &[DirId]) -> Result<Vec<(DirId, DirPath)>> {
        let mut links: HashMap<DirId, DirParent> = HashMap::new();
        let mut level: Vec<DirId> = dirs.to_vec();
        for _ in 0..=LEVELS {
            level.retain(|id| *id != DirId::ROOT && !links.contains_key(id));
            level.sort_unstable();
            level.dedup();
            if level.is_empty() {
                break;
            }
            let asks: Vec<_> = level.iter().map(|id| (id.key(), RowQuery::cells(vec![dir_parent::column()]))).collect();
            let rows = self.tables.get_many(dir_parent::TABLE, &asks).await?;
            let mut above = Vec::with_capacity(rows.len());
            for (id, row) in level.iter().zip(rows) {
                if let Some(value) = row.get(CF, dir_parent::PARENT) {
                    let link = DirParent::decode(value)?;
                    above.push(link.parent);
                    links.insert(*id, link);
                }
            }
            level = above;
        }
        Ok(dirs.iter().map(|dir| (*dir, trace(*dir, &links))).collect())
    }
}

/// Follows the links from a directory to the root, or to where they end.
fn trace(dir: DirId, links: &HashMap<DirId, DirParent>) -> DirPath {
    let mut chain = Vec::new();
    let mut at = dir;
    while at != DirId::ROOT && chain.len() <= LEVELS {
        let Some(link) = links.get(&at) else {
            return DirPath::new(chain, false);
        };
        chain.push((at, link.clone()));
        at = link.parent;
    }
    DirPath::new(chain, at == DirId::ROOT)
}
