//! The model reaches exactly the outcomes in the table, and the program is tested with the same table.

use std::collections::{BTreeSet, HashSet};

use stateright::Model;

use crate::io::Reply;
use crate::outcomes::{CASES, Case, UserRequest, outcome};
use crate::scenario::Scenario;
use crate::scenarios::FILE;
use crate::state_space::State;
use crate::store::OpId;
use crate::tree::{Id, Path, Request, Tree, path};

fn request(asked: UserRequest) -> Request {
    match asked {
        UserRequest::Create(at) => Request::Create(path(at)),
        UserRequest::Mkdir(at) => Request::Mkdir(path(at)),
        UserRequest::Rmdir(at) => Request::Rmdir(path(at)),
        UserRequest::MoveFile(from, to) => Request::MoveFile(path(from), path(to)),
        UserRequest::Move(from, to) => Request::Move(path(from), path(to)),
        UserRequest::Delete(at) => Request::Delete(path(at)),
    }
}

fn with(scene: Scenario, op: OpId, asked: UserRequest) -> Scenario {
    match asked {
        UserRequest::Move(..) | UserRequest::Delete(_) => scene.op(op, request(asked)),
        _ => scene.ask(request(asked)),
    }
}

/// The scenario of a case, with these ids of its operations: the smaller id is older.
fn scenario(case: &Case, ops: [OpId; 2]) -> Scenario {
    let numbered =
        |paths: &[&str], first: Id| -> Vec<(Path, Id)> { paths.iter().map(|at| path(at)).zip(first..).collect() };
    let scene = Scenario::new(&numbered(case.dirs, 1), &numbered(case.files, FILE));
    let scene = with(scene, ops[0], case.first);
    with(if case.crash { scene.crash() } else { scene }, ops[1], case.second)
}

fn names(tree: &Tree) -> Vec<String> {
    let text = |at: Option<Path>| format!("{:?}", at.expect("a path"));
    let dirs = tree.dirs.keys().map(|dir| text(tree.path(*dir)) + "/");
    let files = tree.files.values().map(|(dir, name)| text(tree.path(*dir).map(|at| at.join(*name))));
    dirs.chain(files).collect()
}

/// The outcome, once the second actor and all actors of its process have a reply.
fn ended(scene: &Scenario, state: &State) -> Option<String> {
    let reply = |actor: usize| {
        state.reply(actor).map(|reply| match reply {
            Reply::Done => "done",
            Reply::Refused => "refused",
            Reply::Busy => "busy",
            reply => panic!("{reply:?}"),
        })
    };
    let last = scene.actors.len() - 1;
    let lives = |actor: &usize| scene.actors[*actor].life == state.system.life;
    if state.system.life != scene.actors[last].life || (0..=last).filter(lives).any(|actor| reply(actor).is_none()) {
        return None;
    }
    // A reply of `busy` before the process stopped may have arrived or not.
    let first = reply(0).filter(|reply| !scene.crash || *reply != "busy").unwrap_or("lost");
    Some(outcome([first, reply(last)?], names(&state.system.tree)))
}

fn reached(case: &Case) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for ops in [[1, 2], [2, 1]] {
        let scene = scenario(case, ops);
        let mut next = scene.init_states();
        let mut visited: HashSet<State> = next.iter().cloned().collect();
        while let Some(state) = next.pop() {
            found.extend(ended(&scene, &state));
            let mut actions = Vec::new();
            scene.actions(&state, &mut actions);
            let states = actions.into_iter().filter_map(|action| scene.next_state(&state, action));
            next.extend(states.filter(|state| visited.insert(state.clone())));
        }
        println!("{} states", visited.len());
    }
    found
}

#[test]
fn the_reached_outcomes_are_those_of_the_table() {
    let mut wrong = String::new();
    for case in CASES {
        let (found, table) = (reached(case), case.outcomes.iter().map(|text| (*text).to_owned()).collect());
        if found != table {
            wrong += &format!("{:?}, {:?}, crash {}: {found:#?}\n", case.first, case.second, case.crash);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
