//! A client: draws a step, asks the drive, and notes the answer with the events around it.

use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::TryStreamExt;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rowdrive::auth::{Auth, AuthError, Credential, DirChain, NewShare, NewToken, UserChange};
use rowdrive::content::ContentError;
use rowdrive::drive::{
    Condition, Drive, DriveError, Home, ListQuery, Node, PutOptions, UserDrive, Written, whole_body,
};
use rowdrive::schema::rights::Rights;
use rowdrive::schema::secret::TokenScope;
use rowdrive::schema::share::{ShareMode, ShareTarget};
use rowdrive::schema::{DirId, DrivePath, Timestamp};

use super::draw::{Attack, Pool, STEP_MS, Step};
use super::recorder::Recorder;
use super::request::{Answer, Asked, Place, Request};
use super::states::Entry;
use crate::auth::fixture::{now, pass_ms};
use crate::drive::fixture::find_all;

/// What all clients share.
pub struct World {
    pub recorder: Arc<Recorder>,
    pub drive: Drive,
    pub auth: Auth,
    pub pool: Mutex<Pool>,
}

impl World {
    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap()
    }

    fn drive_of(&self, by: &Credential) -> UserDrive {
        self.drive.for_requester(self.auth.requester(by.clone()))
    }
}

pub struct Client {
    pub world: Arc<World>,
    pub number: usize,
    pub rng: StdRng,
    pub requests: Vec<Request>,
}

type Result<T> = std::result::Result<T, Answer>;

impl Client {
    pub async fn run(mut self, steps: usize) -> Vec<Request> {
        for _ in 0..steps {
            let step = self.world.pool().step(&mut self.rng, now());
            self.step(step).await;
        }
        self.requests
    }

    fn credential(&mut self, of_admin: f64) -> Credential {
        let is_of_admin = self.rng.random_bool(of_admin);
        let pool = self.world.pool();
        if is_of_admin { pool.credential(&mut self.rng, true) } else { pool.usual_credential(&mut self.rng) }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Ask(asked) => {
                let of_admin = if matches!(asked, Asked::Change { .. } | Asked::RemoveUser(_)) { 0.8 } else { 0.1 };
                let by = self.credential(of_admin);
                self.ask(&by, asked).await;
            }
            Step::AskShare(asked) => {
                let shares = self.world.pool().shares.clone();
                if !shares.is_empty() {
                    let by = &shares[self.rng.random_range(0..shares.len())];
                    self.ask(by, asked).await;
                }
            }
            Step::Give(path, to, rights) => {
                let by = self.credential(0.5);
                if let Some(place) = self.find(&by, path).await {
                    self.ask(&by, Asked::Give(place, to, rights)).await;
                }
            }
            Step::Take(path, from) => {
                let by = self.credential(0.5);
                if let Some(place) = self.find(&by, path).await {
                    self.ask(&by, Asked::Take(place, from)).await;
                }
            }
            Step::MakeToken(scope, expires) => self.make_token(scope, expires).await,
            Step::MakeShare(path, expires) => {
                let by = self.credential(0.3);
                if let Some((place, target)) = self.find_target(&by, path).await {
                    self.ask(&by, Asked::MakeShare(place, target, expires)).await;
                }
            }
            Step::AddUser(home, is_new) => self.add_user(home, is_new).await,
            Step::Attack => self.attack().await,
            Step::Wait => {
                pass_ms(STEP_MS);
                self.world.recorder.set_clock(now());
            }
        }
    }

    /// Changes what another request depends on, while it runs.
    async fn attack(&mut self) {
        let running: Vec<_> = self.world.pool().running.values().cloned().collect();
        let Some(attacked) = running.choose(&mut self.rng) else { return };
        let (by, user) = (self.world.pool().first_admin(), attacked.0.user().unwrap().clone());
        let is_first = Some(&user) == by.user();
        for _ in 0..self.rng.random_range(1..4) {
            let attack = self.world.pool().attack(&mut self.rng, attacked);
            let change = |disabled| Asked::Change { user: user.clone(), disabled: Some(disabled), admin: None };
            match attack {
                Attack::End => {
                    if let Some(owner) = attacked.0.secret() {
                        self.ask(&by, Asked::End(owner.clone())).await;
                    }
                }
                Attack::Disable if !is_first => {
                    self.ask(&by, change(true)).await;
                    if self.rng.random_bool(0.8) {
                        self.ask(&by, change(false)).await;
                    }
                }
                Attack::Enable if !is_first => self.ask(&by, change(false)).await,
                Attack::Disable | Attack::Enable => {}
                Attack::Give(path, to, rights) => {
                    if let Some(place) = self.find(&by, path).await {
                        self.ask(&by, Asked::Give(place, to, rights)).await;
                    }
                }
                Attack::Take(path, from) => {
                    if let Some(place) = self.find(&by, path).await {
                        self.ask(&by, Asked::Take(place, from)).await;
                    }
                }
                Attack::Ask(asked) => self.ask(&by, asked).await,
            }
        }
    }

    async fn make_token(&mut self, scope: Option<(DrivePath, Rights)>, expires: Option<Timestamp>) {
        let by = self.credential(0.1);
        let scope = match scope {
            None => None,
            Some((path, rights)) => match self.find(&by, path).await {
                Some(place) => Some(TokenScope { dir: place.dir, rights }),
                None => return,
            },
        };
        self.ask(&by, Asked::MakeToken(scope, expires)).await;
    }

    /// Notes a request that runs now.
    async fn note<T>(&mut self, by: &Credential, asked: Asked, answer: impl Future<Output = (Answer, T)>) -> T {
        self.world.pool().running.insert(self.number, (by.clone(), asked.clone()));
        let from = self.world.recorder.position();
        let (answer, more) = answer.await;
        let to = self.world.recorder.position();
        self.world.pool().running.remove(&self.number);
        // What has ended is tried again now and then.
        let has_ended = answer == Answer::Unauthorized || (by.is_share() && answer == Answer::Missing);
        if has_ended && self.rng.random_bool(if by.is_share() { 0.1 } else { 0.5 }) {
            self.world.pool().forget(by);
        }
        self.requests.push(Request { client: self.number, by: by.clone(), asked, answer, from, to });
        more
    }

    async fn ask(&mut self, by: &Credential, asked: Asked) {
        let (world, of_client) = (self.world.clone(), self.number * 1_000_000 + self.requests.len());
        let request = asked.clone();
        let answer = async move { (answered(perform(&world, by, &request, of_client).await), ()) };
        self.note(by, asked, answer).await;
    }

    /// The directory at a path, if he sees it.
    async fn find(&mut self, by: &Credential, path: DrivePath) -> Option<Place> {
        let (drive, asked) = (self.world.drive_of(by), Asked::Chain(path.clone()));
        let found = async move {
            match drive.chain(&path).await {
                Ok(chain) => {
                    let place = place(chain);
                    (Answer::Seen(Entry::Dir(place.dir)), Some(place))
                }
                Err(error) => (refused(error), None),
            }
        };
        self.note(by, asked, found).await
    }

    /// The file or directory at a path, if he sees it, with its directory.
    async fn find_target(&mut self, by: &Credential, path: DrivePath) -> Option<(Place, ShareTarget)> {
        let (drive, asked) = (self.world.drive_of(by), Asked::Target(path.clone()));
        let found = async move {
            match drive.share_target(&path).await {
                Ok((chain, target)) => {
                    let entry = match target {
                        ShareTarget::Dir(id) => Entry::Dir(id),
                        ShareTarget::File(id) => Entry::File(id),
                    };
                    (Answer::Seen(entry), Some((place(chain), target)))
                }
                Err(error) => (refused(error), None),
            }
        };
        self.note(by, asked, found).await
    }

    async fn add_user(&mut self, home: DrivePath, is_new: bool) {
        let by = self.credential(1.0);
        let Some(user) = self.world.pool().prepared.pop() else { return };
        let (drive, asked) = (self.world.drive_of(&by), Asked::AddUser(user.name().clone(), home.clone(), is_new));
        let at = if is_new { Home::New(home) } else { Home::At(home) };
        let made = async move {
            let made = drive.make_user(user, at).await;
            (answered(made.map(|_| Answer::Done(None)).map_err(refused)), ())
        };
        self.note(&by, asked, made).await;
    }
}

fn answered(answer: Result<Answer>) -> Answer {
    answer.unwrap_or_else(|refusal| refusal)
}

fn place(chain: DirChain) -> Place {
    let (path, dir): (DrivePath, DirId) = chain.last().unwrap().clone();
    Place { path, dir, chain }
}

/// The answer by which HTTP refuses a request.
fn refused(error: DriveError) -> Answer {
    match error {
        DriveError::Unauthorized => Answer::Unauthorized,
        DriveError::Forbidden => Answer::Forbidden,
        DriveError::NotFound => Answer::Missing,
        DriveError::Contended => Answer::Busy,
        DriveError::ParentMissing
        | DriveError::ParentIsFile
        | DriveError::IsDirectory
        | DriveError::IsFile
        | DriveError::Exists
        | DriveError::NotEmpty
        | DriveError::Account(AuthError::NameTaken) => Answer::Conflict,
        other => panic!("{other:?}"),
    }
}

fn refused_by_auth(error: AuthError) -> Answer {
    match error {
        AuthError::Unauthorized => Answer::Unauthorized,
        AuthError::Forbidden => Answer::Forbidden,
        AuthError::NoUser | AuthError::NoGrant | AuthError::NoSecret(_) => Answer::Missing,
        AuthError::Contended => Answer::Busy,
        AuthError::Outlives | AuthError::LastAdmin => Answer::Conflict,
        other => panic!("{other:?}"),
    }
}

async fn perform(world: &World, by: &Credential, asked: &Asked, number: usize) -> Result<Answer> {
    let drive = world.drive_of(by);
    if by.is_share() {
        return perform_by_share(&drive, asked).await;
    }
    let answer = match asked {
        Asked::Stat(path) => drive.stat(path).await.map(|node| Answer::Seen(entry(&node))),
        Asked::List(path) => list(&drive, path).await,
        Asked::Read(path) => match drive.open_file(path).await {
            Ok(opened) => {
                let size = opened.entry.attributes.size;
                let pieces: Vec<_> = opened.body.stream(0, size).try_collect().await.unwrap();
                assert_eq!(pieces.concat(), opened.entry.attributes.mime.as_bytes(), "other bytes at {path}");
                Ok(Answer::Seen(Entry::File(opened.entry.id)))
            }
            Err(error) => Err(error),
        },
        Asked::Find => drive.files_by_name(&find_all()).await.map(|page| {
            assert!(page.next.is_none(), "all files fit on a page");
            let shown = page.nodes.iter().map(|node| (node.path().as_str().to_owned(), entry(node)));
            Answer::Shown(shown.collect())
        }),
        Asked::Put(path) => {
            world.pool().note(path);
            let text = format!("text/{number}");
            let options = PutOptions::new(text.clone(), by.user().unwrap().as_str());
            drive.put(path, options, whole_body(text)).await.map_err(DriveError::from).map(|written| done(&written))
        }
        Asked::Mkdir(path) => {
            world.pool().note(path);
            let made = drive.mkdir(path, by.user().unwrap().as_str(), true).await;
            made.map(|made| if made.new { done(&made) } else { Answer::Seen(entry(&made.node)) })
        }
        Asked::Delete(path) => drive.delete(path, &Condition::default()).await.map(|()| Answer::Done(None)),
        Asked::Rmdir(path) => drive.rmdir(path).await.map(|()| Answer::Done(None)),
        Asked::Remove(path) => drive.delete_subtree(path).await.map(|()| Answer::Done(None)),
        Asked::Move(from, to, overwrite) => {
            world.pool().note(to);
            drive.move_node(from, to, *overwrite).await.map(|moved| done(&moved))
        }
        _ => return perform_on_accounts(world, by, asked).await,
    };
    answer.map_err(refused)
}

fn done(written: &Written) -> Answer {
    Answer::Done(Some(entry(&written.node)))
}

fn entry(node: &Node) -> Entry {
    match node {
        Node::File { entry, .. } => Entry::File(entry.id),
        Node::Directory { entry, .. } => Entry::Dir(entry.id),
    }
}

async fn list(drive: &UserDrive, path: &DrivePath) -> std::result::Result<Answer, DriveError> {
    let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 1_000 };
    let listing = drive.list(path, &query).await?;
    let shown = listing.nodes.iter().map(|node| (node.path().last().to_owned(), entry(node)));
    Ok(Answer::Shown(shown.collect()))
}

async fn perform_by_share(drive: &UserDrive, asked: &Asked) -> Result<Answer> {
    let answer = match asked {
        Asked::Stat(path) => drive.stat(path).await.map(|node| Answer::Seen(entry(&node))),
        Asked::List(path) => list(drive, path).await,
        Asked::Read(path) => read_by_share(drive, path).await,
        other => panic!("{other:?}"),
    };
    answer.map_err(|error| match refused(error) {
        Answer::Unauthorized | Answer::Forbidden => Answer::Missing,
        other => other,
    })
}

/// As a download does.
async fn read_by_share(drive: &UserDrive, path: &DrivePath) -> std::result::Result<Answer, DriveError> {
    for _ in 0..4 {
        let Node::File { path, entry } = drive.stat(path).await? else { return Err(DriveError::IsDirectory) };
        match drive.content(&path, &entry).await {
            Err(DriveError::Content(ContentError::Gone(_))) => {}
            body => {
                let pieces: Vec<_> = body?.stream(0, entry.attributes.size).try_collect().await?;
                assert_eq!(pieces.concat(), entry.attributes.mime.as_bytes(), "other bytes at {path}");
                return Ok(Answer::Seen(Entry::File(entry.id)));
            }
        }
    }
    Err(DriveError::Contended)
}

async fn perform_on_accounts(world: &World, by: &Credential, asked: &Asked) -> Result<Answer> {
    let auth = &world.auth;
    let done = |()| Answer::Done(None);
    let made = match asked {
        Asked::Give(place, to, rights) => auth.put_grant(by, &place.chain, to, *rights).await.map(|_| done(())),
        Asked::Take(place, from) => auth.delete_grant(by, &place.chain, from).await.map(done),
        Asked::Change { user, disabled, admin } => {
            let change = UserChange { disabled: *disabled, admin: *admin, ..UserChange::default() };
            auth.change_user(by, user.as_str(), change).await.map(|_| done(()))
        }
        Asked::RemoveUser(user) => auth.remove_user(by, user.as_str()).await.map(done),
        Asked::MakeSession => {
            let made = auth.make_session(by).await;
            made.map(|made| note_secret(world, made.credential))
        }
        Asked::MakeToken(scope, expires) => {
            let new = NewToken { name: String::new(), expires: *expires, scope: *scope };
            auth.make_token(by, new).await.map(|made| note_secret(world, made.credential))
        }
        Asked::MakeShare(place, target, expires) => {
            let mode = ShareMode::Read { downloads: None };
            let new = NewShare { target: *target, mode, expires: *expires, password: None };
            auth.make_share(by, &place.chain, new).await.map(|(made, _)| note_secret(world, made.credential))
        }
        Asked::End(owner) => auth.revoke(by, &owner.user, owner.kind, owner.id).await.map(done),
        other => panic!("{other:?}"),
    };
    made.map_err(refused_by_auth)
}

/// From now on all clients may send it.
fn note_secret(world: &World, made: Credential) -> Answer {
    let answer = Answer::Made(made.secret().unwrap().id);
    world.pool().add(made);
    answer
}
