//! The outcomes that the model reaches are those of the table, which the program is held to as well.

use std::collections::{BTreeSet, HashSet};

use stateright::Model;

use crate::io::Told;
use crate::model::State;
use crate::outcomes::{Asked, CASES, Case, outcome};
use crate::scenario::Scenario;
use crate::scenarios::FILE;
use crate::store::OpId;
use crate::tree::{Id, Path, Request, Tree, path};

fn request(asked: Asked) -> Request {
    match asked {
        Asked::Create(at) => Request::Create(path(at)),
        Asked::Mkdir(at) => Request::Mkdir(path(at)),
        Asked::Rmdir(at) => Request::Rmdir(path(at)),
        Asked::MoveFile(from, to) => Request::MoveFile(path(from), path(to)),
        Asked::Move(from, to) => Request::Move(path(from), path(to)),
        Asked::Delete(at) => Request::Delete(path(at)),
    }
}

fn with(scene: Scenario, op: OpId, asked: Asked) -> Scenario {
    match asked {
        Asked::Move(..) | Asked::Delete(_) => scene.op(op, request(asked)),
        _ => scene.ask(request(asked)),
    }
}

/// The case, with these ids of its operations: the older one goes first.
fn scenario(case: &Case, ops: [OpId; 2]) -> Scenario {
    let numbered =
        |paths: &[&str], first: Id| -> Vec<(Path, Id)> { paths.iter().map(|at| path(at)).zip(first..).collect() };
    let scene = Scenario::of(&numbered(case.dirs, 1), &numbered(case.files, FILE));
    let scene = with(scene, ops[0], case.first);
    with(if case.crash { scene.crash() } else { scene }, ops[1], case.second)
}

fn names(tree: &Tree) -> Vec<String> {
    let text = |at: Option<Path>| format!("{:?}", at.expect("a path"));
    let dirs = tree.dirs.keys().map(|dir| text(tree.path(*dir)) + "/");
    let files = tree.files.values().map(|(dir, name)| text(tree.path(*dir).map(|at| at.join(*name))));
    dirs.chain(files).collect()
}

/// What came of it, once the second and all of its process have been told.
fn ended(scene: &Scenario, state: &State) -> Option<String> {
    let told = |actor: usize| {
        state.told(actor).map(|told| match told {
            Told::Done => "done",
            Told::Refused => "refused",
            Told::Busy => "busy",
            told => panic!("{told:?}"),
        })
    };
    let last = scene.actors.len() - 1;
    let lives = |actor: &usize| scene.actors[*actor].life == state.world.life;
    if state.world.life != scene.actors[last].life || (0..=last).filter(lives).any(|actor| told(actor).is_none()) {
        return None;
    }
    // What was told before the process stopped, busy, may have been heard or not.
    let first = told(0).filter(|told| !scene.crash || *told != "busy").unwrap_or("lost");
    Some(outcome([first, told(last)?], names(&state.world.tree)))
}

fn reached(case: &Case) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for ops in [[1, 2], [2, 1]] {
        let scene = scenario(case, ops);
        let mut next = scene.init_states();
        let mut met: HashSet<State> = next.iter().cloned().collect();
        while let Some(state) = next.pop() {
            found.extend(ended(&scene, &state));
            let mut actions = Vec::new();
            scene.actions(&state, &mut actions);
            let states = actions.into_iter().filter_map(|action| scene.next_state(&state, action));
            next.extend(states.filter(|state| met.insert(state.clone())));
        }
        println!("{} states", met.len());
    }
    found
}

#[test]
fn the_outcomes_are_those_of_the_table() {
    let mut wrong = String::new();
    for case in CASES {
        let (found, table) = (reached(case), case.outcomes.iter().map(|text| (*text).to_owned()).collect());
        if found != table {
            wrong += &format!("{:?}, {:?}, crash {}: {found:#?}\n", case.first, case.second, case.crash);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
