//! The order of the members of a tar that are stored at the same time.
//!
//! Members at different paths may overtake each other. A member waits for the earlier ones at its own path, so that the
//! last one of a path wins, and for those above and below it, so that each is stored or refused as if the members were
//! stored one by one. And members of one directory wait for the first of them, which makes the directory if it is
//! missing: otherwise the plans of all would make it, and all but one would be refused.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use tokio::sync::watch;

use crate::schema::DrivePath;

/// Directories whose first members are known.
const DIRECTORIES: usize = 64;

/// The members that have begun, by path: of each path the last one. Some of them may have ended.
#[derive(Default)]
pub struct Order {
    members: BTreeMap<String, watch::Receiver<()>>,
    /// At this many members the ended ones are removed.
    full: usize,
    /// The member that makes a directory, if that is missing: its own one, or the first one in it.
    makers: HashMap<DrivePath, watch::Receiver<()>>,
}

/// The turn of a member. Later members that wait for it go on when it is dropped.
pub struct Turn {
    earlier: Vec<watch::Receiver<()>>,
    _ended: watch::Sender<()>,
}

impl Order {
    /// A member at this path begins.
    pub fn begin(&mut self, path: &DrivePath, is_directory: bool) -> Turn {
        let (_ended, end) = watch::channel(());
        let mut earlier = self.above(path.as_str());
        earlier.extend(self.below(path.as_str()));
        let directory = if is_directory { Some(path.clone()) } else { path.split().map(|(parent, _)| parent) };
        earlier.extend(directory.and_then(|directory| self.maker(directory, &end)));
        earlier.extend(self.members.insert(path.as_str().to_owned(), end));
        if self.members.len() > self.full {
            self.members.retain(|_, member| member.has_changed().is_ok());
            self.full = (2 * self.members.len()).max(64);
        }
        Turn { earlier, _ended }
    }

    /// The member that makes this directory; none if it is this one, which has this end.
    fn maker(&mut self, directory: DrivePath, end: &watch::Receiver<()>) -> Option<watch::Receiver<()>> {
        if let Some(maker) = self.makers.get(&directory) {
            return Some(maker.clone());
        }
        if self.makers.len() >= DIRECTORIES {
            self.makers.clear();
        }
        self.makers.insert(directory, end.clone());
        None
    }

    fn above(&self, path: &str) -> Vec<watch::Receiver<()>> {
        let parents = path.match_indices('/').map(|(at, _)| if at == 0 { "/" } else { path.split_at(at).0 });
        parents.filter(|parent| *parent != path).filter_map(|parent| self.members.get(parent).cloned()).collect()
    }

    fn below(&self, path: &str) -> Vec<watch::Receiver<()>> {
        let base = if path == "/" { "" } else { path };
        // `0` follows the slash.
        let (from, to) = (format!("{base}/"), format!("{base}0"));
        let range = (Bound::Excluded(from.as_str()), Bound::Excluded(to.as_str()));
        self.members.range::<str, _>(range).map(|(_, member)| member.clone()).collect()
    }
}

impl Turn {
    /// Waits until all members before this one have ended.
    pub async fn come(&mut self) {
        for mut member in self.earlier.drain(..) {
            // Nothing is ever sent: it ends when the other one is dropped.
            while member.changed().await.is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_member_waits_for_those_at_above_and_below_its_path_only() {
        for (earlier, later, waits) in [
            ("/a", "/a", true),
            ("/a", "/a/b/c", true),
            ("/a/b/c", "/a", true),
            ("/", "/a", true),
            ("/a/b", "/", true),
            ("/a/x", "/ab/x", false),
            ("/ab/x", "/a/x", false),
            ("/a b/x", "/a/x", false),
            ("/a0/x", "/a/x", false),
            ("/a/b", "/c/b", false),
        ] {
            let path = |text| DrivePath::parse(text).unwrap();
            let mut order = Order::default();
            let first = order.begin(&path(earlier), false);
            let mut second = order.begin(&path(later), false);
            let mut third = order.begin(&path(later), false);
            assert_eq!(second.come().now_or_never().is_none(), waits, "{earlier} {later}");
            drop(first);
            let mut fourth = order.begin(&path(later), false);
            assert!(third.come().now_or_never().is_none() && fourth.come().now_or_never().is_none());
            second.come().await;
            drop(second);
            third.come().await;
            drop(third);
            fourth.come().await;
        }
    }

    #[tokio::test]
    async fn members_of_a_directory_wait_for_the_one_that_makes_it() {
        for is_directory in [true, false] {
            let mut order = Order::default();
            let path = |text| DrivePath::parse(text).unwrap();
            let maker = order.begin(&path(if is_directory { "/a/b" } else { "/a/b/1" }), is_directory);
            let mut second = order.begin(&path("/a/b/2"), false);
            let mut third = order.begin(&path("/a/b/3"), false);
            assert!(second.come().now_or_never().is_none() && third.come().now_or_never().is_none());
            drop(maker);
            third.come().await;
            drop(third);
            // From then on they do not wait for each other.
            assert!(order.begin(&path("/a/b/4"), false).come().now_or_never().is_some());
        }
    }

    #[tokio::test]
    async fn ended_members_are_forgotten() {
        let mut order = Order::default();
        let path = |n: usize| DrivePath::parse(&format!("/{n}")).unwrap();
        let kept = order.begin(&path(0), false);
        for n in 1..10_000 {
            drop(order.begin(&path(n), false));
        }
        assert!(order.members.len() < 200 && order.members.contains_key("/0"));
        drop(kept);
    }
}
