//! Eight clients ask a drive at random, most of them about the same few directories, while rights, users, tokens and
//! shares come and go. Each answer is one that the drive gives at an instant between the request and the answer. What is
//! committed is what a requester asked for who might do it at that instant.
//!
//! - [`recorder`]: the store, which lets other clients run at each call, and logs the commits in their order
//! - [`states`]: the state after each commit, decoded from the rows as they were then: so the states are the true ones
//! - [`request`], [`draw`], [`client`]: what is asked, and by whom
//! - [`rights`], [`expected`], [`effect`]: the model. It says what a state answers, and what a change leaves. It is
//!   written by the contract, and shares no code with the decisions of the drive
//! - [`checker`]: compares answers and commits with the states
//! - [`tally`]: what a run has reached
//!
//! All runs on one thread by a seed: a seed that fails fails again, but for the order in which a few sets are read.

mod checker;
mod client;
mod draw;
mod effect;
mod expected;
mod recorder;
mod request;
mod rights;
mod states;
mod tally;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rowdrive::auth::{Auth, AuthError, Credential, NewUser};
use rowdrive::drive::{Drive, Settings};
use rowdrive::engines::memory::Memory;
use rowdrive::migrate;
use rowdrive::schema::ids;
use rowdrive::schema::user_name::UserName;
use rowdrive::table::Tables;
use tempfile::TempDir;

use self::checker::Round;
use self::client::{Client, World};
use self::draw::{Known, Pool};
use self::recorder::Recorder;
use self::rights::Asker;
use self::states::Rows;
use self::tally::Tally;
use super::fixture::{self, ADMIN, PASSWORD, log_in, new_user, now};
use crate::drive::fixture::SETTINGS;
use crate::faults::number;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;
/// Of each seed.
const STEPS: u64 = 12_800;
const CLIENTS: usize = 8;
/// After so many steps the clients end, and what they did is checked. Between rounds users get passwords, which takes
/// long.
const ROUND: usize = 800;

/// Users beside the first admin: as many are there at the begin of a round.
const USERS: usize = 4;
/// Credentials of a user, and shares in all, that a round begins with.
const KEPT: usize = 8;

/// A store with users, copied for each seed: to make users is slow.
struct Base {
    store: Memory,
    /// The users, and which of them are admins.
    known: Vec<(UserName, bool)>,
}

impl Base {
    async fn new() -> Self {
        let memory = Arc::new(Memory::default());
        let world = fixture::World::new((memory.clone(), tempfile::tempdir().unwrap())).await;
        world.auth.make_first_user(new_user(ADMIN)).await.unwrap();
        let admin = log_in(&world.auth, ADMIN, PASSWORD).await.unwrap();
        let mut known = vec![(fixture::user(ADMIN), true)];
        for (name, is_admin) in [("eve", true), ("tom", false), ("max", false), ("ann", false)] {
            world.auth.add_user(&admin, NewUser { admin: is_admin, ..new_user(name) }).await.unwrap();
            known.push((fixture::user(name), is_admin));
        }
        world.drive.close().await;
        Self { store: (*memory).clone(), known }
    }
}

/// The run of one seed.
struct Run {
    seed: u64,
    world: Arc<World>,
    admin: Credential,
    rows: Rows,
    tables: Tables,
    data: TempDir,
    made: usize,
}

impl Run {
    async fn new(base: &Base, seed: u64) -> Self {
        ids::seed(Some(seed));
        // Queries have a way of their own on a store that is atomic.
        let recorder = Arc::new(Recorder::new(base.store.clone(), seed, seed.is_multiple_of(2)));
        // IMPORTANT: the tables of this handle are made through it. What it does not know it cannot read.
        let tables = Tables::new(recorder.clone());
        migrate::up(&tables).await.unwrap();
        let data = tempfile::tempdir().unwrap();
        let settings = Settings { clock: now, lock_wait: Settings::default().lock_wait, ..SETTINGS };
        let drive = Drive::open_with(tables.clone(), &data.path().join("content"), settings).await.unwrap();
        let auth = Auth::new(tables.clone(), now);
        // A credential has what was read of its account in one store.
        let mut users = Vec::new();
        for (name, admin) in &base.known {
            let credentials = vec![log_in(&auth, name.as_str(), PASSWORD).await.unwrap()];
            users.push(Known { name: name.clone(), admin: *admin, credentials });
        }
        let pool = Mutex::new(Pool::new(users));
        drive.idle().await;
        recorder.take();
        let rows = Rows::new(recorder.rows().await, now());
        let world = Arc::new(World { recorder, drive, auth, pool });
        let admin = world.pool().first_admin();
        Self { seed, world, admin, rows, tables, data, made: 0 }
    }

    async fn round(&mut self, number: u64, steps: usize, tally: &mut Tally) -> Vec<String> {
        self.prepare_users().await;
        self.follow();
        let clients = (0..CLIENTS).map(|client| {
            let seed = self.seed.wrapping_mul(1_000_003) ^ (number << 8) ^ client as u64;
            let (world, rng) = (self.world.clone(), StdRng::seed_from_u64(seed));
            let client = Client { world, number: client, rng, requests: Vec::new() };
            tokio::spawn(client.run(steps / CLIENTS))
        });
        let clients: Vec<_> = clients.collect();
        let requests = join_all(clients).await.into_iter().flat_map(|requests| requests.unwrap()).collect();
        self.world.drive.idle().await;
        let mut states = vec![self.rows.state().clone()];
        states.extend(self.world.recorder.take().into_iter().map(|event| self.rows.apply(event).clone()));
        let wrong = Round { states, requests }.check(tally);
        self.end_what_is_too_much().await;
        wrong
    }

    /// Takes in what was committed between two rounds.
    fn follow(&mut self) {
        for event in self.world.recorder.take() {
            self.rows.apply(event);
        }
    }

    /// Prepares as many users as are missing.
    async fn prepare_users(&mut self) {
        let missing = {
            let pool = self.world.pool();
            (USERS + 1).saturating_sub(pool.users.len() + pool.prepared.len())
        };
        for _ in 0..missing {
            self.made += 1;
            let user = new_user(&format!("user{}", self.made));
            let prepared = self.world.auth.prepare_user(&self.admin, user).await.unwrap();
            self.world.pool().prepared.push(prepared);
        }
    }

    /// Forgets users and secrets that have ended, ends others that are too many, and logs in who was made.
    async fn end_what_is_too_much(&mut self) {
        let state = self.rows.state().clone();
        let mut logged_in: BTreeMap<UserName, Vec<Credential>> = BTreeMap::new();
        let (users, shares) = {
            let mut pool = self.world.pool();
            (std::mem::take(&mut pool.users), std::mem::take(&mut pool.shares))
        };
        for user in users {
            // The password is the first one.
            let credentials = user.credentials.into_iter().enumerate();
            let left = credentials.filter(|(at, by)| *at == 0 || Asker::of(&state, by, state.now).is_some());
            logged_in.insert(user.name, left.map(|(_, by)| by).collect());
        }
        let shares: Vec<_> = shares.into_iter().filter(|by| Asker::of(&state, by, state.now).is_some()).collect();
        let many = logged_in.values_mut().flat_map(|all| all.split_off(all.len().min(KEPT)));
        let mut ended: Vec<Credential> = many.collect();
        ended.extend(shares.iter().skip(KEPT).cloned());
        for secret in ended.iter().filter_map(Credential::secret) {
            match self.world.auth.revoke(&self.admin, &secret.user, secret.kind, secret.id).await {
                // Its user was removed.
                Ok(()) | Err(AuthError::NoSecret(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        let mut users = Vec::new();
        for (name, profile) in state.users() {
            let mut credentials = logged_in.remove(name).unwrap_or_default();
            if credentials.is_empty() && !profile.disabled {
                credentials.push(log_in(&self.world.auth, name.as_str(), PASSWORD).await.unwrap());
            }
            // One who is disabled before he was ever here gets his password later.
            if !credentials.is_empty() {
                users.push(Known { name: name.clone(), admin: profile.admin, credentials });
            }
        }
        users.sort_by_key(|user| user.name.as_str() != ADMIN);
        let mut pool = self.world.pool();
        (pool.users, pool.shares) = (users, shares.into_iter().take(KEPT).collect());
    }

    /// Asserts that the store is right, whatever the clients did.
    async fn end(self) {
        self.world.drive.close().await;
        let (summary, findings) = crate::check::run(&self.tables, self.data.path(), false).await;
        assert_eq!(summary.wrong, 0, "seed {}: {findings:#?}", self.seed);
        ids::seed(None);
    }
}

/// `ROWDRIVE_RIGHTS_STEPS=100000` makes so many steps of each seed, `ROWDRIVE_RIGHTS_SEED=7` runs this one alone.
#[tokio::test(start_paused = true)]
async fn every_answer_is_allowed_by_an_instant() {
    let steps = number("ROWDRIVE_RIGHTS_STEPS").unwrap_or(STEPS);
    let seeds = number("ROWDRIVE_RIGHTS_SEED").map_or(SEEDS, |seed| seed..=seed);
    let base = Base::new().await;
    let mut tally = Tally::default();
    for seed in seeds {
        let mut run = Run::new(&base, seed).await;
        for round in 0..steps.div_ceil(ROUND as u64) {
            let left = steps - round * ROUND as u64;
            let wrong = run.round(round, ROUND.min(left as usize), &mut tally).await;
            if let Some(first) = wrong.first() {
                let repeat = format!("ROWDRIVE_RIGHTS_SEED={seed} ROWDRIVE_RIGHTS_STEPS={steps}");
                panic!("{repeat}, round {round}: {} answers or commits are wrong. The first one: {first}", wrong.len());
            }
        }
        run.end().await;
    }
    println!("{tally}");
    tally.assert_nothing_is_missing();
}
