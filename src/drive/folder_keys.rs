//! The keys of the time index of all files below a folder, kept in memory: a query below the folder reads these rows
//! alone, and skips the rows of all other files.
//!
//! A set of keys may have too many keys, never too few: a file that is below the folder has its key in the set. So a key
//! proves nothing, and a query reads the index row. Why no key is missing:
//!
//! 1. A change that puts a file below the folder adds its key here before its commit ([`FolderKeys::counted`]), to each
//!    set, also to one that is being built.
//! 2. A set is made first, and its folder is read then. So a file was put either before a read of its directory, which
//!    finds it, or after the set was made. A change that is under way when a set is made is added to it at once.
//! 3. A key is removed only after the commit that drops its version: a file id is never used again. The move of a file
//!    out of the folder leaves its key: another move could be bringing it back.
//! 4. The move of a directory changes many paths at once: a set is valid only as long as the epoch of directory moves is
//!    unchanged since before it was made.
//!
//! A set grows by what is uploaded, so no upload makes a query read the folder again. Sets take a bounded memory: the one
//! that was used least recently is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use smallvec::SmallVec;

use super::namespace::dir_paths::MoveEpoch;
use super::namespace::subtree_files::SubtreeFiles;
use crate::schema::dir;
use crate::schema::index::by_time::{self, Clock, KEY_BYTES};
use crate::table::store::Result as StoreResult;
use crate::table::{Change, Outcome, Plan, RowChange, RowRange, StoreError};

/// A row key of the time index.
pub type Key = [u8; KEY_BYTES];

/// About how many bytes of memory a key takes in a set.
const BYTES_OF_A_KEY: usize = 40;
/// Sets that are kept, at most: each upload compares its path with all of their folders.
const MAX_SETS: usize = 64;
/// Changes under way that are known. So many are never under way at one time: there are more only after many changes of
/// unknown outcome. Then no set is used any more, until the next start.
const MAX_UNDER_WAY: usize = 10_000;

/// The reading of a folder. Queries of the same folder continue it in turns.
pub struct FolderScan {
    pub files: SubtreeFiles,
    pub found: BTreeSet<Key>,
}

/// A set of keys: its number, and the epoch of directory moves before it was made.
#[derive(Clone, Copy, Debug)]
pub struct SetId {
    number: u64,
    pub epoch: u64,
}

/// How much of its folder a set has.
pub enum SetState {
    Unfinished(Arc<tokio::sync::Mutex<FolderScan>>),
    Whole,
    /// Its memory was needed for another one.
    Dropped,
}

/// The sets of this process.
pub struct FolderKeys {
    moves: Arc<MoveEpoch>,
    most_keys: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The number of the next set or change.
    next: u64,
    under_way: BTreeMap<u64, FileChange>,
    /// The one that was used last is the last one.
    sets: Vec<KeySet>,
    is_off: bool,
}

struct KeySet {
    id: SetId,
    /// The row key of the folder.
    folder: Bytes,
    clock: Clock,
    /// All keys; of an unfinished set only those of changes.
    keys: BTreeSet<Key>,
    /// The reading of the folder, and how many keys it has found.
    unfinished: Option<(Arc<tokio::sync::Mutex<FolderScan>>, usize)>,
    /// How often a key led to no file of the folder.
    misses: usize,
}

/// What a plan changes of sets. Every commit notes it, also without any set, since one may be made meanwhile. So the usual
/// plans, of one file that may replace another one, take no allocation.
pub struct FileChange {
    /// The row keys of the directories into which the plan puts a file.
    directories: SmallVec<[Bytes; 1]>,
    put: SmallVec<[Key; 2]>,
    /// Keys of versions that the plan drops.
    dropped: SmallVec<[Key; 2]>,
}

impl FolderKeys {
    /// Sets that take so many bytes in all.
    pub fn new(moves: Arc<MoveEpoch>, bytes: usize) -> Self {
        Self { moves, most_keys: bytes / BYTES_OF_A_KEY, kept: Mutex::default() }
    }

    /// Commits the plan of a change, and applies it to the sets.
    ///
    /// IMPORTANT: keys are added before the commit. A query that reads in between would miss the file otherwise.
    pub async fn counted(
        &self,
        change: Option<FileChange>,
        commit: impl Future<Output = StoreResult<Outcome>>,
    ) -> StoreResult<Outcome> {
        let number = change.and_then(|change| self.begin(change));
        let outcome = commit.await;
        if let Some(number) = number {
            self.end(number, &outcome);
        }
        outcome
    }

    fn begin(&self, change: FileChange) -> Option<u64> {
        let mut kept = self.kept();
        if kept.is_off {
            return None;
        }
        let number = kept.take_number();
        let mut is_larger = false;
        for set in kept.sets.iter_mut().filter(|set| change.is_below(&set.folder)) {
            set.keys.extend(change.put_keys(set.clock));
            is_larger = true;
        }
        kept.under_way.insert(number, change);
        let mut dropped = if is_larger { kept.drop_least_used(self.most_keys) } else { Vec::new() };
        if kept.under_way.len() > MAX_UNDER_WAY {
            kept.is_off = true;
            kept.under_way = BTreeMap::new();
            dropped.append(&mut kept.sets);
        }
        drop(kept);
        drop(dropped);
        Some(number)
    }

    /// A change of unknown outcome may yet happen: it stays under way.
    fn end(&self, number: u64, outcome: &StoreResult<Outcome>) {
        if matches!(outcome, Err(StoreError::Unknown { .. })) {
            return;
        }
        let mut kept = self.kept();
        let Some(change) = kept.under_way.remove(&number) else { return };
        if change.dropped.is_empty() || !matches!(outcome, Ok(Outcome::Committed)) {
            return;
        }
        for set in &mut kept.sets {
            for key in &change.dropped {
                set.keys.remove(key);
            }
        }
    }

    /// The set of a folder; a new one if there is none, or if it is no longer valid. None if a directory has moved since
    /// this epoch.
    ///
    /// IMPORTANT: the epoch is read before the set is made, and before its folder is read.
    pub fn set_of(
        &self,
        folder: &Bytes,
        clock: Clock,
        epoch: u64,
        files: impl FnOnce() -> SubtreeFiles,
    ) -> Option<SetId> {
        if !self.moves.unchanged_since(epoch) {
            return None;
        }
        let mut kept = self.kept();
        if kept.is_off {
            return None;
        }
        let found = kept.sets.iter().position(|set| set.clock == clock && set.folder == *folder);
        let old = found.map(|at| kept.sets.remove(at));
        if let Some(set) = old.as_ref().filter(|set| set.id.epoch == epoch && !set.is_worn()) {
            let id = set.id;
            kept.sets.extend(old);
            return Some(id);
        }
        let id = SetId { number: kept.take_number(), epoch };
        let below = kept.under_way.values().filter(|change| change.is_below(folder));
        let keys = below.flat_map(|change| change.put_keys(clock)).collect();
        let scan = FolderScan { files: files(), found: BTreeSet::new() };
        let unfinished = Some((Arc::new(tokio::sync::Mutex::new(scan)), 0));
        kept.sets.push(KeySet { id, folder: folder.clone(), clock, keys, unfinished, misses: 0 });
        let dropped = kept.drop_least_used(self.most_keys);
        drop(kept);
        drop((old, dropped));
        Some(id)
    }

    /// Whether no directory has moved since the set was made.
    pub fn is_valid(&self, id: SetId) -> bool {
        self.moves.unchanged_since(id.epoch)
    }

    pub fn state(&self, id: SetId) -> SetState {
        match self.kept().set(id) {
            None => SetState::Dropped,
            Some(KeySet { unfinished: None, .. }) => SetState::Whole,
            Some(KeySet { unfinished: Some((scan, _)), .. }) => SetState::Unfinished(scan.clone()),
        }
    }

    /// Drops a set, of whose folder something could not be read.
    pub fn forget(&self, id: SetId) {
        let mut kept = self.kept();
        let at = kept.sets.iter().position(|set| set.id.number == id.number);
        let dropped = at.map(|at| kept.sets.remove(at));
        drop(kept);
        drop(dropped);
    }

    /// Notes how many keys the reading of the folder has found.
    pub fn has_found(&self, id: SetId, keys: usize) {
        let mut kept = self.kept();
        if let Some((_, found)) = kept.set(id).and_then(|set| set.unfinished.as_mut()) {
            *found = keys;
        }
        let dropped = kept.drop_least_used(self.most_keys);
        drop(kept);
        drop(dropped);
    }

    /// Ends the reading of the folder, which has found these keys.
    pub fn finish(&self, id: SetId, found: BTreeSet<Key>) {
        let mut kept = self.kept();
        let Some(set) = kept.set(id) else { return };
        if set.unfinished.take().is_some() {
            let changed = std::mem::replace(&mut set.keys, found);
            set.keys.extend(changed);
        }
    }

    /// The first keys of a range, from its end if `reverse`, and whether more follow. None if the set is not whole.
    pub fn keys(&self, id: SetId, range: &RowRange, limit: usize, reverse: bool) -> Option<(Vec<Key>, bool)> {
        let mut kept = self.kept();
        let set = kept.set(id).filter(|set| set.unfinished.is_none())?;
        if is_empty(range) {
            return Some((Vec::new(), false));
        }
        let bounds = (range.from.as_ref().map(Bytes::as_ref), range.to.as_ref().map(Bytes::as_ref));
        let mut all = set.keys.range::<[u8], _>(bounds);
        let mut next = || if reverse { all.next_back() } else { all.next() };
        let first: Vec<Key> = std::iter::from_fn(&mut next).take(limit).copied().collect();
        let more = first.len() == limit && next().is_some();
        Some((first, more))
    }

    /// Notes how many keys have led to no file of the folder.
    pub fn has_missed(&self, id: SetId, keys: usize) {
        if let Some(set) = self.kept().set(id).filter(|_| keys > 0) {
            set.misses += keys;
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether no key can be within these bounds: a range of a set must not be the wrong way round.
fn is_empty(range: &RowRange) -> bool {
    match (&range.from, &range.to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

impl Kept {
    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn set(&mut self, id: SetId) -> Option<&mut KeySet> {
        self.sets.iter_mut().find(|set| set.id.number == id.number)
    }

    /// Takes out sets until the others are few enough. The caller drops them without the lock: that takes time.
    fn drop_least_used(&mut self, most_keys: usize) -> Vec<KeySet> {
        // First those that would have no room alone: they would cost all others theirs.
        let (mut dropped, kept): (Vec<_>, Vec<_>) =
            self.sets.drain(..).partition(|set: &KeySet| set.size() > most_keys);
        self.sets = kept;
        let (mut keys, mut oldest) = (self.sets.iter().map(KeySet::size).sum::<usize>(), 0);
        for set in &self.sets {
            if keys <= most_keys && self.sets.len() - oldest <= MAX_SETS {
                break;
            }
            keys -= set.size();
            oldest += 1;
        }
        dropped.extend(self.sets.drain(..oldest));
        dropped
    }
}

impl KeySet {
    fn size(&self) -> usize {
        self.keys.len() + self.unfinished.as_ref().map_or(0, |(_, found)| *found)
    }

    /// Whether its keys have led to no file so often that it costs less to read the folder again.
    fn is_worn(&self) -> bool {
        self.misses > 1_000 + self.size()
    }
}

impl FileChange {
    /// None if the plan puts and drops no file.
    pub fn of(plan: &Plan) -> Option<Self> {
        let puts_file = |change: &Change| match change {
            Change::Put { family, qualifier, .. } => *family == dir::SUB && qualifier.starts_with(dir::FILE),
            Change::Delete { .. } | Change::DeleteFamily { .. } | Change::Add { .. } => false,
        };
        let rows = plan.guarded.iter().filter(|row| row.table == dir::TABLE && row.changes.iter().any(puts_file));
        let directories = rows.map(|row| row.row.clone()).collect();
        let key = |row: &RowChange| (row.table == by_time::TABLE).then(|| Key::try_from(row.row.as_ref()).ok())?;
        let put: SmallVec<[Key; 2]> = plan.prepare.iter().filter_map(key).collect();
        let deleted = plan.finish.iter().filter_map(key);
        // The move of a file deletes a cell of a row, and puts another one into it.
        let dropped: SmallVec<[Key; 2]> = deleted.filter(|key| !put.contains(key)).collect();
        (!put.is_empty() || !dropped.is_empty()).then_some(Self { directories, put, dropped })
    }

    /// Whether it puts a file into this folder, or below it.
    fn is_below(&self, folder: &[u8]) -> bool {
        let is_within =
            |row: &Bytes| row.strip_prefix(folder).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
        self.directories.iter().any(is_within)
    }

    fn put_keys(&self, clock: Clock) -> impl Iterator<Item = Key> {
        self.put.iter().copied().filter(move |key| by_time::clock(key) == Some(clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::dir::FileEntry;
    use crate::schema::file::{Attributes, ContentLocation, Digest, FilePosition};
    use crate::schema::index::IndexRows;
    use crate::schema::{DirId, FileId, Name, StayId, Timestamp};
    use crate::table::ConditionalRow;

    /// An upload in place of another file: the plan with the most keys.
    #[test]
    fn an_upload_takes_no_allocation_for_its_keys() {
        let attributes = Attributes {
            size: 1,
            mime: "image/jpeg".to_owned(),
            creator: "eva".to_owned(),
            modified: Timestamp::from_ms(1),
            added: Timestamp::from_ms(2),
            digest: Digest([7; 32]),
            location: ContentLocation::Inline,
        };
        let position = FilePosition { dir: DirId::ROOT, name: Name::parse("f").unwrap(), stay: StayId::CREATED };
        let rows = |id| IndexRows { id, attributes: &attributes, position: &position };
        let [old, new] = [(); 2].map(|()| FileId::random());
        let entry = FileEntry { id: new, stay: position.stay, attributes: attributes.clone() };
        let changes = vec![Change::put(dir::SUB, dir::file_qualifier(&position.name), entry.encode())];
        let row = Bytes::from_static(b"/");
        let guarded = vec![ConditionalRow { table: dir::TABLE, row: row.clone(), checks: Vec::new(), changes }];
        let plan = Plan { prepare: rows(new).put(), guarded, finish: rows(old).delete(), ..Plan::default() };
        let FileChange { directories, put, dropped } = FileChange::of(&plan).unwrap();
        assert!(directories.as_slice() == [row] && !directories.spilled());
        let times = [(Clock::Modified, attributes.modified), (Clock::Added, attributes.added)];
        for (found, id) in [(put, new), (dropped, old)] {
            let keys = times.map(|(clock, time)| by_time::key_bytes(clock, time, id));
            assert!(found.len() == 2 && keys.iter().all(|key| found.contains(key)), "{found:?}");
            assert!(!found.spilled());
        }
    }

    #[test]
    fn a_range_the_wrong_way_round_has_no_keys() {
        let [a, b] = [b"a", b"b"].map(|key| Bytes::from_static(key));
        let bounds = |key: &Bytes| [Bound::Included(key.clone()), Bound::Excluded(key.clone()), Bound::Unbounded];
        let mut set = BTreeSet::new();
        set.insert(a.clone());
        for (from, to) in [(&a, &b), (&a, &a), (&b, &a)] {
            for (from, to) in bounds(from).into_iter().flat_map(|from| bounds(to).map(|to| (from.clone(), to))) {
                let range = RowRange { from, to };
                let found =
                    !is_empty(&range) && set.range::<Bytes, _>((range.from.clone(), range.to.clone())).count() > 0;
                assert_eq!(found, range.contains(&a), "{range:?}");
            }
        }
    }
}
