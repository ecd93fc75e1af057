//! The operations of clients, and their effects on each path.
//!
//! An operation on a directory is an operation on every path below it: a recursive delete removes each file, a move
//! removes it here and writes the same content at the new path. No answer says which content that is, so it is one of
//! those that may have been at the source meanwhile ([`Histories::sources`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::checker::{self, Finds, Leaves, PathOp, State, Unexplained, Value};

#[cfg(test)]
mod tests;

pub type Path = Arc<str>;

/// The effect of an operation on paths of files.
#[derive(Clone, Debug)]
pub enum Effect {
    /// On one path: the state that it found, and the state that it left, if it wrote.
    Step {
        path: Path,
        finds: Finds,
        leaves: Option<State>,
    },
    /// Refused: nothing happened. Recorded for the story of a finding only.
    Refused {
        path: Path,
        what: String,
    },
    /// A file was moved or copied, and its content is unknown.
    Arrives {
        from: Path,
        to: Path,
    },
    /// All files below a directory were removed.
    Removed {
        below: Path,
    },
    /// The directory did not exist.
    Absent {
        below: Path,
    },
    Moved {
        from: Path,
        to: Path,
    },
    /// File by file, over existing files.
    Copied {
        from: Path,
        to: Path,
    },
}

/// An operation, or one path's part in it.
#[derive(Clone, Debug)]
pub struct OpRecord {
    pub start: u64,
    pub end: u64,
    pub client: usize,
    /// The number of the server process that got the request.
    pub server: usize,
    /// Whether it was acknowledged.
    pub certain: bool,
    pub effect: Effect,
}

/// A path with an impossible history.
pub struct Wrong {
    pub path: Path,
    pub kind: &'static str,
    pub story: String,
}

#[derive(Clone, Debug)]
enum Writes {
    Nothing,
    This(State),
    /// The state of this path at the time of the operation.
    From(Path),
    Added(Path),
}

/// One path's part in a record.
#[derive(Clone, Debug)]
struct PathPart {
    start: u64,
    end: u64,
    must: bool,
    finds: Finds,
    writes: Writes,
    record: usize,
}

/// The histories of all paths between two idle moments.
pub struct Histories<'a> {
    records: &'a [OpRecord],
    /// The files at the first idle moment, by path.
    initial: &'a BTreeMap<Path, Value>,
    parts: HashMap<Path, Vec<PathPart>>,
    sources: HashMap<(usize, Path), Option<Vec<State>>>,
    under_way: BTreeSet<(usize, Path)>,
}

/// The part of a path after a directory.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory).filter(|rest| rest.starts_with('/'))
}

fn image(path: &str, from: &str, to: &str) -> Option<Path> {
    below(path, from).map(|rest| format!("{to}{rest}").into())
}

impl<'a> Histories<'a> {
    /// `deaths`: when each server process had ended. An operation that has not taken effect by then never does.
    pub fn new(
        initial: &'a BTreeMap<Path, Value>,
        records: &'a [OpRecord],
        deaths: &[u64],
        last: &BTreeMap<Path, Value>,
        now: u64,
    ) -> Self {
        let empty = (HashMap::new(), HashMap::new(), BTreeSet::new());
        let mut it = Self { records, initial, parts: empty.0, sources: empty.1, under_way: empty.2 };
        let paths = it.paths(last);
        let mut of_directory: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            match &record.effect {
                Effect::Removed { below } | Effect::Absent { below } => {
                    of_directory.entry(below).or_default().push(index)
                }
                Effect::Moved { from, to } | Effect::Copied { from, to } => {
                    of_directory.entry(from).or_default().push(index);
                    of_directory.entry(to).or_default().push(index);
                }
                Effect::Step { .. } | Effect::Arrives { .. } | Effect::Refused { .. } => {}
            }
        }
        let ended = |record: &OpRecord| {
            let known = if record.certain { record.end } else { now - 1 };
            known.min(deaths.get(record.server).copied().unwrap_or(u64::MAX))
        };
        for (index, record) in records.iter().enumerate() {
            let (path, finds, writes) = match &record.effect {
                Effect::Step { path, finds, leaves } => {
                    (path, finds.clone(), leaves.map_or(Writes::Nothing, Writes::This))
                }
                Effect::Arrives { from, to } => (to, Finds::Anything, Writes::From(from.clone())),
                _ => continue,
            };
            it.add(path, record, index, ended(record), finds, writes);
        }
        for path in &paths {
            let above = path.match_indices('/').skip(1).filter_map(|(at, _)| path.get(..at));
            for index in above.filter_map(|above| of_directory.get(above)).flatten() {
                let record = &records[*index];
                for (finds, writes) in part_below(&record.effect, path) {
                    it.add(path, record, *index, ended(record), finds, writes);
                }
            }
            let state = last.get(path).copied();
            let part = PathPart {
                start: now,
                end: now,
                must: true,
                finds: Finds::Exactly(state),
                writes: Writes::Nothing,
                record: records.len(),
            };
            it.parts.entry(path.clone()).or_default().push(part);
        }
        it
    }

    fn add(&mut self, path: &Path, record: &OpRecord, index: usize, end: u64, finds: Finds, writes: Writes) {
        // Sent to a server that had already ended: it never arrived.
        if record.certain || record.start < end {
            let part = PathPart { start: record.start, end, must: record.certain, finds, writes, record: index };
            self.parts.entry(path.clone()).or_default().push(part);
        }
    }

    /// All paths in the records, and those to which they may have been moved or copied.
    fn paths(&self, last: &BTreeMap<Path, Value>) -> BTreeSet<Path> {
        let mut paths: BTreeSet<Path> = self.initial.keys().chain(last.keys()).cloned().collect();
        for record in self.records {
            match &record.effect {
                Effect::Step { path, .. } => drop(paths.insert(path.clone())),
                Effect::Arrives { from, to } => paths.extend([from.clone(), to.clone()]),
                _ => {}
            }
        }
        // Twice: a file that arrives by one move may leave by another one that began earlier.
        for _ in 0..2 {
            for record in self.records {
                let (Effect::Moved { from, to } | Effect::Copied { from, to }) = &record.effect else { continue };
                let start: Path = format!("{from}/").into();
                let inside = paths.range(start..).take_while(|path| below(path, from).is_some());
                let images: Vec<Path> = inside.filter_map(|path| image(path, from, to)).collect();
                paths.extend(images);
            }
        }
        paths
    }

    /// The possible states of a path while a record's operation took effect; `None`: any state.
    fn sources(&mut self, path: &Path, record: usize, start: u64, end: u64) -> Option<Vec<State>> {
        let key = (record, path.clone());
        if let Some(known) = self.sources.get(&key) {
            return known.clone();
        }
        if !self.under_way.insert(key.clone()) {
            return None;
        }
        let found = self.find_sources(path, record, start, end);
        self.under_way.remove(&key);
        self.sources.insert(key, found.clone());
        found
    }

    fn find_sources(&mut self, path: &Path, record: usize, start: u64, end: u64) -> Option<Vec<State>> {
        let parts = self.parts.get(path).cloned().unwrap_or_default();
        let other = |part: &&PathPart| part.record != record && !matches!(part.writes, Writes::Nothing);
        let writes: Vec<&PathPart> = parts.iter().filter(other).filter(|part| part.start < end).collect();
        let replaces = |part: &&&PathPart| part.must && part.end < start && !matches!(part.writes, Writes::Added(_));
        // The last certain write that ended before this operation began has overwritten all earlier states.
        let covered = writes.iter().filter(replaces).map(|part| part.start).max().unwrap_or(0);
        let mut states = BTreeSet::new();
        if covered == 0 {
            states.insert(self.initial.get(path).copied());
        }
        for part in writes {
            if part.end < covered {
                continue;
            }
            match &part.writes {
                Writes::Nothing => {}
                Writes::This(state) => drop(states.insert(*state)),
                Writes::From(from) => states.extend(self.sources(from, part.record, part.start, part.end)?),
                Writes::Added(from) => {
                    let added = self.sources(from, part.record, part.start, part.end)?;
                    states.extend(added.into_iter().flatten().map(Some));
                }
            }
        }
        Some(states.into_iter().collect())
    }

    pub fn paths_known(&self) -> usize {
        self.parts.len()
    }

    /// Every path with a history that no order explains.
    pub fn wrong(&mut self) -> Vec<Wrong> {
        let paths: BTreeSet<Path> = self.parts.keys().cloned().collect();
        paths.iter().filter_map(|path| self.judge(path)).collect()
    }

    fn judge(&mut self, path: &Path) -> Option<Wrong> {
        let parts = self.parts[path].clone();
        let ops: Vec<PathOp> = parts.iter().map(|part| self.resolve(part)).collect();
        let initial = self.initial.get(path).copied();
        let (index, before) = match checker::check(initial, &ops) {
            Ok(_) => return None,
            Err(Unexplained::Op { index, before }) => (index, before),
            Err(Unexplained::TooMany) => {
                return Some(Wrong {
                    path: path.clone(),
                    kind: "undecided",
                    story: self.story(path, initial, &parts, &ops),
                });
            }
        };
        let op = &ops[index];
        let is_read = op.leaves == Leaves::Same;
        let kind = match &op.finds {
            Finds::Exactly(None) if is_read => "lost",
            Finds::Exactly(Some(_)) | Finds::File if is_read && before.iter().all(Option::is_none) => "returned",
            _ if is_read => "stale or wrong",
            _ => "not linearisable",
        };
        let story = self.story(path, initial, &parts, &ops);
        let story = format!("possible before: {before:?}\n  not explained: {}\n{story}", self.line(&parts[index], op));
        Some(Wrong { path: path.clone(), kind, story })
    }

    fn resolve(&mut self, part: &PathPart) -> PathOp {
        let leaves = match &part.writes {
            Writes::Nothing => Leaves::Same,
            Writes::This(state) => Leaves::One(Some(vec![*state])),
            Writes::From(from) => Leaves::One(self.sources(from, part.record, part.start, part.end)),
            Writes::Added(from) => Leaves::Added(self.sources(from, part.record, part.start, part.end)),
        };
        PathOp { start: part.start, end: part.end, must: part.must, finds: part.finds.clone(), leaves }
    }

    fn story(&self, path: &str, initial: State, parts: &[PathPart], ops: &[PathOp]) -> String {
        let mut lines: Vec<(u64, String)> =
            parts.iter().zip(ops).map(|(part, op)| (part.start, self.line(part, op))).collect();
        lines.extend(self.records.iter().filter_map(|record| {
            let Effect::Refused { path: of, what } = &record.effect else { return None };
            let (start, end) = (record.start / 1_000, record.end / 1_000);
            let line =
                || format!("[{start} .. {end} us] refused: client {} server {} {what}", record.client, record.server);
            (**of == *path).then(|| (record.start, line()))
        }));
        lines.sort();
        let skipped = lines.len().saturating_sub(60);
        let lines: Vec<String> = lines.into_iter().skip(skipped).map(|(_, line)| line).collect();
        format!("  at first {initial:?}, {skipped} operations not shown\n  {}", lines.join("\n  "))
    }

    fn line(&self, part: &PathPart, op: &PathOp) -> String {
        let actor = self.records.get(part.record).map_or("the idle check".to_owned(), |record| {
            format!("client {} server {} {:?}", record.client, record.server, record.effect)
        });
        let known = if part.must { "" } else { " PERHAPS" };
        let (start, end) = (part.start / 1_000, part.end / 1_000);
        format!("[{start} .. {end} us]{known} finds {:?}, leaves {:?}: {actor}", op.finds, op.leaves)
    }
}

/// The effects of an operation on a directory for a path below it.
fn part_below(effect: &Effect, path: &str) -> Vec<(Finds, Writes)> {
    match effect {
        Effect::Removed { .. } => vec![(Finds::Anything, Writes::This(None))],
        Effect::Absent { .. } => vec![(Finds::Exactly(None), Writes::Nothing)],
        // Both, if one lies below the other: such a move is refused.
        Effect::Moved { from, to } => {
            let left = below(path, from).map(|_| (Finds::Anything, Writes::This(None)));
            let came = image(path, to, from).map(|source| (Finds::Exactly(None), Writes::From(source)));
            left.into_iter().chain(came).collect()
        }
        Effect::Copied { from, to } => {
            image(path, to, from).map(|source| (Finds::Anything, Writes::Added(source))).into_iter().collect()
        }
        Effect::Step { .. } | Effect::Arrives { .. } | Effect::Refused { .. } => vec![],
    }
}
