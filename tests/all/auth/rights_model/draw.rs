//! What the clients know of a small world, and what they draw from it: few names and directories, so that they meet.

use std::collections::{BTreeMap, VecDeque};

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rowdrive::auth::{Credential, PreparedUser};
use rowdrive::schema::account::Grantee;
use rowdrive::schema::path::Name;
use rowdrive::schema::rights::Right::{self, Read, Share, Write};
use rowdrive::schema::rights::Rights;
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{DrivePath, Timestamp};

use super::request::Asked;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const DEPTH: usize = 3;
/// Paths that were changed last, and are drawn again.
const RECENT: usize = 10;
/// Shares that are used.
const SHARES: usize = 6;
/// Milliseconds that pass at a time. Tokens and shares last for some of them.
pub const STEP_MS: i64 = 1_000;

/// A user, and what he sends. Those of users and secrets that have ended are there for a while.
pub struct Known {
    pub name: UserName,
    pub admin: bool,
    pub credentials: Vec<Credential>,
}

/// What all clients know.
pub struct Pool {
    /// The first one is an admin whom nobody changes.
    pub users: Vec<Known>,
    pub shares: Vec<Credential>,
    /// Users who are not made yet.
    pub prepared: Vec<PreparedUser>,
    /// The requests that run now, by client.
    pub running: BTreeMap<usize, (Credential, Asked)>,
    recent: VecDeque<DrivePath>,
}

/// What a client does next.
pub enum Step {
    Ask(Asked),
    /// By a share.
    AskShare(Asked),
    Give(DrivePath, Grantee, Rights),
    Take(DrivePath, Grantee),
    MakeToken(Option<(DrivePath, Rights)>, Option<Timestamp>),
    MakeShare(DrivePath, Option<Timestamp>),
    AddUser(DrivePath, bool),
    /// Some changes of what the request of another client depends on.
    Attack,
    /// Lets the clock go on.
    Wait,
}

/// A change of what a request depends on that runs now: who may do what is asked for, and what is there.
pub enum Attack {
    End,
    Disable,
    Enable,
    Give(DrivePath, Grantee, Rights),
    Take(DrivePath, Grantee),
    Ask(Asked),
}

impl Pool {
    pub fn new(users: Vec<Known>) -> Self {
        Self { users, shares: Vec::new(), prepared: Vec::new(), running: BTreeMap::new(), recent: VecDeque::new() }
    }

    pub fn note(&mut self, path: &DrivePath) {
        self.recent.push_back(path.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Adds a secret that was made just now.
    pub fn add(&mut self, made: Credential) {
        if made.is_share() {
            self.shares.push(made);
            if self.shares.len() > SHARES {
                self.shares.remove(0);
            }
        } else if let Some(user) = self.users.iter_mut().find(|user| Some(&user.name) == made.user()) {
            user.credentials.push(made);
        }
    }

    /// Forgets a secret that is not valid any more. Passwords stay: their user may be enabled again.
    pub fn forget(&mut self, ended: &Credential) {
        let is_other = |known: &Credential| ended.secret().is_none() || known.secret() != ended.secret();
        self.shares.retain(is_other);
        self.users.iter_mut().for_each(|user| user.credentials.retain(is_other));
    }

    /// The password of the admin whom nobody changes.
    pub fn first_admin(&self) -> Credential {
        self.users[0].credentials[0].clone()
    }

    /// A credential: of an admin, or of anyone.
    pub fn credential(&self, rng: &mut StdRng, of_admin: bool) -> Credential {
        let users: Vec<_> = self.users.iter().filter(|user| user.admin || !of_admin).collect();
        users.choose(rng).unwrap().credentials.choose(rng).unwrap().clone()
    }

    /// One of a user who is no admin, more often than not.
    pub fn usual_credential(&self, rng: &mut StdRng) -> Credential {
        let users: Vec<_> = self.users.iter().filter(|user| !user.admin).collect();
        match users.choose(rng) {
            Some(user) if rng.random_bool(0.8) => user.credentials.choose(rng).unwrap().clone(),
            _ => self.credential(rng, false),
        }
    }

    fn path(&self, rng: &mut StdRng, depth: usize) -> DrivePath {
        let recent = self.recent.len();
        if rng.random_bool(0.6) && recent > 0 {
            return self.recent[rng.random_range(0..recent)].clone();
        }
        // The first names are drawn more often.
        let name = |rng: &mut StdRng| NAMES[rng.random_range(0..NAMES.len()).min(rng.random_range(0..NAMES.len()))];
        let names: Vec<Name> = (0..depth).map(|_| Name::parse(name(rng)).unwrap()).collect();
        DrivePath::from_names(&names).unwrap()
    }

    fn any_path(&self, rng: &mut StdRng) -> DrivePath {
        let depth = rng.random_range(1..=DEPTH);
        self.path(rng, depth)
    }

    /// The path of a directory, or of what may be one.
    fn dir(&self, rng: &mut StdRng) -> DrivePath {
        let depth = rng.random_range(1..DEPTH);
        let path = if rng.random_ratio(1, 40) { DrivePath::root() } else { self.path(rng, depth) };
        match path.split() {
            // Files are mostly in the directories of a path.
            Some((parent, _)) if path.levels() == DEPTH => parent,
            _ => path,
        }
    }

    /// A user whom others may change, or a name that is nobody's.
    fn changed_user(&self, rng: &mut StdRng) -> UserName {
        let user = self.users[1..].choose(rng).filter(|_| rng.random_bool(0.95));
        user.map_or_else(|| UserName::parse("nobody").unwrap(), |user| user.name.clone())
    }

    fn holder(&self, rng: &mut StdRng) -> Grantee {
        if rng.random_ratio(1, 8) { Grantee::Everyone } else { Grantee::User(self.changed_user(rng)) }
    }

    /// The next step of a client. `now`: by the clock of the drive.
    pub fn step(&self, rng: &mut StdRng, now: Timestamp) -> Step {
        let ask = Step::Ask;
        match rng.random_range(0..120) {
            0..15 => ask(Asked::Put(self.any_path(rng))),
            15..19 => ask(Asked::Mkdir(self.any_path(rng))),
            19..22 => ask(Asked::Delete(self.any_path(rng))),
            22..25 => ask(Asked::Rmdir(self.any_path(rng))),
            25..27 => ask(Asked::Remove(self.any_path(rng))),
            27..37 => self.draw_move(rng),
            37..43 => ask(Asked::Stat(self.any_path(rng))),
            43..50 => ask(Asked::List(self.dir(rng))),
            50..56 => ask(Asked::Read(self.any_path(rng))),
            56..58 => ask(Asked::Find),
            58..70 => Step::Give(self.dir(rng), self.holder(rng), rights(rng)),
            70..78 => Step::Take(self.dir(rng), self.holder(rng)),
            78..82 => ask(self.draw_change(rng)),
            82..85 => {
                let scope = rng.random_bool(0.8).then(|| (self.dir(rng), rights(rng)));
                Step::MakeToken(scope, expires(rng, now))
            }
            85..87 => ask(Asked::MakeSession),
            87..90 => Step::MakeShare(self.any_path(rng), expires(rng, now)),
            90..92 => self.draw_end(rng),
            92..102 => self.draw_of_share(rng),
            102 => Step::Wait,
            103..119 => Step::Attack,
            _ if rng.random_ratio(1, 10) => ask(Asked::RemoveUser(self.changed_user(rng))),
            _ => Step::AddUser(self.dir(rng), rng.random()),
        }
    }

    /// A change in the way of a request.
    pub fn attack(&self, rng: &mut StdRng, (by, asked): &(Credential, Asked)) -> Attack {
        let path = asked.path(rng).filter(|path| !path.is_root()).unwrap_or_else(|| self.any_path(rng));
        let names: Vec<Name> = path.names().collect();
        let dir = DrivePath::from_names(&names[..rng.random_range(0..=names.len())]).unwrap();
        let user = by.user().unwrap();
        // His right may be one that another one has given.
        let holder = if rng.random_bool(0.7) { Grantee::User(user.clone()) } else { self.holder(rng) };
        match rng.random_range(0..14) {
            0 => Attack::End,
            1 => Attack::Disable,
            2..4 => Attack::Enable,
            4..6 => Attack::Give(dir, holder, rights(rng)),
            6..8 => Attack::Take(dir, holder),
            8 => Attack::Ask(Asked::Mkdir(path)),
            9 => Attack::Ask(Asked::Delete(path)),
            10 => Attack::Ask(Asked::Remove(path)),
            11 => {
                let from = if dir.is_root() { path } else { dir };
                Attack::Ask(move_unless_pointless(from, self.any_path(rng), true))
            }
            _ => Attack::Ask(Asked::Put(path)),
        }
    }

    fn draw_move(&self, rng: &mut StdRng) -> Step {
        Step::Ask(move_unless_pointless(self.any_path(rng), self.any_path(rng), rng.random()))
    }

    /// More are enabled than disabled, and few users are admins for a while.
    fn draw_change(&self, rng: &mut StdRng) -> Asked {
        let user = self.changed_user(rng);
        if rng.random_bool(0.3) {
            let is_admin = self.users.iter().any(|known| known.name == user && known.admin);
            let admin = rng.random_bool(if is_admin { 0.6 } else { 0.2 });
            return Asked::Change { user, disabled: None, admin: Some(admin) };
        }
        Asked::Change { user, disabled: Some(rng.random_bool(0.25)), admin: None }
    }

    fn draw_end(&self, rng: &mut StdRng) -> Step {
        let all = self.users.iter().flat_map(|user| &user.credentials).chain(&self.shares);
        let secrets: Vec<_> = all.filter_map(Credential::secret).collect();
        secrets.choose(rng).map_or(Step::Wait, |owner| Step::Ask(Asked::End((*owner).clone())))
    }

    fn draw_of_share(&self, rng: &mut StdRng) -> Step {
        let depth = rng.random_range(0..DEPTH);
        let mut path = self.path(rng, depth);
        // Below the shared directory.
        while path.levels() > depth {
            let names: Vec<Name> = path.names().skip(1).collect();
            path = DrivePath::from_names(&names).unwrap();
        }
        Step::AskShare(match rng.random_range(0..3) {
            0 => Asked::Stat(path),
            1 => Asked::Read(path),
            _ => Asked::List(path),
        })
    }
}

/// A move into itself is refused whatever is there.
fn move_unless_pointless(from: DrivePath, to: DrivePath, overwrite: bool) -> Asked {
    if to.is_within(&from) { Asked::Stat(from) } else { Asked::Move(from, to, overwrite) }
}

fn rights(rng: &mut StdRng) -> Rights {
    const SETS: [&[Right]; 6] = [&[Read], &[Read], &[Write], &[Write], &[Read, Share], &[Write, Share]];
    SETS.choose(rng).unwrap().iter().copied().collect()
}

/// Some are over from the start.
fn expires(rng: &mut StdRng, now: Timestamp) -> Option<Timestamp> {
    rng.random_bool(0.3).then(|| Timestamp::from_ms(now.ms() + STEP_MS * rng.random_range(0..4)))
}
