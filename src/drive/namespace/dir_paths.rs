//! Path lookup: from a directory's id to its path, along the rows of the `dirid` table up to the root. Paths are
//! cached.
//!
//! The rows of a path are read at different instants, so a path alone proves nothing: a directory may have moved
//! between two of the reads. Two things prove it, [`MoveEpoch`] and a second equal [`DirPath`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use uuid::Uuid;

use super::scope::Scope;
use crate::auth::DirChain;
use crate::drive::error::Result;
use crate::drive::settings::USUAL_PATH_BYTES;
use crate::schema::dir_parent::{self, DirParent};
use crate::schema::path::LEVELS;
use crate::schema::{CF, DirId, DrivePath, Name};
use crate::table::store::Result as StoreResult;
use crate::table::{Outcome, RowQuery, StoreError, Tables};

/// The links from a directory up to the root, as they were read. Two equal lookups with a read between them prove that
/// the directory had this path at that read: a link has the id of the operation that made it, so a directory that has
/// moved away and back has other links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirPath {
    /// From the directory up: each directory, and the move that put it where it is, or nil. The pair identifies the link,
    /// since one move puts a directory in exactly one place. Parents and names are in `path`.
    links: Box<[(DirId, Uuid)]>,
    /// None if the links do not reach the root: the directory was removed, or moved while they were read.
    pub path: Option<DrivePath>,
}

impl DirPath {
    fn new(links: Vec<(DirId, DirParent)>, whole: bool) -> Self {
        let names: Vec<Name> = links.iter().rev().map(|(_, link)| link.name.clone()).collect();
        let path = DrivePath::from_names(&names).ok().filter(|_| whole);
        Self { links: links.into_iter().map(|(id, link)| (id, link.operation)).collect(), path }
    }

    /// About how many bytes of memory it takes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.links) + self.path.as_ref().map_or(0, |path| path.as_str().len())
    }

    /// The directories of the path, from the root down. Only of a path that is whole.
    pub fn chain(&self) -> Result<DirChain> {
        let (mut chain, mut at) = (DirChain::root(), DrivePath::root());
        let names = self.path.iter().flat_map(DrivePath::names);
        for ((id, _), name) in self.links.iter().rev().zip(names) {
            at = at.join(&name)?;
            chain.push(at.clone(), *id);
        }
        Ok(chain)
    }

    /// Whether the directory is within the scope.
    pub fn is_within(&self, scope: &Scope) -> bool {
        scope.is_everything() || self.links.iter().any(|(id, _)| scope.names(*id))
    }
}

/// Counts the moves of this process, the only one that writes the store. A reader that takes the epoch before its reads
/// can prove after them that no move was running meanwhile.
///
/// The count of ended moves is the epoch, and it is compared with the count of begun ones. A move that is running when
/// the epoch is read has begun and not ended: so the counts differ, and the reads prove nothing.
#[derive(Default)]
pub struct MoveEpoch {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Of those that have begun and not ended: how many have met a full disk, and wait until the store is ready.
    waiting: AtomicU64,
}

impl MoveEpoch {
    /// Call it before the commit of a move.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Call it after the commit, once it has happened or never will.
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Commits the plan of a move between [`begin`](Self::begin) and [`end`](Self::end). A move of unknown outcome may
    /// yet happen, so it does not end here. Until somebody ends it, no read counts as unchanged.
    pub async fn counted(&self, commit: impl Future<Output = StoreResult<Outcome>>) -> StoreResult<Outcome> {
        self.begin();
        let outcome = commit.await;
        if !matches!(outcome, Err(StoreError::Unknown { .. })) {
            self.end();
        }
        outcome
    }

    /// As [`counted`](Self::counted), but a plan that was refused changes no epoch: reads are as valid as if it had
    /// never begun.
    pub async fn counted_if_committed(
        &self,
        commit: impl Future<Output = StoreResult<Outcome>>,
    ) -> StoreResult<Outcome> {
        self.begin();
        let outcome = commit.await;
        match &outcome {
            Ok(Outcome::Refused(_)) => {
                self.begun.fetch_sub(1, Ordering::SeqCst);
            }
            Err(StoreError::Unknown { .. }) => {}
            Ok(Outcome::Committed) | Err(_) => self.end(),
        }
        outcome
    }

    /// Counts a move that waits until the store is ready. Returns whether no other one waits.
    pub fn add_waiting(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst) == 0
    }

    /// How many moves wait until the store is ready. Read it before the store is asked.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Ends this number of waiting moves. Returns whether none is left.
    pub fn end_waiting(&self, moves: u64) -> bool {
        self.ended.fetch_add(moves, Ordering::SeqCst);
        self.waiting.fetch_sub(moves, Ordering::SeqCst) == moves
    }

    /// The present epoch. Read it before the rows that must not change.
    pub fn now(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether no move was running at any time since this epoch was read. Call it after the reads.
    pub fn unchanged_since(&self, epoch: u64) -> bool {
        self.begun.load(Ordering::SeqCst) == epoch
    }
}

/// Looks up the paths of directories, and caches them.
pub struct DirPathCache {
    tables: Tables,
    pub moves: Arc<MoveEpoch>,
    cache: PathCache,
    pub counts: PathCacheCounts,
}

/// A path with the epoch that was read before it: valid as long as no directory move has begun since.
#[derive(Clone)]
struct CachedPath {
    epoch: u64,
    dir_path: Arc<DirPath>,
    /// Whether the directory was found at this path after the epoch.
    live: bool,
}

/// Paths by directory.
type PathCache = Cache<DirId, CachedPath, Weight, BuildHasherDefault<IdHasher>>;

/// The hash of an id has the bits of both its halves, without a key, so a seeded run evicts the same paths each time.
///
/// The server makes the ids of all directories but the root, as random UUIDs, and the cache has only ids that are in the
/// store: so no client can choose ones that collide. The bits that are fixed in one half of an id (version, variant) are
/// random in the other.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, id: &[u8]) {
        let (halves, _) = id.as_chunks();
        for half in halves {
            self.0 ^= u64::from_le_bytes(*half);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn path_cache(bytes: usize) -> PathCache {
    Cache::with(
        bytes / USUAL_PATH_BYTES,
        bytes as u64,
        Weight,
        BuildHasherDefault::default(),
        DefaultLifecycle::default(),
    )
}

/// How many bytes a cached path takes.
#[derive(Clone)]
struct Weight;

impl Weighter<DirId, CachedPath> for Weight {
    fn weight(&self, _: &DirId, cached: &CachedPath) -> u64 {
        (size_of::<(DirId, CachedPath)>() + cached.dir_path.bytes()) as u64
    }
}

/// How many paths came from the cache, and how many were read from rows.
#[derive(Clone, Debug, Default)]
pub struct PathCacheCounts {
    pub cached: Counter,
    pub read: Counter,
}

impl DirPathCache {
    /// Caches paths of so many bytes in all.
    pub fn new(tables: Tables, bytes: usize) -> Self {
        Self { tables, moves: Arc::default(), cache: path_cache(bytes), counts: PathCacheCounts::default() }
    }

    /// A cache over another handle of the store: empty, with the same move epoch and counts.
    pub fn sharing(&self, tables: Tables, bytes: usize) -> Self {
        Self { tables, moves: self.moves.clone(), cache: path_cache(bytes), counts: self.counts.clone() }
    }

    /// Reads the path of a directory from the store, past the cache.
    pub async fn read_path(&self, dir: DirId) -> Result<DirPath> {
        let found = self.look_up(&[dir]).await?.pop();
        Ok(found.map_or_else(|| DirPath::new(Vec::new(), false), |(_, dir_path)| dir_path))
    }

    /// The paths of many directories, from the cache where they are still valid. If no directory move was running since
    /// an epoch that the caller has read before, all of them were valid at every instant since.
    ///
    /// IMPORTANT: the epoch is read before the rows, and compared again before a path is cached. A path that was read
    /// while a directory moved may mix links from before and after the move, and must not be cached.
    pub async fn many(&self, dirs: &[DirId]) -> Result<HashMap<DirId, Arc<DirPath>>> {
        let epoch = self.moves.now();
        let mut found = HashMap::with_capacity(dirs.len());
        let mut wanted = Vec::new();
        for dir in dirs {
            match self.cache.get(dir) {
                Some(cached) if self.moves.unchanged_since(cached.epoch) => {
                    found.insert(*dir, cached.dir_path);
                }
                _ => wanted.push(*dir),
            }
        }
        self.count_cached(found.len());
        self.counts.read.inc_by(wanted.len() as u64);
        for (dir, dir_path) in self.look_up(&wanted).await? {
            let dir_path = Arc::new(dir_path);
            if dir_path.path.is_some() && self.moves.unchanged_since(epoch) {
                self.cache.insert(dir, CachedPath { epoch, dir_path: dir_path.clone(), live: false });
            }
            found.insert(dir, dir_path);
        }
        Ok(found)
    }

    /// The cached path of a directory that was found there ([`set_live`](Self::set_live)), if no subtree operation has
    /// committed since: then it was there at every instant since, unless it was removed empty.
    ///
    /// The caller counts it ([`count_cached`](Self::count_cached)), once for all paths of a page.
    pub fn live(&self, dir: DirId) -> Option<Arc<DirPath>> {
        let cached = self.cache.get(&dir).filter(|cached| cached.live && self.moves.unchanged_since(cached.epoch))?;
        Some(cached.dir_path)
    }

    /// Counts so many paths from the cache.
    pub fn count_cached(&self, paths: usize) {
        self.counts.cached.inc_by(paths as u64);
    }

    /// Remembers that a directory was found at its path, by reads after this epoch.
    pub fn set_live(&self, dir: DirId, dir_path: Arc<DirPath>, epoch: u64) {
        if self.moves.unchanged_since(epoch) {
            self.cache.insert(dir, CachedPath { epoch, dir_path, live: true });
        }
    }

    /// Reads the links of these directories, one `get_many` for each level. The paths have the order of `dirs`: it
    /// decides which of them the cache keeps.
    async fn look_up(&self, dirs: &[DirId]) -> Result<Vec<(DirId, DirPath)>> {
        let mut links: HashMap<DirId, DirParent> = HashMap::new();
        let mut level: Vec<DirId> = dirs.to_vec();
        for _ in 0..=LEVELS {
            level.retain(|id| *id != DirId::ROOT && !links.contains_key(id));
            level.sort_unstable();
            level.dedup();
            if level.is_empty() {
                break;
            }
            let queries: Vec<_> =
                level.iter().map(|id| (id.key(), RowQuery::cells(vec![dir_parent::column()]))).collect();
            let rows = self.tables.get_many(dir_parent::TABLE, &queries).await?;
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
        Ok(dirs.iter().map(|dir| (*dir, follow_links(*dir, &links))).collect())
    }
}

/// Follows the links from a directory to the root, or to the first missing one.
fn follow_links(dir: DirId, links: &HashMap<DirId, DirParent>) -> DirPath {
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

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    fn hash(id: DirId) -> u64 {
        BuildHasherDefault::<IdHasher>::default().hash_one(id)
    }

    /// A table takes the bucket, the shard and a tag from different bits of a hash.
    #[test]
    fn all_bits_of_the_hashes_of_ids_are_random() {
        const IDS: usize = 1 << 14;
        const BITS: u32 = 6;
        let hashes: Vec<u64> = (0..IDS).map(|_| hash(DirId::random())).collect();
        for low in 0..=u64::BITS - BITS {
            let mut buckets = [0; 1 << BITS];
            for hash in &hashes {
                buckets[(hash >> low) as usize % buckets.len()] += 1;
            }
            let usual = IDS / buckets.len();
            let is_usual = |ids: &usize| (usual / 2..usual * 2).contains(ids);
            assert!(buckets.iter().all(is_usual), "from bit {low}: {buckets:?}");
        }
    }

    #[test]
    fn a_move_that_waits_since_the_store_was_asked_does_not_end() {
        let moves = MoveEpoch::default();
        let before = moves.now();
        let begin = || {
            moves.begin();
            moves.add_waiting()
        };
        assert_eq!([begin(), begin()], [true, false]);
        let waiting = moves.waiting();
        assert!(!begin());
        assert!(!moves.end_waiting(waiting));
        assert!(!moves.unchanged_since(moves.now()), "one waits");
        assert!(moves.end_waiting(moves.waiting()));
        assert!(moves.unchanged_since(moves.now()) && !moves.unchanged_since(before));
        assert!(begin(), "none waits any more");
    }

    #[test]
    fn ids_of_one_hash_are_kept_apart() {
        let cache = path_cache(1 << 20);
        let ids: Vec<DirId> = (0..40).map(|n| DirId(Uuid::from_bytes([n; 16]))).collect();
        assert!(ids.contains(&DirId::ROOT) && ids.iter().all(|id| hash(*id) == hash(DirId::ROOT)));
        let path = |id: DirId| Arc::new(DirPath { links: Box::new([(id, Uuid::nil())]), path: None });
        for id in &ids {
            cache.insert(*id, CachedPath { epoch: 0, dir_path: path(*id), live: true });
        }
        for id in &ids {
            assert_eq!(cache.get(id).unwrap().dir_path, path(*id));
        }
    }
}
