//! Runs an actor's sequential code one store call at a time.
//!
//! The whole state of an actor is its **log**: the answers that it has got so far. A turn runs the code from the
//! beginning: calls with an answer in the log return at once, the next call is made, and the one after that ends the
//! turn with [`Stop::Turn`]. Answers that are no longer needed are dropped from the log ([`Io::until`], [`Io::part`]),
//! so that equal situations are equal states.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounts;
use crate::bugs::Bug;
use crate::rights;
use crate::scenario::{Form, Scenario};
use crate::store::{
    Account, Effect, Meaning, OpId, Placement, Plan, Record, Refusal, Row, RowLock, Store, User, number_of_admins,
};
use crate::tree::{Children, Id, Path, Request, Tree};

/// The store, the tree that it must represent, and the plans in flight.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct System {
    pub store: Store,
    pub tree: Tree,
    /// Plans of unknown outcome that may still be applied.
    pub flight: Vec<Plan>,
    /// 1 before the crash, 2 after it.
    pub life: u8,
    /// In the embedded form, no write follows one of unknown outcome until the process starts again.
    pub stopped: bool,
    /// The actors whose requests have taken effect.
    pub happened: BTreeSet<usize>,
    pub wrong_commit: bool,
    /// A request has taken effect for a user who had no right to it at that instant.
    pub without_right: bool,
}

impl System {
    pub fn commit(&mut self, plan: &Plan) -> Outcome {
        let has_right = plan.effect.is_none_or(|effect| self.has_right(effect));
        if let Err(refusal) = self.store.commit(plan) {
            return Outcome::Refused(refusal);
        }
        if let Some(Effect { actor, meaning, .. }) = plan.effect {
            if let Meaning::Tree(request, found) = meaning {
                self.wrong_commit |= !self.tree.apply(request, found);
            }
            self.without_right |= !has_right;
            self.happened.insert(actor);
        }
        Outcome::Done
    }

    /// Whether the user has the right to what the plan is about to do.
    fn has_right(&self, Effect { asker, meaning, .. }: Effect) -> bool {
        let accounts = &self.store.accounts;
        match meaning {
            Meaning::Tree(_, found) => {
                [found.parent, found.target].iter().all(|dir| rights::may_write(accounts, &self.tree, asker, *dir))
            }
            Meaning::Account(request) => accounts::may_ask(accounts, asker, request),
        }
    }

    /// Whether there is an admin once there was a user, and the number of admins is right.
    pub fn has_admin(&self) -> bool {
        let admins = number_of_admins(&self.store.accounts);
        self.store.admins == admins && (admins > 0 || self.store.accounts.is_empty())
    }
}

/// The reply to an actor's request. Readers return the state that they read.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// 404 or 409: the request was impossible, and nothing changed.
    Refused,
    /// 503 or 507: try again; the request may have taken effect.
    Busy,
    Read(Option<(Id, Children)>),
    Found(Option<Path>),
}

#[derive(Debug)]
pub enum Stop {
    /// The actor's turn has ended.
    Turn,
    /// The request ends; for an operation with a record, only the attempt ends.
    End(Reply),
}

pub type ActorResult<T> = Result<T, Stop>;

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(Refusal),
    Unknown,
    /// The disk is full: certainly nothing was written.
    Full,
    /// Nothing was written: the store accepts no writes any more.
    Failed,
}

/// A record, as an actor reads it after it found a lock.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct SeenRecord {
    pub record: Record,
    /// Its lease has ended.
    pub over: bool,
    /// The actor has waited long enough.
    pub waited: bool,
}

/// How steps 1 to 4 of an operation ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum StepsOutcome {
    Committed,
    /// A record exists, and the operation must be rolled back.
    RollBack(Reply),
    /// No record was ever written.
    Ended(Reply),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum CallResult {
    Row(Option<Row>),
    Seen(SeenRecord),
    Records(BTreeMap<OpId, Record>),
    Placed(Option<Placement>),
    Paths(Vec<Path>),
    Account(Option<Account>),
    Admins(u8),
    Outcome(Outcome),
    Part(StepsOutcome),
}

/// The fault of a call.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum CallFault {
    Plain,
    /// The lease of the record in this read has ended.
    LeaseOver,
    /// The actor that waits for the operation of this record gives up.
    GiveUp,
    /// The write takes effect, but its answer is lost.
    LostAnswer,
    /// The outcome of the write is unknown: it takes effect later, or never.
    LostWrite,
    Full,
}

/// The calls that an actor may still make in this turn.
#[derive(Clone, Copy, PartialEq)]
pub enum Turn {
    Over,
    One(CallFault),
    /// This many calls: to run alone to the end.
    Free(u32),
}

/// The call that an actor will make in its next turn.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum NextCall {
    Read,
    ReadRecord,
    Commit,
}

pub struct Io<'a> {
    pub system: &'a mut System,
    pub scene: &'a Scenario,
    pub actor: usize,
    pub log: Vec<CallResult>,
    pub turn: Turn,
    /// The call that ended the turn.
    pub due: Option<NextCall>,
    next: usize,
}

impl<'a> Io<'a> {
    pub fn new(system: &'a mut System, scene: &'a Scenario, actor: usize, log: Vec<CallResult>, turn: Turn) -> Self {
        Self { system, scene, actor, log, turn, due: None, next: 0 }
    }

    pub fn bug(&self, bug: Bug) -> bool {
        self.scene.bug == Some(bug)
    }

    /// The request in the record of this operation.
    pub fn request(&self, op: OpId) -> Request {
        self.scene.request(op)
    }

    /// The user whose request the actor makes; none: anonymous.
    pub fn asker(&self) -> Option<User> {
        self.scene.actors[self.actor].user
    }

    /// The request of this actor takes effect.
    pub fn effect(&self, meaning: Meaning) -> Effect {
        Effect { actor: self.actor, asker: self.asker(), meaning }
    }

    fn call(
        &mut self,
        due: NextCall,
        make: impl FnOnce(&mut System, &Scenario, CallFault) -> CallResult,
    ) -> ActorResult<CallResult> {
        if let Some(answer) = self.log.get(self.next) {
            self.next += 1;
            return Ok(answer.clone());
        }
        let (fault, rest) = match self.turn {
            Turn::Over | Turn::Free(0) => {
                self.due = Some(due);
                return Err(Stop::Turn);
            }
            Turn::One(fault) => (fault, Turn::Over),
            Turn::Free(left) => (CallFault::Plain, Turn::Free(left - 1)),
        };
        self.turn = rest;
        let answer = make(self.system, self.scene, fault);
        self.log.push(answer.clone());
        self.next += 1;
        Ok(answer)
    }

    /// A call that only reads, and that has no faults.
    fn read(&mut self, make: impl FnOnce(&Store) -> CallResult) -> ActorResult<CallResult> {
        self.call(NextCall::Read, |system, _, _| make(&system.store))
    }

    pub fn get(&mut self, at: Path) -> ActorResult<Option<Row>> {
        match self.read(|store| CallResult::Row(store.dir.get(&at).cloned()))? {
            CallResult::Row(row) => Ok(row),
            other => panic!("{other:?}"),
        }
    }

    pub fn dirid(&mut self, id: Id) -> ActorResult<Option<Placement>> {
        match self.read(|store| CallResult::Placed(store.dirid.get(&id).copied()))? {
            CallResult::Placed(placement) => Ok(placement),
            other => panic!("{other:?}"),
        }
    }

    pub fn file(&mut self, id: Id) -> ActorResult<Option<Placement>> {
        match self.read(|store| CallResult::Placed(store.file.get(&id).copied()))? {
            CallResult::Placed(placement) => Ok(placement),
            other => panic!("{other:?}"),
        }
    }

    pub fn account(&mut self, user: User) -> ActorResult<Option<Account>> {
        match self.read(|store| CallResult::Account(store.accounts.get(&user).cloned()))? {
            CallResult::Account(account) => Ok(account),
            other => panic!("{other:?}"),
        }
    }

    pub fn admins(&mut self) -> ActorResult<u8> {
        match self.read(|store| CallResult::Admins(store.admins))? {
            CallResult::Admins(number) => Ok(number),
            other => panic!("{other:?}"),
        }
    }

    pub fn records(&mut self) -> ActorResult<BTreeMap<OpId, Record>> {
        match self.read(|store| CallResult::Records(store.op.clone()))? {
            CallResult::Records(records) => Ok(records),
            other => panic!("{other:?}"),
        }
    }

    /// A scan of keys: the first rows after `after` in these trees that have one of these locks.
    pub fn locked_rows(
        &mut self,
        trees: &[Path],
        locks: &[RowLock],
        after: Option<Path>,
        limit: usize,
    ) -> ActorResult<Vec<Path>> {
        let is_next = |at: &Path| after.is_none_or(|after| *at > after) && trees.iter().any(|tree| at.is_within(*tree));
        let found = self.read(|store| {
            let rows = store.dir.iter().filter(|(at, row)| is_next(at) && locks.contains(&row.lock));
            CallResult::Paths(rows.map(|(at, _)| *at).take(limit).collect())
        })?;
        match found {
            CallResult::Paths(paths) => Ok(paths),
            other => panic!("{other:?}"),
        }
    }

    /// Reads a record. The leases of a living process are in its memory and do not end.
    pub fn seen(&mut self, op: OpId) -> ActorResult<SeenRecord> {
        let answer = self.call(NextCall::ReadRecord, |system, scene, fault| {
            let record = system.store.record(op);
            let dead = scene.form == Form::Embedded && scene.life_of(op) < system.life;
            let alive = record == Record::Prepared && !dead;
            let over = dead || (fault == CallFault::LeaseOver && alive);
            CallResult::Seen(SeenRecord { record, over, waited: fault == CallFault::GiveUp && alive })
        })?;
        match answer {
            CallResult::Seen(seen) => Ok(seen),
            other => panic!("{other:?}"),
        }
    }

    pub fn commit(&mut self, plan: Plan) -> ActorResult<Outcome> {
        let answer = self.call(NextCall::Commit, |system, scene, fault| {
            if system.stopped {
                return CallResult::Outcome(Outcome::Failed);
            }
            let lost = matches!(fault, CallFault::LostAnswer | CallFault::LostWrite);
            system.stopped = lost && scene.form == Form::Embedded;
            CallResult::Outcome(match fault {
                CallFault::LostAnswer => {
                    system.commit(&plan);
                    Outcome::Unknown
                }
                CallFault::LostWrite => {
                    system.flight.push(plan);
                    Outcome::Unknown
                }
                CallFault::Full => Outcome::Full,
                CallFault::Plain | CallFault::LeaseOver | CallFault::GiveUp => system.commit(&plan),
            })
        })?;
        match answer {
            CallResult::Outcome(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    /// Repeats `body` until it returns a value; the answers of vain rounds are removed from the log.
    pub fn until<T>(&mut self, mut body: impl FnMut(&mut Self) -> ActorResult<Option<T>>) -> ActorResult<T> {
        let start = self.next;
        loop {
            if let Some(found) = body(self)? {
                return Ok(found);
            }
            self.log.truncate(start);
            self.next = start;
        }
    }

    /// Runs `body`; only its result stays in the log.
    pub fn part(&mut self, body: impl FnOnce(&mut Self) -> ActorResult<StepsOutcome>) -> ActorResult<StepsOutcome> {
        let start = self.next;
        if let Some(CallResult::Part(verdict)) = self.log.get(start).cloned() {
            self.next += 1;
            return Ok(verdict);
        }
        let verdict = body(self)?;
        self.log.truncate(start);
        self.log.push(CallResult::Part(verdict.clone()));
        self.next = start + 1;
        Ok(verdict)
    }
}
