//! How an actor's code, written straight down, runs one store call at a time.
//!
//! An actor's whole state is its **log**: the answers it got so far. A turn runs its code from the beginning;
//! calls that the log answers return at once, the next one is made, and the one after that ends the turn by
//! [`Stop::Turn`]. What is no longer needed is dropped from the log ([`Io::until`], [`Io::part`]), so that the
//! same situation is the same state.

use std::collections::{BTreeMap, BTreeSet};

use crate::bugs::Bug;
use crate::scenario::{Form, Scenario};
use crate::store::{Mark, OpId, Plan, Record, Refusal, Row, Standing, Store};
use crate::tree::{Id, Path, Request, Sub, Tree};

/// The store, what it should mean, and what is on its way to it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    pub store: Store,
    pub tree: Tree,
    /// Plans of unknown fate that may still be applied.
    pub flight: Vec<Plan>,
    /// 1, and 2 after the crash.
    pub life: u8,
    /// Embedded, a write of unknown fate is the last until the process starts again.
    pub stopped: bool,
    /// The actors whose requests have come true.
    pub happened: BTreeSet<usize>,
    pub wrong_commit: bool,
}

impl World {
    pub fn commit(&mut self, plan: &Plan) -> Outcome {
        if let Err(refusal) = self.store.commit(plan) {
            return Outcome::Refused(refusal);
        }
        if let Some((actor, request, found)) = plan.means {
            self.wrong_commit |= !self.tree.apply(request, found);
            self.happened.insert(actor);
        }
        Outcome::Done
    }
}

/// How an actor's request ends. Readers tell what they read.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Told {
    Done,
    /// 404 or 409: it was not possible, and nothing was done.
    Refused,
    /// 503 or 507: try again; perhaps it was done.
    Busy,
    Read(Option<(Id, Sub)>),
    Found(Option<Path>),
}

#[derive(Debug)]
pub enum Stop {
    /// The actor's turn is over.
    Turn,
    /// The request ends; of an operation with a record, the attempt does.
    End(Told),
}

pub type Run<T> = Result<T, Stop>;

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(Refusal),
    Unknown,
    /// The disk is full: nothing was done, and that is known.
    Full,
    /// Nothing was done: the store takes no writes any more.
    Failed,
}

/// A record, as one sees it who met its mark.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Seen {
    pub record: Record,
    /// Its lease is over.
    pub over: bool,
    /// Who met it has waited for long enough.
    pub waited: bool,
}

/// How the steps 1 to 4 of an operation ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Verdict {
    Committed,
    /// There is a record, and it is to be undone.
    Undo(Told),
    /// There never was a record.
    Ended(Told),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Answer {
    Row(Option<Row>),
    Seen(Seen),
    Records(BTreeMap<OpId, Record>),
    Standing(Option<Standing>),
    Paths(Vec<Path>),
    Outcome(Outcome),
    Part(Verdict),
}

/// What is special about one call.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Twist {
    Plain,
    /// The lease of the record just read is over.
    LeaseOver,
    /// Who waits for the record just read gives up.
    GiveUp,
    /// The write is done, its answer lost.
    LostAnswer,
    /// The write's fate is unknown: it may be done later, or never.
    LostWrite,
    Full,
}

/// What an actor may still do in this turn.
#[derive(Clone, Copy, PartialEq)]
pub enum Turn {
    Over,
    One(Twist),
    /// This many calls: to run alone to the end.
    Free(u32),
}

/// The call that an actor will make in its next turn.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Due {
    Read,
    ReadRecord,
    Commit,
}

pub struct Io<'a> {
    pub world: &'a mut World,
    pub scene: &'a Scenario,
    pub actor: usize,
    pub log: Vec<Answer>,
    pub turn: Turn,
    /// The call that ended the turn.
    pub due: Option<Due>,
    next: usize,
}

impl<'a> Io<'a> {
    pub fn new(world: &'a mut World, scene: &'a Scenario, actor: usize, log: Vec<Answer>, turn: Turn) -> Self {
        Self { world, scene, actor, log, turn, due: None, next: 0 }
    }

    pub fn bug(&self, bug: Bug) -> bool {
        self.scene.bug == Some(bug)
    }

    /// What the record of this operation says that it does.
    pub fn request(&self, op: OpId) -> Request {
        self.scene.request(op)
    }

    fn call(&mut self, due: Due, make: impl FnOnce(&mut World, &Scenario, Twist) -> Answer) -> Run<Answer> {
        if let Some(answer) = self.log.get(self.next) {
            self.next += 1;
            return Ok(answer.clone());
        }
        let (twist, rest) = match self.turn {
            Turn::Over | Turn::Free(0) => {
                self.due = Some(due);
                return Err(Stop::Turn);
            }
            Turn::One(twist) => (twist, Turn::Over),
            Turn::Free(left) => (Twist::Plain, Turn::Free(left - 1)),
        };
        self.turn = rest;
        let answer = make(self.world, self.scene, twist);
        self.log.push(answer.clone());
        self.next += 1;
        Ok(answer)
    }

    /// A call that only reads, and that nothing special can happen to.
    fn read(&mut self, make: impl FnOnce(&Store) -> Answer) -> Run<Answer> {
        self.call(Due::Read, |world, _, _| make(&world.store))
    }

    pub fn get(&mut self, at: Path) -> Run<Option<Row>> {
        match self.read(|store| Answer::Row(store.dir.get(&at).cloned()))? {
            Answer::Row(row) => Ok(row),
            other => panic!("{other:?}"),
        }
    }

    pub fn dirid(&mut self, id: Id) -> Run<Option<Standing>> {
        match self.read(|store| Answer::Standing(store.dirid.get(&id).copied()))? {
            Answer::Standing(standing) => Ok(standing),
            other => panic!("{other:?}"),
        }
    }

    pub fn file(&mut self, id: Id) -> Run<Option<Standing>> {
        match self.read(|store| Answer::Standing(store.file.get(&id).copied()))? {
            Answer::Standing(standing) => Ok(standing),
            other => panic!("{other:?}"),
        }
    }

    pub fn records(&mut self) -> Run<BTreeMap<OpId, Record>> {
        match self.read(|store| Answer::Records(store.op.clone()))? {
            Answer::Records(records) => Ok(records),
            other => panic!("{other:?}"),
        }
    }

    /// A scan of keys: the first rows after `after` within these trees that carry one of these marks.
    pub fn marked(&mut self, trees: &[Path], marks: &[Mark], after: Option<Path>, limit: usize) -> Run<Vec<Path>> {
        let is_next = |at: &Path| after.is_none_or(|after| *at > after) && trees.iter().any(|tree| at.is_within(*tree));
        let found = self.read(|store| {
            let rows = store.dir.iter().filter(|(at, row)| is_next(at) && marks.contains(&row.mark));
            Answer::Paths(rows.map(|(at, _)| *at).take(limit).collect())
        })?;
        match found {
            Answer::Paths(paths) => Ok(paths),
            other => panic!("{other:?}"),
        }
    }

    /// Reads a record. While a process lives, the leases of its records are in its memory and do not end.
    pub fn seen(&mut self, op: OpId) -> Run<Seen> {
        let answer = self.call(Due::ReadRecord, |world, scene, twist| {
            let record = world.store.record(op);
            let dead = scene.form == Form::Embedded && scene.life_of(op) < world.life;
            let alive = record == Record::Prepared && !dead;
            let over = dead || (twist == Twist::LeaseOver && alive);
            Answer::Seen(Seen { record, over, waited: twist == Twist::GiveUp && alive })
        })?;
        match answer {
            Answer::Seen(seen) => Ok(seen),
            other => panic!("{other:?}"),
        }
    }

    pub fn commit(&mut self, plan: Plan) -> Run<Outcome> {
        let answer = self.call(Due::Commit, |world, scene, twist| {
            if world.stopped {
                return Answer::Outcome(Outcome::Failed);
            }
            let lost = matches!(twist, Twist::LostAnswer | Twist::LostWrite);
            world.stopped = lost && scene.form == Form::Embedded;
            Answer::Outcome(match twist {
                Twist::LostAnswer => {
                    world.commit(&plan);
                    Outcome::Unknown
                }
                Twist::LostWrite => {
                    world.flight.push(plan);
                    Outcome::Unknown
                }
                Twist::Full => Outcome::Full,
                Twist::Plain | Twist::LeaseOver | Twist::GiveUp => world.commit(&plan),
            })
        })?;
        match answer {
            Answer::Outcome(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    /// Does `body` until it returns something; what it read in vain is forgotten.
    pub fn until<T>(&mut self, mut body: impl FnMut(&mut Self) -> Run<Option<T>>) -> Run<T> {
        let start = self.next;
        loop {
            if let Some(found) = body(self)? {
                return Ok(found);
            }
            self.log.truncate(start);
            self.next = start;
        }
    }

    /// Does `body`; of all that it read, its verdict alone is kept.
    pub fn part(&mut self, body: impl FnOnce(&mut Self) -> Run<Verdict>) -> Run<Verdict> {
        let start = self.next;
        if let Some(Answer::Part(verdict)) = self.log.get(start).cloned() {
            self.next += 1;
            return Ok(verdict);
        }
        let verdict = body(self)?;
        self.log.truncate(start);
        self.log.push(Answer::Part(verdict.clone()));
        self.next = start + 1;
        Ok(verdict)
    }
}
