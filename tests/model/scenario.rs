//! A scenario: a small tree, the actors and their requests, and the possible faults.

use std::collections::BTreeMap;

use crate::accounts::{AccountRequest, change_account};
use crate::bugs::Bug;
use crate::io::{ActorResult, Io, Reply};
use crate::locks::start_up;
use crate::readers::{find, list};
use crate::store::{Account, OpId, User};
use crate::subtree::run_operation;
use crate::tree::{Id, Path, ROOT, Request, Tree};
use crate::writers::write;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// One process: its leases and its writes end only with the process.
    Embedded,
    /// Many processes: a lease may end while its owner still works, and a write may take effect at any later time.
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    Ask(Request),
    List(Path),
    Find(Id),
    Account(AccountRequest),
    StartUp,
}

#[derive(Clone, Copy, Debug)]
pub struct Actor {
    pub role: Role,
    /// The id of its subtree operation, if it has one.
    pub op: Option<OpId>,
    /// The user who asks; none: anonymous.
    pub user: Option<User>,
    /// Its process: the first one, or the one after the crash.
    pub life: u8,
    /// It starts after the previous actor has ended.
    pub after: bool,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub form: Form,
    pub dirs: Vec<(Path, Id)>,
    pub files: Vec<(Path, Id)>,
    pub actors: Vec<Actor>,
    /// How many writes may have an unknown outcome, and how many may find a full disk.
    pub unknown: u8,
    pub full: u8,
    /// The number of rows that step 5 finishes in one plan.
    pub batch: usize,
    /// Step 3 writes a row with several children in two plans.
    pub halves: bool,
    /// No actor gives up waiting.
    pub patient: bool,
    pub crash: bool,
    /// None: a model without users, where nobody asks for rights.
    pub accounts: Option<BTreeMap<User, Account>>,
    pub bug: Option<Bug>,
}

impl Scenario {
    pub fn new(dirs: &[(Path, Id)], files: &[(Path, Id)]) -> Self {
        Self {
            form: Form::Embedded,
            dirs: dirs.to_vec(),
            files: files.to_vec(),
            actors: Vec::new(),
            unknown: 0,
            full: 0,
            batch: 2,
            halves: false,
            patient: false,
            crash: false,
            accounts: None,
            bug: None,
        }
    }

    fn with(mut self, role: Role, op: Option<OpId>) -> Self {
        let life = if self.crash { 2 } else { 1 };
        self.actors.push(Actor { role, op, user: None, life, after: false });
        self
    }

    /// A move or a delete with this id.
    pub fn op(self, op: OpId, request: Request) -> Self {
        self.with(Role::Ask(request), Some(op))
    }

    pub fn ask(self, request: Request) -> Self {
        self.with(Role::Ask(request), None)
    }

    pub fn account(self, request: AccountRequest) -> Self {
        self.with(Role::Account(request), None)
    }

    /// The last actor asks as this user.
    pub fn by(mut self, user: User) -> Self {
        self.actors.iter_mut().last().expect("an actor").user = Some(user);
        self
    }

    /// The users that there are at first.
    pub fn users(self, users: &[(User, Account)]) -> Self {
        Self { accounts: Some(users.iter().cloned().collect()), ..self }
    }

    pub fn list(self, at: Path) -> Self {
        self.with(Role::List(at), None)
    }

    pub fn find(self, file: Id) -> Self {
        self.with(Role::Find(file), None)
    }

    /// The last actor starts after the previous one has ended.
    pub fn in_turn(mut self) -> Self {
        self.actors.iter_mut().last().expect("an actor").after = true;
        self
    }

    /// The process may crash. Start-up resolves its records, and the actors that are added after this call run
    /// meanwhile.
    pub fn crash(mut self) -> Self {
        self.crash = true;
        self.with(Role::StartUp, None)
    }

    /// The same scenario with leases, and with a process that starts at any time.
    pub fn cluster(self) -> Self {
        let mut scene = self.with(Role::StartUp, None);
        scene.form = Form::Cluster;
        scene.crash = false;
        scene.actors.iter_mut().for_each(|actor| actor.life = 1);
        scene
    }

    pub fn unknown(self, unknown: u8) -> Self {
        Self { unknown, ..self }
    }

    pub fn full(self, full: u8) -> Self {
        Self { full, ..self }
    }

    pub fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    pub fn halves(self) -> Self {
        Self { halves: true, ..self }
    }

    pub fn patient(self) -> Self {
        Self { patient: true, ..self }
    }

    pub fn bug(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    /// The initial tree.
    pub fn tree(&self) -> Tree {
        let parent = |at: Path| self.dirs.iter().find(|dir| dir.0 == at.parent()).map_or(ROOT, |dir| dir.1);
        let entry = |(at, id): &(Path, Id)| (*id, (parent(*at), at.name()));
        Tree { dirs: self.dirs.iter().map(entry).collect(), files: self.files.iter().map(entry).collect() }
    }

    fn owner(&self, op: OpId) -> &Actor {
        self.actors.iter().find(|actor| actor.op == Some(op)).expect("an operation of this scenario")
    }

    pub fn life_of(&self, op: OpId) -> u8 {
        self.owner(op).life
    }

    pub fn request(&self, op: OpId) -> Request {
        match self.owner(op).role {
            Role::Ask(request) => request,
            role => panic!("{role:?} has no operation"),
        }
    }

    /// The code of an actor, from its start to its reply.
    pub fn run(&self, io: &mut Io<'_>) -> ActorResult<Reply> {
        let Actor { role, op, .. } = self.actors[io.actor];
        match (role, op) {
            (Role::Ask(request), Some(op)) => run_operation(io, op, request),
            (Role::Ask(request), None) => write(io, request, 100 + u8::try_from(io.actor).expect("few actors")),
            (Role::List(at), _) => list(io, at),
            (Role::Find(file), _) => find(io, file),
            (Role::Account(request), _) => change_account(io, request),
            (Role::StartUp, _) => start_up(io),
        }
    }
}
