//! The state space of a scenario, and what must hold in all of it.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::bugs::Bug;
use crate::held::settle;
use crate::io::{Answer, Due, Io, Stop, Told, Turn, Twist, World};
use crate::scenario::{Form, Role, Scenario};
use crate::store::{Mark, Record, Store};
use crate::tree::Tree;

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Progress {
    begun: bool,
    log: Vec<Answer>,
    /// Its next call; none before its first one.
    due: Option<Due>,
    told: Option<Told>,
    /// What a reader may tell: everything that was true since it began.
    truths: Vec<Told>,
    /// At some instant since it began, what is asked was not possible.
    refusable: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    pub world: World,
    pub actors: Vec<Progress>,
    unknown: u8,
    full: u8,
    wrong_read: bool,
    wrong_answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub enum Action {
    Turn(usize, Twist),
    /// A write of unknown fate is done after all.
    Deliver(usize),
    /// Everybody of the first process stops; the log replays what was on its way, or does not.
    Crash {
        replay: bool,
    },
}

impl State {
    /// What an actor was told.
    pub fn told(&self, actor: usize) -> Option<&Told> {
        self.actors[actor].told.as_ref()
    }

    fn observe(&mut self, scene: &Scenario, actor: usize) {
        let tree = &self.world.tree;
        let progress = &mut self.actors[actor];
        if !progress.begun || progress.told.is_some() {
            return;
        }
        let truth = match scene.actors[actor].role {
            Role::Ask(request) => {
                progress.refusable |= !tree.allows(request);
                return;
            }
            Role::StartUp => return,
            Role::List(at) => Told::Read(tree.dir_at(at).map(|dir| (dir, tree.sub(dir)))),
            Role::Find(file) => {
                let stands = tree.files.get(&file);
                Told::Found(stands.and_then(|(dir, name)| Some(tree.path(*dir)?.join(*name))))
            }
        };
        if !progress.truths.contains(&truth) {
            progress.truths.push(truth);
        }
    }

    /// One turn of an actor: one call.
    fn turn(&mut self, scene: &Scenario, actor: usize, twist: Twist) {
        match twist {
            Twist::LostAnswer | Twist::LostWrite => self.unknown += 1,
            Twist::Full => self.full += 1,
            _ => {}
        }
        let earlier = scene.bug == Some(Bug::RecordFromBefore) && self.actors[actor].log.is_empty();
        self.actors[actor].begun |= !earlier;
        self.observe(scene, actor);
        let log = std::mem::take(&mut self.actors[actor].log);
        let mut io = Io::new(&mut self.world, scene, actor, log, Turn::One(twist));
        let end = scene.run(&mut io);
        let (log, due) = (io.log, io.due);
        match end {
            Err(Stop::Turn) => {
                self.actors[actor].log = log;
                self.actors[actor].due = due;
            }
            Ok(told) | Err(Stop::End(told)) => self.end(scene, actor, told),
        }
        (0..self.actors.len()).for_each(|actor| self.observe(scene, actor));
    }

    fn end(&mut self, scene: &Scenario, actor: usize, told: Told) {
        let progress = std::mem::take(&mut self.actors[actor]);
        let happened = self.world.happened.contains(&actor);
        let is_request = matches!(scene.actors[actor].role, Role::Ask(_));
        match &told {
            Told::Read(_) | Told::Found(_) => self.wrong_read |= !progress.truths.contains(&told),
            Told::Done => self.wrong_answer |= is_request && !happened,
            Told::Refused => self.wrong_answer |= happened || !progress.refusable,
            Told::Busy => {}
        }
        let told = if matches!(told, Told::Read(_) | Told::Found(_)) { Told::Done } else { told };
        self.actors[actor] = Progress { begun: true, told: Some(told), ..Progress::default() };
    }

    fn is_alive(&self, scene: &Scenario, actor: usize) -> bool {
        let waits = scene.actors[actor].after && self.actors[actor - 1].told.is_none();
        scene.actors[actor].life == self.world.life && self.actors[actor].told.is_none() && !waits
    }

    /// The process of these actors ends here, and another one begins: its first act is to list the records.
    fn crash(&mut self, scene: &Scenario, replay: bool) {
        let flight = std::mem::take(&mut self.world.flight);
        flight.iter().filter(|_| replay).for_each(|plan| _ = self.world.commit(plan));
        self.world.life = 2;
        self.world.stopped = false;
        for (actor, of) in scene.actors.iter().enumerate() {
            if of.life == 1 && self.actors[actor].told.is_none() {
                self.actors[actor] = Progress::default();
            }
        }
        if scene.bug != Some(Bug::ListsRecordsLate) {
            let starts = |actor: &usize| scene.actors[*actor].role == Role::StartUp;
            (0..scene.actors.len()).filter(starts).for_each(|actor| self.turn(scene, actor, Twist::Plain));
        }
    }

    /// Everybody stops here for ever, and every record is settled: whether `test` holds then, be what was on
    /// its way done first or never.
    fn settled(&self, scene: &Scenario, test: impl Fn(&World) -> bool) -> bool {
        let ways: &[bool] = if self.world.flight.is_empty() { &[false] } else { &[false, true] };
        ways.iter().all(|replay| self.settle(scene, *replay).is_some_and(|world| test(&world)))
    }

    fn settle(&self, scene: &Scenario, replay: bool) -> Option<World> {
        let mut world = World { life: 2, stopped: false, ..self.world.clone() };
        if replay {
            world.flight.clone().iter().for_each(|plan| _ = world.commit(plan));
        }
        let ops: Vec<_> = world.store.op.keys().copied().collect();
        let mut io = Io::new(&mut world, scene, 0, vec![], Turn::Free(200));
        for op in ops {
            if settle(&mut io, op).is_err() {
                return None;
            }
        }
        Some(world)
    }

    /// Whether everybody comes to an end if all take turns.
    fn comes_to_an_end(&self, scene: &Scenario) -> bool {
        let mut state = self.clone();
        for _ in 0..100 {
            let alive: Vec<usize> = (0..scene.actors.len()).filter(|actor| state.is_alive(scene, *actor)).collect();
            if alive.is_empty() {
                return true;
            }
            alive.into_iter().for_each(|actor| state.turn(scene, actor, Twist::Plain));
        }
        false
    }
}

impl Scenario {
    /// What may be special about a call.
    fn twists(&self, state: &State, due: Option<Due>) -> Vec<Twist> {
        let mut twists = vec![Twist::Plain];
        match due {
            Some(Due::ReadRecord) => {
                twists.extend((!self.patient).then_some(Twist::GiveUp));
                twists.extend((self.form == Form::Cluster).then_some(Twist::LeaseOver));
            }
            Some(Due::Commit) if !state.world.stopped => {
                if state.unknown < self.unknown {
                    twists.extend([Twist::LostAnswer, Twist::LostWrite]);
                }
                twists.extend((state.full < self.full).then_some(Twist::Full));
            }
            _ => {}
        }
        twists
    }
}

impl Model for Scenario {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let tree = self.tree();
        let store = Store::of(&tree);
        let happened = BTreeSet::new();
        let world = World { store, tree, flight: vec![], life: 1, stopped: false, happened, wrong_commit: false };
        let actors = vec![Progress::default(); self.actors.len()];
        vec![State { world, actors, unknown: 0, full: 0, wrong_read: false, wrong_answer: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for actor in (0..self.actors.len()).filter(|actor| state.is_alive(self, *actor)) {
            let twists = self.twists(state, state.actors[actor].due);
            actions.extend(twists.into_iter().map(|twist| Action::Turn(actor, twist)));
        }
        if self.form == Form::Cluster {
            actions.extend((0..state.world.flight.len()).map(Action::Deliver));
        }
        if self.crash && state.world.life == 1 {
            actions.push(Action::Crash { replay: false });
            if !state.world.flight.is_empty() {
                actions.push(Action::Crash { replay: true });
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Turn(actor, twist) => next.turn(self, actor, twist),
            Action::Deliver(number) => {
                let plan = next.world.flight.remove(number);
                next.world.commit(&plan);
                (0..self.actors.len()).for_each(|actor| next.observe(self, actor));
            }
            Action::Crash { replay } => next.crash(self, replay),
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(TREE, |_, s: &State| s.world.store.seen() == s.world.tree.rows()),
            Property::always(COMMIT, |_, s: &State| !s.world.wrong_commit),
            Property::always(PLACES, |_, s: &State| places_are_right(&s.world.store, &s.world.tree)),
            Property::always(READ, |_, s: &State| !s.wrong_read),
            Property::always(ANSWER, |_, s: &State| !s.wrong_answer),
            Property::always(END, |scene: &Self, s: &State| !scene.patient || s.comes_to_an_end(scene)),
            Property::always(LEFT, left_nothing),
            Property::always(SETTLES, |scene: &Self, s: &State| {
                s.settled(scene, |w| w.store.op.is_empty() && w.store.seen() == w.tree.rows())
            }),
            Property::always(CLEAN, |scene: &Self, s: &State| {
                // With leases, a late write of a dead owner may leave a dead mark: whoever meets it clears it.
                let late = scene.form == Form::Cluster && scene.unknown > 0;
                late || s.settled(scene, is_clean)
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
pub const PLACES: &str = "directory ids and file rows say where things are";
pub const READ: &str = "a reader tells what was true while it read";
pub const ANSWER: &str = "who is told done or refused is told the truth";
pub const END: &str = "nobody waits for ever";
pub const LEFT: &str = "an operation that ends leaves no record and no mark";
pub const SETTLES: &str = "wherever everybody stops, the records are settled and nothing visible changes";
pub const CLEAN: &str = "wherever everybody stops, no mark and no stray row is left in the end";

fn succeeds<const ACTOR: usize>(_: &Scenario, state: &State) -> bool {
    state.actors[ACTOR].told == Some(Told::Done)
}

fn places_are_right(store: &Store, tree: &Tree) -> bool {
    let dirs = tree.dirs.iter().map(|(id, entry)| (entry, store.dirid.get(id)));
    let files = tree.files.iter().map(|(id, entry)| (entry, store.file.get(id)));
    dirs.chain(files).all(|(entry, stands)| stands.is_some_and(|stands| (stands.dir, stands.name) == *entry))
}

fn is_clean(world: &World) -> bool {
    let World { store, tree, .. } = world;
    store.dir.values().all(|row| row.mark == Mark::Free)
        && store.dir.len() == tree.dirs.len() + 1
        && store.dirid.keys().eq(tree.dirs.keys())
        && store.file.keys().eq(tree.files.keys())
}

fn left_nothing(scene: &Scenario, state: &State) -> bool {
    let store = &state.world.store;
    let held = |op| store.record(op) != Record::Missing || store.dir.values().any(|row| row.mark.op() == Some(op));
    let ended = scene.actors.iter().zip(&state.actors).filter(|(_, progress)| progress.told.is_some());
    state.unknown > 0 || !ended.filter_map(|(actor, _)| actor.op).any(held)
}
