//! The state space of a scenario, and the properties of all its states.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::accounts;
use crate::bugs::Bug;
use crate::io::{CallFault, CallResult, Io, NextCall, Reply, Stop, System, Turn};
use crate::locks::resolve;
use crate::rights;
use crate::scenario::{Form, Role, Scenario};
use crate::store::{Record, RowLock, Store};
use crate::tree::Tree;

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Progress {
    begun: bool,
    log: Vec<CallResult>,
    /// Its next call; none before its first one.
    due: Option<NextCall>,
    reply: Option<Reply>,
    /// What a reader may return: everything that was true since it began.
    truths: Vec<Reply>,
    /// At some instant since it began, the request was impossible.
    refusable: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    pub system: System,
    pub actors: Vec<Progress>,
    unknown: u8,
    full: u8,
    wrong_read: bool,
    wrong_answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub enum Action {
    Turn(usize, CallFault),
    /// A write of unknown outcome takes effect after all.
    Deliver(usize),
    /// All actors of the first process stop; the log replays the writes in flight, or does not.
    Crash {
        replay: bool,
    },
}

impl State {
    /// The reply to an actor.
    pub fn reply(&self, actor: usize) -> Option<&Reply> {
        self.actors[actor].reply.as_ref()
    }

    fn observe(&mut self, scene: &Scenario, actor: usize) {
        let (tree, known) = (&self.system.tree, &self.system.store.accounts);
        let (progress, asker) = (&mut self.actors[actor], scene.actors[actor].user);
        if !progress.begun || progress.reply.is_some() {
            return;
        }
        let truth = match scene.actors[actor].role {
            Role::Ask(request) => {
                progress.refusable |= !tree.allows(request) || !rights::may_ask(known, tree, asker, request);
                return;
            }
            Role::Account(request) => {
                progress.refusable |=
                    !accounts::may_ask(known, asker, request) || accounts::removes_last_admin(known, request);
                return;
            }
            Role::StartUp => return,
            Role::List(at) => Reply::Read(tree.dir_at(at).map(|dir| (dir, tree.sub(dir)))),
            Role::Find(file) => {
                let placed = tree.files.get(&file);
                Reply::Found(placed.and_then(|(dir, name)| Some(tree.path(*dir)?.join(*name))))
            }
        };
        if !progress.truths.contains(&truth) {
            progress.truths.push(truth);
        }
    }

    /// One turn of an actor: one call.
    fn turn(&mut self, scene: &Scenario, actor: usize, fault: CallFault) {
        match fault {
            CallFault::LostAnswer | CallFault::LostWrite => self.unknown += 1,
            CallFault::Full => self.full += 1,
            _ => {}
        }
        let earlier = scene.bug == Some(Bug::RecordFromBefore) && self.actors[actor].log.is_empty();
        self.actors[actor].begun |= !earlier;
        self.observe(scene, actor);
        let log = std::mem::take(&mut self.actors[actor].log);
        let mut io = Io::new(&mut self.system, scene, actor, log, Turn::One(fault));
        let end = scene.run(&mut io);
        let (log, due) = (io.log, io.due);
        match end {
            Err(Stop::Turn) => {
                self.actors[actor].log = log;
                self.actors[actor].due = due;
            }
            Ok(reply) | Err(Stop::End(reply)) => self.end(scene, actor, reply),
        }
        (0..self.actors.len()).for_each(|actor| self.observe(scene, actor));
    }

    fn end(&mut self, scene: &Scenario, actor: usize, reply: Reply) {
        let progress = std::mem::take(&mut self.actors[actor]);
        let happened = self.system.happened.contains(&actor);
        let is_request = matches!(scene.actors[actor].role, Role::Ask(_) | Role::Account(_));
        match &reply {
            Reply::Read(_) | Reply::Found(_) => self.wrong_read |= !progress.truths.contains(&reply),
            Reply::Done => self.wrong_answer |= is_request && !happened,
            Reply::Refused => self.wrong_answer |= happened || !progress.refusable,
            Reply::Busy => {}
        }
        let reply = if matches!(reply, Reply::Read(_) | Reply::Found(_)) { Reply::Done } else { reply };
        self.actors[actor] = Progress { begun: true, reply: Some(reply), ..Progress::default() };
    }

    fn is_alive(&self, scene: &Scenario, actor: usize) -> bool {
        let waits = scene.actors[actor].after && self.actors[actor - 1].reply.is_none();
        scene.actors[actor].life == self.system.life && self.actors[actor].reply.is_none() && !waits
    }

    /// The process of these actors ends and another one begins: it lists the records first.
    fn crash(&mut self, scene: &Scenario, replay: bool) {
        let flight = std::mem::take(&mut self.system.flight);
        flight.iter().filter(|_| replay).for_each(|plan| _ = self.system.commit(plan));
        self.system.life = 2;
        self.system.stopped = false;
        for (actor, of) in scene.actors.iter().enumerate() {
            if of.life == 1 && self.actors[actor].reply.is_none() {
                self.actors[actor] = Progress::default();
            }
        }
        if scene.bug != Some(Bug::ListsRecordsLate) {
            let starts = |actor: &usize| scene.actors[*actor].role == Role::StartUp;
            (0..scene.actors.len()).filter(starts).for_each(|actor| self.turn(scene, actor, CallFault::Plain));
        }
    }

    /// All actors stop for ever, and every record is resolved: whether `test` holds then, both with and without the
    /// writes in flight.
    fn holds_once_resolved(&self, scene: &Scenario, test: impl Fn(&System) -> bool) -> bool {
        let ways: &[bool] = if self.system.flight.is_empty() { &[false] } else { &[false, true] };
        ways.iter().all(|replay| self.resolve(scene, *replay).is_some_and(|system| test(&system)))
    }

    fn resolve(&self, scene: &Scenario, replay: bool) -> Option<System> {
        let mut system = System { life: 2, stopped: false, ..self.system.clone() };
        if replay {
            system.flight.clone().iter().for_each(|plan| _ = system.commit(plan));
        }
        let ops: Vec<_> = system.store.op.keys().copied().collect();
        let mut io = Io::new(&mut system, scene, 0, vec![], Turn::Free(200));
        for op in ops {
            if resolve(&mut io, op).is_err() {
                return None;
            }
        }
        Some(system)
    }

    /// Whether every actor ends if they take turns.
    fn terminates(&self, scene: &Scenario) -> bool {
        let mut state = self.clone();
        for _ in 0..100 {
            let alive: Vec<usize> = (0..scene.actors.len()).filter(|actor| state.is_alive(scene, *actor)).collect();
            if alive.is_empty() {
                return true;
            }
            alive.into_iter().for_each(|actor| state.turn(scene, actor, CallFault::Plain));
        }
        false
    }
}

impl Scenario {
    /// The possible faults of a call.
    fn faults(&self, state: &State, due: Option<NextCall>) -> Vec<CallFault> {
        let mut faults = vec![CallFault::Plain];
        match due {
            Some(NextCall::ReadRecord) => {
                faults.extend((!self.patient).then_some(CallFault::GiveUp));
                faults.extend((self.form == Form::Cluster).then_some(CallFault::LeaseOver));
            }
            Some(NextCall::Commit) if !state.system.stopped => {
                if state.unknown < self.unknown {
                    faults.extend([CallFault::LostAnswer, CallFault::LostWrite]);
                }
                faults.extend((state.full < self.full).then_some(CallFault::Full));
            }
            _ => {}
        }
        faults
    }
}

impl Model for Scenario {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let tree = self.tree();
        let store = Store::new(&tree, &self.accounts.clone().unwrap_or_default());
        let system = System {
            store,
            tree,
            flight: vec![],
            life: 1,
            stopped: false,
            happened: BTreeSet::new(),
            wrong_commit: false,
            without_right: false,
        };
        let actors = vec![Progress::default(); self.actors.len()];
        vec![State { system, actors, unknown: 0, full: 0, wrong_read: false, wrong_answer: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for actor in (0..self.actors.len()).filter(|actor| state.is_alive(self, *actor)) {
            let faults = self.faults(state, state.actors[actor].due);
            actions.extend(faults.into_iter().map(|fault| Action::Turn(actor, fault)));
        }
        if self.form == Form::Cluster {
            actions.extend((0..state.system.flight.len()).map(Action::Deliver));
        }
        if self.crash && state.system.life == 1 {
            actions.push(Action::Crash { replay: false });
            if !state.system.flight.is_empty() {
                actions.push(Action::Crash { replay: true });
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Turn(actor, fault) => next.turn(self, actor, fault),
            Action::Deliver(number) => {
                let plan = next.system.flight.remove(number);
                next.system.commit(&plan);
                (0..self.actors.len()).for_each(|actor| next.observe(self, actor));
            }
            Action::Crash { replay } => next.crash(self, replay),
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(TREE, |_, s: &State| s.system.store.seen() == s.system.tree.rows()),
            Property::always(COMMIT, |_, s: &State| !s.system.wrong_commit),
            Property::always(RIGHT, |_, s: &State| !s.system.without_right),
            Property::always(ADMIN, |_, s: &State| s.system.has_admin()),
            Property::always(PLACES, |_, s: &State| places_are_right(&s.system.store, &s.system.tree)),
            Property::always(READ, |_, s: &State| !s.wrong_read),
            Property::always(ANSWER, |_, s: &State| !s.wrong_answer),
            Property::always(END, |scene: &Self, s: &State| !scene.patient || s.terminates(scene)),
            Property::always(LEFT, left_nothing),
            Property::always(RESOLVES, |scene: &Self, s: &State| {
                s.holds_once_resolved(scene, |w| w.store.op.is_empty() && w.store.seen() == w.tree.rows())
            }),
            Property::always(CLEAN, |scene: &Self, s: &State| {
                // With leases, a late write of a dead owner may leave a dead lock: the next reader clears it.
                let late = scene.form == Form::Cluster && scene.unknown > 0;
                late || s.holds_once_resolved(scene, is_clean)
            }),
        ];
        if self.bug.is_none() {
            let each = [succeeds::<0>, succeeds::<1>, succeeds::<2>, succeeds::<3>];
            let names = ["the first succeeds", "the second succeeds", "the third succeeds", "the fourth succeeds"];
            let actors = names.into_iter().zip(each).take(self.actors.len());
            all.extend(actors.map(|(name, test)| Property::sometimes(name, test)));
        }
        all
    }
}

pub const TREE: &str = "at every instant the tree reads as the specification says";
pub const COMMIT: &str = "nothing is committed where it means nothing";
pub const RIGHT: &str = "nothing is committed for a user who has no right to it any more";
pub const ADMIN: &str = "once there was a user, there is an admin, and the number of admins is right";
pub const PLACES: &str = "directory ids and file rows say where things are";
pub const READ: &str = "a reader returns what was true while it read";
pub const ANSWER: &str = "a reply of done or refused is true";
pub const END: &str = "no actor waits for ever";
pub const LEFT: &str = "an operation that ends leaves no record and no lock";
pub const RESOLVES: &str = "wherever all actors stop, the records can be resolved and nothing visible changes";
pub const CLEAN: &str = "wherever all actors stop, no lock and no stray row is left in the end";

fn succeeds<const ACTOR: usize>(_: &Scenario, state: &State) -> bool {
    state.actors[ACTOR].reply == Some(Reply::Done)
}

fn places_are_right(store: &Store, tree: &Tree) -> bool {
    let dirs = tree.dirs.iter().map(|(id, entry)| (entry, store.dirid.get(id)));
    let files = tree.files.iter().map(|(id, entry)| (entry, store.file.get(id)));
    dirs.chain(files).all(|(entry, placed)| placed.is_some_and(|placed| (placed.dir, placed.name) == *entry))
}

fn is_clean(system: &System) -> bool {
    let System { store, tree, .. } = system;
    store.dir.values().all(|row| row.lock == RowLock::Unlocked)
        && store.dir.len() == tree.dirs.len() + 1
        && store.dirid.keys().eq(tree.dirs.keys())
        && store.file.keys().eq(tree.files.keys())
}

fn left_nothing(scene: &Scenario, state: &State) -> bool {
    let store = &state.system.store;
    let has_leftovers =
        |op| store.record(op) != Record::Missing || store.dir.values().any(|row| row.lock.op() == Some(op));
    let ended = scene.actors.iter().zip(&state.actors).filter(|(_, progress)| progress.reply.is_some());
    state.unknown > 0 || !ended.filter_map(|(actor, _)| actor.op).any(has_leftovers)
}
