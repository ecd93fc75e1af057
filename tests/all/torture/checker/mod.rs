//! Whether a sequential order of operations explains the observations of one path.
//!
//! A path is a variable: it is empty, or a file with some content. Each operation takes effect at one instant between
//! its start and its end. [`check`] processes starts and ends in the order of time and keeps every [`Configuration`]
//! that explains all operations ended so far; if none is left, the history is not linearisable (the search of Wing and
//! Gong, in the form that decides each operation when it ends).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

#[cfg(test)]
mod tests;

/// The number of a stored content.
pub type Value = u32;

/// The state of a path: a file with this content, or no file.
pub type State = Option<Value>;

/// Any content that the history does not name.
const OTHER: Value = Value::MAX;

/// The states in which an operation can take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finds {
    Anything,
    File,
    Exactly(State),
    Not(Value),
}

/// The state after an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// A read.
    Same,
    /// One of these; `None`: unknown which.
    One(Option<Vec<State>>),
    /// Like `One`, but if the result would be no file, the state stays unchanged: a copy adds files and never removes
    /// one.
    Added(Option<Vec<State>>),
}

/// An operation on the path.
#[derive(Clone, Debug)]
pub struct PathOp {
    pub start: u64,
    pub end: u64,
    /// Whether it was acknowledged. Otherwise it may take effect until its end, or never.
    pub must: bool,
    pub finds: Finds,
    pub leaves: Leaves,
}

/// Why a history is not linearisable, or undecided.
#[derive(Debug, PartialEq, Eq)]
pub enum Unexplained {
    /// No order explains this operation, given the possible states before its end.
    Op { index: usize, before: BTreeSet<State> },
    /// The search became too large.
    TooMany,
}

/// Upper limit of configurations at a time, and of those tried for one operation.
const MOST: usize = 200_000;

/// One possible course of events so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    state: State,
    /// Running operations that have taken effect, in the order of their numbers.
    done: Vec<usize>,
}

/// The possible states after all operations, or the operation that no order explains.
pub fn check(initial: State, ops: &[PathOp]) -> Result<BTreeSet<State>, Unexplained> {
    let search = Search { ops, named: named(initial, ops) };
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * ops.len());
    for (index, op) in ops.iter().enumerate() {
        // An unacknowledged read proves nothing.
        if op.must || op.leaves != Leaves::Same {
            events.extend([(op.start, false, index), (op.end.max(op.start), true, index)]);
        }
    }
    // Starts before ends of the same time: the two may have happened in either order.
    events.sort_unstable();
    let mut pending: Vec<usize> = Vec::new();
    let mut possible = vec![Configuration { state: initial, done: Vec::new() }];
    for (_, is_end, index) in events {
        if !is_end {
            pending.push(index);
            possible.iter_mut().for_each(|it| search.read(it, &pending));
            continue;
        }
        let before = possible.iter().map(|it| it.state).collect();
        let mut after = HashSet::new();
        for from in possible {
            if !ops[index].must {
                after.insert(from.clone());
            }
            search.until_done(from, index, &pending, &mut after)?;
        }
        pending.retain(|other| *other != index);
        let without = after.into_iter().map(|mut it| {
            it.done.retain(|other| *other != index);
            it
        });
        possible = search.fewest(without.collect());
        if possible.is_empty() {
            return Err(Unexplained::Op { index, before });
        }
        if possible.len() > MOST {
            return Err(Unexplained::TooMany);
        }
    }
    Ok(possible.into_iter().map(|it| it.state).collect())
}

/// Every state that the history names, and one that it does not.
fn named(initial: State, ops: &[PathOp]) -> Vec<State> {
    let mut named = BTreeSet::from([None, Some(OTHER), initial]);
    for op in ops {
        if let Finds::Exactly(state) = op.finds {
            named.insert(state);
        }
        if let Finds::Not(value) = op.finds {
            named.insert(Some(value));
        }
        if let Leaves::One(Some(states)) | Leaves::Added(Some(states)) = &op.leaves {
            named.extend(states);
        }
    }
    named.into_iter().collect()
}

struct Search<'a> {
    ops: &'a [PathOp],
    named: Vec<State>,
}

impl Search<'_> {
    /// Lets every running read take effect that matches the state: it changes nothing, so the earliest instant is best.
    fn read(&self, it: &mut Configuration, pending: &[usize]) {
        for index in pending {
            let op = &self.ops[*index];
            if op.leaves == Leaves::Same && finds(&op.finds, it.state) {
                insert(&mut it.done, *index);
            }
        }
    }

    /// All configurations that follow from this one through running operations, with `last` as the last of them.
    fn until_done(
        &self,
        from: Configuration,
        index: usize,
        pending: &[usize],
        found: &mut HashSet<Configuration>,
    ) -> Result<(), Unexplained> {
        let mut seen: HashMap<State, Vec<Vec<usize>>> = HashMap::new();
        let (mut count, mut left) = (0, VecDeque::from([from]));
        // Breadth first: a state with fewer used operations is visited before those that it makes unnecessary.
        while let Some(it) = left.pop_front() {
            if it.done.binary_search(&index).is_ok() {
                found.insert(it);
                continue;
            }
            for other in pending {
                let op = &self.ops[*other];
                let done = it.done.binary_search(other).is_ok();
                if done || op.leaves == Leaves::Same || !finds(&op.finds, it.state) {
                    continue;
                }
                for state in self.after(op, it.state) {
                    let mut next = Configuration { state, done: it.done.clone() };
                    insert(&mut next.done, *other);
                    self.read(&mut next, pending);
                    let same_state = seen.entry(state).or_default();
                    if !same_state.iter().any(|done| self.can_do_all(done, &next.done)) {
                        same_state.push(next.done.clone());
                        left.push_back(next);
                        count += 1;
                    }
                }
            }
            if count > MOST {
                return Err(Unexplained::TooMany);
            }
        }
        Ok(())
    }

    /// For two configurations with the same state: whether the first can do all that the second can. It has used the
    /// same required operations, and the same or fewer optional ones.
    fn can_do_all(&self, done: &[usize], of: &[usize]) -> bool {
        done.iter().all(|op| of.binary_search(op).is_ok())
            && of.iter().all(|op| !self.ops[*op].must || done.binary_search(op).is_ok())
    }

    fn after(&self, op: &PathOp, state: State) -> Vec<State> {
        match &op.leaves {
            Leaves::Same => vec![state],
            Leaves::One(states) => states.as_ref().unwrap_or(&self.named).clone(),
            Leaves::Added(states) => {
                let states = states.as_ref().unwrap_or(&self.named);
                states.iter().map(|added| added.or(state)).collect()
            }
        }
    }

    /// Leaves out each configuration that another one covers.
    fn fewest(&self, all: HashSet<Configuration>) -> Vec<Configuration> {
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable_by(|a, b| (a.state, a.done.len(), &a.done).cmp(&(b.state, b.done.len(), &b.done)));
        let mut kept: Vec<Configuration> = Vec::new();
        for it in all {
            let mut same_state = kept.iter().rev().take_while(|other| other.state == it.state);
            if !same_state.any(|other| self.can_do_all(&other.done, &it.done)) {
                kept.push(it);
            }
        }
        kept
    }
}

fn finds(finds: &Finds, state: State) -> bool {
    match finds {
        Finds::Anything => true,
        Finds::File => state.is_some(),
        Finds::Exactly(exactly) => state == *exactly,
        Finds::Not(value) => state != Some(*value),
    }
}

/// Inserts into a sorted list.
fn insert(into: &mut Vec<usize>, index: usize) {
    if let Err(at) = into.binary_search(&index) {
        into.insert(at, index);
    }
}
