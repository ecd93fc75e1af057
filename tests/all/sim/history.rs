//! The requests and answers of all clients, and whether one order explains every answer.
//!
//! The drive promises that every change takes effect at one instant between its call and its answer, and that every
//! answer is of such an instant. So there is an order of all requests, within these bounds, in which a plain model
//! gives the same answers (Herlihy and Wing: linearizability). A change without an answer may have taken effect at any
//! instant after its call, or not at all. The search is that of Wing and Gong, with memorised states as by Lowe.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::drive::model::{Op as Change, View};

/// The number of search steps before the search gives up.
const STEPS: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadValue {
    /// The size, which identifies the version.
    File(usize),
    Directory,
}

#[derive(Clone, Debug)]
pub enum Observation {
    /// A change, and whether it created something, if the answer says so.
    Did(Change, Option<bool>),
    /// The version of this size was replaced by another.
    Replaced(&'static str, usize, usize),
    /// The second half of a copy: this version was written at the target. Without one: any version.
    Copied {
        to: &'static str,
        overwrite: bool,
        version: Option<(usize, bool)>,
    },
    /// A refused change: at some instant it was impossible.
    Refused(Change),
    /// A change that certainly did not happen, for a reason that does not depend on the state.
    Nothing,
    Saw(String, Option<ReadValue>),
    /// A page of a directory after this qualifier, directories first; none if the directory does not exist.
    Page {
        at: &'static str,
        after: Option<String>,
        limit: usize,
        page: Option<(Vec<(String, ReadValue)>, bool)>,
    },
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub what: Observation,
    pub called: u64,
    /// None if there was no answer, or one that leaves the outcome open.
    pub answered: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Explained,
    Contradiction,
    GaveUp,
}

impl Observation {
    fn is_change(&self) -> bool {
        matches!(self, Self::Did(..) | Self::Replaced(..) | Self::Copied { .. })
    }

    /// Whether a read fits a state.
    fn fits(&self, state: &View) -> bool {
        match self {
            Self::Nothing => true,
            // A node cannot be moved or copied onto itself in any state.
            Self::Refused(Change::Move(from, to, _) | Change::Copy(from, to, _)) if from == to => true,
            Self::Refused(change) => state.after(*change).is_err(),
            Self::Saw(at, seen) => read_value(state, at) == *seen,
            Self::Page { at, after, limit, page } => {
                let expected = page_of(state, at, after.as_deref(), *limit);
                expected == *page
            }
            _ => false,
        }
    }

    /// The possible states after this entry; none if it cannot happen in this state.
    fn after(&self, state: &View, versions: &[usize]) -> Vec<View> {
        match self {
            Self::Did(change, new) => {
                let was_there = match change {
                    Change::Put(at, _) | Change::New(at, _) | Change::Mkdir(at) => read_value(state, at).is_some(),
                    Change::Move(_, to, _) => read_value(state, to).is_some(),
                    _ => false,
                };
                let fits = new.is_none_or(|new| new != was_there);
                state.after(*change).ok().filter(|_| fits).into_iter().collect()
            }
            Self::Replaced(at, old, new) => {
                let fits = read_value(state, at) == Some(ReadValue::File(*old));
                state.after(Change::Put(at, *new)).ok().filter(|_| fits).into_iter().collect()
            }
            Self::Copied { to, overwrite, version: Some((version, new)) } => {
                let fits = *new != read_value(state, to).is_some();
                copied(state, to, *version, *overwrite).filter(|_| fits).into_iter().collect()
            }
            Self::Copied { to, overwrite, version: None } => {
                versions.iter().filter_map(|version| copied(state, to, *version, *overwrite)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn copied(state: &View, to: &'static str, version: usize, overwrite: bool) -> Option<View> {
    let parent = to.rsplit_once('/').map_or("", |(parent, _)| parent);
    let may = !state.dirs.contains(to)
        && (parent.is_empty() || state.dirs.contains(parent))
        && (overwrite || !state.files.contains_key(to));
    may.then(|| {
        let mut state = state.clone();
        state.files.insert(to.to_owned(), version);
        state
    })
}

pub fn read_value(state: &View, at: &str) -> Option<ReadValue> {
    match state.files.get(at) {
        Some(version) => Some(ReadValue::File(*version)),
        None => state.dirs.contains(at).then_some(ReadValue::Directory),
    }
}

fn page_of(state: &View, at: &str, after: Option<&str>, limit: usize) -> Option<(Vec<(String, ReadValue)>, bool)> {
    if !state.dirs.contains(at) {
        return None;
    }
    let name = |path: &String| {
        let rest = path.strip_prefix(at)?.strip_prefix('/')?;
        (!rest.contains('/')).then(|| rest.to_owned())
    };
    let directories = state.dirs.iter().filter_map(|path| Some((format!("d_{}", name(path)?), ReadValue::Directory)));
    let files =
        state.files.iter().filter_map(|(path, size)| Some((format!("f_{}", name(path)?), ReadValue::File(*size))));
    let mut all: Vec<_> =
        directories.chain(files).filter(|(q, _)| after.is_none_or(|after| q.as_str() > after)).collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let more = all.len() > limit;
    all.truncate(limit);
    Some((all, more))
}

/// Whether some order of `entries` leads from one state to the other.
pub fn explain(start: &View, entries: &[Entry], end: &View) -> Verdict {
    if entries.len() > 128 {
        return Verdict::GaveUp;
    }
    let mut versions: Vec<usize> = start.files.values().copied().collect();
    versions.extend(entries.iter().filter_map(|entry| match entry.what {
        Observation::Did(Change::Put(_, size) | Change::New(_, size), _) | Observation::Replaced(_, _, size) => {
            Some(size)
        }
        _ => None,
    }));
    let mut search = HistorySearch { entries, end, versions, seen: HashSet::new(), steps: 0 };
    if search.can_complete(start.clone(), 0) {
        Verdict::Explained
    } else if search.steps > STEPS {
        Verdict::GaveUp
    } else {
        Verdict::Contradiction
    }
}

struct HistorySearch<'a> {
    entries: &'a [Entry],
    end: &'a View,
    /// All versions that a copy may have copied.
    versions: Vec<usize>,
    /// Visited combinations of finished entries and state.
    seen: HashSet<(u128, u64)>,
    steps: usize,
}

impl HistorySearch<'_> {
    /// Whether the entries outside of `done` can follow in this state.
    fn can_complete(&mut self, state: View, mut done: u128) -> bool {
        let entries = self.entries;
        let left = |done: u128| entries.iter().enumerate().filter(move |(at, _)| done & (1 << at) == 0);
        // A read that fits here can be placed at once: it affects no other operation.
        let first = loop {
            let first = left(done).filter_map(|(_, entry)| entry.answered).min();
            let within = |entry: &Entry| first.is_none_or(|first| entry.called <= first);
            let fits = left(done).filter(|(_, entry)| within(entry) && entry.what.fits(&state));
            let taken = fits.fold(0, |taken, (at, _)| taken | 1 << at);
            if taken == 0 {
                break first;
            }
            done |= taken;
        };
        if first.is_none() && state == *self.end {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        (&state.dirs, &state.files).hash(&mut hasher);
        self.steps += 1;
        if self.steps > STEPS || !self.seen.insert((done, hasher.finish())) {
            return false;
        }
        let within = |entry: &Entry| first.is_none_or(|first| entry.called <= first);
        let mut next: Vec<_> = left(done).filter(|(_, entry)| within(entry) && entry.what.is_change()).collect();
        next.sort_by_key(|(_, entry)| entry.answered.unwrap_or(u64::MAX));
        for (at, entry) in next {
            for state in entry.what.after(&state, &self.versions) {
                if self.can_complete(state, done | 1 << at) {
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: Observation, called: u64, answered: u64) -> Entry {
        Entry { what, called, answered: Some(answered).filter(|at| *at > 0) }
    }

    fn put(size: usize) -> Observation {
        Observation::Did(Change::Put("/f", size), None)
    }

    fn saw(size: usize) -> Observation {
        Observation::Saw("/f".into(), Some(ReadValue::File(size)))
    }

    fn end(size: usize) -> View {
        View { files: [("/f".to_owned(), size)].into(), ..View::default() }
    }

    #[test]
    fn the_history_check_finds_an_order_if_one_exists() {
        let start = View::default();
        let ordered = [entry(put(1), 1, 2), entry(put(2), 3, 6), entry(saw(1), 4, 5), entry(saw(2), 7, 8)];
        assert_eq!(explain(&start, &ordered, &end(2)), Verdict::Explained);
        assert_eq!(explain(&start, &ordered, &end(1)), Verdict::Contradiction);
        // The old version is read after the new one.
        let stale = [entry(put(1), 1, 2), entry(put(2), 3, 9), entry(saw(2), 4, 5), entry(saw(1), 6, 7)];
        assert_eq!(explain(&start, &stale, &end(2)), Verdict::Contradiction);
        // A change without an answer: whether it happened is unknown.
        for size in [1, 2] {
            let open = [entry(put(1), 1, 2), entry(put(2), 3, 0)];
            assert_eq!(explain(&start, &open, &end(size)), Verdict::Explained);
        }
        // An acknowledged change must have happened.
        assert_eq!(explain(&start, &[entry(put(1), 1, 2)], &start), Verdict::Contradiction);
    }
}
