//! Directories that were found live, by their paths. Until one is moved or removed, a reader of such a directory reads
//! neither its id nor its lock again. The ids of all directories of a path are remembered too, since rights are decided
//! on them: what follows holds for each of them.
//!
//! The steps of a reader: it takes the epoch of the directory ([`LiveDirs::since`]), reads the children, and asks
//! whether the epoch has changed since ([`LiveDirs::unchanged_since`]). If not, no directory was removed, and no
//! subtree operation was committed, between the read that found the directory live and this question. Only a removal or a
//! subtree operation ends the life of a directory at its path, and the path can get another directory only afterwards. So
//! the directory was live when its children were read.
//!
//! The epochs are of this process: as the cache of paths, this is for a store whose directories no other process
//! changes.
//!
//! The rows of a subtree operation need no further care. A locked source is live until the commit of its operation,
//! which changes the epoch. A copy is absent until then, and its path was free: so no earlier directory of this path is
//! known.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::dir_paths::MoveEpoch;
use crate::auth::DirChain;
use crate::schema::DrivePath;

/// Bytes of the longest path that is remembered.
const LONGEST: usize = 512;
/// About how many bytes of memory a remembered path takes.
const USUAL: usize = 128;
/// Bytes of the longest chain that is remembered, and about how many one takes.
const LONGEST_CHAIN: usize = 2_048;
const USUAL_CHAIN: usize = 512;
/// About how many bytes of memory a directory of a chain takes beside its path.
const CHAIN_DIR: usize = 48;
/// Slots that are made at a time.
const GROUP: usize = 32;

/// Directories that were found live.
pub struct LiveDirs {
    live: Slots<()>,
    /// The directories of the paths, with their ids: each of them was at its path.
    chains: Slots<DirChain>,
    /// The epoch of subtree operations.
    moves: Arc<MoveEpoch>,
    /// The epoch of removals of empty directories.
    pub removals: Arc<MoveEpoch>,
}

/// What was found at paths. The hash of a path selects one slot, and a new path replaces the old one there: so no choice
/// of paths makes the table slow or large. Slots are made in groups, each when it is first used.
struct Slots<T> {
    slots: usize,
    groups: Vec<OnceLock<Group<T>>>,
}

/// [`GROUP`] slots; fewer if there are fewer in all.
type Group<T> = Box<[Mutex<Option<Found<T>>>]>;

struct Found<T> {
    path: Box<str>,
    since: LiveEpoch,
    what: T,
}

/// The epochs of subtree operations and of removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEpoch {
    moves: u64,
    removals: u64,
}

impl LiveEpoch {
    /// The epoch of subtree operations.
    pub fn moves(self) -> u64 {
        self.moves
    }
}

impl LiveDirs {
    /// Remembers directories of about so many bytes in all, and chains of as many.
    pub fn new(moves: Arc<MoveEpoch>, removals: Arc<MoveEpoch>, bytes: usize) -> Self {
        Self { live: Slots::new(bytes / USUAL), chains: Slots::new(bytes / USUAL_CHAIN), moves, removals }
    }

    /// The present epoch. Read it before the rows of a directory.
    pub fn now(&self) -> LiveEpoch {
        LiveEpoch { moves: self.moves.now(), removals: self.removals.now() }
    }

    /// Whether no directory has ceased to be at its path since this epoch. Call it after the reads.
    pub fn unchanged_since(&self, epoch: LiveEpoch) -> bool {
        self.moves.unchanged_since(epoch.moves) && self.removals.unchanged_since(epoch.removals)
    }

    /// The epoch since which the directory at this path is known to be live.
    pub fn since(&self, path: &DrivePath) -> Option<LiveEpoch> {
        self.live.find(path, |found| found.since).filter(|since| self.unchanged_since(*since))
    }

    /// Remembers that a directory is live at this path, as reads after this epoch have found.
    pub fn found(&self, path: &DrivePath, epoch: LiveEpoch) {
        if path.as_str().len() <= LONGEST && self.unchanged_since(epoch) {
            self.live.put(path, epoch, ());
        }
    }

    /// The directories down to the one at this path, if they are known.
    pub fn chain(&self, path: &DrivePath) -> Option<DirChain> {
        let (since, chain) = self.chains.find(path, |found| (found.since, found.what.clone()))?;
        self.unchanged_since(since).then_some(chain)
    }

    /// Remembers these directories, as reads after this epoch have found them.
    pub fn found_chain(&self, chain: &DirChain, epoch: LiveEpoch) {
        let bytes: usize = chain.dirs().map(|(path, _)| CHAIN_DIR + path.as_str().len()).sum();
        if let Some((path, _)) = chain.last().filter(|_| bytes <= LONGEST_CHAIN)
            && self.unchanged_since(epoch)
        {
            self.chains.put(path, epoch, chain.clone());
        }
    }
}

impl<T> Slots<T> {
    fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self { slots, groups: (0..slots.div_ceil(GROUP)).map(|_| OnceLock::new()).collect() }
    }

    fn find<R>(&self, path: &DrivePath, get: impl FnOnce(&Found<T>) -> R) -> Option<R> {
        let (group, at) = self.place(path)?;
        let slot = lock(group.get()?.get(at)?);
        slot.as_ref().filter(|found| *found.path == *path.as_str()).map(get)
    }

    fn put(&self, path: &DrivePath, since: LiveEpoch, what: T) {
        let Some((group, at)) = self.place(path) else { return };
        let group = group.get_or_init(|| (0..self.slots.min(GROUP)).map(|_| Mutex::default()).collect());
        if let Some(slot) = group.get(at) {
            *lock(slot) = Some(Found { path: path.as_str().into(), since, what });
        }
    }

    /// The group of the slot of a path, and its place there.
    fn place(&self, path: &DrivePath) -> Option<(&OnceLock<Group<T>>, usize)> {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % self.slots as u64).ok()?;
        Some((self.groups.get(at / GROUP)?, at % GROUP))
    }
}

fn lock<T>(slot: &Mutex<Option<Found<T>>>) -> MutexGuard<'_, Option<Found<T>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::DirId;

    #[test]
    fn a_directory_is_known_until_one_is_moved_or_removed() {
        let [a, b] = ["/a", "/a/b"].map(|path| DrivePath::parse(path).unwrap());
        for is_move in [false, true] {
            let live = LiveDirs::new(Arc::default(), Arc::default(), 1 << 20);
            let kind = if is_move { &live.moves } else { &live.removals };
            let epoch = live.now();
            live.found(&a, epoch);
            assert_eq!((live.since(&a), live.since(&b)), (Some(epoch), None));
            kind.begin();
            // Also what is found while it runs is not known.
            live.found(&b, live.now());
            assert_eq!((live.since(&a), live.since(&b), live.unchanged_since(epoch)), (None, None, false));
            kind.end();
            live.found(&b, epoch);
            assert_eq!((live.since(&a), live.since(&b), live.unchanged_since(epoch)), (None, None, false));
            live.found(&b, live.now());
            assert!(live.since(&b).is_some());
        }
    }

    #[test]
    fn a_slot_has_one_path_and_none_that_is_long() {
        let live = LiveDirs::new(Arc::default(), Arc::default(), 1);
        let paths: Vec<_> = (0..20).map(|n| DrivePath::parse(&format!("/{n}")).unwrap()).collect();
        paths.iter().for_each(|path| live.found(path, live.now()));
        assert!(paths.iter().rev().map(|path| live.since(path).is_some()).eq((0..20).map(|at| at == 0)));
        let long = DrivePath::parse(&format!("/{0}/{0}/{0}", "a".repeat(200))).unwrap();
        live.found(&long, live.now());
        assert_eq!(live.since(&long), None);
    }

    #[test]
    fn of_directories_for_half_of_the_slots_most_are_known() {
        let live = LiveDirs::new(Arc::default(), Arc::default(), 1_000 * USUAL);
        let paths: Vec<_> = (0..500).map(|n| DrivePath::parse(&format!("/{n}")).unwrap()).collect();
        paths.iter().for_each(|path| live.found(path, live.now()));
        let known = paths.iter().filter(|path| live.since(path).is_some()).count();
        // About 393 if each slot is as likely as another: a later path replaces an earlier one of its slot.
        assert!(known > 350, "{known}");
    }

    #[test]
    fn a_chain_is_known_until_a_directory_is_moved_or_removed() {
        let path = DrivePath::parse("/a").unwrap();
        let mut chain = DirChain::root();
        chain.push(path.clone(), DirId::random());
        for is_move in [false, true] {
            let live = LiveDirs::new(Arc::default(), Arc::default(), 1 << 20);
            let kind = if is_move { &live.moves } else { &live.removals };
            let before = live.now();
            live.found_chain(&chain, before);
            assert_eq!(live.chain(&path), Some(chain.clone()));
            kind.begin();
            assert_eq!(live.chain(&path), None);
            live.found_chain(&chain, live.now());
            assert_eq!(live.chain(&path), None, "read while it changes");
            kind.end();
            live.found_chain(&chain, before);
            assert_eq!(live.chain(&path), None, "read before it has changed");
            live.found_chain(&chain, live.now());
            assert_eq!(live.chain(&path), Some(chain.clone()));
        }
    }
}
