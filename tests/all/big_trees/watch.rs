//! Watchers: readers that run during an operation, and the states that they must never see.
//!
//! A watcher reads several times, and each read is of a different instant. So two reads are compared only where their
//! order makes a contradiction:
//!
//! - both: found at the new path, and *then* still at the old one
//! - neither: missing at the old path, and *then* not yet at the new one
//! - back again: as before the operation, in a read that began after *any* watcher had seen the state after it, or
//!   after the answer
//! - part: a listing that ended without an error and lacked an entry
//! - another: a node at the path with a different id

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rowdrive::drive::{Drive, DriveError, ListQuery, NameQuery, Node, TimeQuery};
use rowdrive::schema::index::by_time::Clock;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::tree::{NEEDLE, NEEDLES, Tree, id, path, put};

/// The operation on the tree at the old path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeChange {
    Moves { to: &'static str },
    Vanishes,
    Stays,
}

/// The shared state of the watchers.
pub struct Watch {
    pub drive: Drive,
    pub tree: Arc<Tree>,
    pub ids: Arc<HashMap<String, Uuid>>,
    pub from: &'static str,
    pub fate: TreeChange,
    /// A reader has seen the state after the operation.
    happened: AtomicBool,
    ended: AtomicBool,
    pub reads: ReadCounts,
}

/// How often each kind of watcher has read.
#[derive(Debug, Default)]
pub struct ReadCounts {
    pub stats: AtomicU64,
    /// Listings of the whole tree, and how many of them found that the tree had left its path.
    pub listings: AtomicU64,
    pub gone: AtomicU64,
    pub queries: AtomicU64,
    pub uploads: AtomicU64,
    /// In milliseconds.
    pub longest_upload: AtomicU64,
}

impl ReadCounts {
    /// The count of the kind that has read least.
    pub fn fewest(&self) -> u64 {
        let kinds = [&self.stats, &self.listings, &self.queries, &self.uploads];
        kinds.into_iter().map(|reads| reads.load(Ordering::Relaxed)).min().unwrap()
    }
}

impl Watch {
    pub fn new(
        drive: &Drive,
        tree: &Arc<Tree>,
        ids: &Arc<HashMap<String, Uuid>>,
        from: &'static str,
        fate: TreeChange,
    ) -> Arc<Self> {
        let (drive, tree, ids) = (drive.clone(), tree.clone(), ids.clone());
        let (happened, ended, reads) = (AtomicBool::new(false), AtomicBool::new(false), ReadCounts::default());
        Arc::new(Self { drive, tree, ids, from, fate, happened, ended, reads })
    }

    /// Starts several watchers, which run until [`Self::end`].
    pub fn begin(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let (a, b, c, d, e) = (self.clone(), self.clone(), self.clone(), self.clone(), self.clone());
        vec![
            tokio::spawn(async move { a.stats(1).await }),
            tokio::spawn(async move { b.stats(2).await }),
            tokio::spawn(async move { c.listings().await }),
            tokio::spawn(async move { d.queries().await }),
            tokio::spawn(async move { e.uploads().await }),
        ]
    }

    /// Records that the operation was answered: every later read must see it.
    pub fn answered(&self) {
        if self.fate != TreeChange::Stays {
            self.saw_it();
        }
    }

    /// Lets each watcher read once more. Fails if a watcher saw a forbidden state.
    pub async fn end(&self, watchers: Vec<JoinHandle<()>>) {
        self.ended.store(true, Ordering::SeqCst);
        for watcher in watchers {
            watcher.await.unwrap();
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn has_happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }

    fn saw_it(&self) {
        assert_ne!(self.fate, TreeChange::Stays, "what is copied is gone");
        self.happened.store(true, Ordering::SeqCst);
    }

    fn to(&self) -> Option<&'static str> {
        match self.fate {
            TreeChange::Moves { to } => Some(to),
            TreeChange::Vanishes | TreeChange::Stays => None,
        }
    }

    /// Whether a node of the tree is at this path, with its own id.
    async fn is_at(&self, base: &str, below: &str) -> bool {
        match self.drive.unrestricted().stat(&path(base, below)).await {
            Ok(node) => {
                assert_eq!(id(&node), self.ids[below], "{base}{below} is another");
                true
            }
            Err(DriveError::NotFound) => false,
            Err(error) => panic!("{base}{below}: {error}"),
        }
    }

    /// Stats two random nodes of the tree, one after the other, at the old path and at the new one.
    async fn stats(&self, seed: u64) {
        let mut dice = StdRng::seed_from_u64(seed);
        let Tree { directories, files, .. } = &*self.tree;
        let mut draw = |of: &[String]| of[dice.random_range(0..of.len())].clone();
        for turn in 0_u64.. {
            let last = self.has_ended();
            let (one, other) = if turn % 3 == 0 {
                (draw(directories), draw(directories))
            } else {
                (draw(files), if turn % 3 == 1 { draw(directories) } else { draw(files) })
            };
            match self.to() {
                Some(to) if turn % 2 == 0 => self.old_then_new(to, &one, &other).await,
                Some(to) => self.new_then_old(to, &one, &other).await,
                None => self.old_twice(&one, &other).await,
            }
            self.reads.stats.fetch_add(1, Ordering::Relaxed);
            if last {
                return;
            }
            take_turns(turn).await;
        }
    }

    async fn old_then_new(&self, to: &str, one: &str, other: &str) {
        let before = self.has_happened();
        let old = self.is_at(self.from, one).await;
        assert!(!(before && old), "{one} is back at the old path");
        let new = self.is_at(to, other).await;
        assert!(old || new, "neither: {one} was gone from the old path, {other} was not at the new one");
        if !old || new {
            self.saw_it();
        }
    }

    async fn new_then_old(&self, to: &str, one: &str, other: &str) {
        let before = self.has_happened();
        let new = self.is_at(to, one).await;
        assert!(new || !before, "{one} is gone from the new path");
        let old = self.is_at(self.from, other).await;
        assert!(!(new && old), "both: {one} was at the new path, {other} still at the old one");
        if new || !old {
            self.saw_it();
        }
    }

    async fn old_twice(&self, one: &str, other: &str) {
        let before = self.has_happened();
        let first = self.is_at(self.from, one).await;
        assert!(!(before && first), "{one} is back");
        if !first {
            self.saw_it();
        }
        let second = self.is_at(self.from, other).await;
        assert!(first || !second, "part: {one} was gone, {other} was still there");
        if !second {
            self.saw_it();
        }
    }

    /// Lists the whole tree repeatedly at the path where it must be.
    async fn listings(&self) {
        loop {
            let last = self.has_ended();
            if let Some(to) = self.to().filter(|_| self.has_happened()) {
                assert!(self.list_tree(to).await, "it is gone from the new path");
            } else if !self.list_tree(self.from).await {
                self.saw_it();
                self.reads.gone.fetch_add(1, Ordering::Relaxed);
            }
            self.reads.listings.fetch_add(1, Ordering::Relaxed);
            if last {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns false if a directory is missing. Otherwise every entry must be there.
    async fn list_tree(&self, base: &str) -> bool {
        for (below, wanted) in self.tree.children() {
            let mut query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 1_000 };
            let mut listed: Vec<String> = Vec::with_capacity(wanted);
            loop {
                let before = self.has_happened();
                let page = match self.drive.unrestricted().list(&path(base, below), &query).await {
                    Ok(page) => page,
                    Err(DriveError::NotFound) => return false,
                    Err(error) => panic!("{base}{below}: {error}"),
                };
                assert!(!before || base != self.from, "{below} is listed again at the old path");
                listed.extend(page.nodes.iter().map(|node| self.child(base, node)));
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            listed.sort_unstable();
            listed.dedup();
            assert_eq!(listed.len(), wanted, "part: a listing of {base}{below} that came to its end");
        }
        true
    }

    /// The path below the root of a listed child, which must be the tree's own.
    fn child(&self, base: &str, node: &Node) -> String {
        let below = node.path().as_str().strip_prefix(base).unwrap();
        assert_eq!(self.ids.get(below), Some(&id(node)), "{} is another", node.path());
        below.to_owned()
    }

    /// Searches the needles by name and by time, in the whole drive or below the root of the tree.
    async fn queries(&self) {
        for turn in 0_u64.. {
            let last = self.has_ended();
            let before = self.has_happened();
            let base = self.to().filter(|_| before).unwrap_or(self.from);
            let under = (turn % 4 >= 2).then(|| path(base, ""));
            let found = if turn % 2 == 0 {
                let query =
                    NameQuery { name: NEEDLE.into(), prefix: true, under: under.clone(), after: None, limit: 100 };
                self.drive.unrestricted().files_by_name(&query).await.map(|found| (found.nodes, found.next.is_none()))
            } else {
                let query = TimeQuery {
                    clock: Clock::Modified,
                    from: Some(NEEDLES[0]),
                    to: Some(NEEDLES[1]),
                    under: under.clone(),
                    creator: None,
                    mime: None,
                    ascending: turn % 8 < 4,
                    after: None,
                    limit: 100,
                };
                self.drive.unrestricted().files_by_time(&query).await.map(|found| (found.nodes, found.next.is_none()))
            };
            match found {
                Ok((nodes, whole)) => {
                    assert!(whole, "the needles fit into one page");
                    self.check_result(&nodes, before, under.is_some());
                }
                Err(DriveError::NotFound) if under.is_some() && base == self.from => self.saw_it(),
                Err(error) => panic!("needles below {base}: {error}"),
            }
            self.reads.queries.fetch_add(1, Ordering::Relaxed);
            if last {
                return;
            }
            take_turns(turn).await;
        }
    }

    /// `before`: whether the operation was visible before the query began.
    fn check_result(&self, nodes: &[Node], before: bool, under: bool) {
        // The needles of a copy have different ids.
        let ours: Vec<_> = self
            .tree
            .needles
            .iter()
            .map(|needle| (needle, nodes.iter().filter(|node| id(node) == self.ids[needle]).collect::<Vec<_>>()))
            .collect();
        for (needle, shown) in &ours {
            assert!(shown.len() <= 1, "{needle} is shown twice: {shown:?}");
            match (shown.first(), self.fate) {
                (None, TreeChange::Vanishes) => self.saw_it(),
                (None, fate) => panic!("{needle} is missed (it {fate:?}, under its root: {under})"),
                (Some(node), fate) => {
                    let at = node.path();
                    let new = self.to().is_some_and(|to| *at == path(to, needle));
                    assert!(new || *at == path(self.from, needle), "{needle} is shown at {at}");
                    assert!(new || !before, "{needle} is shown at the old path again: it {fate:?}");
                    if new {
                        self.saw_it();
                    }
                }
            }
        }
    }

    /// Uploads files outside of the tree, one after the other.
    async fn uploads(&self) {
        loop {
            let last = self.has_ended();
            let start = tokio::time::Instant::now();
            put(&self.drive, &path("/elsewhere", &format!("/{}", Uuid::new_v4())), None).await.unwrap();
            self.reads.longest_upload.fetch_max(start.elapsed().as_millis() as u64, Ordering::Relaxed);
            self.reads.uploads.fetch_add(1, Ordering::Relaxed);
            if last {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Yields the processor to other tasks.
async fn take_turns(turn: u64) {
    if turn % 8 == 7 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    } else {
        tokio::task::yield_now().await;
    }
}
